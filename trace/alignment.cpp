#include "trace/alignment.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <tuple>

#include "trace/joining.hpp"

namespace orrery::trace {
namespace {

// What a part of a step computes, whoever does.
struct PartKey {
    plan::ActionKind action = plan::ActionKind::forward;
    std::int32_t micro_batch = -1;
    std::int32_t layer = -1;
    std::int32_t block = 0;   // number of its name
    std::int32_t stage = -1;  // −1: whichever computes it
    auto operator<=>(const PartKey&) const = default;
};

// Ops of one program that follow each other in a step, a layer and a block.
struct Part {
    PartKey key;
    std::int32_t stage = 0;
    std::int32_t program = 0;
    std::int32_t first = 0;  // op id
    std::size_t shape = 0;   // of its ops
    auto order() const { return std::tie(key, stage, program, first); }
};

using Shape = std::vector<std::uint32_t>;  // numbers of ops, in issue order

// One of the two steps in parts, sorted by what they compute. Parts of one shape are made of the
// same ops: there are few of them, however long the step is.
struct Parts {
    std::vector<Part> all;
    std::vector<Shape> shapes;
};

Parts parts_of(const Trace& trace, std::map<std::string, std::int32_t>& blocks) {
    std::vector<std::int32_t> block_of;  // by op
    for (const OpName& op : trace.ops)
        block_of.push_back(
            blocks.emplace(op.block, static_cast<std::int32_t>(blocks.size())).first->second);
    Parts parts;
    std::map<Shape, std::size_t> numbers;
    for (std::size_t p = 0; p < trace.programs.size(); ++p) {
        const ProgramOps& program = trace.programs[p];
        for (std::size_t i = first_of_last_step(program); i < program.op.size();) {
            const auto goes_on = [&](std::size_t next) {
                return next < program.op.size() && program.step[next] == program.step[i] &&
                       program.layer[next] == program.layer[i] &&
                       block_of[program.op[next]] == block_of[program.op[i]];
            };
            std::size_t end = i + 1;
            while (goes_on(end))
                ++end;
            const plan::Action& action = program.actions[program.step[i]].front();
            const Shape shape(program.op.begin() + static_cast<std::ptrdiff_t>(i),
                              program.op.begin() + static_cast<std::ptrdiff_t>(end));
            const auto [known, added] = numbers.emplace(shape, parts.shapes.size());
            if (added) parts.shapes.push_back(shape);
            const bool moves = plan::is_compute(action.kind);
            parts.all.push_back({{action.kind, action.micro_batch, program.layer[i],
                                  block_of[program.op[i]], moves ? -1 : action.stage},
                                 action.stage,
                                 static_cast<std::int32_t>(p),
                                 static_cast<std::int32_t>(i),
                                 known->second});
            i = end;
        }
    }
    std::sort(parts.all.begin(), parts.all.end(),
              [](const Part& one, const Part& next) { return one.order() < next.order(); });
    return parts;
}

// The longest common subsequence of two shapes.
class ShapePairs {
  public:
    ShapePairs(const Trace& a, const Trace& b) : a_(a), b_(b) {}

    // By op of the one its place in the other, −1: it has none there.
    std::vector<std::int32_t> of(const Shape& a, const Shape& b) const {
        std::vector<std::int32_t> pairs(a.size(), -1);
        std::size_t first = 0, end_a = a.size(), end_b = b.size();
        const auto pair = [&](std::size_t in_a, std::size_t in_b) {
            pairs[in_a] = static_cast<std::int32_t>(in_b);
        };
        for (; first < end_a && first < end_b && worth(a[first], b[first]) == kSameSize; ++first)
            pair(first, first);
        for (; first < end_a && first < end_b && worth(a[end_a - 1], b[end_b - 1]) == kSameSize;
             --end_a, --end_b)
            pair(end_a - 1, end_b - 1);
        // best[i][j]: of what follows op i of a and op j of b.
        const std::size_t rows = end_a - first, columns = end_b - first;
        std::vector<std::int64_t> best((rows + 1) * (columns + 1), 0);
        const auto at = [&](std::size_t i, std::size_t j) -> std::int64_t& {
            return best[i * (columns + 1) + j];
        };
        for (std::size_t i = rows; i-- > 0;)
            for (std::size_t j = columns; j-- > 0;) {
                const std::int64_t together = worth(a[first + i], b[first + j]);
                at(i, j) = std::max({at(i + 1, j), at(i, j + 1),
                                     together > 0 ? together + at(i + 1, j + 1) : 0});
            }
        for (std::size_t i = 0, j = 0; i < rows && j < columns;) {
            const std::int64_t together = worth(a[first + i], b[first + j]);
            if (together > 0 && at(i, j) == together + at(i + 1, j + 1))
                pair(first + i++, first + j++);
            else if (at(i, j) == at(i + 1, j))
                ++i;
            else
                ++j;
        }
        return pairs;
    }

  private:
    // So that no number of equal sizes is worth a pair more.
    static constexpr std::int64_t kSameKind = 1 << 20;
    static constexpr std::int64_t kSameSize = kSameKind + 1;

    std::int64_t worth(std::uint32_t in_a, std::uint32_t in_b) const {
        const OpName& a = a_.ops[in_a];
        const OpName& b = b_.ops[in_b];
        if (a.kind != b.kind || a.phase != b.phase || a.group != b.group) return 0;
        return a.flops == b.flops && a.bytes == b.bytes ? kSameSize : kSameKind;
    }

