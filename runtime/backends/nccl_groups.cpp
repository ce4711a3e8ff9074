#include "runtime/backends/nccl_groups.hpp"

#include <charconv>

namespace orrery::runtime {
namespace {

using plan::CtaBounds;
using plan::GroupKind;

// NCCL, too, takes no notice of what is no number.
std::int64_t number_in(const VariableLookup& environment, const char* variable) {
    const std::optional<std::string> text = environment(variable);
    std::int64_t number = 0;
    if (text) std::from_chars(text->data(), text->data() + text->size(), number);
    return number > 0 ? number : 0;
}

const CtaBounds* bounds_of(const plan::NcclGroups& groups, GroupKind group) {
    switch (group) {
        case GroupKind::tensor:
            return &groups.tensor;
        case GroupKind::context:
            return &groups.context;
        case GroupKind::expert:
            return &groups.expert;
        case GroupKind::data:
        case GroupKind::shard:
        case GroupKind::replica:
        case GroupKind::expert_data:
        case GroupKind::expert_shard:
        case GroupKind::expert_replica:
            return &groups.data;
        case GroupKind::pipeline:
        case GroupKind::embedding:
            return &groups.pipeline;
        case GroupKind::none:
        case GroupKind::model:
        case GroupKind::world:
            break;
    }
    return nullptr;
}

}  // namespace

CommunicatorOptions communicator_options(const plan::NcclSettings& nccl,
                                         const VariableLookup& environment) {
    CommunicatorOptions options;
    if (nccl.groups == plan::NcclGroups{}) return options;
    const BlockBounds common{
        nccl.min_ctas > 0 ? nccl.min_ctas : number_in(environment, "NCCL_MIN_CTAS"),
        nccl.max_ctas > 0 ? nccl.max_ctas : number_in(environment, "NCCL_MAX_CTAS")};
    for (std::size_t kind = 0; kind < plan::kGroupKinds; ++kind) {
        BlockBounds& blocks = options.blocks[kind];
        blocks = common;
        const CtaBounds* own = bounds_of(nccl.groups, static_cast<GroupKind>(kind));
        if (own == nullptr) continue;
        if (own->min > 0) blocks.min = own->min;
        if (own->max > 0) blocks.max = own->max;
    }
    return options;
}

}  // namespace orrery::runtime
