#include "calib/fit/collectives.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_error.hpp"
#include "calib/fit/nccl_constants.hpp"
#include "plan/scenario/spellings.hpp"
#include "sim/network/algorithms.hpp"

namespace orrery::fit {

namespace {

using nlohmann::json;
using sim::CurvePoint;

constexpr double kThinningTolerance = 0.01;
// Machines of one model differ by 3 to 7 % in published timings: no curve is surer than that.
constexpr double kMachineSpread = 0.05;

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// To so many parts of one: 1000 keeps three decimals.
double in_parts(double value, double parts) {
    return std::round(value * parts) / parts;
}

// Index of the point that interpolation between `low` and `high` misses most, and by how much.
std::pair<std::size_t, double> worst_between(const std::vector<CurvePoint>& points, std::size_t low,
                                             std::size_t high) {
    std::pair<std::size_t, double> worst{low, 0};
    const std::vector<CurvePoint> ends{points[low], points[high]};
    for (std::size_t i = low + 1; i < high; ++i) {
        const double miss =
            std::abs(sim::interpolate(ends, points[i].bytes) / points[i].seconds - 1);
        if (miss > worst.second) worst = {i, miss};
    }
    return worst;
}

void keep_worst(const std::vector<CurvePoint>& points, std::size_t low, std::size_t high,
                double tolerance, std::set<std::size_t>& kept) {
    const auto [index, miss] = worst_between(points, low, high);
    if (miss <= tolerance) return;
    kept.insert(index);
    keep_worst(points, low, index, tolerance, kept);
    keep_worst(points, index, high, tolerance, kept);
}

std::vector<CollectiveSample> samples_of(const std::vector<CollectiveSample>& samples,
                                         const CollectiveFit& fit) {
    std::vector<CollectiveSample> chosen;
    std::set<std::string> libraries;
    for (const CollectiveSample& sample : samples) {
        if (sample.system != fit.system || sample.nodes != 1 || sample.ranks < 2 ||
            sample.collective == "all_to_all")
            continue;
        libraries.insert(sample.library);
        if (fit.library.empty() || sample.library == fit.library) chosen.push_back(sample);
    }
    if (fit.library.empty() && libraries.size() > 1)
        throw FitError(
            fmt::format("system \"{}\" was measured with several libraries: "
                        "choose one of {}",
                        fit.system, fmt::join(libraries, ", ")));
    if (chosen.empty())
        throw FitError(
            fmt::format("no collective of system \"{}\", library \"{}\"", fit.system, fit.library));
    return chosen;
}

json points_json(const std::vector<CurvePoint>& points) {
    json out = json::array();
    for (const CurvePoint& point : points)
        out.push_back({point.bytes, in_parts(point.seconds * 1e6, 1000)});
    return out;
}

// Share of the line rate that the bus bandwidth of the largest size reaches, in the curves of most
// ranks: they are what groups that no curve covers resemble.
sim::LinkEfficiency intra_node(const std::vector<sim::CollectiveCurve>& curves, double line_GBps) {
    int most = 0;
    for (const sim::CollectiveCurve& curve : curves)
        most = std::max(most, curve.ranks);
    std::vector<double> reached;
    for (const sim::CollectiveCurve& curve : curves) {
        if (curve.ranks != most || curve.collective == plan::OpKind::exchange) continue;
        const CurvePoint& last = curve.points.back();
        reached.push_back(sim::bytes_sent_per_rank(curve.collective, last.bytes, curve.ranks) /
                          last.seconds / 1e9 / line_GBps);
    }
    const double middle = std::min(1.0, median(reached));
    double sum = 0;
    for (double value : reached)
        sum += (value / middle - 1) * (value / middle - 1);
    const double spread = std::sqrt(sum / static_cast<double>(reached.size()));
    return {in_parts(middle, 1000), in_parts(std::max(kMachineSpread, spread), 1000),
            fmt::format("median bus bandwidth of the largest size over the line rate, collectives "
                        "of {} ranks",
                        most)};
}

json efficiency_json(const sim::LinkEfficiency& link) {
    return {{"efficiency", link.efficiency},
            {"relative_sd", link.relative_sd},
            {"source", link.source}};
}

json measured_on(const CollectiveFit& fit) {
    json out = {{"system", fit.system},
                {"intra_node_bandwidth_GBps", fit.intra_node_bandwidth_GBps},
                {"source", "line rate of the device's links, one direction"}};
    if (!fit.link) return out;
    out["intra_node_kind"] = plan::spelling(fit.link->kind);
    out["intra_node_latency_us"] = {
        {"value", fit.link->latency_us},
        {"source", "not measured apart: what clusters with this link state of a hop"}};
    return out;
}

json between_nodes(const CollectiveFit& fit) {
    json out = efficiency_json(
        {fit.inter_node_efficiency, fit.inter_node_relative_sd, fit.inter_node_source});
    out["kind"] = plan::spelling(plan::InterNodeKind::infiniband);
    return out;
}

// What a section holds beside its curves.
json section_of(const CollectiveFit& fit, const sim::LinkEfficiency& inside) {
    return {{"measured_on", measured_on(fit)},
            {"curves", json::array()},
            {"algorithms", fit.algorithms == Algorithms::nccl ? nccl_algorithms(fit.hierarchical)
                                                              : link_algorithms()},
            {"intra_node", efficiency_json(inside)},
            {"inter_node", between_nodes(fit)}};
}

}  // namespace

const std::vector<std::string> kCollectiveColumns = {"system", "nccl",  "collective", "ranks",
                                                     "nodes",  "bytes", "time_us",    "source"};

std::vector<CollectiveSample> collective_samples(const CsvTable& table) {
    std::vector<CollectiveSample> samples;
    for (std::size_t row = 0; row < table.rows(); ++row)
        samples.push_back({table.text(row, "system"), table.text(row, "nccl"),
                           table.text(row, "collective"),
                           static_cast<int>(table.whole(row, "ranks")),
                           static_cast<int>(table.whole(row, "nodes")), table.number(row, "bytes"),
                           table.number(row, "time_us") * 1e-6, table.text(row, "source")});
    return samples;
}

std::vector<CurvePoint> monotone_medians(const std::vector<CollectiveSample>& samples) {
    std::map<double, std::vector<double>> by_bytes;
    for (const CollectiveSample& sample : samples)
        by_bytes[sample.bytes].push_back(sample.seconds);
    struct Pool {
        double weight;
        double seconds;
        std::vector<double> bytes;
    };
    std::vector<Pool> pools;
    for (const auto& [bytes, seconds] : by_bytes) {
        pools.push_back({static_cast<double>(seconds.size()), median(seconds), {bytes}});
        while (pools.size() > 1 && pools[pools.size() - 2].seconds > pools.back().seconds) {
            const Pool last = std::move(pools.back());
            pools.pop_back();
            Pool& into = pools.back();
            into.seconds = (into.seconds * into.weight + last.seconds * last.weight) /
                           (into.weight + last.weight);
            into.weight += last.weight;
            into.bytes.insert(into.bytes.end(), last.bytes.begin(), last.bytes.end());
        }
    }
    std::vector<CurvePoint> points;
    for (const Pool& pool : pools)
        for (double bytes : pool.bytes)
            points.push_back({bytes, pool.seconds});
    return points;
}

std::vector<CurvePoint> monotone_by_medians(const std::vector<CollectiveSample>& samples) {
    std::map<double, std::vector<double>> by_bytes;
    for (const CollectiveSample& sample : samples)
        by_bytes[sample.bytes].push_back(sample.seconds);
    struct Pool {
        std::vector<double> seconds, bytes;
    };
    std::vector<Pool> pools;
    for (auto& [bytes, seconds] : by_bytes) {
        pools.push_back({std::move(seconds), {bytes}});
        while (pools.size() > 1 &&
               median(pools[pools.size() - 2].seconds) > median(pools.back().seconds)) {
            const Pool last = std::move(pools.back());
            pools.pop_back();
            Pool& into = pools.back();
            into.seconds.insert(into.seconds.end(), last.seconds.begin(), last.seconds.end());
            into.bytes.insert(into.bytes.end(), last.bytes.begin(), last.bytes.end());
        }
    }
    std::vector<CurvePoint> points;
    for (const Pool& pool : pools)
        for (const double bytes : pool.bytes)
            points.push_back({bytes, median(pool.seconds)});
    return points;
}

std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, double tolerance) {
    if (points.size() < 3) return points;
    std::set<std::size_t> kept{0, points.size() - 1};
    keep_worst(points, 0, points.size() - 1, tolerance, kept);
    std::vector<CurvePoint> out;
    for (std::size_t index : kept)
        out.push_back(points[index]);
    return out;
}

