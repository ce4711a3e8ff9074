#include "plan/scenario/scenario.hpp"

#include <algorithm>
#include <cmath>

#include "plan/scenario/spellings.hpp"

namespace orrery::plan {

namespace {

// The leading one included.
int significant_bits(Precision precision) {
    switch (precision) {
        case Precision::bf16:
        case Precision::fp8:
            return 8;
        case Precision::fp16:
            return 11;
        case Precision::fp32:
            return 24;
        case Precision::fp64:
            return 53;
    }
    return 53;
}

}  // namespace

std::int64_t layers_per_group(const Layout& layout, std::int64_t layers) {
    if (layout.recompute != Recompute::every_k) return 1;
    if (layout.recompute_every > 0) return layout.recompute_every;
    std::int64_t root = 1;
    while (root * (root + 1) < layers)  // (root + ½)² < layers
        ++root;
    return root;
}

std::int64_t Cluster::all_nodes() const {
    std::int64_t all = nodes;
    for (const Cluster& others : other_nodes)
        all += others.nodes;
    return all;
}

Cluster Cluster::all_of_kind(std::size_t kind) const {
    Cluster all = node_kind(kind);
    all.nodes = all_nodes();
    all.other_nodes.clear();
    all.slow_devices = slow_devices;
    all.slow_nodes = slow_nodes;
    all.slow_links = slow_links;
    all.stragglers = stragglers;
    all.all_slow_factor = all_slow_factor;
    all.jitter = jitter;
    return all;
}

double Cluster::slow_factor(std::int64_t of_device) const {
    double factor = all_slow_factor;
    const auto own = std::lower_bound(
        slow_devices.begin(), slow_devices.end(), of_device,
        [](const SlowDevice& slow, std::int64_t named) { return slow.device < named; });
    if (own != slow_devices.end() && own->device == of_device) factor *= own->factor;
    const std::int64_t on = of_device / devices_per_node;
    const auto of_node = std::lower_bound(
        slow_nodes.begin(), slow_nodes.end(), on,
        [](const SlowNode& slow, std::int64_t named) { return slow.node < named; });
    if (of_node != slow_nodes.end() && of_node->node == on) factor *= of_node->factor;
    return factor;
}

bool Cluster::even() const {
    return slow_devices.empty() && slow_nodes.empty() && slow_links.empty() && !stragglers.any() &&
           all_slow_factor == 1 && !jitter.any();
}

Cluster Cluster::made_even() const {
    Cluster cluster = *this;
    cluster.slow_devices.clear();
    cluster.slow_nodes.clear();
    cluster.slow_links.clear();
    cluster.stragglers = {};
    cluster.all_slow_factor = 1;
    cluster.jitter = {};
    return cluster;
}

std::size_t Cluster::kind_of_device(std::int64_t of_device) const {
    std::int64_t end = nodes * devices_per_node;
    std::size_t kind = 0;
    while (of_device >= end && kind < other_nodes.size())
        end += other_nodes[kind++].nodes * devices_per_node;
    return kind;
}

std::vector<std::int64_t> Cluster::devices_by_kind(std::int64_t first) const {
    std::vector<std::int64_t> counts;
    for (std::size_t kind = 0; kind < node_kinds(); ++kind) {
        counts.push_back(std::min(first, node_kind(kind).nodes * devices_per_node));
        first -= counts.back();
    }
    return counts;
}

namespace {

// Sum over the first `first` devices of what their nodes' kind says of each, where each says
// something.
template <typename OfDevice>
double summed(const Cluster& cluster, std::int64_t first, OfDevice&& of_device) {
    const std::vector<std::int64_t> counts = cluster.devices_by_kind(first);
    double sum = 0;
    for (std::size_t kind = 0; kind < counts.size(); ++kind) {
        if (counts[kind] == 0) continue;
        const double each = of_device(cluster.node_kind(kind));
        if (each <= 0) return 0;
        sum += static_cast<double>(counts[kind]) * each;
    }
    return sum;
}

}  // namespace

double Cluster::usd_per_hour(std::int64_t first) const {
    return summed(*this, first, [](const Cluster& kind) { return kind.usd_per_device_hour(); });
}

double Cluster::site_power_w(std::int64_t first) const {
    return summed(*this, first,
                  [](const Cluster& kind) { return kind.power_w_per_gpu * kind.pue; });
}

std::string_view name(Precision precision) {
    return spelling(precision);
}

std::string_view name(Fp8Recipe recipe) {
    return spelling(recipe);
}

Precision held_precision(Precision precision) {
    return precision == Precision::fp8 ? Precision::bf16 : precision;
}

std::string_view name(ContextAlgorithm algorithm) {
    return spelling(algorithm);
}

double embedding_scale(const Scenario& scenario) {
    const int significant = significant_bits(scenario.training.precision);
    int exponent = 0;
    const double fraction = std::frexp(scenario.model.embedding_scale, &exponent);
    // Ties to even, the default direction of rounding.
    return std::ldexp(std::nearbyint(std::ldexp(fraction, significant)), exponent - significant);
}

std::int64_t attention_span(const Scenario& scenario, const SoftmaxAttention& attention) {
    std::int64_t span = scenario.training.sequence_length;
    for (const std::int64_t bound : {attention.window, attention.chunk})
        if (bound > 0) span = std::min(span, bound);
    return span;
}

bool attends_in_chunks(const Scenario& scenario, const SoftmaxAttention& attention) {
    return attention.chunk > 0 && attention.chunk < scenario.training.sequence_length;
}

bool gathers_parameters_ahead(const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    return scenario.training.framework.overlap_parameter_gather && layout.zero_ranks() > 1 &&
           layout.staleness == 0 && layout.zero_stage <= 2;
}

std::int64_t padded_vocabulary(const Scenario& scenario) {
    const std::int64_t multiple =
        scenario.training.framework.vocabulary_multiple * scenario.layout.vocabulary_ranks();
    return (scenario.model.vocabulary + multiple - 1) / multiple * multiple;
}

}  // namespace orrery::plan
