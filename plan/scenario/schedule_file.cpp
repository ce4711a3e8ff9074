#include "plan/scenario/schedule_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "plan/scenario/key_tables.hpp"
#include "plan/schedule/csv.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kPointer = "/layout/schedule";
constexpr std::string_view kEnding = ".csv";

bool names_csv(const std::string& text) {
    return text.size() > kEnding.size() &&
           text.compare(text.size() - kEnding.size(), kEnding.size(), kEnding) == 0;
}

// A fault of a file has the line and column that an editor goes to; of rows in a scenario, the row.
void report_fault(Reading& reading, const GridFault& fault) {
    const Source source = reading.document().source(kPointer);
    const bool of_file = source.kind == Source::Kind::file && names_csv(source.text);
    std::string pointer = std::string(kPointer) + "/rows";
    if (fault.rank >= 0) pointer += '/' + std::to_string(fault.rank);
    Diagnostic& out = reading.report("S045", pointer, fault.message);
    out.value = fault.action.empty() ? "" : Json(fault.action).dump();
    out.arithmetic = fault.drawing;
    if (!fault.help.empty()) out.help.push_back(fault.help);
    if (!of_file) return;
    out.pointer.clear();
    if (fault.rank < 0) return;
    out.line = fault.rank + 1;
    out.column = fault.column + 1;
}

void read_rows(Reading& reading, Layout& layout) {
    Section section(reading, kPointer, "layout.schedule");
    if (!section.text("name", layout.schedule)) layout.schedule = "imported";
    const Json* value = section.find("rows");
    section.require("rows");
    section.finish();
    if (value == nullptr) return reading.mark_bad(kPointer);
    std::vector<std::string> rows;
    const bool strings =
        value->is_array() &&
        std::all_of(value->begin(), value->end(), [](const Json& row) { return row.is_string(); });
    if (!strings) {
        section.wrong_type("rows", "an array with a string of actions for each pipeline rank");
        return reading.mark_bad(kPointer);
    }
    for (const Json& row : *value)
        rows.push_back(row.get<std::string>());
    layout.imported = read_grid(rows);
    for (const GridFault& fault : layout.imported.faults)
        report_fault(reading, fault);
    if (!layout.imported.faults.empty()) reading.mark_bad(kPointer);
}

}  // namespace

std::vector<KeySpec> schedule_keys() {
    return {{.name = "name", .type = KeyType::text, .help = "What reports call it"},
            {.name = "rows",
             .type = KeyType::list,
             .help = "Actions of each pipeline rank, as a line of the file has them",
             .required = true,
             .of = KeyType::text}};
}

void follow_schedule_file(Reading& reading, const Folders& folders) {
    const Json* value = reading.document().find(kPointer);
    if (value == nullptr || !value->is_string()) return;
    const std::string reference = value->get<std::string>();
    if (!names_csv(reference)) return;
    const std::string path = find_file(reference, reading.document().source(kPointer), folders);
    if (path.empty())
        return report_missing_file(reading, kPointer, reference, "schedules", folders);
    std::string why;
    const std::optional<std::string> text = folders.files.read(path, why);
    if (!text) {
        reading.unreadable = true;
        reading.report("S001", kPointer,
                       fmt::format("the file {} cannot be read: {}", reference, why));
        return;
    }
    const std::string folder = std::filesystem::path(path).parent_path().string();
    reading.document().put(kPointer, {{"name", reference}, {"rows", csv_rows(*text)}},
                           {Source::Kind::file, reference, folder});
}

void read_schedule(Reading& reading, Section& section, Layout& layout) {
    const Json* value = section.find("schedule");
    if (!reading.good_at(kPointer)) return;
    if (value == nullptr || !value->is_object()) {
        section.word_of("schedule", layout.schedule, schedule_names(), layout.schedule);
        return;
    }
    reading.remember("layout.schedule", kPointer);
    read_rows(reading, layout);
}

}  // namespace orrery::plan
