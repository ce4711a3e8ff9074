#include "plan/assemble/stages.hpp"

#include <algorithm>
#include <tuple>

#include "plan/check.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::plan {
namespace {

// Bytes that a tensor takes at the start of its area, where it is there.
std::int64_t leading_bytes(const Block& block, TensorId id, Role role) {
    if (id < 0 || block.tensors[static_cast<std::size_t>(id)].role != role) return 0;
    ORRERY_CHECK(stash_area(block, role).offsets[static_cast<std::size_t>(id)] == 0,
                 "what is handed in lies first in its area");
    return aligned(block.tensors[static_cast<std::size_t>(id)].bytes());
}

void add_halves(BlockLibrary& blocks, PartKind& kind, BackwardHalves halves) {
    if (halves.weight) {
        kind.deferred_bytes = stash_area(*halves.weight, Role::deferred).bytes;
        kind.handed_bytes = leading_bytes(halves.input, halves.input.input, Role::deferred);
        kind.backward_weight = blocks.add(std::move(*halves.weight));
    }
    const std::int32_t input = blocks.add(std::move(halves.input));
    if (kind.backward < 0)
        kind.backward = input;
    else if (kind.backward != input)
        kind.backward_input = input;
}

// With the block that runs again, and where what a group makes again lies.
PartKind add_blocks(BlockLibrary& blocks, PartBlocks part) {
    BlockPair& pair = part.pair;
    PartKind kind;
    kind.stash_bytes = stash_area(pair.forward).bytes;
    kind.kept_bytes = stash_area(pair.forward, Role::kept).bytes;
    kind.input_bytes = leading_bytes(pair.forward, pair.forward.input, Role::stash);
    kind.parameters = pair.parameters;
    kind.eight_bit = pair.eight_bit;
    kind.replicated = pair.replicated;
    kind.partial = pair.partial;
    kind.frozen = pair.frozen;
    kind.frozen_replicated = pair.frozen_replicated;
    kind.frozen_experts = pair.frozen_experts;
    kind.experts = pair.experts;
    kind.eight_bit_experts = pair.eight_bit_experts;
    kind.forward = blocks.add(std::move(pair.forward));
    if (part.whole) kind.backward = blocks.add(std::move(pair.backward));
    if (part.halves) add_halves(blocks, kind, std::move(*part.halves));
    if (is_grouped(part.place)) {
        const Block& holder = part.recompute ? *part.recompute : blocks.block(kind.backward);
        kind.recomputed_bytes = stash_area(holder, Role::recomputed).bytes;
    }
    if (part.recompute) kind.recompute = blocks.add(std::move(*part.recompute));
    return kind;
}

PartKind make_part(const PlanInput& input, const ChosenPasses& passes, ForwardBlock forward,
                   PartPlace place, BlockLibrary& blocks) {
    PartBlocks part = passes.derive(input, std::move(forward), place);
    passes.run<OverPart>(input, part);
    return add_blocks(blocks, std::move(part));
}

// The kinds of layer that differ in what they compute on sequences of this length.
struct DistinctLayers {
    std::vector<LayerSpec> layers;
    std::vector<std::size_t> of_layer;
};

DistinctLayers distinct_layers(const Scenario& scenario) {
    const Model& model = scenario.model;
    DistinctLayers distinct;
    std::vector<std::size_t> of_kind;
    std::vector<LayerSpec> unnamed;
    for (const LayerSpec& kind : model.kinds) {
        LayerSpec effective = kind;
        SoftmaxAttention& attention = effective.attention();
        if (attention.window >= scenario.training.sequence_length) attention.window = 0;
        effective.name.clear();
        const auto found = std::find(unnamed.begin(), unnamed.end(), effective);
        of_kind.push_back(static_cast<std::size_t>(found - unnamed.begin()));
        if (found != unnamed.end()) continue;
        unnamed.push_back(effective);
        distinct.layers.push_back(kind);
    }
    if (distinct.layers.size() == 1) distinct.layers.front().name.clear();
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        distinct.of_layer.push_back(of_kind[model.kind_of(layer)]);
    return distinct;
}

// All parts that one kind of layer may be needed as, in groups of so many.
LayerParts layer_parts(const PlanInput& input, const ChosenPasses& passes, ForwardBlock layer,
                       std::int64_t group, BlockLibrary& blocks) {
    passes.run<OverForward>(input, layer);
    const auto make = [&](PartPlace place) {
        return make_part(input, passes, layer, place, blocks);
    };
    LayerParts parts;
    if (group > 1) parts.first = make(PartPlace::group_first);
    if (group > 2) parts.middle = make(PartPlace::group_middle);
    if (group > 1) parts.last = make(PartPlace::group_last);
    parts.alone = make(PartPlace::layer);
    if (input.scenario.layout.recompute == Recompute::selective_layer)
        parts.chosen = make(PartPlace::chosen);
    std::optional<Block> quantize = quantize_block(layer);
    if (!quantize) return parts;
    const std::int64_t bytes = stash_area(*quantize, Role::quantized).bytes;
    const std::int32_t block = blocks.add(std::move(*quantize));
    for (PartKind* kind : {&parts.alone, &parts.chosen, &parts.first, &parts.middle, &parts.last}) {
        kind->quantize = block;
        kind->quantized_bytes = bytes;
    }
    return parts;
}

}  // namespace

