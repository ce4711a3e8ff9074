// Actions, the schedule's level of a plan, in the spelling that PyTorch's pipelining package uses
// ("2F0": stage 2, forward, micro-batch 0), so that schedules can be exchanged as text.
// REDUCE_TIED, UNSCALE, CLIP and STEP are ours: what follows the last backward; so are OFFLOAD,
// SPILL, LOAD and FETCH, which move a micro-batch's stash between tiers of memory, and what passes
// between steps where the optimizer does not wait for the other stages: SUM, VALIDATE, AMEND, and
// the transfers of sums and totals, whose stage is the pipeline rank and whose number is
// that of the statistic.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::plan {

enum class ActionKind : std::uint8_t {
    forward,          // F
    backward,         // B, input and weight together
    backward_input,   // I: the half of a backward that makes the gradient of the input
    backward_weight,  // W: the half that makes the gradients of the weights, any time after I
    send_f,           // SEND_F: activations to the next stage
    recv_f,           // RECV_F
    send_b,           // SEND_B: gradients to the stage before
    recv_b,           // RECV_B
    send_sum,         // SEND_SUM: a statistic over the stages up to here, to the next rank
    recv_sum,         // RECV_SUM
    send_total,       // SEND_TOTAL: the same over all stages, back to the rank before
    recv_total,       // RECV_TOTAL
    reduce_grad,      // REDUCE_GRAD: gradients of a stage over its data group
    reduce_tied,      // REDUCE_TIED: tied embedding gradients over first and last stage
    unscale,          // UNSCALE: loss scale taken off the gradients, overflow looked for
    clip,             // CLIP: global gradient norm
    step,             // STEP: optimizer, and the gathering of sharded parameters
    offload,          // OFFLOAD: what forward keeps for backward goes to host memory …
    spill,            // SPILL: … and on to disk
    load,             // LOAD: back from disk to host memory …
    fetch,            // FETCH: … and from there to the device
    sum,              // SUM: this stage's statistics of gradients join those of the stages before
    validate,         // VALIDATE: what all stages' statistics say of the step before
    amend             // AMEND: its optimizer runs again, with these statistics; not part of a step
};
inline constexpr std::size_t kActionKinds = 24;

struct Action {
    std::int32_t stage = 0;
    ActionKind kind = ActionKind::forward;
    std::int32_t micro_batch = -1;  // −1: of all micro-batches

    auto operator<=>(const Action&) const = default;
};

inline bool is_compute(ActionKind kind) {
    return kind <= ActionKind::backward_weight;
}
// Whether it makes the gradient that the stage before waits for.
inline bool makes_input_gradient(ActionKind kind) {
    return kind == ActionKind::backward || kind == ActionKind::backward_input;
}
// Whether it is the last of a micro-batch at its stage, whose activations may go.
inline bool ends_micro_batch(ActionKind kind) {
    return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}
inline bool is_transfer(ActionKind kind) {
    return kind >= ActionKind::send_f && kind <= ActionKind::recv_total;
}
inline bool is_send(ActionKind kind) {
    return kind == ActionKind::send_f || kind == ActionKind::send_b ||
           kind == ActionKind::send_sum || kind == ActionKind::send_total;
}
// Of transfers: whether they carry a statistic of gradients, not an activation or its gradient …
inline bool carries_statistic(ActionKind kind) {
    return kind >= ActionKind::send_sum && kind <= ActionKind::recv_total;
}
// … and whether the message goes to the next stage, not to the one before.
inline bool goes_onward(ActionKind kind) {
    return kind == ActionKind::send_f || kind == ActionKind::recv_f ||
           kind == ActionKind::send_sum || kind == ActionKind::recv_sum;
}
// The stage on the other side of a transfer, counted from this one's.
inline std::int32_t hop_to_peer(ActionKind kind) {
    return goes_onward(kind) == is_send(kind) ? 1 : -1;
}

// Whether it moves a stash between tiers of memory.
inline bool is_move(ActionKind kind) {
    return kind >= ActionKind::offload && kind <= ActionKind::fetch;
}

std::string to_text(const Action& action);                  // "2F0", "0REDUCE_GRAD"
std::optional<Action> parse_action(std::string_view text);  // nullopt: not an action

}  // namespace orrery::plan
