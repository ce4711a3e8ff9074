// Columns that line up, for terminals; widths count characters, not bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::cli {

enum class Align { left, right };

// Characters of UTF-8 text without colours.
std::size_t width_of(std::string_view text);

// Breaks `text` at spaces into lines of at most `columns`; lines after the first begin with
// `indent` spaces, which count. `first` columns of the first line are taken already.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent,
                    std::size_t first);

class TextTable {
  public:
    explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

    // One cell per column; missing ones are empty.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    // Two spaces before each row and between columns, no spaces at the ends of lines.
    std::string text() const;

  private:
    std::vector<Align> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace orrery::cli
