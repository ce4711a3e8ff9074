#include "plan/scenario/import/torchtitan_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "plan/scenario/arithmetic.hpp"

namespace orrery::plan::imports {
namespace {

using Count = std::optional<std::int64_t>;

constexpr std::int64_t kMostStages = 10'000;

struct Schedule {
    const char* theirs;  // in PyTorch's spelling
    const char* ours;
    std::int64_t chunks;  // of a rank, where the config does not say
};

constexpr Schedule kSchedules[] = {{"1F1B", "1f1b", 1},
                                   {"GPipe", "gpipe", 1},
                                   {"Interleaved1F1B", "interleaved", 2},
                                   {"ZBVZeroBubble", "zb-v", 2},
                                   {"DualPipeV", "dualpipe-v", 2}};

constexpr const char* kKeys[] = {"pipeline_parallel_schedule",
                                 "pipeline_parallel_schedule_csv",
                                 "pipeline_parallel_layers_per_stage",
                                 "pipeline_parallel_split_points",
                                 "pipeline_parallel_microbatch_size",
                                 "pipeline_parallel_microbatches",
                                 "pipeline_parallel_first_stage_less_layers",
                                 "pipeline_parallel_last_stage_less_layers"};

// The numbers of "layers.12", ascending; empty where a point is something else.
std::vector<std::int64_t> layer_numbers(const Json& points) {
    std::vector<std::string> words;
    if (points.is_array()) {
        for (const Json& point : points)
            words.push_back(point.is_string() ? point.get<std::string>() : "");
    } else if (points.is_string()) {
        const std::string text = points.get<std::string>();
        for (std::size_t from = 0; from < text.size();) {
            const std::size_t comma = std::min(text.find(',', from), text.size());
            words.push_back(text.substr(from, comma - from));
            from = comma + 1;
        }
    }
    std::vector<std::int64_t> out;
    for (const std::string& word : words) {
        const std::size_t dot = word.find('.');
        if (word.substr(0, dot) != "layers" || dot == std::string::npos) return {};
        std::int64_t layer = 0;
        const char* end = word.data() + word.size();
        const auto [at, error] = std::from_chars(word.data() + dot + 1, end, layer);
        if (error != std::errc{} || at != end) return {};
        out.push_back(layer);
    }
    return out;
}

void map_split_points(Sheet& sheet, const char* key, std::int64_t ranks, std::int64_t layers) {
    std::vector<std::int64_t> points = layer_numbers(sheet.find({key})->value);
    const auto stages = static_cast<std::int64_t>(points.size()) + 1;
    points.push_back(layers);
    if (!std::is_sorted(points.begin(), points.end()) || stages % ranks != 0) {
        sheet.report("I004", key, "the split points do not make equal numbers of stages per rank")
            .arithmetic =
            fmt::format("stages / ranks = {} / {} = {}", stages, ranks, quotient(stages, ranks));
        return;
    }
    std::vector<std::int64_t> counts;
    std::int64_t before = 0;
    for (const std::int64_t point : points) {
        counts.push_back(point - before);
        before = point;
    }
    if (stages > ranks) sheet.put("layout.virtual_pipeline", stages / ranks, key);
    sheet.put("layout.layers_per_stage", counts, key);
}

void map_even_stages(Sheet& sheet, const std::string& part, const Schedule& schedule,
                     std::int64_t ranks, std::int64_t layers) {
    const auto key = [&](const char* name) { return part + name; };
    const std::string each_key = key("pipeline_parallel_layers_per_stage");
    const std::string first_key = key("pipeline_parallel_first_stage_less_layers");
    const std::string last_key = key("pipeline_parallel_last_stage_less_layers");
    const Count each = sheet.whole({each_key.c_str()});
    const std::int64_t first = sheet.whole({first_key.c_str()}).value_or(1);
    const std::int64_t last = sheet.whole({last_key.c_str()}).value_or(1);
    const std::int64_t counted = layers + first + last;
    const bool of_size = each && *each > 0;
    const std::int64_t stages = of_size ? (counted + *each - 1) / *each : ranks * schedule.chunks;
    const std::int64_t chunks = stages / ranks;
    std::vector<std::int64_t> counts;
    if (stages % ranks == 0 && chunks >= 1 && stages <= kMostStages &&
        (schedule.chunks == 1) == (chunks == 1))
        counts = torchtitan_stages(layers, first, last, stages);
    if (counts.empty()) {
        Diagnostic& fault =
            sheet.report("I004", of_size ? each_key : key("pipeline_parallel_degree"),
                         "the layers do not make stages for this schedule");
        fault.arithmetic = fmt::format(
            "{} layers, {} and {} for embedding and head, {} stages on {} ranks, schedule {}",
            layers, first, last, stages, ranks, schedule.theirs);
        return;
    }
    sheet.put_usual("layout.virtual_pipeline", chunks, each_key);
    sheet.put_usual("layout.layers_per_stage", counts, each_key,
                    "embedding and head count as layers");
}

const Schedule* map_schedule(Sheet& sheet, const std::string& part) {
    const std::string key = part + "pipeline_parallel_schedule";
    const std::string csv = part + "pipeline_parallel_schedule_csv";
    const auto file = sheet.text({csv.c_str()});
    const auto name = sheet.text({key.c_str()});
    if (file && !file->empty()) {
        sheet.put("layout.schedule", *file, csv);
        sheet.ignore(key, "the schedule is a file");
        return nullptr;
    }
    const std::string wanted = name.value_or("1F1B");
    const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
    for (const Schedule& schedule : kSchedules) {
        const std::string_view theirs = schedule.theirs;
        if (!std::equal(theirs.begin(), theirs.end(), wanted.begin(), wanted.end(), same)) continue;
        if (name)
            sheet.put("layout.schedule", schedule.ours, key);
        else
            sheet.put_usual("layout.schedule", schedule.ours, key);
        return &schedule;
    }
    sheet.refuse(key, "1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble and DualPipeV are known");
    return nullptr;
}

}  // namespace

std::vector<std::int64_t> torchtitan_stages(std::int64_t layers, std::int64_t first,
                                            std::int64_t last, std::int64_t stages) {
    const std::int64_t counted = layers + first + last;
    if (stages < 1 || counted / stages < first || counted / stages < last) return {};
    std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), counted / stages);
    for (std::int64_t i = 0; i < counted % stages; ++i)
        ++counts[static_cast<std::size_t>(i)];
    counts.front() -= first;
    counts.back() -= last;
    return counts;
}

