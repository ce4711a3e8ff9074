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

    // From now on adds up what route counts in forward passes; where kernels are performed when
    // they are called, in memory of the host's.
    void count_experts() { counts_experts_ = true; }
    // Since the last call; while no op is performed.
    ExpertCounts take_expert_counts() { return std::exchange(expert_counts_, {}); }

  private:
    struct Call;  // an op and the step it belongs to

    // performer_matrix.cpp
    void compute(const plan::Gemm& op, const Call& call);
    void gemm_in_runs(const Call& call, const Gemm& part, std::size_t result);
    void compute(const plan::BatchedGemm& op, const Call& call);
    void compute(const plan::Attention& op, const Call& call);
    void compute(const plan::AttentionBackward& op, const Call& call);
    void compute(const plan::Softmax& op, const Call& call);
    void compute(const plan::SoftmaxBackward& op, const Call& call);
    // performer_eight_bit.cpp
    void compute(const plan::Amax& op, const Call& call);
    void compute(const plan::Quantize& op, const Call& call);
    void compute(const plan::Transpose& op, const Call& call);
    void compute(const plan::UpdateScales& op, const Call& call);
    void compute(const plan::CollectAmaxes& op, const Call& call);
    void compute(const plan::SpreadAmaxes& op, const Call& call);
    void compute(const plan::AmaxRows& op, const Call& call);
    void compute(const plan::QuantizeRows& op, const Call& call);
    void grouped_gemm_of_eight_bits(const plan::GroupedGemm& op, const Call& call);
    Scales read_scales(const Call& call, std::size_t matrix, std::size_t scales) const;
    // performer_context.cpp
    void compute(const plan::AttentionBlock& op, const Call& call);
    void compute(const plan::AttentionBlockBackward& op, const Call& call);
    void compute(const plan::Rearrange& op, const Call& call);
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

    // performer_rows.cpp
    void compute(const plan::Normalize& op, const Call& call);
    void compute(const plan::NormalizeBackward& op, const Call& call);
    void compute(const plan::Activate& op, const Call& call);
    void compute(const plan::ActivateBackward& op, const Call& call);
    void compute(const plan::NormalizeQk& op, const Call& call);
    void compute(const plan::NormalizeQkSums& op, const Call& call);
    void compute(const plan::NormalizeQkBackward& op, const Call& call);
    Rope rope(const plan::RopeFields& op, const Call& call) const;
    void compute(const plan::Rope& op, const Call& call);
    void compute(const plan::RopeBackward& op, const Call& call);
    LatentHeads latent_heads(const plan::LatentHeadsFields& op, const Call& call,
                             const std::array<Buffer, 3>& apart, const Buffer& packed) const;
    void compute(const plan::LatentHeads& op, const Call& call);
    void compute(const plan::LatentHeadsBackward& op, const Call& call);
    ResidualAdd residual_add(const plan::ResidualAdd& op, const Call& call,
                             std::size_t others = 0) const;
    void compute(const plan::ResidualAdd& op, const Call& call);
    void compute(const plan::ResidualNormalize& op, const Call& call);
    void compute(const plan::Dropout& op, const Call& call);
    void compute(const plan::DropoutBackward& op, const Call& call);
    void compute(const plan::Add& op, const Call& call);
    void compute(const plan::BiasGradient& op, const Call& call);
    void compute(const plan::Embedding& op, const Call& call);
    void compute(const plan::EmbeddingBackward& op, const Call& call);

    // performer_experts.cpp
    void compute(const plan::Route& op, const Call& call);
    void compute(const plan::RouteBackward& op, const Call& call);
    void compute(const plan::DropRows& op, const Call& call);
    void compute(const plan::CountChoices& op, const Call& call);
    void compute(const plan::BalanceGradient& op, const Call& call);
    void compute(const plan::TemperQueries& op, const Call& call);
    void compute(const plan::LoadGradient& op, const Call& call);
    void compute(const plan::RouterZGradient& op, const Call& call);
    void compute(const plan::ExpertBias& op, const Call& call);
    void compute(const plan::ExpertBiasBackward& op, const Call& call);
    void compute(const plan::WeighRows& op, const Call& call);
    void compute(const plan::WeighRowsBackward& op, const Call& call);
    void compute(const plan::ChooseRanks& op, const Call& call);
    void compute(const plan::SpreadRows& op, const Call& call);
    void compute(const plan::SpreadWeights& op, const Call& call);
    void compute(const plan::Permute& op, const Call& call);
    void compute(const plan::Unpermute& op, const Call& call);
    void compute(const plan::GroupRows& op, const Call& call);
    void compute(const plan::GroupedGemm& op, const Call& call);
    void compute(const plan::ExpertActivate& op, const Call& call);
    void compute(const plan::ExpertActivateBackward& op, const Call& call);
    void compute(const plan::GateRows& op, const Call& call);
    void compute(const plan::GateRowsBackward& op, const Call& call);
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

    // performer_loss.cpp
    void compute(const plan::CrossEntropyMax& op, const Call& call);
    void compute(const plan::CrossEntropySum& op, const Call& call);
    void compute(const plan::CrossEntropyJoin& op, const Call& call);
    void compute(const plan::CrossEntropy& op, const Call& call);
    void compute(const plan::CrossEntropyBackward& op, const Call& call);
    void compute(const plan::GradientNorm& op, const Call& call);
    void compute(const plan::Unscale& op, const Call& call);
    void compute(const plan::UpdateLossScale& op, const Call& call);
    void compute(const plan::LossShare& op, const Call& call);
    void compute(const plan::JudgeLoss& op, const Call& call);
    void compute(const plan::AdamW& op, const Call& call);

    // performer_communication.cpp
    void communicate(const Call& call);
    void gather_copy(const Call& call);
    void shift(const Call& call);
    void all_to_all_v(const Call& call);
    std::int64_t copies_in_use(const plan::SpreadFields& op, const Call& call) const;
    void check_room(const Call& call, const ExpertPlaces& places, std::int64_t room,
                    std::int64_t expected) const;
    void clear_padding(const Call& call);

    void compute(const Call& call);
    void compute(const plan::Cast& op, const Call& call);
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

    const BoundProgram& program_;
    Communicator& communicator_;
    std::byte* arena_;
    SequencePart part_;  // of a sequence, which this rank holds
    // Of ops with rotary positions their frequencies, of those with ALiBi the slopes of this rank's
    // heads: in memory that the device reads.
    std::map<const plan::Op*, const double*> kept_;
    std::map<std::vector<double>, const double*> numbers_;
    std::vector<Transfer> transfers_;
    bool counts_experts_ = false;
    ExpertCounts expert_counts_;
};

struct Performer::Call {
    const BoundOp& bound;
    const StepInputs& inputs;
    Kernels& kernels;

    const plan::Tensor& read_tensor(std::size_t i) const {
        return bound.block->tensors[static_cast<std::size_t>(bound.op->reads[i])];
    }
    const plan::Tensor& written_tensor(std::size_t i) const {
        return bound.block->tensors[static_cast<std::size_t>(bound.op->writes[i])];
    }
};

}  // namespace orrery::runtime
