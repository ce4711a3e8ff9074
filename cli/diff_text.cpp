#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "cli/diff.hpp"
#include "cli/model_facts.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using sim::to_seconds;

constexpr std::size_t kMostOps = 12;
constexpr double kLeastShare = 0.001;  // of the longer step, for a line of its own
constexpr std::size_t kMostValueColumns = 24;
constexpr std::string_view kModelKeys = "/model/";
constexpr double kInMultiples = 10;  // from here on "x 64.0" reads better than "+6300.0 %"

std::string signed_text(double value, const std::string& size) {
    if (value == 0) return "0";
    if (size.front() == '<') return size;
    return (value < 0 ? "-" : "+") + size;
}

std::string count_text(double value) {
    return whole_text(static_cast<std::int64_t>(value));
}

std::string seconds_change(double seconds) {
    return signed_text(seconds, seconds_text(std::abs(seconds)));
}

std::string percent_change(double a, double b) {
    if (a <= 0) return "";
    if (b >= kInMultiples * a) return "x " + digits_text(b / a);
    return signed_text(b - a, percent_text(std::abs(b - a) / a));
}

// A row of numbers: what is unknown on either side is not subtracted.
void add_numbers(TextTable& table, const std::string& name, const std::optional<double>& a,
                 const std::optional<double>& b, std::string (*text)(double)) {
    if (!a && !b) return;
    table.add({name, a ? text(*a) : "unknown", b ? text(*b) : "unknown",
               a && b ? percent_change(*a, *b) : ""});
}

std::string sides_text(const DiffReport& report) {
    const sim::Prediction& a = report.a.prediction;
    const sim::Prediction& b = report.b.prediction;
    const bool alike = report.a.profile.hardware.cpu == report.b.profile.hardware.cpu;
    const std::string device = alike ? report.a.device_word() : "device";
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"", "A", "B", "B against A"});
    const auto numbers = [&](const std::string& name, const std::optional<double>& of_a,
                             const std::optional<double>& of_b, std::string (*text)(double)) {
        add_numbers(table, name, of_a, of_b, text);
    };
    numbers("step time", a.step.time_s, b.step.time_s, seconds_text);
    numbers("tokens per step", static_cast<double>(a.conserved.tokens_per_step),
            static_cast<double>(b.conserved.tokens_per_step), count_text);
    numbers("tokens/s", a.throughput.tokens_per_s, b.throughput.tokens_per_s, digits_text);
    numbers("tokens/s per " + device, a.throughput.tokens_per_s_per_gpu,
            b.throughput.tokens_per_s_per_gpu, digits_text);
    numbers(device + "s", static_cast<double>(a.run.gpus), static_cast<double>(b.run.gpus),
            count_text);
    numbers("MFU", a.throughput.mfu, b.throughput.mfu, percent_text);
    numbers("HFU", a.throughput.hfu, b.throughput.hfu, percent_text);
    numbers("days of the run", a.run.days, b.run.days, digits_text);
    numbers(device + "-hours", a.run.gpu_hours, b.run.gpu_hours, counted_text);
    numbers("cost in USD", a.run.cost_usd, b.run.cost_usd, counted_text);
    table.add({"memory", std::string(sim::name(a.memory.verdict)),
               std::string(sim::name(b.memory.verdict)), ""});
    return table.text();
}

std::string value_text(const std::string& json) {
    if (json.empty()) return "none";
    if (json.size() <= kMostValueColumns) return json;
    return json.substr(0, kMostValueColumns - 3) + "...";
}

bool unlike_families(const DiffReport& report) {
    return report.a.scenario.model.family != report.b.scenario.model.family;
}

bool is_of(const plan::KeyDifference& key, std::string_view section) {
    return key.pointer.starts_with(section);
}

