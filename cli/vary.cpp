#include "cli/vary.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

[[noreturn]] void refuse(const std::string& argument, const std::string& why) {
    throw UsageError(fmt::format(
        "--vary {}: {}, e.g. layout.pipeline_parallel=1,2,4,8 or cluster.nodes=16..256*2", argument,
        why));
}

std::optional<double> number_of(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
        return std::nullopt;
    return value;
}

// Whole numbers without a point.
std::string shown(double value) {
    if (std::abs(value) < 1e15 && value == std::floor(value))
        return std::to_string(static_cast<long long>(value));
    return fmt::format("{}", value);
}

// "a..b", "a..b*f", "a..b+s"; false: no such range.
bool add_range(const std::string& argument, const std::string& text, Vary& vary) {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos) return false;
    const auto first = number_of(std::string_view(text).substr(0, dots));
    std::string rest = text.substr(dots + 2);
    const std::size_t sign = rest.find_first_of("*+", 1);
    const bool factor = sign != std::string::npos && rest[sign] == '*';
    const auto step = sign == std::string::npos
                          ? std::optional<double>(1.0)
                          : number_of(std::string_view(rest).substr(sign + 1));
    const auto last = number_of(std::string_view(rest).substr(0, sign));
    if (!first) return false;
    if (!last || !step)
        refuse(argument,
               "a range is FIRST..LAST, FIRST..LAST+STEP or "
               "FIRST..LAST*FACTOR");
    if (*last < *first) refuse(argument, "a range goes upwards");
    if (factor ? *step <= 1 || *first <= 0 : *step <= 0)
        refuse(argument, factor ? "a range from above 0 by a factor above 1" : "a step above 0");
    // A little beyond the end, lest rounding takes the last value away.
    const double end = *last * (1 + 1e-12);
    for (std::size_t i = 0;; ++i) {
        const double value = factor ? *first * std::pow(*step, static_cast<double>(i))
                                    : *first + *step * static_cast<double>(i);
        if (value > end) return true;
        if (vary.values.size() >= kMostValues)
            refuse(argument, fmt::format("more than {} values", kMostValues));
        vary.values.push_back(shown(value));
    }
}

// At commas outside brackets and quotes.
std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts(1);
    int depth = 0;
    bool quoted = false;
    for (const char c : text) {
        if (c == '"') quoted = !quoted;
        if (!quoted && (c == '[' || c == '{')) ++depth;
        if (!quoted && (c == ']' || c == '}')) --depth;
        if (c == ',' && depth == 0 && !quoted)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

}  // namespace

Vary parse_vary(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) refuse(argument, "KEY=VALUES is expected");
    Vary vary{argument.substr(0, equals), {}};
    for (const std::string& part : split(argument.substr(equals + 1))) {
        if (part.empty()) refuse(argument, "a value is missing");
        if (!add_range(argument, part, vary)) vary.values.push_back(part);
        if (vary.values.size() > kMostValues)
            refuse(argument, fmt::format("more than {} values", kMostValues));
    }
    std::set<std::string> once;
    for (const std::string& value : vary.values)
        if (!once.insert(value).second) refuse(argument, "the value " + value + " comes twice");
    return vary;
}

std::vector<Vary> parse_all_varies(const std::vector<std::string>& arguments) {
    std::vector<Vary> varies;
    std::set<std::string> keys;
    for (const std::string& argument : arguments) {
        varies.push_back(parse_vary(argument));
        if (!keys.insert(varies.back().key).second)
            throw UsageError(fmt::format("--vary {}: the key is varied twice", argument));
    }
    return varies;
}

std::vector<std::vector<std::string>> combinations(const std::vector<Vary>& varies,
                                                   std::size_t most) {
    std::vector<std::vector<std::string>> all = {{}};
    for (const Vary& vary : varies) {
        if (all.size() * vary.values.size() > most)
            throw UsageError(fmt::format("--vary: more than {} combinations", most));
        std::vector<std::vector<std::string>> next;
        for (const auto& so_far : all)
            for (const std::string& value : vary.values) {
                next.push_back(so_far);
                next.back().push_back(vary.key + '=' + value);
            }
        all = std::move(next);
    }
    return all;
}

}  // namespace orrery::cli
