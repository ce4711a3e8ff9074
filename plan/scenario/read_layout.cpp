#include <fmt/format.h>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/schedule_file.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;  // so that a product of all degrees fits 64 bits
constexpr std::int64_t kMostPipeline = 4096;  // each pipeline rank knows its way to each other
constexpr std::int64_t kMostContext = 1024;
constexpr std::int64_t kMostChunks = 10'000;

void read_data_parallel(Reading& reading, Section& section, Layout& layout, bool& automatic) {
    const Json* value = section.find("data_parallel");
    automatic = value == nullptr || *value == "auto";
    reading.remember("layout.data_parallel", section.pointer("data_parallel"), "\"auto\"");
    if (automatic) {
        section.known("data_parallel");
    } else if (value->is_number()) {
        section.integer("data_parallel", layout.data_parallel, {1, kMostRanks});
    } else {
        section.known("data_parallel");
        section.wrong_type("data_parallel", "a whole number or \"auto\"");
    }
}

bool is_count(const Json& value) {
    return value.is_number_integer() && value >= 0 && value <= kLargestCount;
}

void read_layers(Reading& reading, Section& section, Layout& layout, bool& even) {
    section.known("layers_per_stage");
    reading.remember("layout.layers_per_stage", section.pointer("layers_per_stage"), "\"even\"");
    const Json* value = section.find("layers_per_stage");
    even = value == nullptr || *value == "even";
    if (even) return;
    if (!value->is_array()) {
        section.wrong_type("layers_per_stage", "\"even\" or an array of counts")
            .help.push_back(
                "an array has one count for each stage, pipeline_parallel × virtual_pipeline of "
                "them");
        return;
    }
    for (std::size_t i = 0; i < value->size(); ++i) {
        const Json& count = (*value)[i];
        if (is_count(count)) {
            layout.layers_per_stage.push_back(count.get<std::int64_t>());
            continue;
        }
        reading.mark_bad(section.pointer("layers_per_stage"));
        reading.report("S006", section.pointer("layers_per_stage") + '/' + std::to_string(i),
                       "a stage holds a whole number of layers");
    }
}

// Keys of the format whose techniques are not built yet: any value but the neutral one is refused,
// never passed over.
void read_unsupported(Reading& reading, Section& section, Layout& layout) {
    const auto only_one = [&](const char* key, std::int64_t& out) {
        if (!section.integer(key, out, {1, kMostRanks}) || out == 1) return;
        reading.report("S020", section.pointer(key), fmt::format("{} is not supported yet", key))
            .help.push_back("leave it at 1");
    };
    only_one("expert_parallel", layout.expert_parallel);
}

constexpr std::int64_t kStalest = 64;  // as many copies of parameters and gradients, and one

void read_staleness(Reading& reading, Section& section, Layout& layout) {
    section.choice<DataParallelMode>("data_parallel_mode", layout.data_parallel_mode,
                                     {{"synchronous", DataParallelMode::synchronous},
                                      {"parameter_server", DataParallelMode::parameter_server}});
    if (layout.data_parallel_mode == DataParallelMode::parameter_server) {
        layout.staleness = 1;
        section.integer("staleness", layout.staleness, {0, kStalest});
        return;
    }
    section.known("staleness");
    if (section.find("staleness") == nullptr || !reading.good({"layout.data_parallel_mode"}))
        return;
    reading.mark_bad(section.pointer("staleness"));
    reading
        .report("S048", section.pointer("staleness"),
                "synchronous steps are computed with every update of those before")
        .help.push_back("leave staleness out, or \"data_parallel_mode\": \"parameter_server\"");
}

void read_zero(Reading& reading, Section& section, Layout& layout) {
    std::int64_t stage = layout.zero_stage;
    section.integer("zero_stage", stage, {0, 3});
    layout.zero_stage = static_cast<int>(stage);
    section.boolean("reshard_after_forward", layout.reshard_after_forward);
    const Json* group = section.find("zero_group_size");
    if (group != nullptr && group->is_number()) {
        section.integer("zero_group_size", layout.zero_group_size, {1, kMostRanks});
        return;
    }
    section.known("zero_group_size");
    reading.remember("layout.zero_group_size", section.pointer("zero_group_size"), "\"all\"");
    if (group != nullptr && *group != "all")
        section.wrong_type("zero_group_size", "a whole number or \"all\"");
}

}  // namespace

void read_layout(Reading& reading, Layout& layout, LayoutChoices& choices) {
    Section section(reading, "/layout", "layout");
    if (!section.exists()) return;
    section.integer("tensor_parallel", layout.tensor_parallel, {1, kMostRanks});
    section.integer("pipeline_parallel", layout.pipeline_parallel, {1, kMostPipeline});
    section.integer("context_parallel", layout.context_parallel, {1, kMostContext});
    section.choice<ContextAlgorithm>("context_algorithm", layout.context_algorithm,
                                     {{"ring", ContextAlgorithm::ring},
                                      {"all_gather", ContextAlgorithm::all_gather},
                                      {"all_to_all", ContextAlgorithm::all_to_all}});
    read_unsupported(reading, section, layout);
    read_data_parallel(reading, section, layout, choices.data_parallel_auto);
    section.integer("virtual_pipeline", layout.virtual_pipeline, {1, kMostChunks});
    read_schedule(reading, section, layout);
    read_layers(reading, section, layout, choices.layers_even);
    section.boolean("sequence_parallel", layout.sequence_parallel);
    read_zero(reading, section, layout);
    read_recompute(reading, section, layout);
    section.boolean("optimizer_post_validation", layout.optimizer_post_validation);
    read_staleness(reading, section, layout);
    section.known("offload");
    section.choice<ActivationStash>("activation_stash", layout.activation_stash,
                                    {{"same", ActivationStash::same},
                                     {"bf16", ActivationStash::bf16},
                                     {"fp8", ActivationStash::fp8}});
    section.integer("micro_batch_size", layout.micro_batch_size);
    section.integer("global_batch_size", layout.global_batch_size, {}, Presence::required);
    section.finish();
    read_offload(reading, layout.offload);
}

}  // namespace orrery::plan
