// Layouts that keep states or activations off the device; each beside itself without.
#pragma once

#include <string>
#include <vector>

#include "tests/parity/layouts.hpp"

namespace orrery::parity {

// Of the tests' cluster: what offloading needs to know.
inline Sets offload_cluster() {
    return {
        R"(cluster.host_memory={"capacity_GB": 1, "bandwidth_GBps": 10, "latency_us": 1})",
        R"(cluster.storage={"capacity_GB": 1, "read_GBps": 1, "write_GBps": 1, "latency_us": 10})"};
}

// "optimizer=host": layout.offload.optimizer. Everything else is a setting as in layout().
inline std::vector<NamedLayout> offload_layouts() {
    const std::string dp2 = "data_parallel=2", tp2 = "tensor_parallel=2",
                      pp2 = "pipeline_parallel=2", sp = "sequence_parallel=true",
                      gpipe = "schedule=gpipe", v2 = "virtual_pipeline=2",
                      interleaved = "schedule=interleaved",
                      small = "training.gradient_bucket_mb=0.02";
    auto to = [](const char* what, const char* where) {
        return std::string("offload.") + what + '=' + where;
    };
    auto prefetch = [](int n) { return "offload.prefetch=" + std::to_string(n); };
    std::vector<NamedLayout> all;
    auto add = [&](const std::string& name, const std::vector<std::string>& keys) {
        NamedLayout named{name, offload_cluster()};
        for (const std::string& key : keys)
            named.sets.push_back(key.starts_with("training.") ? key : "layout." + key);
        all.push_back(std::move(named));
    };
    add("optimizer_host", {small, to("optimizer", "host")});
    add("optimizer_host_zero1", {dp2, "zero_stage=1", small, to("optimizer", "host"), prefetch(0)});
    add("optimizer_disk_zero2", {dp2, "zero_stage=2", to("optimizer", "disk"), prefetch(2)});
    add("gradients_host", {small, to("gradients", "host")});
    // A rank's half of all gradients in one bucket begins between two allocations.
    add("gradients_host_zero1", {dp2, "zero_stage=1", to("gradients", "host")});
    add("gradients_host_zero2", {dp2, "zero_stage=2", to("gradients", "host")});
    add("gradients_disk_late",
        {dp2, small, "training.overlap_gradient_reduce=false", to("gradients", "disk")});
    add("parameters_host", {small, to("parameters", "host")});
    add("parameters_host_zero3", {dp2, "zero_stage=3", to("parameters", "host")});
    add("parameters_disk_zero3_prefetch_3",
        {dp2, "zero_stage=3", "training.zero_prefetch=2", to("parameters", "disk"), prefetch(3)});
    add("parameters_host_zero3_kept", {dp2, pp2, "zero_stage=3", "reshard_after_forward=false",
                                       to("parameters", "host"), prefetch(0)});
    add("activations_host_1f1b", {"pipeline_parallel=4", to("activations", "host")});
    add("activations_host_gpipe", {pp2, gpipe, to("activations", "host"), prefetch(0)});
    add("activations_disk_gpipe", {pp2, gpipe, to("activations", "disk")});
    add("activations_host_interleaved", {pp2, v2, interleaved, to("activations", "host")});
    add("activations_host_sequence",
        {tp2, sp, pp2, gpipe, "recompute=full", to("activations", "host"), prefetch(2)});
    add("activations_host_tensor", {tp2, pp2, gpipe, to("activations", "host")});
    add("infinity", {dp2, "zero_stage=3", to("optimizer", "disk"), to("gradients", "disk"),
                     to("parameters", "disk"), to("activations", "host")});
    add("all_tensor_pipeline_data",
        {tp2, pp2, dp2, "zero_stage=1", small, gpipe, to("optimizer", "host"),
         to("gradients", "host"), to("parameters", "host"), to("activations", "host")});
    return all;
}

// The same without the keys of offloading.
inline Sets on_the_device(const NamedLayout& named) {
    Sets sets;
    for (const std::string& set : named.sets)
        if (!set.starts_with("layout.offload.")) sets.push_back(set);
    return sets;
}

}  // namespace orrery::parity
