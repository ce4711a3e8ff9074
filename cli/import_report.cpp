#include "cli/import_report.hpp"

#include <algorithm>
#include <vector>

#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using plan::Json;
using plan::imports::Changes;
using plan::imports::Imported;
using plan::imports::Left;
using plan::imports::Mapped;
using plan::imports::Missing;

constexpr std::size_t kLongestValue = 30;

// Without what a terminal would obey.
std::string visible(std::string text) {
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    return text;
}

// As the file spells it: a word without quotation marks.
std::string shown(const Json& value) {
    std::string text;
    if (value.is_string())
        text = visible(value.get<std::string>());
    else if (value.is_number_float())
        text = plan::plain(value.get<double>()).dump();
    else if (!value.is_null())
        text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() <= kLongestValue) return text;
    std::size_t end = kLongestValue;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u)
        --end;
    return text.substr(0, end) + " …";
}

using Rows = std::vector<std::vector<std::string>>;

std::string section(const std::string& title, const Rows& rows, const Console& console) {
    if (rows.empty()) return "";
    TextTable table(std::vector<Align>(rows.front().size(), Align::left));
    for (const auto& row : rows)
        table.add(row);
    return console.bold(title) + '\n' + table.text() + '\n';
}

Rows rows_of(const std::vector<Left>& list, Changes changes = Changes::cost) {
    Rows rows;
    for (const Left& left : list)
        if (left.changes == changes)
            rows.push_back({visible(left.key), shown(left.value), left.why});
    return rows;
}

Json array_of(const std::vector<Left>& list) {
    Json out = Json::array();
    for (const Left& left : list)
        out.push_back({{"key", left.key}, {"value", left.value}, {"why", left.why}});
    return out;
}

Json unsupported_array(const std::vector<Left>& list) {
    Json out = array_of(list);
    for (std::size_t i = 0; i < list.size(); ++i)
        out[i]["changes"] = list[i].changes == Changes::model ? "model" : "cost";
    return out;
}

}  // namespace

std::string import_text_report(const Imported& imported, const Console& console) {
    Rows usual, noted, needed, open;
    for (const Mapped& one : imported.mapped) {
        if (one.usual)
            usual.push_back({one.to, one.value.dump(), one.from, one.note});
        else if (!one.note.empty())
            noted.push_back({one.to, one.value.dump(), one.from, one.note});
    }
    for (const Missing& one : imported.missing) {
        if (one.otherwise.empty())
            needed.push_back({one.to, one.why});
        else
            open.push_back({one.to, one.otherwise, one.why});
    }
    return section("not said there: what the other tool does then", usual, console) +
           section("taken with a change", noted, console) +
           section("without effect on a step", rows_of(imported.ignored), console) +
           section("without which it is another model, and Orrery has no counterpart",
                   rows_of(imported.unsupported, Changes::model), console) +
           section("would change the step, and Orrery has no counterpart",
                   rows_of(imported.unsupported), console) +
           section("not known from there: what stands until it is given", open, console) +
           section("still to be given, e.g. by --set KEY=VALUE", needed, console);
}

std::string import_json(const Imported& imported) {
    Json mapped = Json::array();
    for (const Mapped& one : imported.mapped) {
        Json entry = {{"from", one.from}, {"to", one.to}, {"value", one.value}};
        if (one.usual) entry["default"] = true;
        if (!one.note.empty()) entry["note"] = one.note;
        mapped.push_back(std::move(entry));
    }
    Json missing = Json::array();
    for (const Missing& one : imported.missing) {
        Json entry = {{"to", one.to}, {"why", one.why}};
        if (!one.otherwise.empty()) entry["otherwise"] = one.otherwise;
        missing.push_back(std::move(entry));
    }
    const Json out = {{"scenario", imported.scenario},
                      {"mapped", std::move(mapped)},
                      {"ignored", array_of(imported.ignored)},
                      {"unsupported", unsupported_array(imported.unsupported)},
                      {"missing", std::move(missing)}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::cli
