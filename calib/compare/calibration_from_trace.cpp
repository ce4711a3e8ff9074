#include "calib/compare/calibration_from_trace.hpp"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "calib/compare/validate.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"
#include "sim/replay/measured.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::compare {
namespace {

using sim::CostFamily;

constexpr double kSameWait = 0.002;     // of the step
constexpr double kLongestLaunch = 1e6;  // us
constexpr int kHalvings = 30;

class TracedRun {
  public:
    TracedRun(const std::string& path, std::vector<std::string> sets, std::string library_dir)
        : path_(path), sets_(std::move(sets)), library_dir_(std::move(library_dir)) {
        trace::Trace trace = trace::read_trace(path);
        if (trace.scenario_json.empty())
            throw RecordsError(path + ": it does not say its scenario");
        scenario_json_ = trace.scenario_json;
        measured_step_s = sim::to_seconds(trace.step_end - trace.step_start);
        ranks = std::ssize(trace.tracks);
        costs_.emplace(std::move(trace), path);
        scenario = read({});
        profile_ = sim::load_profiles(scenario.cluster);
        costs_->hold_against(sim::predicted_ops(plan::build_plan(scenario), scenario, profile_));
    }

    std::int64_t ranks = 0;
    double measured_step_s = 0;
    plan::Scenario scenario;

    const sim::MeasuredCosts& costs() const { return *costs_; }
    sim::StepPrediction replayed() const { return simulated(scenario, &*costs_); }
    sim::StepPrediction predicted(const std::vector<std::string>& overrides) const {
        return simulated(read(overrides), nullptr);
    }

  private:
    plan::Scenario read(const std::vector<std::string>& overrides) const {
        std::vector<std::string> all = sets_;
        all.insert(all.end(), overrides.begin(), overrides.end());
        const plan::ReadResult result = plan::read_scenario_text(
            scenario_json_, path_, std::filesystem::path(path_).parent_path().string(), all,
            library_dir_);
        if (!result.scenario)
            throw RecordsError(
                fmt::format("{}: its scenario: {}", path_, plan::format_text(result.errors)));
        return *result.scenario;
    }
    sim::StepPrediction simulated(const plan::Scenario& of, const sim::MeasuredCosts* costs) const {
        sim::SimulateOptions how;
        how.costs = costs;
        sim::Prediction prediction = sim::simulate(of, profile_, how, scenario_json_);
        if (!prediction.stuck.empty()) throw RecordsError(path_ + ": its plan deadlocks");
        return prediction.step;
    }

    std::string path_;
    std::vector<std::string> sets_;
    std::string library_dir_;
    std::string scenario_json_;
    std::optional<sim::MeasuredCosts> costs_;
    sim::Profile profile_;
};

double wait_of(const sim::StepPrediction& step) {
    return step.breakdown_s[static_cast<std::size_t>(trace::Account::launch)];
}

std::vector<std::string> overrides_of(const std::vector<FoundConstant>& constants) {
    std::vector<std::string> overrides;
    for (const FoundConstant& constant : constants)
        overrides.push_back(fmt::format("{}={:.6g}", constant.key, constant.after));
    return overrides;
}

// With the constants so far. Waits grow with launches: halving finds it.
void settle_launches(const TracedRun& run, double measured_wait_s,
                     std::vector<FoundConstant>& constants) {
    const double before = run.scenario.training.framework.launch_us;
    const double same = kSameWait * run.measured_step_s;
    const auto wait_with = [&](double launch_us) {
        std::vector<std::string> overrides = overrides_of(constants);
        overrides.push_back(fmt::format("training.launch_us={:.6g}", launch_us));
        return wait_of(run.predicted(overrides));
    };
    if (std::abs(wait_with(before) - measured_wait_s) <= same) return;
    double low = 0, high = std::max(1.0, before);
    while (high < kLongestLaunch && wait_with(high) < measured_wait_s) {
        low = high;
        high *= 2;
    }
    double launch = (low + high) / 2;
    for (int i = 0; i < kHalvings; ++i, launch = (low + high) / 2) {
        const double more = wait_with(launch) - measured_wait_s;
        if (std::abs(more) <= same) break;
        (more > 0 ? high : low) = launch;
    }
    constants.push_back({"training.launch_us", before, launch});
}

}  // namespace

TraceCalibration calibrate_to_trace(const std::string& path, const std::vector<std::string>& sets,
                                    const std::string& library_dir) {
    const TracedRun run(path, sets, library_dir);
    TraceCalibration result;
    result.model = run.scenario.model.name;
    result.ranks = run.ranks;
    result.measured_step_s = run.measured_step_s;
    result.predicted_before_s = run.predicted({}).time_s;
    result.measured_wait_s = wait_of(run.replayed());
    for (std::size_t i = 0; i < sim::kCostFamilies; ++i) {
        const auto family = static_cast<CostFamily>(i);
        if (const auto over = run.costs().over_model(family))
            result.families.push_back(
                {family, over->measured_s, over->measured_s / over->factor, over->relative_sd});
    }
    const auto factor_of = [&](CostFamily family) -> const FamilyOverModel* {
        for (const FamilyOverModel& one : result.families)
            if (one.family == family) return &one;
        return nullptr;
    };
    const auto shift = [&](CostFamily family, const char* key, double before, double over,
                           int power) {
        const FamilyOverModel* of = factor_of(family);
        if (of == nullptr) return;
        const double factor = of->measured_s / of->modelled_s / over;
        result.constants.push_back({key, before, before * std::pow(factor, power)});
    };
    const plan::Framework& stack = run.scenario.training.framework;
    const FamilyOverModel* products = factor_of(CostFamily::gemm);
    const double of_products =
        products == nullptr ? 1 : products->measured_s / products->modelled_s;
    shift(CostFamily::gemm, "training.kernel_factor", stack.kernel_factor, 1, 1);
    shift(CostFamily::attention, "training.attention_factor", stack.attention_factor, of_products,
          1);
    shift(CostFamily::memory, "training.memory_kernel_factor", stack.memory_kernel_factor,
          of_products, 1);
    const plan::Cluster& cluster = run.scenario.cluster;
    shift(CostFamily::intra_node_collective, "cluster.intra_node.bandwidth_GBps",
          cluster.intra_node.bandwidth_GBps, 1, -1);
    shift(CostFamily::intra_node_collective, "cluster.intra_node.latency_us",
          cluster.intra_node.latency_us, 1, 1);
    shift(CostFamily::inter_node_collective, "cluster.inter_node.bandwidth_Gbps",
          cluster.inter_node.bandwidth_Gbps, 1, -1);
    shift(CostFamily::inter_node_collective, "cluster.inter_node.latency_us",
          cluster.inter_node.latency_us, 1, 1);
    settle_launches(run, result.measured_wait_s, result.constants);
    result.predicted_after_s = run.predicted(overrides_of(result.constants)).time_s;
    return result;
}

}  // namespace orrery::compare
