// What a profile knows of collectives: measured curves, and the constants of the algorithms that
// price what was not measured. Read from the "collectives" section of a profile:
//
//   { "measured_on": { "system": "…", "intra_node_bandwidth_GBps": 300,
//                      "intra_node_kind": "nvswitch", "intra_node_latency_us": 2, "source": "…" },
//     "curves": [ { "collective": "all_reduce", "ranks": 8, "points": [[bytes, microseconds], …],
//                   "relative_sd": 0.05, "source": "…" }, … ],
//     "algorithms": { "source": "…",
//                     "link_latency_us": { "nvswitch": 2, "pcie": 5, "source": "…" },
//                     "ring": [ { "name": "LL", "base_us": 6.6,
//                                 "hop_us": { "nvswitch": 0.6, "pcie": 1.0, "inter_node": 2.7,
//                                             "inter_node_alone": 5.0 },
//                                 "bandwidth_factor": 0.5, "network_latencies": 1,
//                                 "network_limit_GBps": 19.0, "size_correction": [] }, … ],
//                     "tree": [ … ], "hierarchical": false },
//     "intra_node": { "efficiency": 0.78, "relative_sd": 0.1, "source": "…" },
//     "inter_node": { "efficiency": 0.8, "kind": "infiniband", "relative_sd": 0.3,
//                     "source": "…" } }
//
// Curves are of groups within one node. Bytes are S of nccl-tests: the buffer for all_reduce, the
// whole gathered buffer for all_gather and reduce_scatter. A curve of `exchange` is of messages
// between two devices, by the bytes of one. Every key is required but nvswitch, pcie and what says
// on which links the figures were found: intra_node_kind with intra_node_latency_us,
// link_latency_us, kind. A cluster whose links are others scales the figures
// (sim/network/collective_cost.hpp); where that is not said they hold for any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plan/ir/kinds.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::sim {

struct CurvePoint {
    double bytes = 0;
    double seconds = 0;
    bool operator==(const CurvePoint&) const = default;
};

// Points have growing bytes and seconds that never fall.
struct CollectiveCurve {
    plan::OpKind collective = plan::OpKind::all_reduce;
    int ranks = 0;
    std::vector<CurvePoint> points;
    double relative_sd = 0;  // held-out error of interpolation, one standard deviation
    std::string source;
};

// Time of `bytes` on a curve: straight in (log bytes, log seconds) between points, constant below
// the first, proportional to bytes (constant bandwidth) above the last. Never falls with bytes.
// Uses + − × ÷ √ only, so that every machine gives the same double.
double interpolate(const std::vector<CurvePoint>& points, double bytes);

// What was found at a latency of `from`, where the latency is `to`: what a slower link adds it adds
// in full, and what a quicker one saves it saves in proportion, since not all that was found is the
// link's.
double moved(double found, double from, double to);

// One protocol of one algorithm: seconds = base + hops × hop latency + bytes ÷ bandwidth.
struct ProtocolConstants {
    std::string name;
    double base_us = 0;
    // Latency of one hop within the node by link; a kind that the profile does not state takes the
    // cluster's intra_node.latency_us.
    std::optional<double> nvswitch_hop_us;
    std::optional<double> pcie_hop_us;
    // The intra_node.latency_us of clusters with such links as these hops were found on.
    std::optional<double> nvswitch_link_us;
    std::optional<double> pcie_link_us;
    double inter_node_hop_us = 0;        // beside the cluster's inter_node.latency_us
    double inter_node_alone_hop_us = 0;  // the same where each node holds one rank of the group
    int network_latencies = 1;      // how often a hop between nodes waits for inter_node.latency_us
    double bandwidth_factor = 1;    // share of the link that is payload
    double network_limit_GBps = 0;  // per node and group, between nodes; 0: none
    // Factor on the bandwidth at 64 B × 2^i, straight between, 1 above the last; may be empty.
    std::vector<double> size_correction;

    double intra_hop_us(plan::IntraNodeKind kind, double cluster_latency_us) const;
    double correction(double bytes) const;
};

struct LinkEfficiency {
    double efficiency = 0;  // of the line rate, (0, 1]
    double relative_sd = 0;
    std::string source;
};

// Of the machine of the curves, as a cluster says it.
struct MeasuredLink {
    plan::IntraNodeKind kind = plan::IntraNodeKind::nvswitch;
    double latency_us = 0;
};

struct CollectiveTable {
    std::string system;
    double measured_bandwidth_GBps = 0;  // intra-node link of the machine of the curves
    std::optional<MeasuredLink> measured_link;
    std::vector<CollectiveCurve> curves;  // by collective, then ranks
    std::vector<ProtocolConstants> ring;  // never empty
    std::vector<ProtocolConstants> tree;  // may be empty: no tree
    bool hierarchical = false;            // the library reduces inside nodes first (NVLS tree)
    std::string algorithm_source;
    LinkEfficiency intra_node;  // of collectives that no curve covers
    LinkEfficiency inter_node;
    std::optional<plan::InterNodeKind> inter_node_kind;  // of the networks that it was found on

    const CollectiveCurve* find(plan::OpKind collective, int ranks) const;
};

// Strict: an unknown, missing or ill-typed key throws ProfileError with `file`, the JSON pointer
// and the fault. The text is Profile::collectives_json.
CollectiveTable read_collectives(const nlohmann::json& section, const std::string& file);
CollectiveTable parse_collectives(const std::string& text, const std::string& file);

}  // namespace orrery::sim