    const Trace& a_;
    const Trace& b_;
};

// Pairs of parts that compute the same. Parts of a key beyond the first are the shares that several
// stages have in it: they stay at their stage, and the rest are taken in order.
template <typename Visit>
void each_pair(const std::vector<Part>& a, const std::vector<Part>& b, Visit visit) {
    const auto end_of = [](const std::vector<Part>& parts, std::size_t first) {
        std::size_t end = first;
        while (end < parts.size() && parts[end].key == parts[first].key)
            ++end;
        return end;
    };
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const std::size_t end_i = end_of(a, i), end_j = end_of(b, j);
        if (a[i].key < b[j].key) {
            i = end_i;
            continue;
        }
        if (b[j].key < a[i].key) {
            j = end_j;
            continue;
        }
        std::vector<const Part*> left_a, left_b;
        while (i < end_i || j < end_j) {
            if (j == end_j || (i < end_i && a[i].stage < b[j].stage)) {
                left_a.push_back(&a[i++]);
            } else if (i == end_i || b[j].stage < a[i].stage) {
                left_b.push_back(&b[j++]);
            } else {
                visit(a[i++], b[j++]);
            }
        }
        for (std::size_t k = 0; k < std::min(left_a.size(), left_b.size()); ++k)
            visit(*left_a[k], *left_b[k]);
    }
}

std::vector<std::vector<ProgramOp>> nobody(const Trace& trace) {
    std::vector<std::vector<ProgramOp>> none;
    for (const ProgramOps& program : trace.programs)
        none.emplace_back(program.op.size());
    return none;
}

}  // namespace

Alignment::Alignment(const Trace& a, const Trace& b)
    : traces_{&a, &b}, others_{nobody(a), nobody(b)}, places_{places_of(a), places_of(b)} {
    std::map<std::string, std::int32_t> blocks;
    const Parts of_a = parts_of(a, blocks), of_b = parts_of(b, blocks);
    const ShapePairs shape_pairs(a, b);
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int32_t>> known;
    each_pair(of_a.all, of_b.all, [&](const Part& in_a, const Part& in_b) {
        const auto [pairs, added] = known.try_emplace({in_a.shape, in_b.shape});
        if (added)
            pairs->second = shape_pairs.of(of_a.shapes[in_a.shape], of_b.shapes[in_b.shape]);
        for (std::size_t i = 0; i < pairs->second.size(); ++i) {
            if (pairs->second[i] < 0) continue;
            const ProgramOp one{in_a.program, in_a.first + static_cast<std::int32_t>(i)};
            const ProgramOp next{in_b.program, in_b.first + pairs->second[i]};
            others_[0][static_cast<std::size_t>(one.program)][static_cast<std::size_t>(one.op)] =
                next;
            others_[1][static_cast<std::size_t>(next.program)][static_cast<std::size_t>(next.op)] =
                one;
        }
    });
}

std::vector<std::vector<Alignment::Place>> Alignment::places_of(const Trace& trace) {
    std::vector<std::vector<Place>> places(trace.programs.size());
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        const Track& track = trace.tracks[t];
        std::vector<Place>& of_program = places[static_cast<std::size_t>(track.program)];
        of_program.push_back({{track.rank, 1}, t, 0});
        for (const RankRange& range : track.alike)
            of_program.push_back({range, t, 0});
    }
    for (std::vector<Place>& of_program : places) {
        std::sort(of_program.begin(), of_program.end(), [](const Place& one, const Place& next) {
            return one.ranks.first < next.ranks.first;
        });
        std::int64_t before = 0;
        for (Place& place : of_program) {
            place.before = before;
            before += place.ranks.count;
        }
    }
    return places;
}

std::optional<ProgramOp> Alignment::counterpart(Side side, const ProgramOp& op) const {
    const ProgramOp& found =
        others_[static_cast<std::size_t>(side)][static_cast<std::size_t>(op.program)]
               [static_cast<std::size_t>(op.op)];
    if (found.program < 0) return std::nullopt;
    return found;
}

std::optional<TrackOp> Alignment::counterpart(Side side, const TrackOp& op) const {
    const Track& track = trace(side).tracks[op.track];
    const std::optional<ProgramOp> there =
        counterpart(side, ProgramOp{track.program, static_cast<std::int32_t>(op.op)});
    if (!there) return std::nullopt;
    const auto& own = places_[static_cast<std::size_t>(side)][static_cast<std::size_t>(
        track.program)];
    const auto& others = places_[static_cast<std::size_t>(other(side))][static_cast<std::size_t>(
        there->program)];
    if (others.empty()) return std::nullopt;
    const auto ranks = [](const std::vector<Place>& places) {
        return places.back().before + places.back().ranks.count;
    };
    const auto mine = std::partition_point(own.begin(), own.end(), [&](const Place& place) {
        return place.ranks.first + place.ranks.count <= track.rank;
    });
    const std::int64_t place = (mine->before + track.rank - mine->ranks.first) * ranks(others) /
                               ranks(own);
    const auto theirs = std::partition_point(others.begin(), others.end(), [&](const Place& of) {
        return of.before + of.ranks.count <= place;
    });
    const TrackOp found{theirs->track, static_cast<std::size_t>(there->op)};
    // Of some tracks a trace says nothing but that they are there.
    if (found.op >= trace(other(side)).tracks[found.track].events.size()) return std::nullopt;
    return found;
}

}  // namespace orrery::trace