std::int64_t largest_group(const Layout& layout) {
    std::int64_t largest = 1;
    for (std::int64_t layers : layout.layers_per_stage)
        largest = std::max(largest, std::min(layers, layers_per_group(layout, layers)));
    return largest;
}

PartKinds build_parts(const PlanInput& input, const ChosenPasses& passes,
                      const StagePlacement& placement, BlockLibrary& blocks) {
    const Scenario& scenario = input.scenario;
    const Dims& dims = input.dims;
    const auto add = [&](ForwardBlock forward, PartPlace place = PartPlace::end) {
        return make_part(input, passes, std::move(forward), place, blocks);
    };
    const Model& model = scenario.model;
    PartKinds kinds;
    const bool shared = placement.pieces() > 0;
    const std::int32_t first = placement.rank_of(0);
    const std::int32_t last = placement.rank_of(placement.stages() - 1);
    // Passes over the vocabulary's pieces are whole, whatever those over layers are.
    const PlanInput ends{scenario, dims, shared ? PartForms{true, false} : input.forms,
                         input.sharding, input.of_experts};
    const auto add_end = [&](auto forward, std::int32_t at_root, PartPlace place) {
        const auto make = [&](bool is_root) {
            return make_part(ends, passes, forward(scenario, dims, PipelineRoot{at_root, is_root}),
                             place, blocks);
        };
        return std::pair(make(true), shared ? make(false) : PartKind{});
    };
    std::tie(kinds.embedding, kinds.embedding_elsewhere) =
        add_end(embedding_forward, first, PartPlace::end);
    if (model.embedding_norm) kinds.embedding_norm = add(embedding_norm_forward(scenario, dims));
    // As the first part of a stage that hands its gradient out they pass it on where it lies.
    if (model.learned_positions)
        kinds.positions =
            make_part(ends, passes, positions_forward(scenario, dims), PartPlace::end, blocks);
    const auto add_layer = [&](const LayerSpec& layer, auto forward, std::int64_t group) {
        const Dims of_layer = dims_of(scenario, layer);
        return layer_parts({scenario, of_layer, input.forms, input.sharding, input.of_experts},
                           passes, forward(scenario, of_layer, layer), group, blocks);
    };
    DistinctLayers distinct = distinct_layers(scenario);
    for (const LayerSpec& layer : distinct.layers)
        kinds.layers.push_back(add_layer(layer, layer_forward, largest_group(scenario.layout)));
    kinds.kind_of_layer = std::move(distinct.of_layer);
    kinds.final_norm = add(final_norm_forward(scenario, dims));
    if (model.mtp_layers > 0) {
        kinds.mtp_embedding = add(mtp_embedding_forward(scenario, dims));
        const LayerSpec& layer = model.kinds[model.kind_of(model.layers)];
        kinds.mtp_layer = add_layer(layer, mtp_layer_forward, 1);
    }
    std::tie(kinds.head, kinds.head_elsewhere) = add_end(head_forward, last, PartPlace::head);
    PartKind& second = model.tied_embeddings ? kinds.head : kinds.mtp_embedding;
    kinds.embedding.tied = second.tied = model.embeds_at_both_ends();
    second.held_before = second.tied && (shared || first == last);
    kinds.embedding_elsewhere.tied = kinds.head_elsewhere.tied = shared && model.tied_embeddings;
    kinds.head_elsewhere.held_before = kinds.head_elsewhere.tied;
    return kinds;
}

std::int64_t boundary_elements(const Scenario& scenario, const Dims& dims) {
    const std::int64_t elements = dims.sharded_tokens * dims.hidden;
    return scatters_transfers(scenario, dims) ? elements / dims.tensor : elements;
}

Block exchange_block(const Scenario& scenario, const Dims& dims, Stream stream) {
    Block block;
    block.name = stream == Stream::pipeline_comm ? "exchange" : "exchange.before";
    Op op;
    op.spec = Exchange{boundary_elements(scenario, dims)};
    op.group = GroupKind::pipeline;
    op.stream = stream;
    op.dtype = dims.dtype;
    op.label = "boundary";
    block.ops.push_back(op);
    return block;
}

namespace {

// Of the layer at this place of a group of this size.
const PartKind& layer_part(const LayerParts& parts, std::int32_t place, std::int32_t size) {
    if (size == 1) return parts.alone;
    if (place == 0) return parts.first;
    return place + 1 == size ? parts.last : parts.middle;
}

// A stage that grows part by part.
class StageGrowth {
  public:
    StageGrowth(ProgramBuilder& builder, std::int32_t index) : builder_(builder) {
        stage_.index = index;
    }

