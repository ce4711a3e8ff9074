#include <algorithm>
#include <string>

#include "plan/memory/arena.hpp"
#include "plan/passes/pass_table.hpp"

namespace orrery::plan {
namespace {

class QuantizeBlock : public BlockWriter {
  public:
    explicit QuantizeBlock(const ForwardBlock& layer) : layer_(layer) {
        block_.name = block_name(layer.block.name, "quantize");
    }

    std::optional<Block> run() {
        if (layer_.fp8.recipe == Fp8Recipe::delayed) update_scales();
        if (layer_.fp8.weights_per_step)
            for (const auto& [index, product] : layer_.eight_bit)
                cast_weight(layer_.block.ops[index].label, product);
        if (block_.ops.empty()) return std::nullopt;
        return std::move(block_);
    }

    TensorId add(Tensor tensor) override {
        for (std::size_t i = 0; i < block_.tensors.size(); ++i)
            if (block_.tensors[i] == tensor) return static_cast<TensorId>(i);
        block_.tensors.push_back(std::move(tensor));
        return static_cast<TensorId>(block_.tensors.size() - 1);
    }

    Op& emit(OpSpec spec, std::string label, std::vector<TensorId> reads,
             std::vector<TensorId> writes) override {
        Op op;
        op.spec = std::move(spec);
        op.label = std::move(label);
        op.dtype = block_.tensors[static_cast<std::size_t>(writes.front())].dtype;
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        block_.ops.push_back(std::move(op));
        return block_.ops.back();
    }

  private:
    // Of all that the layer casts; of gradients that are gathered, before they are.
    void update_scales() {
        std::vector<TensorId> histories, amaxes;
        std::int64_t count = 0;
        const auto keep = [&](const std::string& name, std::int64_t matrices) {
            const auto [history, amax] = delayed_scale(name, matrices);
            const TensorId id = add(history);
            if (std::find(histories.begin(), histories.end(), id) != histories.end()) return;
            histories.push_back(id);
            amaxes.push_back(add(amax));
            count += matrices;
        };
        for (const auto& [index, product] : layer_.eight_bit)
            for (const char* of : {".x", ".w", ".dy"})
                keep(layer_.block.ops[index].label + of, product.counted.matrices());
        for (const Op& op : layer_.block.ops)
            if (op.is<ReduceScatter>()) keep(op.label + ".dy", 1);
        histories.insert(histories.end(), amaxes.begin(), amaxes.end());
        emit(UpdateScales{count * kAmaxHistory}, "scales", histories, histories);
    }

    void cast_weight(const std::string& label, const EightBitProduct& product) {
        const Fp8& fp8 = layer_.fp8;
        const Tensor& held = layer_.block.tensors[static_cast<std::size_t>(product.weight)];
        Casting casting{held.name, label + ".w", held.dims[0], held.dims[1]};
        casting.weight = true;
        casting.weights = product.counted.matrices();
        casting.copies = both_ways(fp8);
        casting.role = Role::quantized;
        if (!fp8.parameters) {
            quantize(*this, fp8, casting, add(held));
            return;
        }
        casting.held = add(held);
        if (fp8.casts_gathered()) {
            // Gathered in 16 bits to where gradients will lie.
            Tensor gathered = held;
            gathered.role = Role::gradient;
            gathered.dtype = DType::bf16;
            quantize(*this, fp8, casting, add(std::move(gathered)));
            return;
        }
        // The optimizer has cast it by rows.
        const Copies copies = declare_copies(*this, fp8, casting);
        std::vector<TensorId> reads = {casting.held, copies.rows.scales};
        std::vector<TensorId> writes = {copies.columns.scales};
        if (copies.columns.data != casting.held) {
            writes.insert(writes.begin(), copies.columns.data);
            emit(Transpose{casting.rows, casting.width, casting.weights}, held.name + ".qt",
                 std::move(reads), std::move(writes))
                .dtype = held.dtype;
        } else {
            emit(Cast{1}, held.name + ".s", {copies.rows.scales}, std::move(writes));
        }
    }

