#include "calib/fit/csv_table.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "calib/fit/fit_error.hpp"
#include "plan/check.hpp"
#include "plan/scenario/files.hpp"

namespace orrery::fit {
namespace {

std::vector<std::string> split(const std::string& line) {
    std::vector<std::string> values;
    std::size_t start = 0;
    while (true) {
        const std::size_t comma = line.find(',', start);
        values.push_back(line.substr(start, comma - start));
        if (comma == std::string::npos) return values;
        start = comma + 1;
    }
}

std::string read_text(const std::string& path) {
    std::string why;
    std::optional<std::string> text = plan::disk().read(path, why);
    if (!text) throw FitError(fmt::format("{}: cannot be read: {}", path, why));
    return std::move(*text);
}

}  // namespace

CsvTable::CsvTable(const std::string& path, const std::vector<std::string>& columns)
    : CsvTable(read_text(path), path, columns) {}

CsvTable::CsvTable(const std::string& text, const std::string& path,
                   const std::vector<std::string>& columns)
    : path_(path) {
    parse(text, columns);
}

void CsvTable::parse(const std::string& text, const std::vector<std::string>& columns) {
    std::istringstream stream(text);
    std::string line;
    std::size_t number = 0;
    while (std::getline(stream, line)) {
        ++number;
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (number == 1) {
            columns_ = split(line);
            continue;
        }
        cells_.push_back(split(line));
        if (cells_.back().size() != columns_.size())
            throw FitError(fmt::format("{}:{}: {} values, the header has {}", path_, number,
                                       cells_.back().size(), columns_.size()));
    }
    for (const std::string& column : columns)
        if (std::find(columns_.begin(), columns_.end(), column) == columns_.end())
            throw FitError(fmt::format("{}:1: column '{}' is missing", path_, column));
    for (const std::string& column : columns_)
        if (std::find(columns.begin(), columns.end(), column) == columns.end())
            throw FitError(fmt::format("{}:1: unknown column '{}'", path_, column));
}

std::size_t CsvTable::column_index(const std::string& column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    ORRERY_CHECK(found != columns_.end(), column);
    return static_cast<std::size_t>(found - columns_.begin());
}

void CsvTable::fail(std::size_t row, const std::string& what) const {
    throw FitError(fmt::format("{}:{}: {}", path_, row + 2, what));
}

const std::string& CsvTable::text(std::size_t row, const std::string& column) const {
    return cells_[row][column_index(column)];
}

std::int64_t CsvTable::whole(std::size_t row, const std::string& column) const {
    const std::string& value = text(row, column);
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() || result <= 0)
        fail(row, fmt::format("{}: '{}' is not a positive whole number", column, value));
    return result;
}

double CsvTable::number(std::size_t row, const std::string& column) const {
    const std::string& value = text(row, column);
    double result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() || !(result > 0) ||
        result > 1e30)
        fail(row, fmt::format("{}: '{}' is not a positive number", column, value));
    return result;
}

}  // namespace orrery::fit