    void add(const PartKind& kind, std::int32_t layer) {
        const bool received = builder_.placement.receives(stage_.index) && stage_.parts.empty();
        StagePart part;
        part.forward = kind.forward;
        part.backward = kind.backward;
        part.layer = layer;
        part.recompute = kind.recompute;
        part.backward_input = kind.backward_input;
        part.backward_weight = kind.backward_weight;
        part.quantize = kind.quantize;
        stage_.parts.push_back(part);
        add_areas(kind, received);
        kinds_.push_back(kind);
    }

    // Of layers that are made again together.
    void begin_group() { recomputed_ = 0; }

    // What the stage receives it has elsewhere: backward too.
    void finish() {
        if (builder_.placement.receives_gradient(stage_.index)) {
            areas_.deferred_bytes -= kinds_.back().handed_bytes;
            areas_.parts.back().handed_bytes = kinds_.back().handed_bytes;
        }
        builder_.program.stages.push_back(std::move(stage_));
        builder_.areas.push_back(std::move(areas_));
        builder_.part_kinds.push_back(std::move(kinds_));
    }

  private:
    void add_areas(const PartKind& kind, bool received) {
        PartAreas part;
        part.stash = areas_.stash_bytes;
        part.received_bytes = received ? kind.input_bytes : 0;
        if (kind.recomputed_bytes >= 0) part.recomputed = recomputed_;
        if (kind.backward_weight >= 0) {
            part.kept = areas_.kept_bytes;
            part.deferred = areas_.deferred_bytes;
        }
        recomputed_ += std::max<std::int64_t>(0, kind.recomputed_bytes);
        builder_.recomputed_bytes = std::max(builder_.recomputed_bytes, recomputed_);
        areas_.stash_bytes += kind.stash_bytes - part.received_bytes;
        areas_.kept_bytes += kind.kept_bytes;
        areas_.deferred_bytes += kind.deferred_bytes;
        if (kind.quantize >= 0) {
            part.quantized = builder_.quantized_bytes;
            builder_.quantized_bytes += kind.quantized_bytes;
        }
        areas_.parts.push_back(part);
    }

    ProgramBuilder& builder_;
    Stage stage_;
    StageAreas areas_;
    std::vector<PartKind> kinds_;
    std::int64_t recomputed_ = 0;  // bytes of the group so far
};

// Of the embedding and of the head, each a stage of its own.
void add_pieces(ProgramBuilder& builder, const PartKinds& kinds) {
    const StagePlacement& placement = builder.placement;
    const std::int32_t rank = builder.program.pipeline_rank;
    const auto add = [&](std::int32_t index, const PartKind& kind) {
        StageGrowth stage(builder, index);
        stage.add(kind, -1);
        stage.finish();
    };
    add(placement.embedding_of(rank),
        builder.holds(0) ? kinds.embedding : kinds.embedding_elsewhere);
    add(placement.head_of(rank),
        builder.holds(placement.stages() - 1) ? kinds.head : kinds.head_elsewhere);
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
        if (builder.holds(s)) {
            StageGrowth stage(builder, s);
            const auto group = static_cast<std::int32_t>(layers_per_group(layout, layers));
            const auto chosen = [&layout](std::int32_t layer) {
                return layout.recompute == Recompute::selective_layer &&
                       (layer + 1) % layout.recompute_every == 0;
            };
            const bool shared = builder.placement.pieces() > 0;
            if (s == 0 && !shared) stage.add(kinds.embedding, -1);
            if (s == 0 && kinds.embedding_norm.forward >= 0) stage.add(kinds.embedding_norm, -1);
            if (s == 0 && kinds.positions.forward >= 0) stage.add(kinds.positions, -1);
            for (std::int32_t layer = first_layer; layer < end; ++layer) {
                const std::int32_t place = (layer - first_layer) % group;
                const std::int32_t size = std::min(group, end - layer + place);
                if (place == 0) stage.begin_group();
                const LayerParts& parts =
                    kinds.layers[kinds.kind_of_layer[static_cast<std::size_t>(layer)]];
                stage.add(chosen(layer) ? parts.chosen : layer_part(parts, place, size), layer);
            }
            if (s == stages - 1) stage.add(kinds.final_norm, -1);
            if (s == stages - 1 && kinds.mtp_embedding.forward >= 0) {
                stage.add(kinds.mtp_embedding, -1);
                stage.begin_group();
                stage.add(chosen(end) ? kinds.mtp_layer.chosen : kinds.mtp_layer.alone, end);
            }
            if (s == stages - 1 && !shared) stage.add(kinds.head, -1);
            stage.finish();
        }
        first_layer = end;
    }
    if (builder.placement.pieces() > 0) add_pieces(builder, kinds);
}

}  // namespace orrery::plan
