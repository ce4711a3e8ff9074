#include "plan/text/lines.hpp"

#include <algorithm>

namespace orrery::plan {
namespace {

std::string stripped(const std::string& line) {
    return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // not a continuation byte
    }));
}

std::string padded(std::string text, std::size_t width) {
    const std::size_t have = columns(text);
    if (have < width) text.append(width - have, ' ');
    return text;
}

std::string padded_left(std::string text, std::size_t width) {
    const std::size_t have = columns(text);
    if (have < width) text.insert(0, width - have, ' ');
    return text;
}

std::string wrapped(std::string start, const std::vector<std::string>& pieces, std::size_t indent) {
    std::string out;
    std::string line = std::move(start);
    bool fresh = line.find_first_not_of(' ') == std::string::npos;  // only an indent so far
    for (const std::string& piece : pieces) {
        if (!fresh && columns(line) + 1 + columns(piece) > kLineColumns) {
            out += stripped(line) + '\n';
            line.assign(indent, ' ');
        }
        if (!line.empty() && line.back() != ' ') line += ' ';
        line += piece;
        fresh = false;
    }
    return out + stripped(line) + '\n';
}

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_)
        for (std::size_t c = 0; c < row.size(); ++c) {
            if (c == widths.size()) widths.push_back(0);
            widths[c] = std::max(widths[c], columns(row[c]));
        }
    std::string out;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        const auto& row = rows_[r];
        std::string line(indent_, ' ');
        for (std::size_t c = 0; c < row.size(); ++c) {
            if (widths[c] == 0) continue;
            const bool right = std::find(right_.begin(), right_.end(), c) != right_.end();
            line += right ? padded_left(row[c], widths[c]) : padded(row[c], widths[c]);
            line += "  ";
        }
        out += wrapped(std::move(line), tails_[r], indent_ + 4);
    }
    return out;
}

}  // namespace orrery::plan
