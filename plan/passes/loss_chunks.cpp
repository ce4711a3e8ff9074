// The loss over its tokens in parts: what a part's logits are made for follows at once, so that
// those of one part are all that ever is (the fused linear cross-entropy of Liger, Hsu et al. 2024,
// arXiv 2410.10989, section 3.2; torchtitan's chunked loss).
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/check.hpp"
#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

bool is_operand(const Op& op, TensorId id) {
    return std::count(op.reads.begin(), op.reads.end(), id) > 0 ||
           std::count(op.writes.begin(), op.writes.end(), id) > 0;
}

// Forward does nothing but receive what backward begins with.
void leave_to_backward(Block& forward) {
    forward.ops.clear();
    std::vector<bool> kept;
    for (const Tensor& tensor : forward.tensors)
        kept.push_back(tensor.role == Role::stash || tensor.role == Role::parameter);
    keep_tensors(forward, kept);
}

class LossInParts {
  public:
    LossInParts(Block& block, std::int32_t parts) : block_(block), parts_(parts) {}

    void run() {
        gather_once();
        find_range();
        divide();
        std::vector<Op> ops(block_.ops.begin(), block_.ops.begin() + begin_);
        for (Op& op : ops)
            begin_forward(op);
        for (std::int32_t part = 0; part < parts_; ++part)
            for (auto i = begin_; i < end_; ++i)
                ops.push_back(piece_of(block_.ops[static_cast<std::size_t>(i)], part));
        ops.insert(ops.end(), block_.ops.begin() + end_, block_.ops.end());
        block_.ops = std::move(ops);
        std::vector<bool> kept;
        for (std::size_t id = 0; id < block_.tensors.size(); ++id)
            kept.push_back(pieces_.count(static_cast<TensorId>(id)) == 0 && is_touched(id));
        keep_tensors(block_, kept);
    }

  private:
    static void begin_forward(Op& op) {
        if (op.phase == Phase::recompute) op.phase = Phase::forward;  // for the first time, here
    }

    bool is_touched(std::size_t id) const {
        const auto tensor = static_cast<TensorId>(id);
        return tensor == block_.input || tensor == block_.output ||
               std::any_of(block_.ops.begin(), block_.ops.end(),
                           [&](const Op& op) { return is_operand(op, tensor); });
    }

    // What was gathered for the logits serves the weight's gradient, too.
    void gather_once() {
        std::map<TensorId, TensorId> gathered;  // by what is gathered
        std::map<TensorId, TensorId> same;
        std::vector<Op> ops;
        for (Op& op : block_.ops) {
            ORRERY_CHECK(op.after.empty(), "ops of a loss are ordered by their tensors");
            for (TensorId& id : op.reads)
                if (const auto found = same.find(id); found != same.end()) id = found->second;
            if (op.is<AllGather>()) {
                const auto [first, fresh] = gathered.emplace(op.reads[0], op.writes[0]);
                if (!fresh) {
                    same[op.writes[0]] = first->second;
                    continue;
                }
            }
            ops.push_back(std::move(op));
        }
        block_.ops = std::move(ops);
    }

    // From the product that makes the logits to the one that makes the weight's gradient.
    void find_range() {
        for (std::size_t i = 0; i < block_.ops.size(); ++i) {
            if (!block_.ops[i].is<Gemm>()) continue;
            const Gemm& gemm = block_.ops[i].as<Gemm>();
            const auto at = static_cast<std::ptrdiff_t>(i);
            if (gemm.product == GemmProduct::forward) {
                begin_ = at;
                rows_ = gemm.m;
            }
            if (gemm.product == GemmProduct::weight_gradient) end_ = at + 1;
        }
        ORRERY_CHECK(begin_ < end_, "a head makes logits, and a gradient of its weight");
    }

    // Tensors that no other op touches are those of a part.
    void divide() {
        const std::size_t tensors = block_.tensors.size();
        for (std::size_t id = 0; id < tensors; ++id) {
            const Tensor whole = block_.tensors[id];
            if (whole.role != Role::scratch || !is_within(static_cast<TensorId>(id))) continue;
            for (std::int32_t part = 0; part < parts_; ++part) {
                Tensor piece = whole;
                piece.name += "_" + std::to_string(part);
                piece.dims[0] /= parts_;
                pieces_[static_cast<TensorId>(id)].push_back(
                    static_cast<TensorId>(block_.tensors.size()));
                block_.tensors.push_back(std::move(piece));
            }
        }
    }

    bool is_within(TensorId id) const {
        for (std::size_t i = 0; i < block_.ops.size(); ++i) {
            const auto at = static_cast<std::ptrdiff_t>(i);
            if ((at < begin_ || at >= end_) && is_operand(block_.ops[i], id)) return false;
        }
        return true;
    }

    Op piece_of(Op op, std::int32_t part) const {
        begin_forward(op);
        if (op.is<Gemm>())
            op.as<Gemm>().rows() /= parts_;
        else
            set_sizes(op.spec, {op.size(0) / parts_});
        for (auto* ids : {&op.reads, &op.writes})
            for (TensorId& id : *ids) {
                const auto found = pieces_.find(id);
                if (found != pieces_.end())
                    id = found->second[static_cast<std::size_t>(part)];
                else if (has_rows(id))
                    op.parts = parts_;
            }
        if (op.parts > 1) op.part = part;
        return op;
    }

    // Of the tokens, all of which the tensor holds: the op touches its part of them.
    bool has_rows(TensorId id) const {
        const Tensor& tensor = block_.tensors[static_cast<std::size_t>(id)];
        return tensor.role != Role::parameter && tensor.role != Role::gradient &&
               tensor.role != Role::scalar && tensor.dims[0] == rows_;
    }

    Block& block_;
    std::int32_t parts_;
    std::ptrdiff_t begin_ = 0, end_ = 0;
    std::int64_t rows_ = 0;
    std::map<TensorId, std::vector<TensorId>> pieces_;
};

}  // namespace

BlockPair head_in_chunks(ForwardBlock head, DType gradient_dtype, std::int64_t chunks) {
    BlockPair pair = derive_backward(std::move(head), gradient_dtype, Again::recompute_all);
    leave_to_backward(pair.forward);
    LossInParts(pair.backward, static_cast<std::int32_t>(chunks)).run();
    return pair;
}

}  // namespace orrery::plan
