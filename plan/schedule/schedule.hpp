// Pipeline schedules: in which order each pipeline rank computes. A schedule is one file that
// yields compute actions only; lowering adds the transfers, the same way for all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/action.hpp"

namespace orrery::plan {

struct ScheduleShape {
    std::int32_t pipeline = 1;        // p, pipeline ranks
    std::int32_t virtual_stages = 1;  // v, chunks per rank
    std::int32_t micro_batches = 1;   // m
};

using ActionGrid = std::vector<std::vector<Action>>;  // row = pipeline rank

struct ScheduleKind {
    std::string_view name;
    std::string_view summary;   // one sentence for help and error messages
    bool needs_virtual_stages;  // v ≥ 2, and p divides m
    ActionGrid (*order)(const ScheduleShape&);
};

// Registered schedules, in the order of help texts.
const std::vector<ScheduleKind>& schedule_kinds();
std::vector<std::string> schedule_names();
const ScheduleKind* find_schedule(std::string_view name);  // nullptr: unknown

// Stage s lives on pipeline rank s mod p.
inline std::int32_t owner(std::int32_t stage, std::int32_t pipeline) {
    return stage % pipeline;
}

// Largest number of micro-batches (for v > 1: chunks) whose forward is done and whose backward is
// not, at any moment, on one rank's row.
std::int32_t most_in_flight(const std::vector<Action>& row);

// Adds transfers to a grid of compute actions. The pieces of each row are steps: one compute
// action, or one or two transfers issued together.
//
// The order is that of a run in which a forward takes 1 and a backward 2 units and transfers none:
// when an action ends whose result another rank needs, the send is appended to its row and the
// receive to the other's; of those that come at the same time, pairs of ranks take turns, so that a
// ring that hands on all at once takes two transfers' time, not one per rank. All rows are thus
// subsequences of one global order, so rendezvous transfers on one in-order stream cannot deadlock.
// Where two ranks trade in both directions back to back (the steady state of 1F1B) the two
// transfers become one exchange; both rows hold them adjacent, hence contracting them cannot close
// a cycle. An order that cannot run (a backward before its forward, a cycle) is a bug of the
// schedule.
struct LoweredStep {
    std::vector<Action> actions;
    bool operator==(const LoweredStep&) const = default;
};
std::vector<std::vector<LoweredStep>> add_transfers(const ActionGrid& grid, std::int32_t pipeline,
                                                    std::int32_t stages);

ActionGrid gpipe(const ScheduleShape& shape);
ActionGrid one_f_one_b(const ScheduleShape& shape);
ActionGrid interleaved(const ScheduleShape& shape);

}  // namespace orrery::plan
