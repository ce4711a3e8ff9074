#include <algorithm>
#include <set>

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

const std::vector<ScheduleKind>& schedule_kinds() {
    static const std::vector<ScheduleKind> kinds = {
        {"1f1b", "one forward, one backward in turn; p−i micro-batches in flight", one_f_one_b},
        {"gpipe", "all forwards, then all backwards; every micro-batch in flight", gpipe},
        {"interleaved", "1f1b over virtual stages: a smaller bubble, more transfers", interleaved,
         Chunks::several, MicroBatches::groups_of_p},
        {"zb-h1", "1f1b with backward in two halves: a third of its bubble, p micro-batches each",
         zb_h1},
        {"zb-2p", "as zb-h1 with twice the micro-batches in flight: no bubble within a step",
         zb_2p},
        {"zb-v", "two chunks per rank in a V: no bubble within a step, the memory of 1f1b", zb_v,
         Chunks::two, MicroBatches::any, Placement::v},
        {"v-half", "two chunks per rank in a V: half the memory of 1f1b", v_half, Chunks::two,
         MicroBatches::any, Placement::v, v_half_later},
        {"dualpipe-v", "two chunks per rank in a V: forward of one beside backward of the other",
         dualpipe_v, Chunks::two, MicroBatches::at_least_2p, Placement::v},
    };
    return kinds;
}

std::vector<std::string> schedule_names() {
    std::vector<std::string> names;
    for (const ScheduleKind& kind : schedule_kinds())
        names.emplace_back(kind.name);
    return names;
}

const ScheduleKind* find_schedule(std::string_view name) {
    for (const ScheduleKind& kind : schedule_kinds())
        if (kind.name == name) return &kind;
    return nullptr;
}

std::int32_t most_in_flight(const std::vector<Action>& row) {
    std::int32_t now = 0;
    std::int32_t most = 0;
    for (const Action& action : row) {
        if (action.kind == ActionKind::forward) most = std::max(most, ++now);
        if (ends_micro_batch(action.kind)) --now;
    }
    return most;
}

}  // namespace orrery::plan
