// A cell of a CSV file (RFC 4180): quoted where it holds what would end it.
#pragma once

#include <string>

namespace orrery::cli {

inline std::string csv_cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    return out + '"';
}

}  // namespace orrery::cli
