// From an op of the plan to a call of a kernel or of the communicator. All that a kernel is told
// comes from the op, from where the rank stands in the mesh, and from what the step brings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.hpp"
#include "runtime/executor/device.hpp"
#include "runtime/kernels/kernels.hpp"

namespace orrery::runtime {

// What is left of a tensor from an element on.
inline Buffer from_element(const Buffer& whole, std::int64_t element) {
    return {static_cast<std::byte*>(whole.data) + element * plan::size_bytes(whole.dtype),
            whole.dtype};
}

class Performer {
  public:
    // All must outlive the object; `arena` is the rank's, in the device's memory. `kernels` keeps
    // what all requests share.
    Performer(const BoundProgram& program, Communicator& communicator, std::byte* arena,
              Kernels& kernels);

    // Compute ops come from one thread, those of servers and communication from one other (or the
    // same). Of the kernels, those of the op's stream.
    void perform(const BoundOp& bound, const StepInputs& inputs, Kernels& kernels);

    // Has `kernels` prepare what a compute op will launch, as far as no step has to be known for
    // that: counts that are computed on the way are not there yet. Launches nothing.
    // Returns whether it asks the same of its kernels in every step: it looks at nothing that a
    // step brings or computes. Null: nothing is prepared.
    bool prepare(const BoundOp& bound, Kernels* kernels);

    // From now on adds up what route counts in forward passes; where kernels are performed when
    // they are called, in memory of the host's.
    void count_experts() { counts_experts_ = true; }
    // Since the last call; while no op is performed.
    ExpertCounts take_expert_counts() { return std::exchange(expert_counts_, {}); }

  private:
    struct Call;  // an op and the step it belongs to

    // performer_matrix.cpp
    void gemm_in_runs(const Call& call, const Gemm& part, std::size_t result);
    // performer_eight_bit.cpp
    void grouped_gemm_of_eight_bits(const plan::GroupedGemm& op, const Call& call);
    Scales read_scales(const Call& call, std::size_t matrix, std::size_t scales) const;
    // performer_context.cpp
    AttentionKeys block_keys(const Call& call, const plan::AttentionSizes& op, std::int64_t hop,
                             std::size_t operand) const;

    // Of the rows of a sequence that this rank holds.
    std::int64_t held_sequence() const { return program_.tokens.sequence / program_.mesh.context; }
    std::int64_t held_tokens() const { return program_.tokens.samples * held_sequence(); }
    // Of so many heads of an op, of all that the model has.
    std::int64_t first_head(std::int64_t heads, std::int64_t total_heads) const;
    // The sinks of the op's heads, null where it has none, and their gradients.
    Buffer sinks_of(const Call& call, const plan::AttentionForm& form, std::size_t operand) const;
    void put_sink_gradients(const Call& call, std::int64_t heads, std::size_t operand,
                            Buffer& dsinks, bool& accumulate) const;
    // An operand with a number for each of so many heads of the rank, from the first of the op's
    // on.
    Buffer of_heads(const Buffer& whole, std::int64_t held, std::int64_t heads) const;
    static AttentionShape shape_of(const plan::AttentionSizes& op);
    AttentionMask attention_mask(const Call& call, std::int64_t window) const;
    AttentionDropout attention_dropout(const Call& call, const plan::AttentionForm& form) const;
    void keep_numbers(const BoundOp& bound, Kernels& kernels);
    const double* kept(const Call& call) const;
    // performer_loss.cpp: of what goes over a bucket.
    struct KeptRuns {
        ElementRuns<SteppedRun> stepped;
        ElementRuns<ElementRun> counted;
    };
    void keep_runs(const BoundOp& bound, Kernels& kernels);
    const KeptRuns& kept_runs(const Call& call) const;

    // performer_rows.cpp
    Rope rope(const plan::RopeFields& op, const Call& call) const;
    LatentHeads latent_heads(const plan::LatentHeadsFields& op, const Call& call,
                             const std::array<Buffer, 3>& apart, const Buffer& packed) const;
    ResidualAdd residual_add(const plan::ResidualAdd& op, const Call& call,
                             std::size_t others = 0) const;