// Families have few keys in common: what they mean is compared, and the keys are counted.
std::string unlike_models_text(const DiffReport& report) {
    const std::vector<ModelFact> a = model_facts(report.a.scenario);
    const std::vector<ModelFact> b = model_facts(report.b.scenario);
    TextTable table({Align::left, Align::right, Align::right});
    table.add({"", "A", "B"});
    for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i].values != b[i].values) table.add({a[i].words, a[i].text(), b[i].text()});
    std::int64_t of_a = 0, of_b = 0, of_both = 0;
    for (const plan::KeyDifference& key : report.keys)
        if (is_of(key, kModelKeys)) ++(key.b.empty() ? of_a : key.a.empty() ? of_b : of_both);
    const std::string keys = fmt::format(
        "Keys of the models that differ: {} of {} alone, {} of {} alone, {} of both; --json lists "
        "them.",
        of_a, report.a.scenario.model.family, of_b, report.b.scenario.model.family, of_both);
    return table.text() + "  " + wrapped(keys, kReportColumns, 2, 2) + '\n';
}

std::string models_text(const DiffReport& report, const Console& console) {
    if (report.a.scenario.model == report.b.scenario.model) return "";
    return heading("the models", console) + labelled("A", model_line(report.a.scenario)) +
           labelled("B", model_line(report.b.scenario)) +
           (unlike_families(report) ? unlike_models_text(report) : "");
}

// Layout, training and cluster in this order, before them the model, behind them the rest.
std::string keys_text(const DiffReport& report, const Console& console) {
    constexpr std::array<std::string_view, 4> kSections = {kModelKeys, "/layout/", "/training/",
                                                           "/cluster/"};
    const auto place = [&](const plan::KeyDifference& key) {
        return std::find_if(kSections.begin(), kSections.end(),
                            [&](std::string_view section) { return is_of(key, section); });
    };
    std::vector<plan::KeyDifference> keys = report.keys;
    if (unlike_families(report))
        std::erase_if(keys, [](const auto& key) { return is_of(key, kModelKeys); });
    std::stable_sort(keys.begin(), keys.end(),
                     [&](const auto& one, const auto& other) { return place(one) < place(other); });
    std::string text = heading("what the scenarios say differently", console);
    if (keys.empty()) return text + labelled("", "nothing");
    TextTable table({Align::left, Align::right, Align::right});
    table.add({"", "A", "B"});
    for (const plan::KeyDifference& key : keys)
        table.add({key.pointer, value_text(key.a), value_text(key.b)});
    return text + table.text();
}

std::string accounts_table(const DiffReport& report, const Console& console) {
    const sim::Difference& difference = report.difference;
    const sim::Picoseconds all = difference.step_b - difference.step_a;
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right});
    table.add({"", "A", "B", "B - A", "of it"});
    const auto add = [&](const std::string& name, sim::Picoseconds a, sim::Picoseconds b) {
        const double share = all == 0 ? 0 : static_cast<double>(b - a) / static_cast<double>(all);
        table.add({name, seconds_text(to_seconds(a)), seconds_text(to_seconds(b)),
                   seconds_change(to_seconds(b - a)),
                   all == 0 ? "" : signed_text(share, percent_text(std::abs(share)))});
    };
    for (std::size_t a = 0; a < trace::kAccounts; ++a)
        if (difference.accounts_a[a] != 0 || difference.accounts_b[a] != 0)
            add(account_text(static_cast<trace::Account>(a)), difference.accounts_a[a],
                difference.accounts_b[a]);
    add("step", difference.step_a, difference.step_b);
    return heading("where the time goes, mean over ranks", console) + table.text();
}

std::string kind_words(std::string_view kind) {
    std::string text(kind);
    std::replace(text.begin(), text.end(), '_', ' ');
    return text;
}

std::string group_text(plan::GroupKind group) {
    return group == plan::GroupKind::none ? "" : std::string(plan::name(group));
}

// The first rows of a table that is sorted by difference, as far as they are worth a line.
template <typename Row>
std::vector<Row> worth_a_line(const DiffReport& report, const std::vector<Row>& rows) {
    const double longer =
        std::max(to_seconds(report.difference.step_a), to_seconds(report.difference.step_b));
    std::vector<Row> worth;
    for (const Row& row : rows)
        if (worth.size() < kMostOps && std::abs(row.b_s - row.a_s) >= kLeastShare * longer)
            worth.push_back(row);
    return worth;
}

