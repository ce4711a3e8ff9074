// What the derivation of a backward block offers to derivatives that are written elsewhere: those
// of ops that say them (`gradient` of a struct of plan/ops), and those that take many ops.
#pragma once

#include <string>
#include <vector>

#include "plan/blocks/eight_bit.hpp"
#include "plan/ir/block.hpp"

namespace orrery::plan {

class BackwardWriter : public BlockWriter {
  public:
    virtual const Block& forward() const = 0;
    virtual std::int32_t last_op() const = 0;  // number of the op emitted last
    // The backward block's name for what it reads of the forward pass.
    virtual TensorId need(TensorId forward) = 0;
    // Of a forward tensor: the gradient, complete by now; a tensor like it; a further term.
    virtual TensorId gradient_of(TensorId forward) = 0;
    virtual TensorId fresh_gradient(TensorId forward) = 0;
    virtual void contribute(TensorId forward, TensorId gradient) = 0;
    // Of a parameter: where its gradient is summed.
    virtual TensorId accumulator(TensorId parameter) = 0;
};

// What backward of attention with sinks reads and writes besides: the sinks, and their gradients.
inline void add_sinks(BackwardWriter& w, TensorId sinks, std::vector<TensorId>& reads,
                      std::vector<TensorId>& writes) {
    reads.push_back(w.need(sinks));
    reads.push_back(w.accumulator(sinks));
    writes.push_back(w.accumulator(sinks));
}

// Of a label, from which that of a gradient's op is made.
inline std::string first_word(const std::string& text) {
    return text.substr(0, text.find(' '));
}

}  // namespace orrery::plan
