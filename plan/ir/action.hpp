// Actions, the schedule's level of a plan, in the spelling that PyTorch's pipelining package uses
// ("2F0": stage 2, forward, micro-batch 0), so that schedules can be exchanged as text.
// REDUCE_TIED, UNSCALE, CLIP and STEP are ours: what follows the last backward; so are OFFLOAD,
// SPILL, LOAD and FETCH, which move a micro-batch's stash between tiers of memory.
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
    reduce_grad,      // REDUCE_GRAD: gradients of a stage over its data group
    reduce_tied,      // REDUCE_TIED: tied embedding gradients over first and last stage
    unscale,          // UNSCALE: loss scale taken off the gradients, overflow looked for
    clip,             // CLIP: global gradient norm
    step,             // STEP: optimizer, and the gathering of sharded parameters
    offload,          // OFFLOAD: what forward keeps for backward goes to host memory …
    spill,            // SPILL: … and on to disk
    load,             // LOAD: back from disk to host memory …
    fetch             // FETCH: … and from there to the device
};
inline constexpr std::size_t kActionKinds = 17;

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
    return kind >= ActionKind::send_f && kind <= ActionKind::recv_b;
}
inline bool is_send(ActionKind kind) {
    return kind == ActionKind::send_f || kind == ActionKind::send_b;
}

// Whether it moves a stash between tiers of memory.
inline bool is_move(ActionKind kind) {
    return kind >= ActionKind::offload && kind <= ActionKind::fetch;
}

std::string to_text(const Action& action);                  // "2F0", "0REDUCE_GRAD"
std::optional<Action> parse_action(std::string_view text);  // nullopt: not an action

}  // namespace orrery::plan