std::string busy_table(const DiffReport& report, const Console& console) {
    const auto busy = worth_a_line(report, report.difference.busy);
    if (busy.empty()) return "";
    TextTable table({Align::left, Align::left, Align::right, Align::right, Align::right});
    table.add({"op", "group", "A", "B", "B - A"});
    for (const sim::BusyDifference& op : busy)
        table.add({kind_words(plan::name(op.kind)), group_text(op.group), seconds_text(op.a_s),
                   seconds_text(op.b_s), seconds_change(op.b_s - op.a_s)});
    return heading("busy time of ops, hidden or not, mean over ranks; 0.1 % of the step or more",
                   console) +
           table.text();
}

std::string counts_sentence(const trace::OpCounts& counts) {
    return fmt::format(
        "Of the {} ops of A and the {} of B, one rank of each pipeline rank, {} are the same "
        "computation: {} take longer in B and {} less, {} are on another pipeline rank, {} are of "
        "another size. {} are in A alone, {} in B alone.",
        whole_text(counts.a_ops), whole_text(counts.b_ops), whole_text(counts.aligned),
        whole_text(counts.longer), whole_text(counts.shorter), whole_text(counts.moved),
        whole_text(counts.resized), whole_text(counts.a_ops - counts.aligned),
        whole_text(counts.b_ops - counts.aligned));
}

// Recomputation stands in the block that it is made for.
std::string where_of(const trace::OpName& op) {
    return op.phase == plan::Phase::recompute ? op.block + ", again" : op.block;
}

std::string only_or_resized(const trace::OpDifference& op) {
    if (op.a == nullptr) return "in B alone";
    if (op.b == nullptr) return "in A alone";
    return op.resized() ? "another size" : "";
}

std::string ops_table(const DiffReport& report, const Console& console) {
    std::string text = heading("op by op", console) + "  " +
                       wrapped(counts_sentence(report.ops.counts), kReportColumns, 2, 2) + '\n';
    const auto ops = worth_a_line(report, report.ops.ops);
    if (ops.empty()) return text;
    TextTable table({Align::left, Align::left, Align::right, Align::right, Align::right,
                     Align::right, Align::left});
    table.add({"op", "of", "ops", "A", "B", "B - A", ""});
    for (const trace::OpDifference& op : ops)
        table.add({op.name().label, where_of(op.name()), whole_text(op.count), seconds_text(op.a_s),
                   seconds_text(op.b_s), seconds_change(op.b_s - op.a_s), only_or_resized(op)});
    return text + heading("ops that differ most, mean over ranks", console) + table.text();
}

std::string stages_table(const DiffReport& report, const Console& console) {
    const auto stages = worth_a_line(report, report.ops.stages);
    if (stages.empty()) return "";
    TextTable table(
        {Align::right, Align::left, Align::left, Align::right, Align::right, Align::right});
    table.add({"stage", "op", "group", "A", "B", "B - A"});
    for (const trace::StageDifference& stage : stages)
        table.add({std::to_string(stage.stage), kind_words(plan::name(stage.kind)),
                   group_text(stage.group), seconds_text(stage.a_s), seconds_text(stage.b_s),
                   seconds_change(stage.b_s - stage.a_s)});
    return heading("stages and kinds of op that differ most, mean over a stage's ranks", console) +
           table.text();
}

std::string memory_table(const DiffReport& report, const Console& console) {
    const sim::StageMemory& a = report.a.prediction.memory.worst();
    const sim::StageMemory& b = report.b.prediction.memory.worst();
    TextTable table({Align::left, Align::right, Align::right, Align::right});
    table.add({"", "A", "B", "B - A"});
    const auto add = [&](const std::string& name, std::int64_t of_a, std::int64_t of_b) {
        const auto change = static_cast<double>(of_b - of_a);
        table.add({name, bytes_text(static_cast<double>(of_a)),
                   bytes_text(static_cast<double>(of_b)),
                   signed_text(change, bytes_text(std::abs(change)))});
    };
    for (std::size_t c = 0; c < plan::kMemoryCategories; ++c)
        add(std::string(plan::name(static_cast<plan::MemoryCategory>(c))), a.bytes[c], b.bytes[c]);
    add("other", a.other_bytes, b.other_bytes);
    add("peak", a.peak_bytes, b.peak_bytes);
    return heading("memory of the fullest pipeline rank", console) + table.text();
}

