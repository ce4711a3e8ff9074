#include "gui/timeline/find.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>

namespace orrery::gui {
namespace {

std::string lowered(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// Order of time first, so that what is found goes on to the right.
using Order = std::tuple<Picoseconds, std::size_t, std::int32_t>;

class Finder {
  public:
    Finder(const Timeline& timeline, const std::string& text)
        : timeline_(timeline), text_(lowered(text)) {
        if (timeline.recorded() != nullptr) {
            for (const std::string& name : timeline.recorded()->names)
                ops_.push_back(contains(name));
            return;
        }
        for (const trace::OpName& op : timeline.trace().ops)
            ops_.push_back(contains(op.label) || contains(op.block) ||
                           contains(std::string(plan::name(op.kind))));
    }

    template <typename Visit>
    void each(Visit visit) const {
        if (timeline_.recorded() != nullptr) return each_recorded(visit);
        for (std::size_t rank = 0; rank < timeline_.ranks().size(); ++rank) {
            const trace::ProgramOps& program = timeline_.program_of(rank);
            std::vector<bool> steps;
            for (const trace::StepActions& actions : program.actions)
                steps.push_back(contains(trace::to_text(actions)));
            const trace::Events& events = timeline_.track_of(rank).events;
            for (std::size_t i = 0; i < events.size(); ++i)
                if (ops_[program.op[i]] || steps[program.step[i]])
                    visit(Order{events[i].start, rank, static_cast<std::int32_t>(i)});
        }
    }

  private:
    template <typename Visit>
    void each_recorded(Visit visit) const {
        const std::vector<trace::RecordedProcess>& processes = timeline_.recorded()->processes;
        for (std::size_t rank = 0; rank < processes.size(); ++rank)
            for (std::size_t i = 0; i < processes[rank].spans.size(); ++i)
                if (ops_[processes[rank].spans[i].name])
                    visit(
                        Order{processes[rank].spans[i].start, rank, static_cast<std::int32_t>(i)});
    }
    bool contains(const std::string& words) const {
        return lowered(words).find(text_) != std::string::npos;
    }

    const Timeline& timeline_;
    std::string text_;
    std::vector<bool> ops_;
};

}  // namespace

std::optional<OpPlace> find_op(const Timeline& timeline, const std::string& text,
                               const std::optional<OpPlace>& from, Direction direction) {
    if (text.empty()) return std::nullopt;
    std::optional<Order> here;
    if (from) here = Order{timeline.times_of(*from).from, from->rank, from->event};
    const bool onward = direction == Direction::forward;
    // The nearest on the side that is asked for, and the outermost of the other to go on with.
    std::optional<Order> nearest, outermost;
    const auto earlier = [&](const Order& a, const Order& b) { return onward ? a < b : b < a; };
    Finder(timeline, text).each([&](const Order& found) {
        if ((!here || earlier(*here, found)) && (!nearest || earlier(found, *nearest)))
            nearest = found;
        if (!outermost || earlier(found, *outermost)) outermost = found;
    });
    if (!nearest) nearest = outermost;
    if (!nearest) return std::nullopt;
    return OpPlace{std::get<1>(*nearest), std::get<2>(*nearest)};
}

}  // namespace orrery::gui
