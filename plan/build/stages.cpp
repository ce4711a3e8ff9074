#include "plan/build/stages.hpp"

#include <algorithm>

#include "plan/ir/check.hpp"
#include "plan/memory/arena.hpp"
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

PartKind add_pair(BlockLibrary& blocks, BlockPair pair, bool overlap) {
    if (!overlap) serialise_tensor_communication(pair.backward);
    const StashArea area = stash_area(pair.forward);
    PartKind kind;
    kind.stash_bytes = area.bytes;
    if (pair.forward.input >= 0) {
        const auto input = static_cast<std::size_t>(pair.forward.input);
        ORRERY_CHECK(area.offsets[input] <= 0, "what is handed in lies first in the stash");
        if (area.offsets[input] == 0)
            kind.input_bytes = aligned(pair.forward.tensors[input].bytes());
    }
    kind.parameters = pair.parameters;
    kind.replicated = pair.replicated;
    kind.forward = blocks.add(std::move(pair.forward));
    kind.backward = blocks.add(std::move(pair.backward));
    return kind;
}

// Layers of the largest group of any stage.
std::int64_t largest_group(const Layout& layout) {
    std::int64_t largest = 1;
    for (std::int64_t layers : layout.layers_per_stage)
        largest = std::max(largest, std::min(layers, layers_per_group(layout, layers)));
    return largest;
}

// With the block that runs again, and where what it makes lies.
PartKind add_group_part(BlockLibrary& blocks, GroupPart part, bool overlap) {
    const StashArea area =
        stash_area(part.recompute ? *part.recompute : part.pair.backward, Role::recomputed);
    PartKind kind = add_pair(blocks, std::move(part.pair), overlap);
    kind.recomputed_bytes = area.bytes;
    if (part.recompute) kind.recompute = blocks.add(std::move(*part.recompute));
    return kind;
}

}  // namespace

PartKinds build_parts(const Scenario& scenario, const Dims& dims, BlockLibrary& blocks) {
    const Framework& framework = scenario.training.framework;
    auto add = [&](ForwardBlock forward, bool recompute_all) {
        return add_pair(blocks,
                        derive_backward(std::move(forward), dims.gradient_dtype, recompute_all),
                        framework.overlap_tensor_backward);
    };
    const Recompute recompute = scenario.layout.recompute;
    ForwardBlock layer = layer_forward(scenario, dims);
    if (recompute == Recompute::selective) recompute_attention_core(layer);
    PartKinds kinds;
    kinds.embedding = add(embedding_forward(dims), false);
    if (scenario.model.embedding_norm)
        kinds.embedding_norm = add(embedding_norm_forward(scenario, dims), false);
    if (scenario.model.learned_positions())
        kinds.positions = add(positions_forward(scenario, dims), false);
    const std::int64_t group = largest_group(scenario.layout);
    auto part = [&](GroupPlace place) {
        return add_group_part(blocks, group_part(layer, dims.gradient_dtype, place),
                              framework.overlap_tensor_backward);
    };
    if (group > 1) kinds.first_layer = part(GroupPlace::first);
    if (group > 2) kinds.middle_layer = part(GroupPlace::middle);
    if (group > 1) kinds.last_layer = part(GroupPlace::last);
    kinds.layer =
        add(std::move(layer), recompute == Recompute::full || recompute == Recompute::every_k);
    kinds.final_norm = add(final_norm_forward(scenario, dims), false);
    kinds.head = add(head_forward(scenario, dims), false);
    kinds.embedding.tied = kinds.head.tied = scenario.model.tied_embeddings;
    kinds.head.held_before = kinds.head.tied && scenario.layout.pipeline_parallel == 1;
    return kinds;
}

std::int64_t boundary_elements(const Scenario& scenario, const Dims& dims) {
    const std::int64_t elements = dims.sharded_tokens * dims.hidden;
    return scatters_transfers(scenario, dims) ? elements / dims.tensor : elements;
}

Block exchange_block(const Scenario& scenario, const Dims& dims) {
    Block block;
    block.name = "exchange";
    Op op;
    op.kind = OpKind::exchange;
    op.group = GroupKind::pipeline;
    op.stream = Stream::pipeline_comm;
    op.dtype = dims.dtype;
    op.shape[0] = boundary_elements(scenario, dims);
    op.label = "boundary";
    block.ops.push_back(op);
    return block;
}

namespace {

// Of the layer at this place of a group of this size.
const PartKind& layer_kind(const PartKinds& kinds, std::int32_t place, std::int32_t size) {
    if (size == 1) return kinds.layer;
    if (place == 0) return kinds.first_layer;
    return place + 1 == size ? kinds.last_layer : kinds.middle_layer;
}

}  // namespace

void add_stages(ProgramBuilder& builder, const PartKinds& kinds) {
    const Layout& layout = builder.scenario.layout;
    const auto stages = static_cast<std::int32_t>(layout.stages());
    std::int32_t first_layer = 0;
    for (std::int32_t s = 0; s < stages; ++s) {
        const auto layers =
            static_cast<std::int32_t>(layout.layers_per_stage[static_cast<std::size_t>(s)]);
        const std::int32_t end = first_layer + layers;
        if (builder.placement.rank_of(s) == builder.program.pipeline_rank) {
            Stage stage;
            stage.index = s;
            std::vector<PartKind> parts;
            const auto group = static_cast<std::int32_t>(layers_per_group(layout, layers));
            std::int64_t recomputed = 0;  // of the group so far
            auto add = [&](const PartKind& kind, std::int32_t layer) {
                const std::int64_t received = s > 0 && parts.empty() ? kind.input_bytes : 0;
                const std::int64_t offset = kind.recomputed_bytes < 0 ? -1 : recomputed;
                stage.parts.push_back({kind.forward, kind.backward, layer, stage.stash_bytes, -1,
                                       kind.recompute, offset});
                recomputed += std::max<std::int64_t>(0, kind.recomputed_bytes);
                builder.recomputed_bytes = std::max(builder.recomputed_bytes, recomputed);
                stage.stash_bytes += kind.stash_bytes - received;
                parts.push_back(kind);
            };
            if (s == 0) add(kinds.embedding, -1);
            if (s == 0 && kinds.embedding_norm.forward >= 0) add(kinds.embedding_norm, -1);
            if (s == 0 && kinds.positions.forward >= 0) add(kinds.positions, -1);
            for (std::int32_t layer = first_layer; layer < end; ++layer) {
                const std::int32_t place = (layer - first_layer) % group;
                const std::int32_t size = std::min(group, end - layer + place);
                if (place == 0) recomputed = 0;
                add(layer_kind(kinds, place, size), layer);
            }
            if (s == stages - 1) add(kinds.final_norm, -1);
            if (s == stages - 1) add(kinds.head, -1);
            builder.program.stages.push_back(std::move(stage));
            builder.part_kinds.push_back(std::move(parts));
        }
        first_layer = end;
    }
}

}  // namespace orrery::plan