    const ForwardBlock& layer_;
    Block block_;
};

}  // namespace

std::optional<Block> quantize_block(const ForwardBlock& layer) {
    return QuantizeBlock(layer).run();
}

void insert_quantizing(ProgramBuilder& builder, ActionUses& action) {
    if (!action.first) return;
    std::vector<BlockUse> all;
    for (const BlockUse& use : action.uses) {
        if (use.position >= 0) {
            const StagePart& part = action.stage.parts[static_cast<std::size_t>(use.position)];
            if (part.quantize >= 0 && part.forward == use.block) {
                BlockUse before = use;
                before.block = part.quantize;
                before.slots.clear();
                // Where the layer finds its parameters.
                const auto& tensors = builder.blocks.block(use.block).tensors;
                for (std::size_t t = 0; t < use.slots.size(); ++t)
                    if (tensors[t].role == Role::parameter && use.slots[t].resident >= 0)
                        builder.place_of_bucket(before, Role::parameter,
                                                builder.bucket_of(use, tensors[t]),
                                                use.slots[t].resident);
                all.push_back(before);
            }
        }
        all.push_back(use);
    }
    action.uses = std::move(all);
}

namespace {

// What the parts of the program note, and where.
class Noted {
  public:
    explicit Noted(const ProgramBuilder& builder) : builder_(builder) {
        for (const Stage& stage : builder.program.stages)
            for (std::size_t position = 0; position < stage.parts.size(); ++position)
                if (stage.parts[position].quantize >= 0)
                    add(builder.blocks.block(stage.parts[position].quantize),
                        builder.areas_of(stage.index).parts[position].quantized);
    }

    std::vector<Tensor> tensors;
    std::vector<Slot> slots;
    std::int64_t count = 0;

  private:
    // The second half of what the update reads.
    void add(const Block& block, std::int64_t area) {
        std::vector<std::int64_t> offsets;
        for (const Tensor& tensor : block.tensors) {
            offsets.push_back(area);
            if (tensor.role == Role::quantized) area += aligned(tensor.bytes());
        }
        for (const Op& op : block.ops) {
            if (!op.is<UpdateScales>()) continue;
            for (std::size_t i = op.reads.size() / 2; i < op.reads.size(); ++i) {
                const auto id = static_cast<std::size_t>(op.reads[i]);
                tensors.push_back(block.tensors[id]);
                tensors.back().role = Role::target;  // placed here, not by its part
                slots.push_back({Frame::resident, builder_.program.quantized, 0, offsets[id]});
                count += block.tensors[id].elements();
            }
        }
    }

    const ProgramBuilder& builder_;
};

}  // namespace

void add_amaxes(ProgramBuilder& builder, std::vector<BlockUse>& optimizer) {
    std::vector<GroupKind> groups = {GroupKind::tensor,
                                     builder.hybrid() ? GroupKind::shard : GroupKind::data};
    if (builder.hybrid()) groups.push_back(GroupKind::replica);
    std::erase_if(groups, [&](GroupKind group) { return builder.mesh.group_size(group) == 1; });
    Noted noted(builder);
    if (groups.empty() || noted.count == 0) return;
    Block block;
    block.name = "quantize.amaxes";
    block.tensors = {{"amaxes", Role::scratch, DType::fp32, {noted.count}}};
    std::vector<TensorId> own;
    for (Tensor& tensor : noted.tensors) {
        own.push_back(static_cast<TensorId>(block.tensors.size()));
        block.tensors.push_back(std::move(tensor));
    }
    const auto copy = [&](OpSpec spec, std::vector<TensorId> reads, std::vector<TensorId> writes) {
        Op op;
        op.spec = std::move(spec);
        op.phase = Phase::optimizer;
        op.dtype = DType::fp32;
        op.reads = std::move(reads);
        op.writes = std::move(writes);
        op.label = "amaxes";
        block.ops.push_back(std::move(op));
    };
    copy(CollectAmaxes{noted.count}, own, {0});
    for (const GroupKind group : groups) {
        Op largest = collective_op(block, OpKind::all_reduce, Phase::optimizer,
                                   statistics_stream(group), group, noted.count, "amaxes", 0, 0);
        largest.as<AllReduce>().reduce = ReduceOp::max;
        block.ops.push_back(std::move(largest));
    }
    copy(SpreadAmaxes{noted.count}, {0}, own);
    BlockUse use;
    use.block = builder.blocks.add(std::move(block));
    use.slots = std::move(noted.slots);
    use.slots.insert(use.slots.begin(), Slot{});
    optimizer.push_back(use);
}

}  // namespace orrery::plan
