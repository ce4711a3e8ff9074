// The table of nccl_tests_table.cpp, written. Times have two decimals, and bandwidths are of the
// times as printed, so that who reads a row finds that it agrees with itself.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "calib/fit/nccl_tests.hpp"
#include "plan/check.hpp"
#include "plan/ir/kinds.hpp"
#include "sim/network/algorithms.hpp"

namespace orrery::fit {
namespace {

constexpr double kLeastUs = 0.01;
constexpr int kElementBytes = 4;

struct Printed {
    std::string text;  // time, algbw, busbw, #wrong
    std::optional<double> bus_GBps;
};

Printed way(const NcclTable& table, plan::OpKind kind, double bytes,
            const std::optional<double>& seconds) {
    if (!seconds)
        return {fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A"), {}};
    const double us = std::max(kLeastUs, std::round(*seconds * 1e8) / 100);
    const auto ranks = static_cast<int>(table.ranks.size());
    const double bus = sim::bytes_sent_per_rank(kind, bytes, ranks) / us / 1e3;
    return {fmt::format("  {:7.2f}  {:6.2f}  {:6.2f}  {:>6}", us, bytes / us / 1e3, bus, "N/A"),
            bus};
}

std::string head(const NcclTable& table) {
    std::string text = fmt::format("# nccl-tests table by {}", table.program);
    if (table.library > 0) text += fmt::format(", nccl-library={}", table.library);
    text += fmt::format(
        "\n# Collective test starting: {}_perf\n"
        "# nThread 1 nGpus 1 minBytes {:.0f} maxBytes {:.0f} step: 2(factor) warmup iters: {} "
        "iters: {} agg iters: 1 validation: 0 graph: 0\n#\n# Using devices\n",
        table.collective, table.rows.front().bytes, table.rows.back().bytes, table.warm_ups,
        table.calls);
    for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
        const NcclTable::Rank& of = table.ranks[rank];
        text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [{}] {}\n", rank,
                            of.process, of.host, of.device, of.bus, of.name);
    }
    return text +
           "#\n"
           "#                                                 out-of-place                      "
           "  in-place\n"
           "#       size         count      type   redop    root     time   algbw   busbw  #wrong "
           "    time   algbw   busbw  #wrong\n"
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)         "
           "    (us)  (GB/s)  (GB/s)\n";
}

}  // namespace

std::string nccl_table_text(const NcclTable& table) {
    const auto kind = plan::from_name<plan::OpKind>(table.collective);
    ORRERY_CHECK(kind && !table.rows.empty(), "a table is of sizes of a collective");
    const bool reduces = kind == plan::OpKind::all_reduce || kind == plan::OpKind::reduce_scatter;
    std::string text = head(table);
    double sum = 0;
    int count = 0;
    for (const NcclTable::Row& row : table.rows) {
        text += fmt::format("{:12.0f}  {:12.0f}     float  {:>6}      -1", row.bytes,
                            row.bytes / kElementBytes, reduces ? "sum" : "none");
        for (const auto& seconds : {row.out_of_place_s, row.in_place_s}) {
            const Printed printed = way(table, *kind, row.bytes, seconds);
            text += printed.text;
            if (!printed.bus_GBps) continue;
            sum += *printed.bus_GBps;
            ++count;
        }
        text += '\n';
    }
    return text +
           fmt::format("# Avg bus bandwidth    : {:.4g}\n#\n", count == 0 ? 0 : sum / count) +
           fmt::format("# Collective test concluded: {}_perf\n", table.collective);
}

int nccl_version_code(const std::string& version) {
    int major = 0, minor = 0, patch = 0;
    if (std::sscanf(version.c_str(), "%d.%d.%d", &major, &minor, &patch) != 3) return 0;
    const bool thousands = major < 2 || (major == 2 && minor <= 8);  // until 2.8
    return thousands ? 1000 * major + 100 * minor + patch : 10000 * major + 100 * minor + patch;
}

}  // namespace orrery::fit
