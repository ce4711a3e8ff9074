// What nccl-tests would print on a machine whose collectives take α + (bytes sent) / β: the table
// and the file of -J, rounded as the programs round.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/network/algorithms.hpp"

namespace orrery::fit {

struct NcclMachine {
    std::string collective = "all_reduce";
    int ranks = 8;
    double latency_us = 20;
    double GBps = 400;
    int nccl_version = 22805;
    std::string device = "NVIDIA Test GPU";
    std::vector<double> sizes = {1024, 65536, 1048576, 16777216, 268435456, 1073741824};

    double sent(double bytes) const {
        return sim::bytes_sent_per_rank(*plan::from_name<plan::OpKind>(collective), bytes, ranks);
    }
    double time_us(double bytes) const { return latency_us + sent(bytes) / GBps / 1e3; }

    std::string four(double bytes) const {
        const double us = time_us(bytes);
        return fmt::format("  {:7.2f}  {:6.2f}  {:6.2f}       0", us, bytes / us / 1e3,
                           sent(bytes) / us / 1e3);
    }

    // As since 2.17; `says_program` false: as before.
    std::string table(bool says_program = true) const {
        std::string text;
        if (says_program)
            text += fmt::format(
                "# nccl-tests version 2.17.6 nccl-headers={0} nccl-library={0}\n"
                "# Collective test starting: {1}_perf\n",
                nccl_version, collective);
        text += fmt::format(
            "# nThread 1 nGpus {} minBytes 1024 maxBytes 1073741824 step: 4(factor) warmup iters: "
            "1 "
            "iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n#\n# Using devices\n",
            ranks);
        for (int rank = 0; rank < ranks; ++rank)
            text += fmt::format(
                "#  Rank {0:2} Group  0 Pid   6899 on     node-a device {0:2} "
                "[0000:{0:02x}:00] {1}\n",
                rank, device);
        text +=
            "#\n"
            "#                                                 out-of-place                "
            "in-place\n"
            "#       size         count      type   redop    root     time   algbw   busbw #wrong  "
            "   time   algbw   busbw #wrong \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)         "
            "   (us)  (GB/s)  (GB/s)        \n";
        for (const double bytes : sizes)
            text += fmt::format("{:12.0f}  {:12.0f}     float     sum      -1{}{}\n", bytes,
                                bytes / 4, four(bytes), four(bytes));
        return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 123.4\n#\n" +
               (says_program ? "# Collective test concluded: " + collective + "_perf\n" : "");
    }

    // One process per GPU, as under mpirun.
    nlohmann::json json() const {
        nlohmann::json devices = nlohmann::json::array();
        for (int rank = 0; rank < ranks; ++rank)
            devices.push_back({{"rank", rank},
                               {"group", 0},
                               {"pid", 6899 + rank},
                               {"hostname", "node-a"},
                               {"device", rank},
                               {"device_hex", "0000:04:00"},
                               {"device_info", device}});
        nlohmann::json results = nlohmann::json::array();
        for (const double bytes : sizes) {
            const double us = time_us(bytes);
            const nlohmann::json timing = {{"time", us},
                                           {"alg_bw", bytes / us / 1e3},
                                           {"bus_bw", sent(bytes) / us / 1e3},
                                           {"nwrong", 0.0}};
            results.push_back({{"size", static_cast<std::uint64_t>(bytes)},
                               {"count", static_cast<std::uint64_t>(bytes) / 4},
                               {"type", "float"},
                               {"redop", "sum"},
                               {"root", "    -1"},
                               {"out_of_place", timing},
                               {"in_place", timing}});
        }
        return {{"version", 2},
                {"args", {"./build/" + collective + "_perf_mpi", "-g", "1"}},
                {"nccl_version", nccl_version},
                {"config", {{"nthreads", 1}, {"ngpus", 1}, {"devices", devices}}},
                {"results", results}};
    }
};

}  // namespace orrery::fit