    // performer_experts.cpp
    ExpertPlaces expert_places(const plan::ExpertPlaces& op) const;
    // With the counts that the op reads.
    ExpertPlaces expert_places(const plan::ExpertPlaces& op, const Call& call,
                               std::size_t counts) const;
    // The same of an op over rows in use.
    template <typename Op>
    ExpertPlaces places_of_rows(const Op& op, const Call& call, std::size_t counts) const;
    // The same for the host, which waits for them.
    ExpertPlaces places_on_host(const plan::ExpertPlaces& op, const Call& call,
                                std::size_t counts) const;

    // performer_communication.cpp
    void communicate(const Call& call);
    void gather_copy(const Call& call);
    void shift(const Call& call);
    void all_to_all_v(const Call& call);
    std::int64_t copies_in_use(const plan::SpreadFields& op, const Call& call) const;
    void check_room(const Call& call, const ExpertPlaces& places, std::int64_t room,
                    std::int64_t expected) const;
    void clear_padding(const Call& call);

    void feed(const Call& call);

    Buffer buffer(const Operand& operand) const;
    Buffer read(const Call& call, std::size_t index) const;
    Buffer written(const Call& call, std::size_t index) const;
    template <typename T>
    T* at(const Operand& operand) const {
        return reinterpret_cast<T*>(arena_ + operand.offset);
    }
    DropoutKey dropout_key(const Call& call, const plan::Drop& drop) const;
    std::int64_t first_sample(const Call& call) const;
    std::int64_t first_row(std::int64_t rows) const;
    PositionRows position_rows(std::int64_t rows, std::int64_t offset) const;
    // Number of this rank's share of the vocabulary.
    std::int64_t word_share(const plan::WordShares& words) const {
        return words.number(program_.mesh.tensor, program_.at.tensor, program_.at.pipeline);
    }
    ElementIndex rows_index(const Call& call, std::int64_t rows, std::int64_t width) const;
    template <typename Op>
    ElementIndex dropout_index(const Call& call, const Op& op) const;
    template <typename Op>
    LogitsPart logits_part(const Op& op) const;
    template <typename F>
    void over_shares(const plan::Op& op, std::int64_t rows, const F& f) const;

    // Of each op that computes, in performer_*.cpp: from the op to its kernel's request.
#define ORRERY_COMPUTE(name, type) void compute(const plan::type& op, const Call& call);
    ORRERY_OPS(ORRERY_COMPUTE)
#undef ORRERY_COMPUTE
    void compute(const Call& call);

    const BoundProgram& program_;
    Communicator& communicator_;
    std::byte* arena_;
    SequencePart part_;  // of a sequence, which this rank holds
    // Of ops with rotary positions their frequencies, of those with ALiBi the slopes of this rank's
    // heads: in memory that the device reads.
    std::map<const plan::Op*, const double*> kept_;
    std::map<std::vector<double>, const double*> numbers_;
    std::map<std::pair<const plan::Op*, std::int32_t>, KeptRuns> runs_;  // of an op for a bucket
    std::vector<Transfer> transfers_;
    bool counts_experts_ = false;
    ExpertCounts expert_counts_;
};

struct Performer::Call {
    const BoundOp& bound;
    const StepInputs& inputs;
    Kernels& kernels;
    mutable bool looked = false;  // at what the step brings

    const StepInputs& step() const {
        looked = true;
        return inputs;
    }

    const plan::Tensor& read_tensor(std::size_t i) const {
        return bound.block->tensors[static_cast<std::size_t>(bound.op->reads[i])];
    }
    const plan::Tensor& written_tensor(std::size_t i) const {
        return bound.block->tensors[static_cast<std::size_t>(bound.op->writes[i])];
    }
};

}  // namespace orrery::runtime
