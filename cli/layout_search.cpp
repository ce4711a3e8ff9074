#include "cli/layout_search.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/machine_files.hpp"
#include "cli/subcommand.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kMostBases = 10'000;
constexpr std::string_view kLayout = "layout.";

bool is_searched(const std::string& key) {
    const auto& keys = sim::searched_keys();
    return key.starts_with(kLayout) &&
           std::find(keys.begin(), keys.end(), key.substr(kLayout.size())) != keys.end();
}

class Preparation {
  public:
    Preparation(const ScenarioInput& input, const std::vector<Vary>& varies)
        : input_(input), varies_(varies) {}

    LayoutSearch run() {
        std::vector<Vary> others;
        for (const Vary& vary : varies_)
            if (!is_searched(vary.key)) others.push_back(vary);
        for (const std::vector<std::string>& combination : combinations(others, kMostBases)) {
            add_base(combination);
            if (!out_.errors.empty()) break;
        }
        return std::move(out_);
    }

    LayoutSearch run_each(const std::vector<std::vector<std::string>>& combinations) {
        for (std::size_t i = 0; i < combinations.size(); ++i) {
            const std::size_t before = out_.bases.size();
            add_base(combinations[i]);
            if (out_.bases.size() > before) out_.number_of_base.push_back(i);
            out_.errors_of_each.push_back(std::move(out_.errors));
            out_.errors.clear();
        }
        return std::move(out_);
    }

  private:
    bool failed(plan::UnsettledScenario& read) {
        out_.errors = std::move(read.errors);
        out_.unreadable = read.unreadable;
        return !out_.errors.empty();
    }

    void add_base(const std::vector<std::string>& changes) {
        plan::UnsettledScenario read = input_.read_unsettled(changes);
        if (failed(read)) return;
        const std::vector<Vary> axes = axes_of(read);
        std::vector<sim::LayoutAxis> values;
        for (const Vary& vary : axes) {
            sim::LayoutAxis axis{vary.key.substr(kLayout.size()), vary.values, {}};
            for (const std::string& value : vary.values) {
                std::vector<std::string> with = changes;
                with.push_back(vary.key + '=' + value);
                plan::UnsettledScenario one = input_.read_unsettled(with);
                if (failed(one)) return;
                axis.values.push_back(one.scenario->layout);
            }
            values.push_back(std::move(axis));
        }
        const plan::Cluster& cluster = read.scenario->cluster;
        std::string paths;
        for (std::size_t kind = 0; kind < cluster.node_kinds(); ++kind)
            paths += cluster.node_kind(kind).profile_path + '\n';
        auto& profile = out_.profiles[paths];
        if (!profile) profile = std::make_unique<sim::Profile>(sim::load_profiles(cluster));
        for (const sim::LayoutAxis& axis : values)
            for (const plan::Layout& value : axis.values)
                if (axis.key == "schedule") require_kind(value);
        const plan::Layout layout = read.scenario->layout;
        const bool varied = std::any_of(values.begin(), values.end(),
                                        [](const auto& axis) { return axis.key == "schedule"; });
        if (!varied) require_kind(layout);
        out_.bases.push_back(
            {std::move(read), changes, profile.get(), sim::LayoutSpace(layout, std::move(values))});
    }

    // A grid of actions has one number of stages and micro-batches: there is nothing to search.
    static void require_kind(const plan::Layout& layout) {
        if (!layout.imported.schedule.grid.empty())
            throw UsageError(fmt::format(
                "the schedule {} is a file of actions, which a search does not price; --vary "
                "layout.schedule=1f1b,zb-h1 says which kinds to try",
                layout.schedule));
    }

    // What is varied of the layout: what is named or left open, or all that is usual.
    std::vector<Vary> axes_of(const plan::UnsettledScenario& read) const {
        std::vector<Vary> axes;
        for (const Vary& vary : varies_)
            if (is_searched(vary.key)) axes.push_back(vary);
        const auto usual = [&](const std::string& key) {
            return sim::usual_values(std::string_view(key).substr(kLayout.size()), *read.scenario);
        };
        for (const std::string& key : read.automatic) {
            const bool named = std::any_of(axes.begin(), axes.end(),
                                           [&](const Vary& vary) { return vary.key == key; });
            if (named) continue;
            if (!is_searched(key) || usual(key).empty())
                throw UsageError(key + " is \"auto\": it has no usual values; --vary " + key +
                                 "=VALUES says which to try");
            axes.push_back({key, usual(key)});
        }
        if (!axes.empty()) return axes;
        for (const std::string_view searched : sim::searched_keys()) {
            const std::string key = std::string(kLayout) + std::string(searched);
            std::vector<std::string> values = usual(key);
            if (!values.empty()) axes.push_back({key, std::move(values)});
        }
        return axes;
    }

    const ScenarioInput& input_;
    const std::vector<Vary>& varies_;
    LayoutSearch out_;
};

}  // namespace

LayoutSearch layout_search(const ScenarioInput& input, const std::vector<Vary>& varies) {
    return Preparation(input, varies).run();
}

LayoutSearch layout_search_of_each(const ScenarioInput& input, const std::vector<Vary>& varies) {
    return layout_search_of_each(input, combinations(varies, kMostBases));
}

LayoutSearch layout_search_of_each(const ScenarioInput& input,
                                   const std::vector<std::vector<std::string>>& combinations) {
    const std::vector<Vary> none;
    return Preparation(input, none).run_each(combinations);
}

std::optional<sim::FoundLayout> own_layout(const ScenarioInput& input) {
    const plan::ReadResult& read = input.content();
    if (!read.scenario) return std::nullopt;
    const sim::Profile profile = sim::load_profiles(read.scenario->cluster);
    sim::SimulateOptions options;
    options.keep_trace = false;
    sim::FoundLayout found{
        {}, {}, *read.scenario, sim::simulate(*read.scenario, profile, options, "")};
    found.price.step_s = found.prediction.step.time_s;
    if (const auto estimate = sim::estimate_layout(*read.scenario, profile))
        found.price.step_s = estimate->step_s;
    return found;
}

}  // namespace orrery::cli
