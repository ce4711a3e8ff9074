#include "calib/measure/collective_sections.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "calib/fit/fit_error.hpp"
#include "calib/fit/nccl_tests.hpp"
#include "calib/fit/write_profile.hpp"
#include "plan/ir/block.hpp"

namespace orrery::measure {
namespace {

using plan::OpKind;

double bus_GBps(const CollectiveRow& row, std::int64_t ranks) {
    return plan::bytes_sent_per_rank(row.kind, static_cast<double>(row.bytes),
                                     static_cast<int>(ranks)) /
           row.seconds / 1e9;
}

bool has_curve(OpKind kind) {
    return kind == OpKind::all_reduce || kind == OpKind::all_gather ||
           kind == OpKind::reduce_scatter;
}

double fastest_GBps(const CollectiveTimings& timings) {
    double fastest = 0;
    for (const CollectiveRow& row : timings.rows)
        if (has_curve(row.kind)) fastest = std::max(fastest, bus_GBps(row, timings.ranks));
    return fastest;
}

std::vector<fit::CollectiveSample> samples_of(const CollectiveTimings& timings,
                                              const CollectiveFacts& facts) {
    std::vector<fit::CollectiveSample> samples;
    for (const CollectiveRow& row : timings.rows) {
        const bool message = row.kind == OpKind::shift;
        if (!message && !has_curve(row.kind)) continue;
        fit::CollectiveSample sample;
        sample.system = facts.system;
        sample.library = facts.library;
        sample.collective = plan::name(message ? OpKind::exchange : row.kind);
        sample.ranks = message ? 2 : static_cast<int>(timings.ranks);
        sample.nodes = static_cast<int>(timings.nodes());
        sample.bytes = static_cast<double>(row.bytes);
        sample.seconds = row.seconds;
        sample.source = facts.source;
        samples.push_back(std::move(sample));
    }
    return samples;
}

// Of places that a rank describes as "bus name".
fit::NcclTable::Rank rank_of(const CollectiveTimings::Place& place, std::int64_t device) {
    const std::size_t space = place.device.find(' ');
    return {place.host, place.process, device, place.device.substr(0, space),
            space == std::string::npos ? "" : place.device.substr(space + 1)};
}

}  // namespace

Json collectives_json(const CollectiveTimings& timings, const CollectiveFacts& facts) {
    fit::CollectiveFit fit;
    fit.system = facts.system;
    fit.library = facts.library;
    fit.algorithms = facts.algorithms;
    fit.intra_node_bandwidth_GBps =
        std::round(1000 * facts.link_GBps.value_or(fastest_GBps(timings))) / 1000;
    Json section = Json(fit::fit_collectives(samples_of(timings, facts), fit));
    if (!facts.link_GBps)
        section["measured_on"]["source"] =
            "the fastest bus bandwidth that was measured: nobody says the line rate of the links";
    return section;
}

std::optional<Json> overlap_json(const CollectiveTimings& timings, const std::string& source) {
    if (timings.overlap.empty()) return std::nullopt;
    double sum = 0;
    std::string each;
    for (const OverlapRow& row : timings.overlap) {
        sum += row.products;
        each += fmt::format(
            "; beside {} products take {:.3f} times as long, and it beside them "
            "{:.3f} times",
            plan::name(row.kind), row.products, row.calls);
    }
    const double mean = std::max(1.0, sum / static_cast<double>(timings.overlap.size()));
    return Json{{"measured", true},
                {"source", source + each},
                {"compute_slowdown", fit::rounded(mean, fit::kFittedDigits)}};
}

std::vector<std::string> collective_notes(const CollectiveTimings& timings,
                                          const CollectiveGrid& grid) {
    std::vector<std::string> notes;
    const CollectiveRow* exchanged = nullptr;
    for (const CollectiveRow& row : timings.rows)
        if (row.kind == OpKind::all_to_all) exchanged = &row;
    if (exchanged != nullptr)
        notes.push_back(fmt::format(
            "all_to_all of {} bytes: {:.1f} us, {:.4g} GB/s of bus bandwidth", exchanged->bytes,
            exchanged->seconds * 1e6, bus_GBps(*exchanged, timings.ranks)));
    for (const OverlapRow& row : timings.overlap)
        notes.push_back(fmt::format("{} beside products: {:.3f} times as long",
                                    plan::name(row.kind), row.calls));
    if (2 * timings.largest_bytes <= grid.most_bytes)
        notes.push_back(
            fmt::format("left out: collectives of more than {} bytes (asked for: up to {}), which "
                        "would not have ended in time",
                        timings.largest_bytes, grid.most_bytes));
    return notes;
}

std::string nccl_tables(const CollectiveTimings& timings, const std::string& program,
                        const std::string& nccl_version) {
    std::vector<fit::NcclTable::Rank> ranks;
    std::map<std::string, std::int64_t> of_host;
    for (const CollectiveTimings::Place& place : timings.places)
        ranks.push_back(rank_of(place, of_host[place.host]++));
    std::string text;
    for (const OpKind kind : {OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter}) {
        std::map<std::int64_t, fit::NcclTable::Row> rows;
        for (const CollectiveRow& row : timings.rows) {
            if (row.kind != kind) continue;
            fit::NcclTable::Row& of = rows[row.bytes];
            of.bytes = static_cast<double>(row.bytes);
            (row.in_place ? of.in_place_s : of.out_of_place_s) = row.seconds;
        }
        if (rows.empty()) continue;
        fit::NcclTable table;
        table.program = program;
        table.collective = plan::name(kind);
        table.library = fit::nccl_version_code(nccl_version);
        table.calls = timings.calls;
        table.ranks = ranks;
        for (const auto& [bytes, row] : rows)
            table.rows.push_back(row);
        text += fit::nccl_table_text(table);
    }
    return text;
}

}  // namespace orrery::measure
