// Where a subcommand prints: data to `out`, messages to `err`. Tests bring strings, main a
// terminal.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace orrery::cli {

struct Console {
    std::ostream& out;
    std::ostream& err;
    bool colour = false;  // whether `out` may hold ANSI colours
    int columns = 100;    // width of `out`
    bool live = false;    // whether `err` is a terminal, on which a line can be rewritten

    std::string bold(std::string_view text) const { return styled("1", text); }
    std::string faint(std::string_view text) const { return styled("2", text); }
    // "38;2;r;g;b" or another parameter of the ANSI sequence that sets colours.
    std::string styled(std::string_view parameter, std::string_view text) const {
        if (!colour || text.empty()) return std::string(text);
        return "\x1b[" + std::string(parameter) + 'm' + std::string(text) + "\x1b[0m";
    }
};

}  // namespace orrery::cli
