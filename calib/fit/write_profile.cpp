#include "calib/fit/write_profile.hpp"

#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"
#include "trace/atomic_file.hpp"
#include "trace/formats/native.hpp"

namespace orrery::fit {
namespace {

using Json = nlohmann::ordered_json;

void print(const Json& value, const std::string& indent, std::string& out);

// Opens a line per element when one of them is itself a container, else stays on the line.
void print_array(const Json& array, const std::string& indent, std::string& out) {
    bool nested = false;
    for (const Json& element : array)
        nested = nested || element.is_structured();
    const std::string inner = indent + "  ";
    out += '[';
    for (std::size_t i = 0; i < array.size(); ++i) {
        if (i > 0) out += nested ? "," : ", ";
        if (nested) out += "\n" + inner;
        print(array[i], inner, out);
    }
    if (nested) out += "\n" + indent;
    out += ']';
}

void print_object(const Json& object, const std::string& indent, std::string& out) {
    const std::string inner = indent + "  ";
    out += '{';
    const char* separator = "\n";
    for (const auto& item : object.items()) {
        out += separator + inner + Json(item.key()).dump() + ": ";
        print(item.value(), inner, out);
        separator = ",\n";
    }
    out += object.empty() ? "}" : "\n" + indent + "}";
}

void print(const Json& value, const std::string& indent, std::string& out) {
    if (value.is_array())
        print_array(value, indent, out);
    else if (value.is_object())
        print_object(value, indent, out);
    else if (value.is_number_float())  // shortest text that reads back; no "1e+02" for 100
        out += fmt::format("{}", value.get<double>());
    else
        out += value.dump();
}

}  // namespace

double rounded(double value, int digits) {
    return std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
}

std::string profile_text(const nlohmann::ordered_json& profile) {
    std::string out;
    print(profile, "", out);
    return out + "\n";
}

bool is_profile_text(std::string_view text) {
    const Json profile = Json::parse(text, nullptr, false);
    return profile.is_object() && profile.value("format", Json()) == sim::kProfileFormat &&
           !profile.contains("tables") && !profile.contains("like");
}

sim::Profile write_profile(const nlohmann::ordered_json& profile, const std::string& path) {
    const std::string text = profile_text(profile);
    sim::Profile result = sim::parse_profile(text, path);
    try {
        trace::write_file(path, text);
    } catch (const trace::TraceFileError& error) {
        throw FitStorageError(error.what());
    }
    return result;
}

}  // namespace orrery::fit
