// Rules of offloading: what is kept off the device needs a way there.
#include <fmt/format.h>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

// The first state of the layout that is kept there.
std::string kept_there(const Offload& offload, KeptOn tier) {
    const char* where = tier == KeptOn::host ? "host" : "disk";
    for (const auto& [name, kept] : {std::pair{"optimizer", offload.optimizer},
                                     {"gradients", offload.gradients},
                                     {"parameters", offload.parameters},
                                     {"activations", offload.activations}})
        if (kept == tier) return fmt::format("layout.offload.{} = \"{}\"", name, where);
    return "";
}

void check_stash(Reading& reading, const Scenario& scenario) {
    const Precision precision = scenario.training.precision;
    const bool wide = precision == Precision::fp32 || precision == Precision::fp64;
    if (scenario.layout.activation_stash != ActivationStash::bf16 || wide ||
        !reading.good({"layout.activation_stash", "training.precision"}))
        return;
    Diagnostic& fault = reading.report("S041", "/layout/activation_stash",
                                       "activations have no more bits than they would wait in");
    fault.arithmetic =
        fmt::format("training.precision = {}: 16 bits, bf16: 16 bits", name(precision));
    fault.help.push_back("activation_stash: \"fp8\" or \"same\"");
}

}  // namespace

void check_offload(Reading& reading, const Scenario& scenario) {
    check_stash(reading, scenario);
    const Offload& offload = scenario.layout.offload;
    if (!reading.good({"layout.offload"}) || !offload.any()) return;
    const KeptOn first = offload.uses(KeptOn::host) ? KeptOn::host : KeptOn::disk;
    if (reading.good({"cluster.host_memory"}) && scenario.cluster.host_memory.bandwidth_GBps == 0) {
        Diagnostic& fault = reading.report(
            "S040", "/cluster/host_memory",
            "the cluster does not say how devices reach host memory: cluster needs the key "
            "\"host_memory\"");
        fault.arithmetic = kept_there(offload, first);
        fault.help.push_back(
            "\"host_memory\": {\"capacity_GB\": 2000, \"bandwidth_GBps\": 55, \"latency_us\": 10}, "
            "the capacity of a node, the bandwidth of one device in one direction");
    }
    if (!offload.uses(KeptOn::disk)) return;
    if (reading.good({"cluster.storage"}) && scenario.cluster.storage.read_GBps == 0) {
        Diagnostic& fault = reading.report("S040", "/cluster/storage",
                                           "the cluster does not say what storage a node has: "
                                           "cluster needs the key \"storage\"");
        fault.arithmetic = kept_there(offload, KeptOn::disk);
        fault.help.push_back(
            "\"storage\": {\"capacity_GB\": 30000, \"read_GBps\": 25, \"write_GBps\": 15, "
            "\"latency_us\": 100}, all of a node");
    }
}

}  // namespace orrery::plan
