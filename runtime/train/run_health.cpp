#include "runtime/train/run_health.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "plan/ir/mesh.hpp"

namespace orrery::runtime {
namespace {

constexpr double kPicosecond = 1e-12;

plan::Mesh mesh_of_layout(const plan::Layout& layout) {
    plan::Mesh mesh;
    mesh.tensor = layout.tensor_parallel;
    mesh.context = layout.context_parallel;
    mesh.data = layout.data_parallel;
    mesh.pipeline = layout.pipeline_parallel;
    return mesh;
}

// Ranks that compute the same: of one pipeline rank, and of one part of the sequence, which may
// have more of causal attention than another.
std::vector<std::int64_t> peers_of(const plan::Layout& layout) {
    const plan::Mesh mesh = mesh_of_layout(layout);
    std::vector<std::int64_t> peers;
    for (plan::Rank rank = 0; rank < mesh.ranks(); ++rank) {
        const plan::Coordinates at = mesh.coordinates(rank);
        peers.push_back(at.pipeline * mesh.context + at.context);
    }
    return peers;
}

HealthNotice not_finite(const StepReport& step) {
    HealthNotice notice;
    notice.ailment = Ailment::not_finite;
    notice.step = step.step;
    notice.figures = {{"loss", step.loss}};
    if (step.grad_norm) notice.figures.emplace_back("grad_norm", *step.grad_norm);
    notice.message = std::isfinite(step.loss) ? "the norm of the gradients is no number"
                                              : "the loss is no number";
    return notice;
}

}  // namespace

std::vector<double> expected_compute_s(const plan::Layout& layout, const trace::Trace& trace) {
    const plan::Mesh mesh = mesh_of_layout(layout);
    const std::vector<std::int64_t> peers = peers_of(layout);
    std::vector<double> by_peers(static_cast<std::size_t>(mesh.pipeline * mesh.context));
    for (const trace::Track& track : trace.tracks) {
        if (track.rank >= mesh.ranks()) return std::vector<double>(peers.size());
        double seconds = 0;
        for (std::size_t id = 0; id < track.events.size(); ++id)
            if (trace.op_of(track, id).stream == plan::Stream::compute)
                seconds += static_cast<double>(track.events[id].duration()) * kPicosecond;
        double& slowest =
            by_peers[static_cast<std::size_t>(peers[static_cast<std::size_t>(track.rank)])];
        slowest = std::max(slowest, seconds);
    }
    std::vector<double> expected;
    for (const std::int64_t number : peers)
        expected.push_back(by_peers[static_cast<std::size_t>(number)]);
    return expected;
}

RunHealth::RunHealth(const plan::Scenario& scenario, const WatchedRanks& ranks,
                     std::function<void(const HealthNotice&)> said)
    : scenario_(scenario),
      ranks_(ranks),
      said_(std::move(said)),
      losses_(scenario.run.health),
      stalls_(scenario.run.health, said_) {}

void RunHealth::met(const std::vector<std::string>& hosts) {
    if (ranks_.take_turns) return;
    std::vector<double> expected(hosts.size());
    if (ranks_.expected != nullptr)
        expected = expected_compute_s(scenario_.layout, *ranks_.expected);
    stragglers_.emplace(peers_of(scenario_.layout), expected, hosts);
}

void RunHealth::stepped(const StepReport& step) {
    stalls_.stepped(step.step, step.time_s);
    if (step.skipped == Skipped::no) {
        if (!step.is_finite()) said_(not_finite(step));
        if (const auto notice = losses_.step(step.step, step.loss)) said_(*notice);
    }
    // A growing batch is more work, for all of them.
    if (stragglers_)
        for (const auto& notice : stragglers_->step(step.step, step.computed_s))
            said_(notice);
}

void RunHealth::saved(const CheckpointReport& report) {
    stalls_.saved(report.stall_s + report.write_s);
}

}  // namespace orrery::runtime
