#include "cli/csv_output.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/completed_values.hpp"
#include "cli/csv_cell.hpp"
#include "plan/scenario/files.hpp"
#include "trace/atomic_file.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

using TableJson = nlohmann::ordered_json;

constexpr std::string_view kCsvEnding = ".csv";
constexpr std::string_view kInterval = "interval";

std::vector<std::string> parts_of_text(std::string_view text, char between) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(between), text.size());
        if (end > 0) parts.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

// As --json writes it: of a number the same digits.
std::string cell_of(const TableJson& value) {
    if (value.is_null()) return "";
    if (value.is_string()) return csv_cell(value.get<std::string>());
    return csv_cell(value.dump(-1, ' ', false, TableJson::error_handler_t::replace));
}

bool is_interval(std::string_view key, const TableJson& value) {
    return key.starts_with(kInterval) && value.is_array() && value.size() == 2;
}

// Rows whose columns become more as they come.
class GrowingCsv {
  public:
    void begin_row() { rows_.emplace_back(columns_.size()); }
    void column(const std::string& name) {
        if (number_of_.emplace(name, columns_.size()).second) columns_.push_back(name);
    }
    void set(const std::string& name, const TableJson& value) {
        column(name);
        rows_.back().resize(columns_.size());
        rows_.back()[number_of_.at(name)] = cell_of(value);
    }
    std::string text() {
        std::vector<std::string> heads;
        std::transform(columns_.begin(), columns_.end(), std::back_inserter(heads), csv_cell);
        std::string text = fmt::format("{}\n", fmt::join(heads, ","));
        for (std::vector<std::string>& row : rows_) {
            row.resize(columns_.size());
            text += fmt::format("{}\n", fmt::join(row, ","));
        }
        return text;
    }

  private:
    std::vector<std::string> columns_;
    std::map<std::string, std::size_t> number_of_;
    std::vector<std::vector<std::string>> rows_;
};

// Finds a table's rows, and takes them apart.
class TableReader {
  public:
    TableReader(const std::vector<CsvTable>& tables, const CsvTable& table)
        : table_(table), first_(parts_of_text(table.begins, ',')) {
        for (const CsvTable& other : tables)
            for (const std::string& pointer : parts_of_text(other.pointers, ' '))
                taken_.push_back(parts_of_text(pointer, '/'));
        for (const std::string& column : first_)
            csv_.column(column);
    }

    std::string text(const TableJson& json) {
        const std::vector<std::string> pointers = parts_of_text(table_.pointers, ' ');
        if (pointers.empty()) add_rows(json, "", {});
        for (const std::string& pointer : pointers) {
            std::vector<TableJson> called;
            if (pointers.size() > 1) called.emplace_back(pointer.substr(1));
            descend(json, parts_of_text(pointer, '/'), 0, "", called);
        }
        return csv_.text();
    }

  private:
    using Called = std::vector<TableJson>;  // the values of the first columns

    void descend(const TableJson& at, const std::vector<std::string>& steps, std::size_t step,
                 const std::string& place, const Called& called) {
        if (step == steps.size()) return add_rows(at, place, called);
        const std::string there = place + '/' + steps[step];
        if (steps[step] != "*") {
            if (at.is_object() && at.contains(steps[step]))
                descend(at.at(steps[step]), steps, step + 1, there, called);
            return;
        }
        each(at, called, [&](const TableJson& member, const Called& names) {
            descend(member, steps, step + 1, there, names);
        });
    }

    // Elements are called by what stands in their column of that name.
    template <typename Visit>
    void each(const TableJson& at, const Called& called, const Visit& visit) const {
        const std::string& column = first_.at(called.size());
        for (const auto& [key, member] : at.items()) {
            Called names = called;
            if (at.is_object())
                names.emplace_back(key);
            else
                names.push_back(member.value(column, TableJson()));
            visit(member, names);
        }
    }

    void add_rows(const TableJson& at, const std::string& place, const Called& called) {
        if (at.is_null()) return;
        if (at.is_array())
            for (const TableJson& element : at)
                add_row(element, place + "/*", called);
        else if (table_.record)
            add_row(at, place, called);
        else
            each(at, called, [&](const TableJson& member, const Called& names) {
                add_row(member, place + "/*", names);
            });
    }

    void add_row(const TableJson& row, const std::string& place, const Called& called) {
        csv_.begin_row();
        for (std::size_t i = 0; i < called.size(); ++i)
            csv_.set(first_[i], called[i]);
        if (row.is_object())
            add_members(row, "", place);
        else
            csv_.set(first_.at(called.size()), row);
    }

    void add_members(const TableJson& object, const std::string& before, const std::string& place) {
        for (const auto& [key, value] : object.items()) {
            const std::string there = place + '/' + key;
            // A scenario is what was asked, and can be given back as it stands.
            if (key == "scenario" || is_rows_of_a_table(there)) continue;
            if (value.is_object()) {
                add_members(value, before + key + '.', there);
            } else if (is_interval(key, value)) {
                const std::string unit = key.substr(kInterval.size());
                csv_.set(fmt::format("{}{}_low{}", before, kInterval, unit), value[0]);
                csv_.set(fmt::format("{}{}_high{}", before, kInterval, unit), value[1]);
            } else {
                csv_.set(before + key, value);
            }
        }
    }

