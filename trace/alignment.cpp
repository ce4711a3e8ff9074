#include "trace/alignment.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "trace/joining.hpp"

namespace orrery::trace {
namespace {

// What a stretch of a program computes, whoever does.
struct StretchKey {
    plan::ActionKind action = plan::ActionKind::forward;  // a half of a backward pass: backward
    std::int32_t micro_batch = -1;
    std::int32_t layer = -1;
    std::int32_t part = 0;    // number of its name
    std::int32_t stage = -1;  // −1: whichever computes it
    auto operator<=>(const StretchKey&) const = default;
};

// Ops of one program that follow each other in a step, a layer and a part of the model.
struct OpStretch {
    StretchKey key;
    std::int32_t stage = 0;
    std::int32_t program = 0;
    std::int32_t first = 0;  // op id
    std::size_t shape = 0;   // of its ops
    auto order() const { return std::tie(key, stage, program, first); }
};

using Shape = std::vector<std::uint32_t>;  // numbers of ops, in issue order

// One of the two steps in stretches, sorted by what they compute. Stretches of one shape are made
// of the same ops: there are few shapes, however long the step is.
struct Stretches {
    std::vector<OpStretch> all;
    std::vector<Shape> shapes;
};

// Blocks of a part are called "layer.forward", "layer.backward", "head.forward", …
std::string part_of(const std::string& block) {
    return block.substr(0, block.find('.'));
}

using Stop = const std::atomic<bool>*;

bool is_stopped(Stop stop) {
    return stop != nullptr && *stop;
}

Stretches stretches_of(const Trace& trace, std::map<std::string, std::int32_t>& parts, Stop stop) {
    std::vector<std::int32_t> part_of_op;
    for (const OpName& op : trace.ops)
        part_of_op.push_back(
            parts.emplace(part_of(op.block), static_cast<std::int32_t>(parts.size()))
                .first->second);
    Stretches stretches;
    std::map<Shape, std::size_t> numbers;
    for (std::size_t p = 0; p < trace.programs.size() && !is_stopped(stop); ++p) {
        const ProgramOps& program = trace.programs[p];
        for (std::size_t i = first_of_last_step(program); i < program.op.size();) {
            const auto goes_on = [&](std::size_t next) {
                return next < program.op.size() && program.step[next] == program.step[i] &&
                       program.layer[next] == program.layer[i] &&
                       part_of_op[program.op[next]] == part_of_op[program.op[i]];
            };
            std::size_t end = i + 1;
            while (goes_on(end))
                ++end;
            const plan::Action& action = program.actions[program.step[i]].front();
            const Shape shape(program.op.begin() + static_cast<std::ptrdiff_t>(i),
                              program.op.begin() + static_cast<std::ptrdiff_t>(end));
            const auto [known, added] = numbers.emplace(shape, stretches.shapes.size());
            if (added) stretches.shapes.push_back(shape);
            const bool backward =
                plan::makes_input_gradient(action.kind) || plan::ends_micro_batch(action.kind);
            stretches.all.push_back(
                {{backward ? plan::ActionKind::backward : action.kind, action.micro_batch,
                  program.layer[i], part_of_op[program.op[i]],
                  plan::is_compute(action.kind) ? -1 : action.stage},
                 action.stage,
                 static_cast<std::int32_t>(p),
                 static_cast<std::int32_t>(i),
                 known->second});
            i = end;
        }
    }
    std::sort(
        stretches.all.begin(), stretches.all.end(),
        [](const OpStretch& one, const OpStretch& next) { return one.order() < next.order(); });
    return stretches;
}

// Stretches of one step that compute the same as some of the other one: mostly one each.
using Alike = std::span<const OpStretch>;

// Place of an op in such stretches: number of the stretch, and of the op in it.
using StretchOp = std::pair<std::size_t, std::size_t>;
using OpPairs = std::vector<std::pair<StretchOp, StretchOp>>;

class PairedShapes {
  public:
    PairedShapes(const Trace& a, const std::vector<Shape>& shapes_a, const Trace& b,
                 const std::vector<Shape>& shapes_b)
        : a_(a), b_(b), shapes_a_(shapes_a), shapes_b_(shapes_b) {}

    // Of each stretch of `a` with each of `b` what has no pair yet: a backward pass in one action
    // is paired with its first half, and what is left of it with the second.
    const OpPairs& of(Alike a, Alike b) {
        const auto [known, added] = known_.try_emplace({shapes_in(a), shapes_in(b)});
        if (!added) return known->second;
        OpPairs& pairs = known->second;
        Named in_a = named(a_, a, shapes_a_), in_b = named(b_, b, shapes_b_);
        // Of pairings that are as good, the same one whichever step comes first.
        const bool turned = comes_before(in_b, in_a);
        if (turned) in_a.swap(in_b);
        for (std::vector<NamedOp>& of_a : in_a)
            for (std::vector<NamedOp>& of_b : in_b)
                pair_up(of_a, of_b, pairs);
        if (turned)
            for (auto& [one, next] : pairs)
                std::swap(one, next);
        return pairs;
    }

