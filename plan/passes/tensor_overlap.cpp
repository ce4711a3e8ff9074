#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plan/passes/passes.hpp"

namespace orrery::plan {

void serialise_tensor_communication(Block& block) {
    std::int32_t last_compute = -1;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        Op& op = block.ops[i];
        if (op.stream == Stream::compute) last_compute = static_cast<std::int32_t>(i);
        if (op.stream == Stream::tensor_comm && last_compute >= 0) op.after.push_back(last_compute);
    }
}

namespace {

bool reads(const Op& op, TensorId id) {
    return std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end();
}
bool writes(const Op& op, TensorId id) {
    return std::find(op.writes.begin(), op.writes.end(), id) != op.writes.end();
}

// Rewrites a block op by op. What a part of an op gathers or sums is a tensor of its own.
class Splitting {
  public:
    Splitting(Block& block, std::int32_t parts) : block_(block), parts_(parts) {}

    void run() {
        for (std::size_t i = 0; i < block_.ops.size(); ++i)
            mark(block_.ops[i]);
        if (pieces_.empty()) return;
        std::vector<Op> ops;
        std::vector<std::int32_t> last;  // part, by number of the whole op
        for (const Op& op : std::exchange(block_.ops, {})) {
            const std::size_t first = ops.size();
            emit(op, ops);
            for (std::size_t i = first; i < ops.size(); ++i)
                for (std::int32_t& earlier : ops[i].after)
                    earlier = last[static_cast<std::size_t>(earlier)];
            last.push_back(static_cast<std::int32_t>(ops.size()) - 1);
        }
        block_.ops = std::move(ops);
        drop_wholes();
    }

  private:
    // A tensor in pieces: all that is gathered for products and nothing else, or made by one
    // product to be summed and for nothing else.
    void mark(const Op& op) {
        if (op.group != GroupKind::tensor) return;
        if (op.is<AllGather>() && op.writes.size() == 1) {
            const TensorId whole = op.writes[0];
            const bool products =
                std::all_of(block_.ops.begin(), block_.ops.end(), [&](const Op& other) {
                    return !reads(other, whole) || (other.is<Gemm>() && other.reads[0] == whole);
                });
            if (products) divide(whole);
        } else if (op.is<ReduceScatter>()) {
            const TensorId partial = op.reads[0];
            const bool made =
                std::all_of(block_.ops.begin(), block_.ops.end(), [&](const Op& other) {
                    return (!writes(other, partial) || other.is<Gemm>()) &&
                           (!reads(other, partial) || &other == &op);
                });
            if (made) divide(partial);
        }
    }

    void divide(TensorId whole) {
        if (pieces_.count(whole) > 0) return;
        const Tensor tensor = block_.tensors[static_cast<std::size_t>(whole)];
        if (tensor.role != Role::scratch) return;
        for (std::int32_t part = 0; part < parts_; ++part) {
            Tensor piece = tensor;
            piece.name += "_" + std::to_string(part);
            piece.dims[0] /= parts_;
            pieces_[whole].push_back(static_cast<TensorId>(block_.tensors.size()));
            block_.tensors.push_back(std::move(piece));
        }
    }

    void emit(const Op& op, std::vector<Op>& ops) const {
        const auto divided = [this](TensorId id) { return pieces_.count(id) > 0; };
        if (std::none_of(op.reads.begin(), op.reads.end(), divided) &&
            std::none_of(op.writes.begin(), op.writes.end(), divided)) {
            ops.push_back(op);
            return;
        }
        for (std::int32_t part = 0; part < parts_; ++part) {
            Op piece = op;
            piece.part = part;
            piece.parts = parts_;
            if (piece.is<Gemm>())
                piece.as<Gemm>().rows() /= parts_;
            else
                set_sizes(piece.spec, {piece.size(0) / parts_});
            for (auto* ids : {&piece.reads, &piece.writes})
                for (TensorId& id : *ids)
                    if (const auto found = pieces_.find(id); found != pieces_.end())
                        id = found->second[static_cast<std::size_t>(part)];
            ops.push_back(std::move(piece));
        }
    }

    // Nothing mentions them any more.
    void drop_wholes() {
        std::vector<TensorId> moved;
        std::vector<Tensor> tensors;
        for (std::size_t id = 0; id < block_.tensors.size(); ++id) {
            moved.push_back(static_cast<TensorId>(tensors.size()));
            if (pieces_.count(static_cast<TensorId>(id)) == 0)
                tensors.push_back(std::move(block_.tensors[id]));
        }
        block_.tensors = std::move(tensors);
        auto move = [&](TensorId& id) {
            if (id >= 0) id = moved[static_cast<std::size_t>(id)];
        };
        move(block_.input);
        move(block_.output);
        for (DeclaredParameter& declared : block_.parameters)
            move(declared.tensor);
        for (Op& op : block_.ops)
            for (auto* ids : {&op.reads, &op.writes})
                std::for_each(ids->begin(), ids->end(), move);
    }

    Block& block_;
    std::int32_t parts_;
    std::map<TensorId, std::vector<TensorId>> pieces_;
};

}  // namespace

void split_tensor_communication(Block& block, std::int64_t parts) {
    Splitting(block, static_cast<std::int32_t>(parts)).run();
}

}  // namespace orrery::plan
