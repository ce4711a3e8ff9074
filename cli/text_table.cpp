#include "cli/text_table.hpp"

#include <algorithm>

namespace orrery::cli {

std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;  // not a byte that continues
    }));
}

std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent,
                    std::size_t first) {
    std::string out;
    std::size_t column = first;
    bool at_start = true;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        const std::size_t width = width_of(word);
        if (!at_start && column + 1 + width > columns) {
            out += '\n' + std::string(indent, ' ');
            column = indent;
            at_start = true;
        }
        if (!at_start) {
            out += ' ';
            ++column;
        }
        out += word;
        column += width;
        at_start = false;
        begin = end + 1;
    }
    return out;
}

std::string TextTable::text() const {
    std::vector<std::size_t> widths(columns_.size(), 0);
    for (const auto& row : rows_)
        for (std::size_t c = 0; c < row.size(); ++c)
            widths[c] = std::max(widths[c], width_of(row[c]));
    std::string text;
    for (const auto& row : rows_) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c) {
            const std::string padding(widths[c] - width_of(row[c]), ' ');
            line += "  " + (columns_[c] == Align::right ? padding + row[c] : row[c] + padding);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    }
    return text;
}

}  // namespace orrery::cli
