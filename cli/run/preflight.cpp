#include "cli/run/preflight.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run/run_statement.hpp"
#include "cli/run/train_forecast.hpp"
#include "cli/run/train_ranks.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "runtime/machine/inspect.hpp"

namespace orrery::cli {
namespace {

constexpr double kSeconds = 3;  // of all steps, by what is expected
constexpr int kFewest = 5, kMost = 200;

preflight::Steps steps_of(const PreflightOptions& options, const preflight::Expected& expected) {
    preflight::Steps steps;
    steps.counted = options.steps;
    if (options.steps == 0)
        steps.counted = static_cast<int>(
            std::clamp(std::ceil(kSeconds / expected.step_s), double{kFewest}, double{kMost}));
    return steps;
}

// Before ranks meet: what the machine lacks for the backend.
bool is_ready(const runtime::BackendRow& row, Console& console) {
    runtime::SystemLoader loader;
    const auto missing = row.missing(runtime::inspect_machine(loader));
    for (const runtime::Finding& finding : missing)
        console.err << fmt::format("orrery doctor: backend {}: {}\n  -> {}\n", row.name,
                                   finding.what, finding.remedy);
    return missing.empty();
}

int perform(const PreflightOptions& options, const ScenarioInput& input,
            const plan::ReadResult& read, const std::optional<runtime::Launch>& launch,
            Console& console) {
    const plan::Scenario& scenario = *read.scenario;
    const runtime::BackendRow& row = runtime::backend_named(options.backend.backend);
    TrainRun run = train_run_of(scenario, 1, launch ? launch->local_size : 0);
    run.placement = {options.backend.backend, std::max(1, options.backend.ranks_per_gpu)};
    run.resolved_json = read.resolved_json;
    const PricedRun priced = priced_run(run, input);
    const std::int64_t ranks = scenario.layout.ranks();
    const preflight::PreflightPlan plan = preflight::preflight_plan(
        ranks, preflight::sizes_of(plan::build_plan(scenario), !row.on_host));
    const preflight::Expected expected = preflight::expected(plan, priced.scenario, priced.profile);
    const preflight::Steps steps = steps_of(options, expected);

    BackendOptions timed = options.backend;
    timed.time_ops = true;
    const auto backend = make_backend(timed, run, console, nullptr);
    const preflight::Measured measured =
        preflight::measure(plan, *backend, steps, [&](runtime::ControlPlane& control) {
            if (launch) runtime::require_agreement(control, run_statement(run, {}));
        });
    if (measured.timings.empty()) return kExitOk;  // rank 0 is another process
    const preflight::Judgement judgement =
        preflight::judge(measured.timings, expected, scenario.cluster.devices_per_node,
                         options.tolerance_percent / 100);
    const PreflightReport report{run,
                                 plan,
                                 judgement,
                                 measured.hosts,
                                 file_name(priced.scenario.cluster.profile_path),
                                 priced.why_not,
                                 options.tolerance_percent / 100,
                                 steps.counted};
    const auto printed = [&] {
        return preflight_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    if (options.json)
        console.out << printed() << '\n';
    else
        console.out << preflight_text(report);
    if (options.csv != nullptr) options.csv->write(printed);
    return judgement.slow.empty() ? kExitOk : kExitVerification;
}

}  // namespace

int run_preflight(const PreflightOptions& options, const ScenarioInput& input, Console& console) {
    require_shared_devices(options.backend);
    const auto launch = launched_rank(options.backend);
    const runtime::BackendRow& row = runtime::backend_named(options.backend.backend);
    std::ostream nobody(nullptr);  // what rank 0 says, the others need not
    Console silent{console.out, nobody};
    Console& heard = launch && launch->rank > 0 ? silent : console;
    const plan::ReadResult read =
        input.read(heard, options.json, launch ? OwnProfile::find : OwnProfile::make);
    if (!read.scenario) return exit_code_of(read);
    if (launch) require_a_process_per_rank(*launch, *read.scenario, input);
    if (const std::string lacks = row.lacks(); !lacks.empty()) {
        heard.err << "orrery doctor: " << lacks << '\n';
        return kExitDevice;
    }
    if (!is_ready(row, heard)) return kExitDevice;
    if (starts_ranks(options.backend, *read.scenario))
        return start_ranks(options.backend, *read.scenario);
    return perform(options, input, read, launch, heard);
}

}  // namespace orrery::cli