  private:
    using NamedOp = std::pair<StretchOp, const OpName*>;
    using Named = std::vector<std::vector<NamedOp>>;  // by stretch, what has no pair yet

    // So that no number of equal sizes is worth a pair more.
    static constexpr std::int64_t kSameKind = 1 << 20;
    static constexpr std::int64_t kSameSize = kSameKind + 1;

    static std::vector<std::size_t> shapes_in(Alike stretches) {
        std::vector<std::size_t> shapes;
        for (const OpStretch& stretch : stretches)
            shapes.push_back(stretch.shape);
        return shapes;
    }

    static Named named(const Trace& trace, Alike stretches, const std::vector<Shape>& shapes) {
        Named ops(stretches.size());
        for (std::size_t s = 0; s < stretches.size(); ++s) {
            const Shape& shape = shapes[stretches[s].shape];
            for (std::size_t i = 0; i < shape.size(); ++i)
                ops[s].emplace_back(StretchOp{s, i}, &trace.ops[shape[i]]);
        }
        return ops;
    }

    static bool comes_before(const Named& one, const Named& next) {
        const auto of = [](const NamedOp& op) {
            return std::tie(op.first, op.second->kind, op.second->phase, op.second->group,
                            op.second->flops, op.second->bytes);
        };
        return std::lexicographical_compare(
            one.begin(), one.end(), next.begin(), next.end(),
            [&](const std::vector<NamedOp>& ops, const std::vector<NamedOp>& others) {
                return std::lexicographical_compare(
                    ops.begin(), ops.end(), others.begin(), others.end(),
                    [&](const NamedOp& op, const NamedOp& other) { return of(op) < of(other); });
            });
    }

    static std::int64_t worth(const OpName& a, const OpName& b) {
        if (a.kind != b.kind || a.phase != b.phase || a.group != b.group) return 0;
        return a.flops == b.flops && a.bytes == b.bytes ? kSameSize : kSameKind;
    }

    // The longest common subsequence of what is left, which is taken out.
    static void pair_up(std::vector<NamedOp>& left_a, std::vector<NamedOp>& left_b,
                        OpPairs& pairs) {
        const auto worth_of = [&](std::size_t i, std::size_t j) {
            return worth(*left_a[i].second, *left_b[j].second);
        };
        // What both begin with is mostly all that they are.
        std::size_t first = 0;
        while (first < std::min(left_a.size(), left_b.size()) &&
               worth_of(first, first) == kSameSize)
            ++first;
        // best[i][j]: of what follows the i-th behind that of a and the j-th of b.
        const std::size_t rows = left_a.size() - first, columns = left_b.size() - first;
        std::vector<std::int64_t> best((rows + 1) * (columns + 1), 0);
        const auto best_of = [&](std::size_t i, std::size_t j) -> std::int64_t& {
            return best[(i - first) * (columns + 1) + j - first];
        };
        for (std::size_t i = left_a.size(); i-- > first;)
            for (std::size_t j = left_b.size(); j-- > first;) {
                const std::int64_t together = worth_of(i, j);
                best_of(i, j) = std::max({best_of(i + 1, j), best_of(i, j + 1),
                                          together > 0 ? together + best_of(i + 1, j + 1) : 0});
            }
        std::vector<NamedOp> rest_a, rest_b;
        std::size_t i = 0, j = 0;
        while (i < left_a.size() && j < left_b.size()) {
            const std::int64_t together = worth_of(i, j);
            if (i < first || (together > 0 && best_of(i, j) == together + best_of(i + 1, j + 1)))
                pairs.emplace_back(left_a[i++].first, left_b[j++].first);
            else if (best_of(i, j) == best_of(i + 1, j))
                rest_a.push_back(left_a[i++]);
            else
                rest_b.push_back(left_b[j++]);
        }
        rest_a.insert(rest_a.end(), left_a.begin() + static_cast<std::ptrdiff_t>(i), left_a.end());
        rest_b.insert(rest_b.end(), left_b.begin() + static_cast<std::ptrdiff_t>(j), left_b.end());
        left_a = std::move(rest_a);
        left_b = std::move(rest_b);
    }

