// drop_rows.
#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// One that wants a place with an expert: earlier where it comes first.
template <typename W>
struct Candidate {
    W rank = 0;  // by its weight, the larger the earlier; then by its position
    std::int64_t position = 0;
    std::int64_t choice = 0;  // of those of all ranks

    bool operator<(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : position < other.position;
    }
};

template <typename W>
void drop_rows_as(const DropRows& op, Team& team) {
    const std::int64_t context_rows = op.tensor_ranks * op.rows;
    const std::int64_t own = (op.part.rank * op.tensor_ranks + op.tensor_rank) * op.rows;
    const std::int64_t choices = op.part.ranks * context_rows * op.chosen;
    std::copy_n(op.choice + own * op.chosen, op.rows * op.chosen, op.kept);
    std::vector<std::vector<Candidate<W>>> all(static_cast<std::size_t>(op.units * op.experts));
    SequencePart part = op.part;
    for (std::int64_t i = 0; i < choices; ++i) {
        if (op.choice[i] < 0) continue;
        const std::int64_t row = i / op.chosen, held = row % context_rows;
        part.rank = row / context_rows;
        W rank = 0;
        if (!op.by_position) rank = data<W>(op.weights)[i];
        if (!(rank >= 0)) rank = -std::numeric_limits<W>::infinity();  // of no number, the last
        all[static_cast<std::size_t>(held / op.run * op.experts + op.choice[i])].push_back(
            {rank, part.position_of(held % op.run, op.run), i});
    }
    team.parallel_for(op.experts, 1, [&](auto begin, auto end) {
        for (std::int64_t expert = begin; expert < end; ++expert) {
            std::int32_t& count = op.counts[expert];
            count = 0;
            for (std::int64_t unit = 0; unit < op.units; ++unit) {
                auto& candidates = all[static_cast<std::size_t>(unit * op.experts + expert)];
                const auto kept =
                    candidates.begin() + std::min(op.capacity, std::ssize(candidates));
                if (kept != candidates.end())
                    std::nth_element(candidates.begin(), kept, candidates.end());
                for (auto at = candidates.begin(); at != candidates.end(); ++at) {
                    const std::int64_t mine = at->choice - own * op.chosen;
                    if (mine < 0 || mine >= op.rows * op.chosen) continue;
                    if (at < kept)
                        ++count;
                    else
                        op.kept[mine] = -1;
                }
            }
            if (op.pads) count = static_cast<std::int32_t>(op.capacity);
        }
    });
}

}  // namespace

void drop_rows(const DropRows& op, Team& team) {
    with_work_type(op.weights.dtype, [&](auto w) { drop_rows_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
