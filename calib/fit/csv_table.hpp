// Tables of measurements: comma-separated values with a header row, no quoting (a comma in a value
// is a malformed row). The columns must be exactly the expected ones, in any order, so that a table
// with another meaning is not read as if it were ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery::fit {

class CsvTable {
  public:
    // Throws FitError with file and line when the file is missing, a column is missing or unknown,
    // or a row has the wrong number of values.
    CsvTable(const std::string& path, const std::vector<std::string>& columns);
    // The same from text; `path` names the origin in messages.
    CsvTable(const std::string& text, const std::string& path,
             const std::vector<std::string>& columns);

    std::size_t rows() const { return cells_.size(); }
    const std::string& text(std::size_t row, const std::string& column) const;
    // Throw FitError unless the value is a positive whole number, or a positive number.
    std::int64_t whole(std::size_t row, const std::string& column) const;
    double number(std::size_t row, const std::string& column) const;

  private:
    void parse(const std::string& text, const std::vector<std::string>& columns);
    std::size_t column_index(const std::string& column) const;
    [[noreturn]] void fail(std::size_t row, const std::string& what) const;

    std::string path_;
    std::vector<std::string> columns_;
    std::vector<std::vector<std::string>> cells_;
};

}  // namespace orrery::fit
