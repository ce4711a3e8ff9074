#include "gui/timeline/counterparts.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/quantity.hpp"
#include "trace/op_differences.hpp"

namespace orrery::gui {
namespace {

std::string seconds_of(Picoseconds time) {
    return cli::seconds_text(static_cast<double>(time) / trace::kPsPerSecond);
}

// "+1.20 ms (+12.0 %)"
std::string against(Picoseconds own, Picoseconds others) {
    if (own == others) return "none";
    const char* sign = own > others ? "+" : "-";
    const std::string size = seconds_of(std::abs(own - others));
    if (others == 0) return sign + size;
    const double share = static_cast<double>(std::abs(own - others)) / static_cast<double>(others);
    return fmt::format("{}{} ({}{})", sign, size, sign, cli::percent_text(share));
}

Picoseconds duration_of(const Timeline& timeline, const OpPlace& op) {
    return timeline.times_of(op).length();
}

const trace::OpName& op_name(const Timeline& timeline, const OpPlace& op) {
    return timeline.trace().op_of(timeline.track_of(op.rank), static_cast<std::size_t>(op.event));
}

}  // namespace

std::string later_text(Picoseconds later) {
    if (later == 0) return "at the same time";
    return seconds_of(std::abs(later)) + (later > 0 ? " later" : " earlier");
}

Counterparts::Counterparts(std::shared_ptr<const Timeline> own,
                           std::shared_ptr<const Timeline> others,
                           std::shared_ptr<const trace::Alignment> alignment, trace::Side side)
    : own_(std::move(own)),
      others_(std::move(others)),
      alignment_(std::move(alignment)),
      side_(side),
      ranks_(others_->trace().tracks.size()) {
    for (std::size_t rank = 0; rank < others_->ranks().size(); ++rank)
        ranks_[others_->ranks()[rank].track] = rank;
}

std::optional<OpPlace> Counterparts::of(const OpPlace& op) const {
    const std::optional<trace::TrackOp> there = alignment_->counterpart(
        side_, trace::TrackOp{own_->ranks()[op.rank].track, static_cast<std::size_t>(op.event)});
    if (!there || !ranks_[there->track]) return std::nullopt;
    return OpPlace{*ranks_[there->track], static_cast<std::int32_t>(there->op)};
}

bool Counterparts::alone(const OpPlace& others) const {
    const trace::ProgramOp op{others_->track_of(others.rank).program, others.event};
    return !alignment_->counterpart(trace::other(side_), op);
}

Kind Counterparts::difference_kind(const OpPlace& op) const {
    const std::optional<OpPlace> there = of(op);
    if (!there) return Kind::alone;
    const auto own = static_cast<double>(duration_of(*own_, op));
    const auto others = static_cast<double>(duration_of(*others_, *there));
    // The same ratios either way, so that what is longer here is as much shorter there.
    if (own == others) return Kind::as_long;
    if (own >= 2 * others) return Kind::twice;
    if (others >= 2 * own) return Kind::half;
    if (own >= 1.25 * others) return Kind::longer;
    if (others >= 1.25 * own) return Kind::shorter;
    if (own > 1.01 * others) return Kind::little_longer;
    if (others > 1.01 * own) return Kind::little_shorter;
    return Kind::as_long;
}

Counterparts::Lines Counterparts::lines_of_op(const OpPlace& op) const {
    const std::optional<OpPlace> there = of(op);
    if (!there) return {{"in the other step", "has no counterpart"}};
    Lines lines;
    lines.emplace_back("in the other step",
                       others_->name_of(*there) + " on " + others_->ranks()[there->rank].name);
    const Picoseconds later = (others_->times_of(*there).from - others_->window().from) -
                              (own_->times_of(op).from - own_->window().from);
    lines.emplace_back("begins there", later_text(later));
    const Picoseconds others = duration_of(*others_, *there);
    lines.emplace_back("takes there", seconds_of(others));
    lines.emplace_back("here against there", against(duration_of(*own_, op), others));
    if (trace::resized(op_name(*own_, op), op_name(*others_, *there)))
        lines.emplace_back("its work there", "is of another size");
    return lines;
}

Counterparts::Lines Counterparts::lines_of_action(std::size_t rank, std::size_t step) const {
    const std::vector<std::uint32_t>& steps = own_->program_of(rank).step;
    Picoseconds own = 0, others = 0, own_alone = 0;
    std::size_t ops = 0, alone = 0;
    std::vector<std::string> places;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const OpPlace op{rank, static_cast<std::int32_t>(i)};
        if (steps[i] != step || op_name(*own_, op).stream != plan::Stream::compute) continue;
        ++ops;
        const std::optional<OpPlace> there = of(op);
        if (!there) {
            ++alone;
            own_alone += duration_of(*own_, op);
            continue;
        }
        own += duration_of(*own_, op);
        others += duration_of(*others_, *there);
        const trace::ProgramOps& program = others_->program_of(there->rank);
        const std::string place =
            trace::to_text(program.actions[program.step[static_cast<std::size_t>(there->event)]]) +
            " on " + others_->ranks()[there->rank].name;
        if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    }
    if (ops == 0) return {};
    if (alone == ops) return {{"in the other step", "has no counterpart"}};
    Lines lines;
    lines.emplace_back("in the other step", fmt::format("{}", fmt::join(places, ", ")));
    lines.emplace_back("its ops here", seconds_of(own));
    lines.emplace_back("the same there", seconds_of(others));
    lines.emplace_back("here against there", against(own, others));
    if (alone > 0)
        lines.emplace_back("ops without counterpart",
                           fmt::format("{} of {}, {}", alone, ops, seconds_of(own_alone)));
    return lines;
}

}  // namespace orrery::gui
