#include "plan/scenario/diagnostic.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery::plan {
namespace {

constexpr std::size_t kLongestValueShown = 60;
constexpr std::size_t kLongestOriginShown = 120;

std::string place(const Diagnostic& diagnostic) {
    if (diagnostic.line > 0) {
        return fmt::format("{}:{}:{}", diagnostic.file, diagnostic.line, diagnostic.column);
    }
    return diagnostic.pointer.empty() ? diagnostic.file
                                      : diagnostic.file + ":" + diagnostic.pointer;
}

// Keys and file names may hold control characters, which a terminal would obey.
std::string visible(std::string text) {
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < 0x20u || c == 0x7f) c = '?';
    }
    return text;
}

// A value that came from the file named in the place says nothing of its origin; any other does.
std::string value_and_origin(const Diagnostic& diagnostic) {
    std::string inside;
    if (!diagnostic.value.empty()) inside = "= " + shortened(diagnostic.value, kLongestValueShown);
    if (!diagnostic.origin.empty() && diagnostic.origin.rfind("file ", 0) != 0) {
        inside += (inside.empty() ? "" : ", ") +
                  visible(shortened(diagnostic.origin, kLongestOriginShown));
    }
    return inside.empty() ? "" : "   (" + inside + ")";
}

// Further lines of a text are indented to stand below its first.
std::string hanging(const std::string& text, const std::string& first, const std::string& further) {
    std::string out = first;
    for (const char c : text) {
        if (c == '\n') {
            out += '\n' + further;
        } else {
            out += c;
        }
    }
    return out + '\n';
}

std::string format_one(const Diagnostic& diagnostic) {
    std::string out = fmt::format("error[{}]: {}\n", diagnostic.code, diagnostic.message);
    out += fmt::format("  --> {}{}\n", visible(place(diagnostic)), value_and_origin(diagnostic));
    if (!diagnostic.arithmetic.empty()) out += hanging(diagnostic.arithmetic, "   |  ", "   |  ");
    if (!diagnostic.note.empty()) out += hanging(diagnostic.note, "   = note: ", "           ");
    for (const std::string& line : diagnostic.help) {
        out += hanging(line, "   = help: ", "           ");
    }
    return out;
}

std::span<const Diagnostic> shown(const std::vector<Diagnostic>& diagnostics) {
    return std::span(diagnostics).first(std::min(diagnostics.size(), kMostDiagnosticsShown));
}

}  // namespace

std::string shortened(const std::string& text, std::size_t longest) {
    if (text.size() <= longest) return text;
    std::size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u)
        --end;
    return text.substr(0, end) + " …";
}

std::string format_text(const std::vector<Diagnostic>& diagnostics) {
    if (diagnostics.empty()) return "";
    std::string out;
    for (const Diagnostic& diagnostic : shown(diagnostics))
        out += format_one(diagnostic) + '\n';
    const std::string of_them =
        diagnostics.size() > kMostDiagnosticsShown
            ? fmt::format(", of which the first {} are shown", kMostDiagnosticsShown)
            : "";
    return out + fmt::format("{} error{}{}; nothing was run.\n", diagnostics.size(),
                             diagnostics.size() == 1 ? "" : "s", of_them);
}

std::string format_json(const std::vector<Diagnostic>& diagnostics) {
    nlohmann::ordered_json errors = nlohmann::ordered_json::array();
    for (const Diagnostic& diagnostic : shown(diagnostics)) {
        nlohmann::ordered_json entry = {{"code", diagnostic.code}, {"file", diagnostic.file}};
        const auto put = [&entry](const char* key, const std::string& text) {
            if (!text.empty()) entry[key] = text;
        };
        put("pointer", diagnostic.pointer);
        if (diagnostic.line > 0) {
            entry["line"] = diagnostic.line;
            entry["column"] = diagnostic.column;
        }
        if (!diagnostic.value.empty()) {
            nlohmann::ordered_json value =
                nlohmann::ordered_json::parse(diagnostic.value, nullptr, false);
            entry["value"] =
                value.is_discarded() ? nlohmann::ordered_json(diagnostic.value) : std::move(value);
        }
        put("origin", diagnostic.origin);
        put("message", diagnostic.message);
        put("arithmetic", diagnostic.arithmetic);
        put("note", diagnostic.note);
        if (!diagnostic.help.empty()) entry["help"] = diagnostic.help;
        errors.push_back(std::move(entry));
    }
    nlohmann::ordered_json out = {{"errors", std::move(errors)}};
    if (diagnostics.size() > kMostDiagnosticsShown)
        out["errors_left_out"] = diagnostics.size() - kMostDiagnosticsShown;
    return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::plan
