#include "plan/blocks/context_backward.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::plan {
namespace {

const Tensor& tensor_of(const Block& block, TensorId id) {
    return block.tensors[static_cast<std::size_t>(id)];
}

// The op that packed this rank's own keys.
const Op& packing(const Block& forward) {
    const auto found = std::find_if(forward.ops.begin(), forward.ops.end(), [](const Op& op) {
        return op.is<Rearrange>() && op.as<Rearrange>().form == Rearrangement::keys;
    });
    ORRERY_CHECK(found != forward.ops.end(), "keys that travel have been packed");
    return *found;
}

const Op& first_hop(const Block& forward) {
    const auto found = std::find_if(forward.ops.begin(), forward.ops.end(), [](const Op& op) {
        return op.is<AttentionBlock>() && op.as<AttentionBlock>().hop == 0;
    });
    ORRERY_CHECK(found != forward.ops.end(), "a rank attends to its own keys first");
    return *found;
}

// A tensor of the backward block like this one of the forward block.
TensorId like(BackwardWriter& w, TensorId forward, const std::string& name) {
    const Tensor tensor = tensor_of(w.forward(), forward);
    return w.add({name, Role::scratch, tensor.dtype, tensor.dims});
}

void join_gradients(BackwardWriter& w, TensorId dq, TensorId dkv) {
    const Op packed = packing(w.forward());
    const TensorId dqkv = w.fresh_gradient(packed.reads[0]);
    Rearrange join = packed.as<Rearrange>();
    join.form = Rearrangement::gradients;
    w.emit(join, "dqkv joined", {dq, dkv}, {dqkv});
    w.contribute(packed.reads[0], dqkv);
}

// One way round the ring. At hop h a rank has the keys of the rank h places before it, and adds to
// their gradient: a sum that began one place after its owner, moves on with the keys, one hop
// behind them, and comes home last. The owner's own share never leaves it.
class RingBackward {
  public:
    RingBackward(BackwardWriter& w, const Op& last)
        : w_(w),
          hops_(last.as<AttentionBlock>().hop + 1),
          sizes_(first_hop(w.forward()).as<AttentionBlock>()),
          own_(packing(w.forward()).writes[0]),
          reads_{w.gradient_of(last.writes[0]), w.need(last.reads[0]), w.need(own_),
                 w.need(last.writes[0]), w.need(last.writes[1])} {
        const Tensor& lse = tensor_of(w.forward(), last.writes[1]);
        const std::int64_t rows = tensor_of(w.forward(), last.writes[0]).dims[0];
        dq_ = w.add({"dq", Role::scratch, lse.dtype, {rows, sizes_.width()}});
        label_ = first_word(last.label);
    }

    void run() {
        TensorId own_share = -1;
        for (std::int64_t hop = 0; hop < hops_; ++hop) {
            const TensorId arriving = move_on(hop);
            const TensorId share = attend(hop);
            if (hop == 0) own_share = share;
            if (hop == 1) sum_ = share;
            if (arriving >= 0) add(share, arriving, sum_);
        }
        const TensorId home = like(w_, own_, "dkv_home");
        shift("dkv home", {sum_}, {home});
        add(own_share, home, own_share);
        join_gradients(w_, dq_, own_share);
    }

  private:
    // Keys for the next hop, and the sum of the gradients of this hop's keys, from before.
    TensorId move_on(std::int64_t hop) {
        std::vector<TensorId> sent, received;
        if (hop + 1 < hops_) {
            sent.push_back(keys());
            received.push_back(like(w_, own_, "kv_" + std::to_string(hop + 1)));
            next_ = received.back();
        }
        TensorId arriving = -1;
        if (hop > 1) {
            sent.push_back(sum_);
            received.push_back(arriving = like(w_, own_, "dkv_arrived_" + std::to_string(hop)));
        }
        if (!sent.empty())
            shift((next_ < 0 ? "dkv " : "kv ") + std::to_string(next_ < 0 ? hop : hop + 1),
                  std::move(sent), std::move(received));
        return arriving;
    }

