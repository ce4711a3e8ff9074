// Laying out text for people: columns and lines of at most 100 columns. Internal to plan/text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::plan {

inline constexpr std::size_t kLineColumns = 100;

// Columns that UTF-8 text takes on a line.
std::size_t columns(std::string_view text);
std::string padded(std::string text, std::size_t width);
std::string padded_left(std::string text, std::size_t width);

// Pieces after one another, separated by one space, continued on lines that begin with `indent`
// spaces. `start` begins the first line. Ends with a newline.
std::string wrapped(std::string start, const std::vector<std::string>& pieces, std::size_t indent);

// Rows of cells with each column as wide as its widest cell, and after them a tail that continues
// on further lines where it must; no spaces at the end of a line.
class Table {
  public:
    explicit Table(std::size_t indent) : indent_(indent) {}
    void add(std::vector<std::string> row, std::vector<std::string> tail = {}) {
        rows_.push_back(std::move(row));
        tails_.push_back(std::move(tail));
    }
    void align_right(std::size_t column) { right_.push_back(column); }
    std::string text() const;

  private:
    std::size_t indent_;
    std::vector<std::vector<std::string>> rows_;
    std::vector<std::vector<std::string>> tails_;
    std::vector<std::size_t> right_;
};

}  // namespace orrery::plan
