#include "plan/scenario/import/toml_text.hpp"

#include <fmt/format.h>
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <utility>

namespace orrery::plan::imports {
namespace {

Json value_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* whole = node.as_integer()) return whole->get();
    if (const auto* number = node.as_floating_point()) return plain(number->get());
    if (const auto* truth = node.as_boolean()) return truth->get();
    if (const auto* array = node.as_array()) {
        Json out = Json::array();
        for (const toml::node& element : *array)
            out.push_back(value_of(element));
        return out;
    }
    return "a date, a time or a table";
}

void flatten(const toml::table& table, const std::string& path, std::vector<Setting>& out) {
    for (const auto& [key, node] : table) {
        const std::string full =
            path.empty() ? std::string(key.str()) : path + '.' + std::string(key.str());
        if (const auto* inner = node.as_table())
            flatten(*inner, full, out);
        else
            out.push_back(
                {full, value_of(node), static_cast<int>(node.source().begin.line), false});
    }
}

}  // namespace

std::vector<Setting> read_toml(std::string_view text, const std::string& file,
                               std::vector<Diagnostic>& errors) {
    std::vector<Setting> out;
    try {
        flatten(toml::parse(text, file), "", out);
    } catch (const toml::parse_error& error) {
        Diagnostic fault;
        fault.code = "I001";
        fault.file = file;
        fault.line = static_cast<int>(error.source().begin.line);
        fault.column = static_cast<int>(error.source().begin.column);
        fault.message =
            fmt::format("not valid TOML at line {}, column {}", fault.line, fault.column);
        fault.note = std::string(error.description());
        errors.push_back(std::move(fault));
    }
    std::stable_sort(out.begin(), out.end(), [](const Setting& left, const Setting& right) {
        return left.line < right.line;
    });
    return out;
}

}  // namespace orrery::plan::imports
