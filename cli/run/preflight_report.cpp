// What `orrery doctor FILE --preflight` prints: for people, and as JSON (docs/doctor.md).
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/run/preflight.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using preflight::Check;
using preflight::Family;
using preflight::Slow;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNamed = 12;

const char* name_of(Check check) {
    switch (check) {
        case Check::product:
            return "product";
        case Check::memory:
            return "memory";
        case Check::to_host:
            return "to_host";
        case Check::from_host:
            return "from_host";
        case Check::pair:
            return "pair";
        case Check::sum:
            return "all_reduce";
    }
    return "";
}

std::string family_text(Check check, bool between_nodes) {
    switch (check) {
        case Check::product:
            return "matrix product";
        case Check::memory:
            return "device memory";
        case Check::to_host:
            return "device to host";
        case Check::from_host:
            return "host to device";
        case Check::pair:
            return between_nodes ? "pairs between nodes" : "pairs within nodes";
        case Check::sum:
            return "all-reduce";
    }
    return "";
}

std::string size_text(Check check, const preflight::Sizes& sizes) {
    const plan::Gemm& product = sizes.product;
    const std::string bytes = bytes_text(static_cast<double>(preflight::size_of(check, sizes)));
    if (check == Check::product)
        return fmt::format("{} x {} x {} {}", whole_text(product.m), whole_text(product.n),
                           whole_text(product.k), plan::name(sizes.dtype));
    if (check == Check::sum) return bytes + " over all ranks";
    return check == Check::pair ? bytes + " each way at once" : bytes;
}

// Of one rank or link, while all are busy.
struct Rate {
    double amount = 0;  // FLOPs, or bytes as nccl-tests count them
    bool of_flops = false;

    double per_s(double seconds) const { return amount / seconds; }
    std::string text(double seconds) const {
        return scaled_text(per_s(seconds), of_flops ? "FLOP/s" : "B/s");
    }
};

Rate rate_of(Check check, const preflight::PreflightPlan& plan) {
    if (check == Check::product) return {plan.sizes.product.flops(), true};
    return {preflight::bytes_of(check, plan.sizes, plan.plan.mesh.ranks()), false};
}

std::string host_of(const PreflightReport& report, plan::Rank rank) {
    return report.hosts[static_cast<std::size_t>(rank)];
}

std::int64_t first_rank_of(const PreflightReport& report, std::int64_t node) {
    return node * report.run.scenario.cluster.devices_per_node;
}

std::string whose_text(const PreflightReport& report, const Slow& slow) {
    if (slow.node >= 0)
        return fmt::format("node {} ({}), all its ranks", slow.node,
                           host_of(report, first_rank_of(report, slow.node)));
    if (slow.peer < 0) return fmt::format("rank {} on {}", slow.rank, host_of(report, slow.rank));
    return fmt::format("rank {} on {} with rank {} on {}", slow.rank, host_of(report, slow.rank),
                       slow.peer, host_of(report, slow.peer));
}

std::string slow_text(const PreflightReport& report, const Slow& slow) {
    std::string text = fmt::format("  {}: {}, {:.2f} x the time of the others",
                                   family_text(slow.check, slow.between_nodes),
                                   whose_text(report, slow), slow.slowdown);
    if (slow.pairs > 0 && slow.node < 0)
        text += fmt::format(", in {} of its {} pairs", slow.slow_pairs, slow.pairs);
    return text + '\n';
}

std::size_t slowest_of(const Family& family) {
    std::size_t slowest = 0;
    for (std::size_t i = 1; i < family.measured.size(); ++i)
        if (family.slowdown(i) > family.slowdown(slowest)) slowest = i;
    return slowest;
}

std::string members_text(const preflight::Timing& timing) {
    if (timing.peer >= 0) return fmt::format("ranks {}, {}", timing.rank, timing.peer);
    return timing.rank >= 0 ? fmt::format("rank {}", timing.rank) : "";
}

std::string table_text(const PreflightReport& report) {
    TextTable table(
        {Align::left, Align::left, Align::right, Align::right, Align::right, Align::left});
    table.add({"check", "size", "profile", "measured", "slowest", ""});
    for (const Family& family : report.judgement.families) {
        const Rate rate = rate_of(family.check, report.plan);
        const std::size_t slowest = slowest_of(family);
        const double expected = family.expected[slowest].seconds;
        const bool several = family.measured.size() > 1;
        table.add({family_text(family.check, family.between_nodes),
                   size_text(family.check, report.plan.sizes),
                   family.is_expected() ? rate.text(expected) : "",
                   rate.text(expected * family.usual),
                   several ? rate.text(family.measured[slowest].seconds) : "",
                   several ? members_text(family.measured[slowest]) : ""});
    }
    return table.text();
}