    bool is_rows_of_a_table(const std::string& place) {
        const auto [found, is_new] = is_taken_.emplace(place, false);
        if (!is_new) return found->second;
        const std::vector<std::string> steps = parts_of_text(place, '/');
        const auto leads_there = [&](const std::vector<std::string>& pointer) {
            return std::equal(
                steps.begin(), steps.end(), pointer.begin(), pointer.end(),
                [](const auto& step, const auto& any) { return any == "*" || step == any; });
        };
        return found->second = std::any_of(taken_.begin(), taken_.end(), leads_there);
    }

    const CsvTable& table_;
    std::vector<std::string> first_;
    std::vector<std::vector<std::string>> taken_;  // where rows of tables are, step by step
    std::map<std::string, bool> is_taken_;         // places that have been asked for
    GrowingCsv csv_;
};

bool is_folder_name(const std::string& path) {
    if (path.ends_with(kCsvEnding)) return false;
    std::error_code failed;
    return path.ends_with('/') || !std::filesystem::path(path).has_extension() ||
           std::filesystem::is_directory(path, failed);
}

bool is_table(const CsvTable& table, std::string_view text) {
    if (table.known != nullptr) return table.known(text);
    if (!text.starts_with(table.begins)) return false;
    text.remove_prefix(table.begins.size());
    return text.starts_with(',') || text.starts_with('\n');
}

std::string path_in(const std::string& folder, const CsvTable& table) {
    return (std::filesystem::path(folder) / table.name).string() + std::string(kCsvEnding);
}

std::string names_of(const std::vector<CsvTable>& tables) {
    std::vector<std::string> names;
    for (const CsvTable& table : tables)
        names.push_back(table.name);
    return fmt::format("{}", fmt::join(names, ", "));
}

// Of one table, at a path of its own.
OutputKind table_output(const CsvTable& table, const std::string& command) {
    const auto foreign = [table, command](const std::string& path) -> std::string {
        std::string why;
        const auto text = plan::disk().read(path, why);
        return text && is_table(table, *text)
                   ? ""
                   : fmt::format("exists, and is no table \"{}\" of orrery {}", table.name,
                                 command);
    };
    return {false, foreign};
}

}  // namespace

std::string csv_text(const std::vector<CsvTable>& tables, const CsvTable& table,
                     const TableJson& json) {
    return TableReader(tables, table).text(json);
}

void CsvOutput::declare(CLI::App& app, CommandFiles& files, std::vector<CsvTable> tables) {
    tables_ = std::move(tables);
    command_ = app.get_name();
    const bool several = tables_.size() > 1;
    CLI::Option* csv =
        files
            .writes(app, "--csv", path_, kind(),
                    several ? "Write the tables as CSV: into this folder all, into FILE.csv one"
                            : fmt::format("Write the table \"{}\" as CSV: FILE.csv, or into this "
                                          "folder",
                                          tables_.front().name))
            ->type_name("PATH");
    if (!several) return;
    std::vector<std::string> names;
    for (const CsvTable& table : tables_)
        names.push_back(table.name);
    app.add_option("--table", chosen_, "With --csv: this table alone")
        ->type_name("NAME")
        ->option_text("NAME")
        ->check(CLI::IsMember(names))
        ->check(completed_by(names_of(tables_)))
        ->needs(csv);
}

std::vector<const CsvTable*> CsvOutput::chosen() const {
    std::vector<const CsvTable*> all;
    for (const CsvTable& table : tables_)
        if (chosen_.empty() || table.name == chosen_) all.push_back(&table);
    return all;
}

OutputKind CsvOutput::kind() const {
    OutputKind kind;
    kind.folder_at = is_folder_name;
    kind.misnamed = [this](const std::string& path) -> std::string {
        if (is_folder_name(path)) return "";
        if (!path.ends_with(kCsvEnding)) return "the name must end in .csv, or in / for a folder";
        if (chosen().size() == 1) return "";
        return fmt::format("a file holds one table: --table says which, of {}; a folder holds all",
                           names_of(tables_));
    };
    kind.foreign = [this](const std::string& path) -> std::string {
        if (!is_folder_name(path)) return table_output(*chosen().front(), command_).foreign(path);
        for (const CsvTable* table : chosen())
            if (const Objection objection =
                    objection_to(table_output(*table, command_), path_in(path, *table));
                !objection.why.empty())
                return fmt::format("{}{} {}", table->name, kCsvEnding, objection.why);
        return "";
    };
    return kind;
}

void CsvOutput::write(const std::function<std::string()>& json) const {
    if (path_.empty()) return;
    const TableJson answer = TableJson::parse(json());
    for (const CsvTable* table : chosen())
        put(*table, csv_text(tables_, *table, answer));
}

void CsvOutput::write_text(const std::function<std::string()>& csv) const {
    if (!path_.empty()) put(tables_.front(), csv());
}

void CsvOutput::put(const CsvTable& table, const std::string& text) const {
    const std::string& path = path_.path();
    if (!is_folder_name(path_.typed())) return trace::write_file(path, text);
    std::error_code failed;
    std::filesystem::create_directories(path, failed);
    if (failed)
        throw trace::TraceFileError(trace::TraceFault::storage, path,
                                    "cannot be made: " + failed.message());
    trace::write_file(path_in(path, table), text);
}

}  // namespace orrery::cli
