// What `orrery simulate` prints: the same prediction as text for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/scenario_input.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/cost/profile.hpp"
#include "sim/prediction.hpp"
#include "sim/whatif/fixes.hpp"
#include "sim/whatif/stack_needs.hpp"
#include "sim/whatif/unused_keys.hpp"

namespace orrery::cli {

struct ReportInput {
    const plan::Scenario& scenario;
    const sim::Profile& profile;
    const sim::Prediction& prediction;
    const ScenarioInput& arguments;           // to be repeated in suggested commands
    std::string resolved_json;                // the resolved scenario
    sim::FixSearch fixes = {};                // where the scenario does not fit, or only tightly
    std::vector<sim::StackNeed> stacks = {};  // where its own stack was assumed, or never measured

    std::vector<sim::UnusedKey> unused = {};  // keys that nothing here depends on

    // Simulates what the report says besides: fixes, other stacks, unused keys. Nothing where the
    // prediction is stuck, or priced by measurements, with which a profile's prices do not mix.
    // `read` is what the scenario is from.
    void ask_further(const plan::ReadResult& read, const std::string& subcommand,
                     const Console& console);
    // The same without a word; `step` is called before each simulation, and may throw.
    void ask_further(const plan::ReadResult& read, const std::function<void()>& step);

    // What people call the devices.
    const char* device_word() const { return profile.hardware.cpu ? "device" : "GPU"; }
};

// Of a prediction that is not stuck.
std::string report_text(const ReportInput& input, const Console& console);

// What communicates, in the order of the report. The gradient norm, which joins every rank, counts
// as data, and the gradients of tied embeddings as pipeline.
struct CommunicationGroup {
    const char* name;
    trace::Account account;  // of its exposed part
    std::int64_t ranks;      // in one group
};
std::vector<CommunicationGroup> communication_groups(const plan::Layout& layout);

// The first lines of the report: what is simulated.
std::string headline_text(const ReportInput& input, const Console& console);

// One object, pretty printed. Keys are a contract: docs/simulate-json.md. Numbers are the shortest
// that read back to the same double; what is unknown is null. Of a stuck prediction: the scenario
// and "deadlock", a line per waiting rank.
std::string report_json(const ReportInput& input);

}  // namespace orrery::cli
