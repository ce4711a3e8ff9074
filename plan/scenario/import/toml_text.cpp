#include "plan/scenario/import/toml_text.hpp"

#include <fmt/format.h>
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace orrery::plan::imports {
namespace {

constexpr std::size_t kMostParts = 64;

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

// A key of so many parts makes as many tables, each within the other, which neither the parser nor
// anything that walks them should meet. True if some line begins with such a key.
bool nested_too_deep(std::string_view text, int& line) {
    line = 0;
    while (!text.empty()) {
        ++line;
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::size_t parts = 1;
        bool part_began = false;
        for (const char c : text.substr(0, end)) {
            const bool of_key = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
                                c == '-' || c == '"' || c == '\'';
            if (c == '.' && part_began) {
                ++parts;
                part_began = false;
            } else if (of_key) {
                part_began = true;
            } else if (c != ' ' && c != '\t' && c != '[') {
                break;
            }
        }
        if (parts > kMostParts) return true;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return false;
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
    int line = 0;
    if (nested_too_deep(text, line)) {
        Diagnostic fault;
        fault.code = "I001";
        fault.file = file;
        fault.line = line;
        fault.column = 1;
        fault.message = fmt::format("a key of more than {} parts at line {}", kMostParts, line);
        errors.push_back(std::move(fault));
        return out;
    }
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
