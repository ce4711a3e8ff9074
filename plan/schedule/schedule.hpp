// Pipeline schedules: in which order each pipeline rank computes. A schedule is one file that
// yields compute actions only; lowering adds the transfers, the same way for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/action.hpp"
#include "plan/schedule/placement.hpp"

namespace orrery::plan {

struct ScheduleShape {
    std::int32_t pipeline = 1;        // p, pipeline ranks
    std::int32_t virtual_stages = 1;  // v, chunks per rank
    std::int32_t micro_batches = 1;   // m
    bool pairs = false;  // one forward pass more goes ahead, for each to run beside a backward pass
};

using ActionGrid = std::vector<std::vector<Action>>;  // row = pipeline rank

struct Schedule {
    ActionGrid grid;  // compute actions
    StagePlacement placement;

    bool operator==(const Schedule&) const = default;
};

// When an action runs where F, I and W take 1 unit each, B 2 and transfers none; a row for each
// rank.
struct TimedAction {
    Action action;
    std::int64_t begin = 0;
    std::int64_t end = 0;
};
using Timeline = std::vector<std::vector<TimedAction>>;

enum class Chunks : std::uint8_t { one, several, two };                    // of a rank: v
enum class MicroBatches : std::uint8_t { any, groups_of_p, at_least_2p };  // m

struct ScheduleKind {
    std::string_view name;
    std::string_view summary;  // one sentence for help and error messages
    ActionGrid (*order)(const ScheduleShape&);
    // What shapes it can have.
    Chunks chunks = Chunks::one;
    MicroBatches micro_batches = MicroBatches::any;
    Placement placement = Placement::wrap;
    // The order with the last stage's gradients so many micro-batches' time later than they could
    // come; nullptr: as `order` has it, with all backward passes later.
    Timeline (*later)(const ScheduleShape&, std::int32_t periods) = nullptr;

    Schedule schedule(const ScheduleShape& shape) const {
        return {order(shape), place(placement, shape.pipeline, shape.virtual_stages)};
    }
};

// Registered schedules, in the order of help texts.
const std::vector<ScheduleKind>& schedule_kinds();
std::vector<std::string> schedule_names();
const ScheduleKind* find_schedule(std::string_view name);  // nullptr: unknown

// Largest number of micro-batches (for v > 1: chunks) whose forward is done and whose backward is
// not, at any moment, on one rank's row.
std::int32_t most_in_flight(const std::vector<Action>& row);

// An order that cannot run is a bug of the schedule.
Timeline unit_timeline(const Schedule& schedule);

// Adds transfers to a grid of compute actions; between two stages of one rank there is none. The
// pieces of each row are steps: one compute action, or one or two transfers issued together.
//
// The order is that of the timeline above: when an action ends whose result another rank needs, the
// send is appended to its row and the receive to the other's; of those that come at the same time,
// pairs of ranks take turns, so that a ring that hands on all at once takes two transfers' time,
// not one per rank. All rows are thus subsequences of one global order, so rendezvous transfers on
// one in-order stream cannot deadlock. Where two ranks trade in both directions back to back (the
// steady state of 1F1B) the two transfers become one exchange; both rows hold them adjacent, hence
// contracting them cannot close a cycle. An order that cannot run (a backward before its forward, a
// cycle) is a bug of the schedule.
//
// `validates`: each row holds one VALIDATE, all of them together at one moment of the global order,
// when the first backward pass could begin: what comes before them on any rank has had all its
// messages sent and received, so that all ranks can begin anew from the start of the step.
//
// `pairs`: a forward and the whole backward behind it, of another micro-batch, become a pair where
// what both need is there when the first could begin: no transfer stands between them, and none of
// what they make leaves before both have ended.
struct LoweredStep {
    Action action;
    std::optional<Action> with;  // of an exchange: the transfer that is issued with it
    bool beside_last = false;    // the second of a pair
    bool operator==(const LoweredStep&) const = default;
};
std::vector<std::vector<LoweredStep>> add_transfers(const ActionGrid& grid,
                                                    const StagePlacement& placement,
                                                    bool validates = false, bool pairs = false);

ActionGrid gpipe(const ScheduleShape& shape);
ActionGrid one_f_one_b(const ScheduleShape& shape);
ActionGrid interleaved(const ScheduleShape& shape);
ActionGrid zb_h1(const ScheduleShape& shape);
ActionGrid zb_2p(const ScheduleShape& shape);
ActionGrid zb_v(const ScheduleShape& shape);
ActionGrid v_half(const ScheduleShape& shape);
Timeline v_half_later(const ScheduleShape& shape, std::int32_t periods);
ActionGrid dualpipe_v(const ScheduleShape& shape);

}  // namespace orrery::plan
