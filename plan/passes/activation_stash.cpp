#include "plan/passes/activation_stash.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace orrery::plan {
namespace {

constexpr std::int64_t kScaledBlock = 32;

bool touches(const Op& op, TensorId id) {
    return std::count(op.reads.begin(), op.reads.end(), id) > 0 ||
           std::count(op.writes.begin(), op.writes.end(), id) > 0;
}

// Results of kernels come first among what they write, statistics after them.
bool is_result(const Block& block, TensorId id) {
    return id == block.input || std::any_of(block.ops.begin(), block.ops.end(), [&](const Op& op) {
               return !op.writes.empty() && op.writes[0] == id;
           });
}

// Ops move up to make room for one before `place`.
void insert_op(Block& block, std::size_t place, Op op) {
    for (Op& other : block.ops)
        for (std::int32_t& earlier : other.after)
            if (earlier >= static_cast<std::int32_t>(place)) ++earlier;
    block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(place), std::move(op));
}

class StashCompression {
  public:
    StashCompression(ActivationStash stash, DType dtype)
        : packed_(stash == ActivationStash::bf16 ? DType::bf16 : DType::fp8_e4m3), dtype_(dtype) {}

    // Behind the last op that writes it; what is handed in comes first.
    void pack(Block& block) {
        const auto tensors = static_cast<TensorId>(block.tensors.size());
        for (TensorId id = 0; id < tensors; ++id) {
            const Tensor tensor = block.tensors[static_cast<std::size_t>(id)];
            if (tensor.role != Role::stash || tensor.dtype != dtype_ || !is_result(block, id))
                continue;
            names_.insert(tensor.name);
            block.tensors[static_cast<std::size_t>(id)].role =
                id == block.input ? Role::input : Role::scratch;
            Op op = cast_of(tensor, Phase::forward);
            op.reads = {id};
            op.writes = add_packed(block, tensor);
            op.dtype = packed_;
            std::size_t place = block.ops.size();
            while (place > 0 && std::count(block.ops[place - 1].writes.begin(),
                                           block.ops[place - 1].writes.end(), id) == 0)
                --place;
            insert_op(block, place, std::move(op));
        }
    }

    // Before the first op that reads it.
    void expand(Block& block) const {
        const auto tensors = static_cast<TensorId>(block.tensors.size());
        for (TensorId id = 0; id < tensors; ++id) {
            const Tensor tensor = block.tensors[static_cast<std::size_t>(id)];
            if (tensor.role != Role::stash || names_.count(tensor.name) == 0) continue;
            block.tensors[static_cast<std::size_t>(id)].role = Role::scratch;
            Op op = cast_of(tensor, Phase::backward);
            op.reads = add_packed(block, tensor);
            op.writes = {id};
            op.dtype = tensor.dtype;
            std::size_t place = 0;
            while (!touches(block.ops[place], id))
                ++place;
            insert_op(block, place, std::move(op));
        }
    }

  private:
    static Op cast_of(const Tensor& tensor, Phase phase) {
        Op op;
        op.spec = Cast{tensor.elements()};
        op.phase = phase;
        op.label = tensor.name;
        return op;
    }

    std::vector<TensorId> add_packed(Block& block, const Tensor& tensor) const {
        const auto first = static_cast<TensorId>(block.tensors.size());
        block.tensors.push_back({tensor.name + ".packed", Role::stash, packed_, tensor.dims});
        if (packed_ != DType::fp8_e4m3) return {first};
        const std::int64_t scales = (tensor.elements() + kScaledBlock - 1) / kScaledBlock;
        block.tensors.push_back({tensor.name + ".scales", Role::stash, DType::u8, {scales}});
        return {first, first + 1};
    }

    DType packed_;
    DType dtype_;
    std::set<std::string> names_;  // of tensors that are packed
};

}  // namespace

void compress_stash(const Scenario& scenario, const Dims& dims, Block& forward,
                    const std::vector<Block*>& readers) {
    StashCompression compression(scenario.layout.activation_stash, dims.dtype);
    compression.pack(forward);
    for (Block* const reader : readers)
        compression.expand(*reader);
}

void release_received(ProgramBuilder& builder) {
    Program& program = builder.program;
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        if (step.action.kind != ActionKind::forward || step.input < 0) continue;
        const auto stage =
            std::find_if(program.stages.begin(), program.stages.end(),
                         [&](const Stage& other) { return other.index == step.action.stage; });
        const Block& first = builder.blocks.block(stage->parts.front().forward);
        if (first.tensors[static_cast<std::size_t>(first.input)].role == Role::stash) continue;
        program.residents[static_cast<std::size_t>(step.input)].last_step =
            static_cast<std::int32_t>(s);
        for (Step& other : program.steps)
            if (other.received == step.input) other.received = -1;
    }
}

}  // namespace orrery::plan
