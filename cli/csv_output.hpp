// --csv: the tables of a subcommand for spreadsheets and pandas. They are read off what --json
// prints: a number is in both or in neither, and has one name and one unit. Where --json says
//     "stages": [{"stage": 0, "peak_bytes": 81604378624, "host": {"bytes": 0}, "ranks": [0, 8]}]
// the table is
//     stage,peak_bytes,host.bytes,ranks
//     0,81604378624,0,"[0,8]"
// An interval_s is two columns, interval_low_s and interval_high_s; null is an empty cell.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/command_files.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

struct CsvTable {
    std::string name;  // --table NAME, and NAME.csv in a folder
    // Where its rows are in what --json prints: "/memory/stages". Of an array each element is one,
    // of an object each member. Behind "*", as in "/links/*/jobs", the rows of every element, or
    // member. Several pointers, with spaces between them: what each leads to is a row.
    std::string pointers;
    // The first columns, by which a file is known to be such a table: "stage,parameters_bytes".
    // The very first ones are what members, or elements before "*", are called, or the pointers.
    // Those that follow are whatever else rows have, but for what is in other tables.
    std::string begins;
    bool record = false;  // an object is itself a row, not its members
    // How a file's text is known where that is not its first columns.
    bool (*known)(std::string_view text) = nullptr;
};

// `tables` are all of the command; `json` is what its --json prints. A table that has no rows is
// its first columns.
std::string csv_text(const std::vector<CsvTable>& tables, const CsvTable& table,
                     const nlohmann::ordered_json& json);

class CsvOutput {
  public:
    // --csv, and --table where there are several.
    void declare(CLI::App& app, CommandFiles& files, std::vector<CsvTable> tables);
    bool wanted() const { return !path_.empty(); }
    // Where --csv asks for any. Throw TraceFileError (storage).
    void write(const std::function<std::string()>& json) const;
    void write_text(const std::function<std::string()>& csv) const;  // of the one table there is

  private:
    // What is asked for: of a file one table, of a folder all, unless --table names one.
    std::vector<const CsvTable*> chosen() const;
    OutputKind kind() const;
    void put(const CsvTable& table, const std::string& text) const;

    std::vector<CsvTable> tables_;
    std::string command_, chosen_;
    OutputPath path_;
};

}  // namespace orrery::cli