    TensorId& keys() { return reads_[2]; }

    // dK and dV of the hop's keys from this rank's queries; dQ is summed up over the hops.
    TensorId attend(std::int64_t hop) {
        const TensorId share = like(w_, own_, "dkv_" + std::to_string(hop));
        std::vector<TensorId> reads = reads_;
        if (hop > 0) reads.push_back(dq_);
        std::vector<TensorId> writes = {share, dq_};
        AttentionBlockBackward op{sizes_, hop};
        op.sinks = op.sinks && hop == 0;
        if (op.sinks) add_sinks(w_, first_hop(w_.forward()).reads.back(), reads, writes);
        w_.emit(op, label_ + ' ' + std::to_string(hop), std::move(reads), std::move(writes));
        attended_ = w_.last_op();
        if (next_ >= 0) keys() = next_;
        next_ = -1;
        return share;
    }

    // A sum takes the place of the one that was sent: the next share has another, so that it need
    // not wait until that has left.
    void add(TensorId share, TensorId arrived, TensorId into) {
        const Tensor keys = tensor_of(w_.forward(), own_);
        w_.emit(Add{keys.dims[0], keys.dims[1]}, "dkv", {share, arrived}, {into});
    }

    // Keys arrive where those of the hop before the last were.
    void shift(std::string label, std::vector<TensorId> sent, std::vector<TensorId> received) {
        const auto tensors = static_cast<std::int64_t>(sent.size());
        const std::int64_t elements = tensors * tensor_of(w_.forward(), own_).elements();
        Op& op = w_.emit(Shift{elements}, std::move(label), std::move(sent), std::move(received));
        over_context(op);
        if (attended_ >= 0) op.after = {attended_};
    }

    BackwardWriter& w_;
    std::int64_t hops_;
    WindowedAttention sizes_;      // of the first hop
    TensorId own_;                 // this rank's keys, in the forward block
    std::vector<TensorId> reads_;  // dcontext, qkv, keys, context, lse
    TensorId dq_ = -1;
    TensorId next_ = -1;  // keys on their way
    TensorId sum_ = -1;   // of gradients, to be passed on
    std::int32_t attended_ = -1;
    std::string label_;
};

}  // namespace

void derive_ring_attention(BackwardWriter& w, const Op& attention) {
    RingBackward(w, attention).run();
}

void derive_gathered_attention(BackwardWriter& w, const Op& attention) {
    const Op packed = packing(w.forward());
    const TensorId keys = attention.reads[1];
    std::vector<TensorId> reads = {w.gradient_of(attention.writes[0]), w.need(attention.reads[0]),
                                   w.need(keys), w.need(attention.writes[0]),
                                   w.need(attention.writes[1])};
    const Tensor context = tensor_of(w.forward(), attention.writes[0]);
    const TensorId dq = w.add({"dq",
                               Role::scratch,
                               context.dtype,
                               {context.dims[0], attention.as<AttentionBlock>().width()}});
    const TensorId dkeys = w.fresh_gradient(keys);
    std::vector<TensorId> writes = {dkeys, dq};
    const AttentionBlock& forward = attention.as<AttentionBlock>();
    if (forward.sinks) add_sinks(w, attention.reads.back(), reads, writes);
    w.emit(AttentionBlockBackward{forward, 0}, attention.label, std::move(reads),
           std::move(writes));
    const TensorId own = w.fresh_gradient(packed.writes[0]);
    over_context(
        w.emit(ReduceScatter{tensor_of(w.forward(), keys).elements()}, "dkv", {dkeys}, {own}));
    join_gradients(w, dq, own);
}

bool attends_to_gathered(const Op& attention) {
    return attention.as<AttentionBlock>().gathered();
}

}  // namespace orrery::plan
