#include "sim/whatif/changes.hpp"

#include <algorithm>
#include <string>

namespace orrery::sim {
namespace {

Setting number(const char* key, std::int64_t value) {
    return {key, std::to_string(value)};
}

// From little to much recomputation; groups of √L layers keep the least where layers are many.
Family recomputation(plan::Recompute now) {
    using plan::Recompute;
    Family family;
    const auto offer = [&](const char* word) { family.push_back({{{"layout.recompute", word}}}); };
    if (now == Recompute::none) offer("selective");
    if (now != Recompute::full) offer("full");
    if (now != Recompute::every_k) offer("every_k");
    return family;
}

Family zero_stages(const plan::Layout& layout) {
    Family family;
    for (std::int64_t stage = layout.zero_stage + 1;
         stage <= 3 && layout.data_parallel * layout.context_parallel > 1; ++stage)
        family.push_back({{number("layout.zero_stage", stage)}});
    return family;
}

Family smaller_micro_batches(std::int64_t now) {
    Family family;
    for (; now % 2 == 0; now /= 2)
        family.push_back({{number("layout.micro_batch_size", now / 2)}});
    return family;
}

// `degree` times 2, 4, 8: with data_parallel as it is ("auto", or idle devices), or divided.
Family more_parallel(const char* key, std::int64_t degree, const plan::Layout& layout) {
    Family family;
    for (const std::int64_t times : {2, 4, 8}) {
        const Setting more = number(key, degree * times);
        Alternatives alternatives = {{more}};
        if (layout.data_parallel % times == 0)
            alternatives.push_back(
                {more, number("layout.data_parallel", layout.data_parallel / times)});
        family.push_back(std::move(alternatives));
    }
    return family;
}

// Layers that are given stage by stage fit no other number of stages.
Family more_stages(const plan::Layout& layout) {
    Family family = more_parallel("layout.pipeline_parallel", layout.pipeline_parallel, layout);
    for (Alternatives& alternatives : family) {
        const Alternatives as_given = alternatives;
        for (std::vector<Setting> even : as_given) {
            even.push_back({"layout.layers_per_stage", "even"});
            alternatives.push_back(std::move(even));
        }
    }
    return family;
}

// 2, 4, 8, … times as many, as far as the batch has a sequence for each rank. Of use only where
// data_parallel follows, by itself or changed with them.
Family more_nodes(const plan::Scenario& scenario) {
    const plan::Layout& layout = scenario.layout;
    Family family;
    for (std::int64_t times = 2; times * layout.data_parallel <= layout.global_batch_size;
         times *= 2) {
        const Setting nodes = number("cluster.nodes", times * scenario.cluster.nodes);
        family.push_back(
            {{nodes}, {nodes, number("layout.data_parallel", times * layout.data_parallel)}});
    }
    return family;
}

// Into the node's memory: optimizer states, and with them gradients, which they are updated from.
Family offloaded_states(const plan::Offload& offload) {
    Family family;
    const Setting optimizer{"layout.offload.optimizer", "host"};
    const Setting gradients{"layout.offload.gradients", "host"};
    if (offload.optimizer == plan::KeptOn::none) {
        family.push_back({{optimizer}});
        if (offload.gradients == plan::KeptOn::none) family.push_back({{optimizer, gradients}});
    } else if (offload.gradients == plan::KeptOn::none) {
        family.push_back({{gradients}});
    }
    return family;
}

Family offloaded(const char* key, plan::KeptOn now) {
    if (now != plan::KeptOn::none) return {};
    return {{{{key, "host"}}}};
}

}  // namespace

std::vector<Family> memory_savers(const plan::Scenario& scenario) {
    const plan::Layout& layout = scenario.layout;
    std::vector<Family> families = {recomputation(layout.recompute), zero_stages(layout),
                                    smaller_micro_batches(layout.micro_batch_size)};
    if (layout.zero_stage > 0 && layout.zero_ranks() < layout.data_ranks())
        families.push_back({{{{"layout.zero_group_size", "all"}}}});
    if (!layout.reshard_after_forward)
        families.push_back({{{{"layout.reshard_after_forward", "true"}}}});
    if (layout.tensor_parallel > 1 && !layout.sequence_parallel)
        families.push_back({{{{"layout.sequence_parallel", "true"}}}});
    if (scenario.training.framework.attention_kernel != plan::AttentionKernel::flash)
        families.push_back({{{{"training.attention_kernel", "flash"}}}});
    if (layout.virtual_pipeline > 1)
        families.push_back({{{{"layout.virtual_pipeline", "1"}, {"layout.schedule", "1f1b"}}}});
    else if (layout.schedule != "1f1b")
        families.push_back({{{{"layout.schedule", "1f1b"}}}});
    families.push_back(more_parallel("layout.tensor_parallel", layout.tensor_parallel, layout));
    families.push_back(more_stages(layout));
    families.push_back(more_nodes(scenario));
    families.push_back(offloaded_states(layout.offload));
    families.push_back(offloaded("layout.offload.parameters", layout.offload.parameters));
    families.push_back(offloaded("layout.offload.activations", layout.offload.activations));
    families.erase(std::remove_if(families.begin(), families.end(),
                                  [](const Family& family) { return family.empty(); }),
                   families.end());
    return families;
}

}  // namespace orrery::sim