double held_out_error(const std::vector<CurvePoint>& points) {
    std::vector<CurvePoint> shown;
    for (std::size_t i = 0; i < points.size(); i += 2)
        shown.push_back(points[i]);
    double sum = 0;
    int count = 0;
    for (std::size_t i = 1; i + 1 < points.size(); i += 2, ++count) {
        const double error = sim::interpolate(shown, points[i].bytes) / points[i].seconds - 1;
        sum += error * error;
    }
    return count == 0 ? 0 : std::sqrt(sum / count);
}

json fit_collectives(const std::vector<CollectiveSample>& samples, const CollectiveFit& fit) {
    std::map<std::pair<plan::OpKind, int>, std::vector<CollectiveSample>> groups;
    std::string library;
    for (const CollectiveSample& sample : samples_of(samples, fit)) {
        const auto kind = plan::from_name<plan::OpKind>(sample.collective);
        if (!kind) throw FitError(fmt::format("unknown collective \"{}\"", sample.collective));
        groups[{*kind, sample.ranks}].push_back(sample);
        library = sample.library;
    }
    json curves = json::array();
    std::vector<sim::CollectiveCurve> all;
    for (const auto& [key, group] : groups) {
        const std::vector<CurvePoint> points = fit.algorithms == Algorithms::links
                                                   ? monotone_by_medians(group)
                                                   : monotone_medians(group);
        const std::vector<CurvePoint> kept = thinned(points, kThinningTolerance);
        curves.push_back(
            {{"collective", plan::name(key.first)},
             {"ranks", key.second},
             {"points", points_json(kept)},
             {"relative_sd", in_parts(std::max(kMachineSpread, held_out_error(points)), 10000)},
             {"source", fmt::format("{}: {} timings of {} sizes, library version {}",
                                    group.front().source, group.size(), points.size(), library)}});
        all.push_back({key.first, key.second, kept, 0, ""});
    }
    json section = section_of(fit, intra_node(all, fit.intra_node_bandwidth_GBps));
    section["curves"] = std::move(curves);
    return section;
}

json unmeasured_collectives(const CollectiveFit& fit, const sim::LinkEfficiency& inside) {
    return section_of(fit, inside);
}

}  // namespace orrery::fit
