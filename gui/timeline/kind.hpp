// What a box of the timeline shows: the kinds of work of the text timeline, the accounts of waiting
// of the report, and what communication streams carry. A colour each; the account says what the
// time counts as where the report adds it up.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "trace/accounts.hpp"
#include "trace/timeline_cells.hpp"

namespace orrery::gui {

enum class Kind : std::uint8_t {
    forward,
    recompute,
    backward,
    input_gradient,
    weight_gradient,
    optimizer,
    exposed_tensor,
    exposed_context,
    exposed_expert,
    exposed_data,
    exposed_pipeline,
    bubble,
    imbalance,
    launch,
    other,
    collective,
    transfer,
    copy
};
inline constexpr std::size_t kKinds = 18;

// Time by kind, in picoseconds.
using KindSums = std::array<trace::Picoseconds, kKinds>;

// Of what a compute stream does.
Kind kind_of(trace::Paint work);
// Of waiting; nothing for work, which kind_of(Paint) tells in more detail.
std::optional<Kind> waiting_kind(trace::Account account);
// Of an op on its stream.
Kind kind_of(const trace::OpName& op, trace::Paint gradient);
// What its time counts as on the row of a rank.
trace::Account account_of(Kind kind);

bool is_waiting(Kind kind);
// In words: "input gradient", "exposed tensor communication".
std::string text_of(Kind kind);

}  // namespace orrery::gui
