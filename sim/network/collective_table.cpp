#include "sim/network/collective_table.hpp"

#include <cmath>

#include "plan/check.hpp"

namespace orrery::sim {

namespace {

// Geometric bisection walks the straight line in log-log space with square roots alone; what is
// left after the last halving is so narrow that a straight line in (bytes, seconds) is exact to
// 1e-9.
double log_log(CurvePoint low, CurvePoint high, double bytes) {
    constexpr int kHalvings = 16;
    for (int i = 0; i < kHalvings; ++i) {
        const CurvePoint middle{std::sqrt(low.bytes * high.bytes),
                                std::sqrt(low.seconds * high.seconds)};
        (bytes < middle.bytes ? high : low) = middle;
    }
    // Rounding of √ may leave the bytes a hair outside.
    const double share = (bytes - low.bytes) / (high.bytes - low.bytes);
    if (!(share > 0)) return low.seconds;
    if (share >= 1) return high.seconds;
    return low.seconds + share * (high.seconds - low.seconds);
}

}  // namespace

double interpolate(const std::vector<CurvePoint>& points, double bytes) {
    ORRERY_CHECK(!points.empty(), "a collective curve without points");
    if (bytes <= points.front().bytes) return points.front().seconds;
    const CurvePoint& last = points.back();
    if (bytes >= last.bytes) return last.seconds * (bytes / last.bytes);
    std::size_t high = 1;
    while (points[high].bytes <= bytes)
        ++high;
    if (points[high - 1].bytes == bytes) return points[high - 1].seconds;
    return log_log(points[high - 1], points[high], bytes);
}

double moved(double found, double from, double to) {
    return to >= from ? found + (to - from) : found * (to / from);
}

double ProtocolConstants::intra_hop_us(plan::IntraNodeKind kind, double cluster_latency_us) const {
    const auto hop = [&](const std::optional<double>& found, const std::optional<double>& link) {
        if (!found) return cluster_latency_us;
        return link ? moved(*found, *link, cluster_latency_us) : *found;
    };
    switch (kind) {
        case plan::IntraNodeKind::nvswitch:
        case plan::IntraNodeKind::hybrid_cube_mesh:  // NCCL has one latency for NVLink
            return hop(nvswitch_hop_us, nvswitch_link_us);
        case plan::IntraNodeKind::pcie:
            return hop(pcie_hop_us, pcie_link_us);
        case plan::IntraNodeKind::xgmi:
        case plan::IntraNodeKind::host:
        case plan::IntraNodeKind::torus:
            return cluster_latency_us;
    }
    return cluster_latency_us;
}

double ProtocolConstants::correction(double bytes) const {
    if (size_correction.empty()) return 1;
    double low = 64;
    if (bytes <= low) return size_correction.front();
    for (std::size_t i = 0; i + 1 < size_correction.size(); ++i, low *= 2) {
        if (bytes > 2 * low) continue;
        const double share = (bytes - low) / low;
        return size_correction[i] + share * (size_correction[i + 1] - size_correction[i]);
    }
    if (bytes >= 2 * low) return 1;
    return size_correction.back() + (bytes - low) / low * (1 - size_correction.back());
}

const CollectiveCurve* CollectiveTable::find(plan::OpKind collective, int ranks) const {
    for (const CollectiveCurve& curve : curves)
        if (curve.collective == collective && curve.ranks == ranks) return &curve;
    return nullptr;
}

}  // namespace orrery::sim
