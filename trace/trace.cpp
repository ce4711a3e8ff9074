#include "trace/trace.hpp"

#include <algorithm>

namespace orrery::trace {

std::string to_text(const StepActions& actions) {
    std::string text;
    for (const plan::Action& action : actions)
        text += (text.empty() ? "" : "+") + plan::to_text(action);
    return text;
}

std::optional<StepActions> parse_actions(std::string_view text) {
    StepActions actions;
    for (std::size_t end = 0; end != std::string_view::npos;) {
        end = text.find('+');
        const auto action = plan::parse_action(text.substr(0, end));
        if (!action) return std::nullopt;
        actions.push_back(*action);
        if (end != std::string_view::npos) text.remove_prefix(end + 1);
    }
    return actions;
}

std::int64_t Track::represents() const {
    std::int64_t ranks = 1;
    for (const RankRange& range : alike)
        ranks += range.count;
    return ranks;
}

}  // namespace orrery::trace
