#include "cli/trace_excerpt.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/completed_values.hpp"
#include "cli/quantity.hpp"
#include "cli/subcommand.hpp"
#include "plan/scenario/suggest.hpp"
#include "trace/excerpt.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> whole_number(const std::string& text) {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, fault] = std::from_chars(text.data(), end, value);
    if (fault != std::errc{} || at != end || value < 0) return std::nullopt;
    return value;
}

// "0-7", "64": ascending and apart.
std::vector<trace::RankRange> number_ranges(const std::vector<std::string>& words,
                                            const char* option) {
    std::vector<trace::RankRange> ranges;
    for (const std::string& word : words) {
        const std::size_t dash = word.find('-');
        const auto first = whole_number(word.substr(0, dash));
        const auto last = dash == std::string::npos ? first : whole_number(word.substr(dash + 1));
        if (!first || !last || *last < *first)
            throw UsageError(
                fmt::format("{} {}: numbers and ranges are expected, as 0-7,64", option, word));
        ranges.push_back({*first, *last - *first + 1});
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<trace::RankRange> apart;
    for (const trace::RankRange& range : ranges) {
        if (!apart.empty() && range.first <= apart.back().first + apart.back().count)
            apart.back().count =
                std::max(apart.back().count, range.first + range.count - apart.back().first);
        else
            apart.push_back(range);
    }
    return apart;
}

std::vector<plan::OpKind> op_kinds_of(const std::vector<std::string>& words) {
    std::vector<plan::OpKind> kinds;
    std::vector<std::string> names;
    for (std::size_t k = 0; k < plan::kOpKinds; ++k)
        names.emplace_back(plan::name(static_cast<plan::OpKind>(k)));
    for (const std::string& word : words) {
        const auto found = std::find(names.begin(), names.end(), word);
        if (found == names.end()) {
            const std::string near = plan::nearest(word, names);
            throw UsageError(fmt::format("--kinds {}: no kind of op{}", word,
                                         near.empty() ? "" : "; did you mean " + near + "?"));
        }
        kinds.push_back(static_cast<plan::OpKind>(found - names.begin()));
    }
    return kinds;
}

// "200M": bytes in powers of 1,024.
std::int64_t asked_bytes(const std::string& text) {
    constexpr std::string_view kUnits = "KMG";
    std::string digits = text;
    std::int64_t unit = 1;
    const std::size_t at = text.empty() ? std::string_view::npos : kUnits.find(text.back());
    if (at != std::string_view::npos) {
        digits.pop_back();
        for (std::size_t i = 0; i <= at; ++i)
            unit *= 1024;
    }
    const auto value = whole_number(digits);
    if (!value || *value == 0 || *value > (std::int64_t{1} << 40) / unit * 1024)
        throw UsageError(fmt::format("--max-size {}: a size is expected, as 200M or 1G", text));
    return *value * unit;
}

// The least that --max-size takes which is as large: "153M".
std::string size_to_ask(std::int64_t bytes) {
    std::string unit;
    for (const char* next : {"K", "M", "G"}) {
        if (bytes < std::int64_t{1024}) break;
        bytes = (bytes + 1023) / 1024;
        unit = next;
    }
    return std::to_string(bytes) + unit;
}

trace::ExcerptChoice excerpt_choice(const std::vector<std::string>& ranks,
                                    const std::vector<std::string>& steps,
                                    const std::vector<std::string>& kinds) {
    return {number_ranges(ranks, "--ranks"), number_ranges(steps, "--steps"), op_kinds_of(kinds)};
}

// Size of the trace's file, by writing one beside the output.
std::int64_t written_size(const trace::Trace& part, const std::string& path) {
    const fs::path output = path;
    const std::string trial =
        (output.parent_path() / (output.stem().string() + ".trial" + output.extension().string()))
            .string();
    trace::write_trace(part, trial);
    const auto size = static_cast<std::int64_t>(fs::file_size(trial));
    fs::remove(trial);
    return size;
}

// As many tracks as fit; a file grows by nearly as much with each.
trace::Trace fitting_tracks(const trace::Trace& part, const std::string& asked,
                            const std::string& path) {
    const std::int64_t most = asked_bytes(asked);
    std::size_t count = part.tracks.size();
    trace::Trace fits = part;
    std::int64_t size = written_size(fits, path);
    while (size > most) {
        if (count == 1)
            throw UsageError(
                fmt::format("--max-size {}: one track alone takes {}; fewer --steps or --kinds",
                            asked, size_to_ask(size)));
        const double share = static_cast<double>(most) / static_cast<double>(size);
        const auto guess = static_cast<std::size_t>(static_cast<double>(count) * share);
        count = std::clamp<std::size_t>(guess, 1, count - 1);
        fits = trace::first_tracks(part, count);
        size = written_size(fits, path);
    }
    return fits;
}

}  // namespace

void TraceExcerpt::declare(CLI::App& app) {
    const auto list = [&](const char* name, std::vector<std::string>& to, const char* help) {
        return app.add_option(name, to, help)->delimiter(',')->expected(1)->take_all();
    };
    list("--ranks", ranks_, "For a viewer: only these ranks, as 0-7,64")->type_name("VALUES");
    list("--steps", steps_,
         "For a viewer: only these steps of each rank's program, from 0, as 0-99")
        ->type_name("VALUES");
    list("--kinds", kinds_, "For a viewer: only these kinds of ops, as gemm,attention,all_reduce")
        ->type_name("NAME")
        ->check(completed_by(WordSource::op_kinds));
    app.add_option("--max-size", most_,
                   "For a viewer: as many ranks as a file of so many bytes holds, as 200M")
        ->type_name("WORD");
}

bool TraceExcerpt::any() const {
    return !ranks_.empty() || !steps_.empty() || !kinds_.empty() || !most_.empty();
}

void TraceExcerpt::check(const std::string& path) const {
    if (!any()) return;
    excerpt_choice(ranks_, steps_, kinds_);
    if (!most_.empty()) asked_bytes(most_);
    if (trace::format_of_name(path) == trace::TraceFormat::native)
        throw UsageError(
            "--ranks, --steps, --kinds, --max-size: an excerpt is for viewers (.pftrace, .json); "
            ".orrery holds whole traces");
}

void TraceExcerpt::write(const trace::Trace& trace, const OutputPath& path,
                         const std::string& command, Console& console) const {
    if (!any()) return trace::write_trace(trace, path.path());
    trace::Trace part = trace::excerpt(trace, excerpt_choice(ranks_, steps_, kinds_));
    if (trace::left_out(trace, part).events == trace::left_out(trace, part).of_events)
        throw UsageError("--ranks, --steps, --kinds: nothing of the trace is chosen");
    if (!most_.empty()) part = fitting_tracks(part, most_, path.path());
    trace::write_trace(part, path.path());
    const trace::LeftOut out = trace::left_out(trace, part);
    console.err << fmt::format(
        "orrery {}: {} is an excerpt: left out {} of {} ranks, {} of {} events\n", command,
        path.typed(), whole_text(out.ranks), whole_text(out.of_ranks), whole_text(out.events),
        whole_text(out.of_events));
}

}  // namespace orrery::cli
