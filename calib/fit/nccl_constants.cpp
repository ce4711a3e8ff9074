// Numbers of NCCL 2.27's src/graph/tuning.cc (BSD-3): baseLat, hwLat {NVLink, PCI, NET}, the
// bandwidth factors of ncclTopoTuneModel, treeCorrectionFactor. The limit of LL between nodes is
// that of three nodes and more on an AMD host (19.0 GB/s; Intel 20.4). A lone rank per node has the
// tree's network latency in a ring; the receiver of the Simple protocol waits for the network
// twice, since it flushes.
#include "calib/fit/nccl_constants.hpp"

#include <utility>

#include <nlohmann/json.hpp>

namespace orrery::fit {

namespace {

using nlohmann::json;

struct Hop {
    double nvswitch;
    double pcie;
    double inter_node;
    double inter_node_alone;
};

json protocol(const char* name, double base_us, const Hop& hop, double bandwidth_factor,
              int network_latencies, double network_limit_GBps, json size_correction) {
    return {{"name", name},
            {"base_us", base_us},
            {"hop_us",
             {{"nvswitch", hop.nvswitch},
              {"pcie", hop.pcie},
              {"inter_node", hop.inter_node},
              {"inter_node_alone", hop.inter_node_alone}}},
            {"bandwidth_factor", bandwidth_factor},
            {"network_latencies", network_latencies},
            {"network_limit_GBps", network_limit_GBps},
            {"size_correction", std::move(size_correction)}};
}

}  // namespace

json nccl_algorithms(bool hierarchical) {
    const double tree = 0.92;
    json algorithms = json::object();
    algorithms["source"] =
        "NCCL 2.27 src/graph/tuning.cc (baseLat, hwLat, ncclTopoTuneModel, treeCorrectionFactor)";
    algorithms["link_latency_us"] = {
        {"nvswitch", 2.0},
        {"pcie", 5.0},
        {"source",
         "what the shipped clusters state of such links, an estimate of one hop: the hops of the "
         "protocols hold for these"}};
    algorithms["ring"] =
        json::array({protocol("LL", 6.6, {0.6, 1.0, 2.7, 5.0}, 0.5, 1, 19.0, json::array()),
                     protocol("LL128", 14.0, {1.9, 2.5, 4.0, 8.5}, 0.92, 1, 0, json::array()),
                     protocol("Simple", 8.4, {3.4, 5.7, 14.0, 14.0}, 1.0, 2, 0, json::array())});
    algorithms["tree"] = json::array(
        {protocol(
             "LL", 6.8, {0.6, 1.0, 5.0, 5.0}, tree / 3.8, 1, 19.0,
             {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1}),
         protocol(
             "LL128", 14.0, {1.25, 1.9, 8.5, 8.5}, tree * 120 / 128, 1, 0,
             {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, 1}),
         protocol("Simple", 8.4, {4.0, 4.0, 14.0, 14.0}, tree, 2, 0,
                  {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6,
                   .5, .5, .5, .5, .5, .5, .6, .6, .7, .8, .9})});
    algorithms["hierarchical"] = hierarchical;
    return algorithms;
}

json link_algorithms() {
    json ring = protocol("link", 0, {0, 0, 0, 0}, 1.0, 1, 0, json::array());
    for (const char* kind : {"nvswitch", "pcie"})
        ring["hop_us"].erase(kind);  // the cluster's
    return {{"source", "a ring over the cluster's links: their latency per hop, their bandwidth"},
            {"ring", json::array({std::move(ring)})},
            {"tree", json::array()},
            {"hierarchical", false}};
}

}  // namespace orrery::fit
