// orrery doctor FILE --preflight: the checks that ranks perform before a run (calib/preflight),
// held against the profile and against each other.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "calib/preflight/judgement.hpp"
#include "cli/console.hpp"
#include "cli/csv_output.hpp"
#include "cli/run/train_backend.hpp"
#include "cli/scenario_input.hpp"

namespace orrery::cli {

struct PreflightOptions {
    BackendOptions backend;
    double tolerance_percent = 10;  // that a rank may take longer than its like
    int steps = 0;                  // that count; 0: as many as take some seconds
    bool json = false;
    const CsvOutput* csv = nullptr;  // what writes the tables, if they are asked for
};

// On every rank; rank 0 prints. kExitVerification where something is slow.
int run_preflight(const PreflightOptions& options, const ScenarioInput& input, Console& console);

struct PreflightReport {
    const TrainRun& run;
    const preflight::PreflightPlan& plan;
    const preflight::Judgement& judgement;
    std::vector<std::string> hosts;  // by rank
    std::string profile;             // file
    std::string why_not_of_here;     // PricedRun::why_not
    double tolerance = 0;
    int steps = 0;
};
std::string preflight_text(const PreflightReport& report);
nlohmann::ordered_json preflight_json(const PreflightReport& report);

}  // namespace orrery::cli