const char* torchtitan_schedule(std::string_view ours) {
    for (const Schedule& schedule : kSchedules)
        if (ours == schedule.ours) return schedule.theirs;
    return kSchedules[0].theirs;
}

Count map_torchtitan_pipeline(Sheet& sheet, std::int64_t ranks, Count layers, std::int64_t local) {
    const std::string part =
        sheet.has("experimental.pipeline_parallel_degree") ? "experimental." : "parallelism.";
    if (ranks == 1) {
        for (const char* key : kKeys)
            sheet.ignore(part + key, "without a pipeline it changes nothing");
        return local;
    }
    const Schedule* schedule = map_schedule(sheet, part);
    const std::string points = part + "pipeline_parallel_split_points";
    const Setting* split = sheet.find({points.c_str()});
    if (!layers)
        sheet.miss("layout.layers_per_stage", "the layers of the model are not known here",
                   "\"even\"");
    else if (split != nullptr && !split->value.empty() && split->value != "")
        map_split_points(sheet, points.c_str(), ranks, *layers);
    else if (schedule != nullptr)
        map_even_stages(sheet, part, *schedule, ranks, *layers);
    const std::string count_key = part + "pipeline_parallel_microbatches";
    const std::string size_key = part + "pipeline_parallel_microbatch_size";
    const Count count = sheet.whole({count_key.c_str()});
    const Count size = sheet.whole({size_key.c_str()});
    if (!count) return size.value_or(1);
    if (*count > 0 && local % *count == 0) return local / *count;
    sheet.report("I004", count_key, "the batch of a rank does not split into so many micro-batches")
        .arithmetic = fmt::format("batch / micro-batches = {} / {}", local, *count);
    return std::nullopt;
}

}  // namespace orrery::plan::imports
