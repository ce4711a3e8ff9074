#include "gui/scenario/sweep_run.hpp"

#include <tbb/parallel_for.h>

#include "sim/prediction.hpp"

namespace orrery::gui {
namespace {

// What one value cannot do is said of it; the others go on.
void predict_point(cli::SweepPoint& point, const std::atomic<bool>& stop) {
    try {
        cli::simulate_point(point, &stop);
        if (point.prediction.stuck.empty()) return;
        point.why = "the plan deadlocks";
    } catch (const sim::Stopped&) {
        throw;
    } catch (const std::exception& error) {
        point.why = error.what();
    }
    point.scenario.reset();
}

}  // namespace

void SweepRun::predict_all(SweepFound& found, const std::string& vary) {
    found.varies = cli::parse_all_varies({vary});
    const auto all = cli::combinations(found.varies, cli::kMostValues);
    std::vector<cli::SweepPoint> points(all.size());
    std::vector<char> done(all.size());
    std::atomic<std::size_t> count{0};
    // Reading may time this computer, once: not in parallel.
    for (std::size_t i = 0; i < all.size() && !stopped(); ++i)
        points[i] = cli::read_point(found.input, all[i]);
    tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
        if (stopped()) return;
        try {
            if (points[i].scenario) predict_point(points[i], stopped());
        } catch (const sim::Stopped&) {
            return;
        }
        done[i] = 1;
        const double share = static_cast<double>(++count) / static_cast<double>(all.size());
        tell(share);
    });
    for (std::size_t i = 0; i < all.size(); ++i)
        if (done[i] != 0) found.points.push_back(std::move(points[i]));
    found.stopped = found.points.size() < all.size();
}

void SweepRun::start(const ScenarioText& scenario, const std::string& vary) {
    auto found = std::make_shared<SweepFound>();
    found->input.file = name_of(scenario);
    found->input.given = scenario.text;
    perform(
        [this, found, vary] {
            try {
                predict_all(*found, vary);
            } catch (const std::exception& error) {
                found->failure = error.what();
            }
        },
        [this, found] { Q_EMIT this->found(found); });
}

}  // namespace orrery::gui