struct Change {
    std::string name;
    double seconds = 0;
};

// Changes of the accounts in the direction of `sign`, largest first.
std::vector<Change> changes_of(const sim::Difference& difference, double sign) {
    std::vector<Change> changes;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const double change = to_seconds(difference.accounts_b[a] - difference.accounts_a[a]);
        if (change * sign > 0)
            changes.push_back({account_text(static_cast<trace::Account>(a)), change});
    }
    std::stable_sort(changes.begin(), changes.end(), [](const Change& one, const Change& other) {
        return std::abs(one.seconds) > std::abs(other.seconds);
    });
    return changes;
}

// "4.83 s more recompute and 200 ms more pipeline bubble": at most three, as long as each is a
// tenth of `all`.
std::string changes_text(const std::vector<Change>& changes, double all) {
    constexpr std::size_t kMost = 3;
    std::vector<std::string> spoken;
    for (const Change& change : changes)
        if (spoken.empty() || (spoken.size() < kMost && std::abs(change.seconds) > 0.1 * all))
            spoken.push_back(fmt::format("{} {} {}", seconds_text(std::abs(change.seconds)),
                                         change.seconds > 0 ? "more" : "less", change.name));
    std::string text;
    for (std::size_t i = 0; i < spoken.size(); ++i) {
        if (i > 0) text += i + 1 == spoken.size() ? " and " : ", ";
        text += spoken[i];
    }
    return text;
}

}  // namespace

std::string diff_sentence(const DiffReport& report) {
    const sim::Difference& difference = report.difference;
    const double all = to_seconds(difference.step_b - difference.step_a);
    if (all == 0) return "A and B take the same time.";
    const double sign = all > 0 ? 1 : -1;
    const double size = std::abs(all);
    std::string text =
        fmt::format("B takes {} ({}) {} than A: {}", seconds_text(size),
                    percent_text(size / to_seconds(difference.step_a)), all > 0 ? "longer" : "less",
                    changes_text(changes_of(difference, sign), size));
    const std::vector<Change> against = changes_of(difference, -sign);
    if (!against.empty() && std::abs(against[0].seconds) > 0.1 * size)
        text += fmt::format(", against {}", changes_text(against, size));
    const double rate_a = report.a.prediction.throughput.tokens_per_s;
    const double rate_b = report.b.prediction.throughput.tokens_per_s;
    if (report.a.prediction.conserved.tokens_per_step ==
        report.b.prediction.conserved.tokens_per_step)
        return text + ".";
    text += ". Its steps are of other size: it trains ";
    if (rate_b >= kInMultiples * rate_a)
        return text +
               fmt::format("{} times as many tokens per second.", digits_text(rate_b / rate_a));
    return text + fmt::format("{} {} tokens per second.",
                              percent_text(std::abs(rate_b - rate_a) / rate_a),
                              rate_b > rate_a ? "more" : "fewer");
}

std::string diff_text(const DiffReport& report, const Console& console) {
    // Not wrapped: they are there to be copied.
    return fmt::format("  {:<12}{}\n{}  {:<12}{}\n{}\n  ", "A", report.a.arguments.arguments(),
                       imported_text(report.a.resolved_json), "B", report.b.arguments.arguments(),
                       imported_text(report.b.resolved_json)) +
           console.bold(wrapped(diff_sentence(report), kReportColumns, 2, 2)) + "\n\n" +
           sides_text(report) + models_text(report, console) + keys_text(report, console) +
           accounts_table(report, console) + busy_table(report, console) +
           ops_table(report, console) + stages_table(report, console) +
           memory_table(report, console);
}

}  // namespace orrery::cli
