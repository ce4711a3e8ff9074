#include "calib/fit/nccl_tests.hpp"

#include <cmath>

#include <fmt/format.h>

#include "plan/ir/kinds.hpp"
#include "sim/network/algorithms.hpp"

namespace orrery::fit {
namespace {

// Two decimals are printed of a bandwidth, and of a time that is some microseconds.
constexpr double kPrintedGBps = 0.01;
constexpr double kPrintedShare = 0.005;

std::optional<plan::OpKind> curve_kind(const std::string& collective) {
    const auto kind = plan::from_name<plan::OpKind>(collective);
    if (kind == plan::OpKind::all_reduce || kind == plan::OpKind::all_gather ||
        kind == plan::OpKind::reduce_scatter)
        return kind;
    return std::nullopt;
}

// What is wrong with the run as a whole; empty if nothing is.
std::string fault_of(const NcclRun& run) {
    if (run.collective.empty())
        return "the output does not say which collective it timed; --collective does";
    if (!curve_kind(run.collective))
        return fmt::format(
            "'{}': profiles have curves of all_reduce, all_gather and reduce_scatter",
            run.collective);
    if (run.groups > 1)
        return fmt::format("{} groups ran at once (NCCL_TESTS_SPLIT): each slowed the others",
                           run.groups);
    if (run.nodes > 1)
        return fmt::format("{} ranks on {} nodes: the curves of a profile are of one node",
                           run.ranks, run.nodes);
    if (run.ranks < 2) return fmt::format("{} ranks: a collective needs two", run.ranks);
    if (run.timings.empty()) return "no size was timed";
    return "";
}

void check_timing(const NcclRun& run, const NcclTiming& timing, std::vector<std::string>& faults) {
    auto fault = [&](const std::string& what) { faults.push_back(timing.place + ": " + what); };
    if (timing.wrong && *timing.wrong > 0)
        fault(fmt::format("#wrong {}: what this run computed is not right", *timing.wrong));
    if (!(timing.seconds > 0) || !std::isfinite(timing.seconds)) {
        fault(fmt::format("time {}: a positive number is expected", timing.seconds * 1e6));
        return;
    }
    const double expected =
        sim::bytes_sent_per_rank(*curve_kind(run.collective), timing.bytes, run.ranks) /
        timing.seconds / 1e9;
    if (!(std::abs(timing.bus_GBps - expected) <= kPrintedGBps + kPrintedShare * expected))
        fault(fmt::format("busbw {}: {} of {:.0f} bytes over {} ranks in {:.2f} us is {:.2f} GB/s",
                          timing.bus_GBps, run.collective, timing.bytes, run.ranks,
                          timing.seconds * 1e6, expected));
}

}  // namespace

std::string collective_of_program(const std::string& program) {
    std::string name = program.substr(program.rfind('/') + 1);
    for (const std::string ending : {"_mpi", "_perf"})
        if (name.size() > ending.size() &&
            name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
            name.resize(name.size() - ending.size());
    return name;
}

std::string nccl_version_text(int code) {
    const int thousands = code < 10000 ? 1000 : 10000;  // until 2.8, since 2.9
    return fmt::format("{}.{}.{}", code / thousands, code % thousands / 100, code % 100);
}

NcclTests read_nccl_tests(const std::string& text, const std::string& path,
                          const std::string& collective) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool is_json = first != std::string::npos && text[first] == '{';
    NcclTests tests = is_json ? read_nccl_json(text, path) : read_nccl_table(text, path);
    if (tests.runs.empty() && tests.faults.empty())
        tests.faults.push_back(path + ": no output of nccl-tests");
    for (NcclRun& run : tests.runs) {
        if (run.collective.empty()) run.collective = collective;
        const std::string fault = fault_of(run);
        if (!fault.empty()) {
            tests.faults.push_back(run.place + ": " + fault);
            continue;
        }
        for (const NcclTiming& timing : run.timings)
            check_timing(run, timing, tests.faults);
    }
    return tests;
}

}  // namespace orrery::fit
