// What a box of the timeline shows: the kinds of work of the text timeline, the accounts of waiting
// of the report, and what communication streams carry. A colour each; the account says what the
// time counts as where the report adds it up. kind.cpp has one table of what each is.
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
    copy,
    host,  // of a trace that another program recorded: what its host does, and annotations
    idle,  // of its devices: without work, whatever they wait for
    // Of a step that is held against another: an op beside its counterpart there.
    half,            // takes half as long, or less
    shorter,         // 4/5 as long, or less
    little_shorter,  // by more than 1 %
    as_long,
    little_longer,
    longer,  // 5/4 as long, or more
    twice,
    alone  // has none
};
inline constexpr std::size_t kKinds = 28;

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
// Whether it compares an op with another, rather than saying what it does.
inline bool is_difference(Kind kind) {
    return kind >= Kind::half;
}
// How the other op stands to the one of which `kind` is said.
Kind turned_round(Kind kind);
bool is_empty(Kind kind);  // waiting that is drawn as a gap: nothing is under way
// In words: "input gradient", "exposed tensor communication".
std::string text_of(Kind kind);

}  // namespace orrery::gui