std::string behind_text(const PreflightReport& report) {
    std::string text;
    for (const std::size_t f : report.judgement.behind_profile) {
        const Family& family = report.judgement.families[f];
        text += fmt::format("  {}: {:.2f} x the time that {} says{}\n",
                            family_text(family.check, family.between_nodes), family.usual,
                            report.profile, family.measured.size() > 1 ? ", on most" : "");
    }
    return text;
}

Json timing_json(const PreflightReport& report, const Family& family, std::size_t i) {
    const preflight::Timing& timing = family.measured[i];
    Json row;
    if (timing.peer >= 0)
        row["ranks"] = {timing.rank, timing.peer};
    else if (timing.rank >= 0)
        row["rank"] = timing.rank;
    const Rate rate = rate_of(family.check, report.plan);
    row["time_s"] = timing.seconds;
    row["expected_s"] = family.is_expected() ? Json(family.expected[i].seconds) : Json(nullptr);
    row[rate.of_flops ? "flops_per_s" : "bytes_per_s"] = rate.per_s(timing.seconds);
    row["slowdown"] = family.slowdown(i);
    return row;
}

Json family_json(const PreflightReport& report, const Family& family) {
    Json row = {{"check", name_of(family.check)}};
    if (family.check == Check::pair) row["between_nodes"] = family.between_nodes;
    const preflight::Sizes& sizes = report.plan.sizes;
    if (family.check == Check::product) {
        row["m"] = sizes.product.m;
        row["n"] = sizes.product.n;
        row["k"] = sizes.product.k;
        row["dtype"] = plan::name(sizes.dtype);
    } else {
        row["bytes"] = preflight::size_of(family.check, sizes);
    }
    row["over_profile"] = family.is_expected() ? Json(family.usual) : Json(nullptr);
    row["timings"] = Json::array();
    for (std::size_t i = 0; i < family.measured.size(); ++i)
        row["timings"].push_back(timing_json(report, family, i));
    return row;
}

Json slow_json(const Slow& slow) {
    Json row = {{"check", name_of(slow.check)}};
    if (slow.check == Check::pair) row["between_nodes"] = slow.between_nodes;
    if (slow.node >= 0)
        row["node"] = slow.node;
    else if (slow.peer >= 0)
        row["ranks"] = {slow.rank, slow.peer};
    else
        row["rank"] = slow.rank;
    row["slowdown"] = slow.slowdown;
    if (slow.pairs > 0) {
        row["slow_pairs"] = slow.slow_pairs;
        row["pairs"] = slow.pairs;
    }
    return row;
}

}  // namespace

std::string preflight_text(const PreflightReport& report) {
    const std::int64_t ranks = report.plan.plan.mesh.ranks();
    const std::size_t nodes =
        std::set<std::string>(report.hosts.begin(), report.hosts.end()).size();
    std::string text =
        fmt::format("preflight of {} {} rank{} on {} node{}, {} step{}\n\n", ranks,
                    report.run.placement.backend, ranks == 1 ? "" : "s", nodes,
                    nodes == 1 ? "" : "s", report.steps, report.steps == 1 ? "" : "s");
    text += table_text(report);
    text += fmt::format("\n  profile   {}\n", report.profile);
    if (!report.why_not_of_here.empty())
        text += fmt::format("            this machine's own: {}\n", report.why_not_of_here);
    if (report.run.ranks_take_turns())
        text += fmt::format("  note      {} ranks of {} thread{} each take turns on {} cores\n",
                            ranks, report.run.threads_per_rank,
                            report.run.threads_per_rank == 1 ? "" : "s", report.run.cores);
    if (const std::string behind = behind_text(report); !behind.empty())
        text += "\nslower than the profile\n" + behind;
    const auto& slow = report.judgement.slow;
    if (slow.empty())
        return text + fmt::format("\nnothing is slow: none takes {} longer than its like\n",
                                  percent_text(report.tolerance));
    text +=
        fmt::format("\nslow: more than {} longer than its like\n", percent_text(report.tolerance));
    for (std::size_t i = 0; i < std::min(slow.size(), kMostNamed); ++i)
        text += slow_text(report, slow[i]);
    if (slow.size() > kMostNamed)
        text += fmt::format("  and {} more (--json has all)\n", slow.size() - kMostNamed);
    return text;
}

Json preflight_json(const PreflightReport& report) {
    Json json;
    json["ranks_take_turns"] = report.run.ranks_take_turns();
    json["backend"] = report.run.placement.backend;
    json["profile"] = report.profile;
    json["profile_is_not_of_this_machine"] =
        report.why_not_of_here.empty() ? Json(nullptr) : Json(report.why_not_of_here);
    json["hosts"] = report.hosts;
    json["steps"] = report.steps;
    json["tolerance"] = report.tolerance;
    json["checks"] = Json::array();
    for (const Family& family : report.judgement.families)
        json["checks"].push_back(family_json(report, family));
    json["slow"] = Json::array();
    for (const Slow& slow : report.judgement.slow)
        json["slow"].push_back(slow_json(slow));
    return json;
}

}  // namespace orrery::cli