    const Trace& a_;
    const Trace& b_;
    const std::vector<Shape>& shapes_a_;
    const std::vector<Shape>& shapes_b_;
    std::map<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>, OpPairs> known_;
};

// The stretches from the first on that are alike in what `same` compares.
template <typename Same>
Alike first_alike(Alike from, Same same) {
    std::size_t end = 0;
    while (end < from.size() && same(from[end], from[0]))
        ++end;
    return from.first(end);
}

// Visits stretches of either step that compute the same. Several stages may have a share in it, as
// in a head that all of them compute: shares stay at their stage, and the others follow in order.
template <typename Visit>
void each_alike(Alike a, Alike b, Visit visit) {
    const auto same_key = [](const OpStretch& one, const OpStretch& next) {
        return one.key == next.key;
    };
    const auto same_stage = [](const OpStretch& one, const OpStretch& next) {
        return one.stage == next.stage;
    };
    while (!a.empty() && !b.empty()) {
        Alike in_a = first_alike(a, same_key), in_b = first_alike(b, same_key);
        const bool skips_a = in_a[0].key < in_b[0].key, skips_b = in_b[0].key < in_a[0].key;
        if (!skips_b) a = a.subspan(in_a.size());
        if (!skips_a) b = b.subspan(in_b.size());
        if (skips_a || skips_b) continue;
        std::vector<Alike> left_a, left_b;
        while (!in_a.empty() || !in_b.empty()) {
            const Alike of_a = in_a.empty() ? in_a : first_alike(in_a, same_stage);
            const Alike of_b = in_b.empty() ? in_b : first_alike(in_b, same_stage);
            const bool a_alone = of_b.empty() || (!of_a.empty() && of_a[0].stage < of_b[0].stage);
            const bool b_alone = of_a.empty() || (!of_b.empty() && of_b[0].stage < of_a[0].stage);
            if (a_alone)
                left_a.push_back(of_a);
            else if (b_alone)
                left_b.push_back(of_b);
            else
                visit(of_a, of_b);
            if (!b_alone) in_a = in_a.subspan(of_a.size());
            if (!a_alone) in_b = in_b.subspan(of_b.size());
        }
        for (std::size_t i = 0; i < std::min(left_a.size(), left_b.size()); ++i)
            visit(left_a[i], left_b[i]);
    }
}

ProgramOp op_at(const OpStretch& stretch, std::size_t place) {
    return {stretch.program, stretch.first + static_cast<std::int32_t>(place)};
}

std::vector<std::vector<ProgramOp>> nobody(const Trace& trace) {
    std::vector<std::vector<ProgramOp>> none;
    for (const ProgramOps& program : trace.programs)
        none.emplace_back(program.op.size());
    return none;
}

}  // namespace

Alignment::Alignment(const Trace& a, const Trace& b, const std::atomic<bool>* stop)
    : traces_{&a, &b}, others_{nobody(a), nobody(b)}, places_{places_of(a), places_of(b)} {
    std::map<std::string, std::int32_t> parts;
    const Stretches of_a = stretches_of(a, parts, stop), of_b = stretches_of(b, parts, stop);
    PairedShapes paired(a, of_a.shapes, b, of_b.shapes);
    each_alike(of_a.all, of_b.all, [&](Alike in_a, Alike in_b) {
        if (is_stopped(stop)) return;
        for (const auto& [place_a, place_b] : paired.of(in_a, in_b)) {
            const ProgramOp one = op_at(in_a[place_a.first], place_a.second);
            const ProgramOp next = op_at(in_b[place_b.first], place_b.second);
            others_[0][static_cast<std::size_t>(one.program)][static_cast<std::size_t>(one.op)] =
                next;
            others_[1][static_cast<std::size_t>(next.program)][static_cast<std::size_t>(next.op)] =
                one;
        }
    });
}

std::vector<std::vector<Alignment::RankPlace>> Alignment::places_of(const Trace& trace) {
    std::vector<std::vector<RankPlace>> places(trace.programs.size());
    for (std::size_t t = 0; t < trace.tracks.size(); ++t) {
        const Track& track = trace.tracks[t];
        std::vector<RankPlace>& of_program = places[static_cast<std::size_t>(track.program)];
        of_program.push_back({{track.rank, 1}, t, 0});
        for (const RankRange& range : track.alike)
            of_program.push_back({range, t, 0});
    }
    for (std::vector<RankPlace>& of_program : places) {
        std::sort(of_program.begin(), of_program.end(),
                  [](const RankPlace& one, const RankPlace& next) {
                      return one.ranks.first < next.ranks.first;
                  });
        std::int64_t before = 0;
        for (RankPlace& place : of_program) {
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
    const auto& own =
        places_[static_cast<std::size_t>(side)][static_cast<std::size_t>(track.program)];
    const auto& others =
        places_[static_cast<std::size_t>(other(side))][static_cast<std::size_t>(there->program)];
    if (others.empty()) return std::nullopt;
    const auto ranks = [](const std::vector<RankPlace>& places) {
        return places.back().before + places.back().ranks.count;
    };
    const auto mine = std::partition_point(own.begin(), own.end(), [&](const RankPlace& place) {
        return place.ranks.first + place.ranks.count <= track.rank;
    });
    const std::int64_t place =
        (mine->before + track.rank - mine->ranks.first) * ranks(others) / ranks(own);
    const auto theirs = std::partition_point(
        others.begin(), others.end(),
        [&](const RankPlace& of) { return of.before + of.ranks.count <= place; });
    const TrackOp found{theirs->track, static_cast<std::size_t>(there->op)};
    // Of some tracks a trace says nothing but that they are there.
    if (found.op >= trace(other(side)).tracks[found.track].events.size()) return std::nullopt;
    return found;
}

}  // namespace orrery::trace
