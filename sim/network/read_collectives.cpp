// The "collectives" section of a profile: JSON to CollectiveTable, every key checked.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/scenario/spellings.hpp"
#include "sim/cost/profile_section.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::sim {

namespace {

using nlohmann::json;

const std::string kPointer = "/collectives";

int integer(ProfileSection& in, const std::string& key, int low) {
    const double value = in.number(key, low);
    if (value > 1e6 || value != static_cast<double>(static_cast<int>(value)))
        in.fail(key, fmt::format("an integer from {} to 1000000 is expected", low));
    return static_cast<int>(value);
}

double share(ProfileSection& in, const std::string& key) {
    const double value = in.positive(key);
    if (value > 1) in.fail(key, "a share in (0, 1] is expected");
    return value;
}

std::vector<CurvePoint> read_points(ProfileSection& in) {
    std::vector<CurvePoint> points;
    for (const json& pair : in.array("points")) {
        const std::string here = fmt::format("points/{}", points.size());
        if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number())
            in.fail(here, "[bytes, microseconds] is expected");
        const CurvePoint point{pair[0].get<double>(), pair[1].get<double>() * 1e-6};
        if (!(point.bytes > 0 && point.bytes < 1e18 && point.seconds > 0 && point.seconds < 1e6))
            in.fail(here, "bytes and microseconds must be positive");
        if (!points.empty() && point.bytes <= points.back().bytes)
            in.fail(here, "bytes must grow from point to point");
        if (!points.empty() && point.seconds < points.back().seconds)
            in.fail(here, "time must not fall as bytes grow");
        points.push_back(point);
    }
    if (points.empty()) in.fail("points", "at least one point is expected");
    return points;
}

CollectiveCurve read_curve(ProfileSection in) {
    CollectiveCurve curve;
    const auto kind = plan::from_name<plan::OpKind>(in.text("collective"));
    if (!kind || (*kind != plan::OpKind::all_reduce && *kind != plan::OpKind::all_gather &&
                  *kind != plan::OpKind::reduce_scatter && *kind != plan::OpKind::exchange))
        in.fail("collective", "all_reduce, all_gather, reduce_scatter or exchange is expected");
    curve.collective = *kind;
    curve.ranks = integer(in, "ranks", 2);
    if (*kind == plan::OpKind::exchange && curve.ranks != 2)
        in.fail("ranks", "an exchange is of 2 ranks");
    curve.points = read_points(in);
    curve.relative_sd = in.number("relative_sd", 0);
    curve.source = in.text("source");
    in.finish();
    return curve;
}

// bytes ÷ factor must not fall as bytes grow, or a larger message would take less time.
std::vector<double> read_size_correction(ProfileSection& in) {
    std::vector<double> factors;
    for (const json& value : in.array("size_correction")) {
        const std::string here = fmt::format("size_correction/{}", factors.size());
        if (!value.is_number() || !(value.get<double>() > 0 && value.get<double>() <= 1))
            in.fail(here, "a share in (0, 1] is expected");
        const double factor = value.get<double>();
        if (!factors.empty() && factor > 2 * factors.back())
            in.fail(here, "a factor may at most double from one size to the next");
        factors.push_back(factor);
    }
    if (!factors.empty() && factors.back() < 0.5)
        in.fail("size_correction", "the last factor must be at least 0.5");
    return factors;
}

ProtocolConstants read_protocol(ProfileSection in) {
    ProtocolConstants out;
    out.name = in.text("name");
    out.base_us = in.number("base_us", 0);
    ProfileSection hop = in.section("hop_us");
    if (hop.has("nvswitch")) out.nvswitch_hop_us = hop.number("nvswitch", 0);
    if (hop.has("pcie")) out.pcie_hop_us = hop.number("pcie", 0);
    out.inter_node_hop_us = hop.number("inter_node", 0);
    out.inter_node_alone_hop_us = hop.number("inter_node_alone", 0);
    hop.finish();
    out.network_latencies = integer(in, "network_latencies", 0);
    out.bandwidth_factor = share(in, "bandwidth_factor");
    out.network_limit_GBps = in.number("network_limit_GBps", 0);
    out.size_correction = read_size_correction(in);
    in.finish();
    return out;
}

LinkEfficiency read_efficiency(ProfileSection& in) {
    LinkEfficiency out;
    out.efficiency = share(in, "efficiency");
    out.relative_sd = in.number("relative_sd", 0);
    out.source = in.source();
    return out;
}

template <typename Kind>
Kind read_kind(ProfileSection& in, const std::string& key) {
    if (const std::optional<Kind> kind = plan::value_spelled<Kind>(in.text(key))) return *kind;
    std::string known;
    for (const std::string_view name : plan::Spelling<Kind>::names)
        known += (known.empty() ? "" : ", ") + std::string(name);
    in.fail(key, "one of " + known + " is expected");
}

// Both or none.
std::optional<MeasuredLink> read_link(ProfileSection& in) {
    if (!in.has("intra_node_kind") && !in.has("intra_node_latency_us")) return {};
    return MeasuredLink{read_kind<plan::IntraNodeKind>(in, "intra_node_kind"),
                        in.number("intra_node_latency_us", 0)};
}

struct HopLinks {
    std::optional<double> nvswitch_us, pcie_us;
};

HopLinks read_hop_links(ProfileSection& algorithms) {
    HopLinks links;
    if (!algorithms.has("link_latency_us")) return links;
    ProfileSection in = algorithms.section("link_latency_us");
    if (in.has("nvswitch")) links.nvswitch_us = in.number("nvswitch", 0);
    if (in.has("pcie")) links.pcie_us = in.number("pcie", 0);
    in.finish();
    return links;
}

bool before(const CollectiveCurve& a, const CollectiveCurve& b) {
    return a.collective != b.collective ? a.collective < b.collective : a.ranks < b.ranks;
}

// Reads one section, and keeps where it stands for the elements of its arrays.
class CollectivesReader {
  public:
    explicit CollectivesReader(const std::string& file) : file_(file) {}

    CollectiveTable read(const json& section) const {
        ProfileSection in(section, kPointer, file_, "");
        CollectiveTable table;
        ProfileSection measured = in.section("measured_on");
        table.system = measured.text("system");
        table.measured_bandwidth_GBps = measured.positive("intra_node_bandwidth_GBps");
        table.measured_link = read_link(measured);
        measured.finish();
        read_curves(in, table);
        ProfileSection algorithms = in.section("algorithms");
        table.algorithm_source = algorithms.source();
        const HopLinks links = read_hop_links(algorithms);
        table.ring = protocols(algorithms, "ring", links);
        if (table.ring.empty()) algorithms.fail("ring", "at least one protocol is expected");
        table.tree = protocols(algorithms, "tree", links);
        table.hierarchical = algorithms.flag("hierarchical");
        algorithms.finish();
        ProfileSection inside = in.section("intra_node");
        table.intra_node = read_efficiency(inside);
        inside.finish();
        ProfileSection between = in.section("inter_node");
        if (between.has("kind"))
            table.inter_node_kind = read_kind<plan::InterNodeKind>(between, "kind");
        table.inter_node = read_efficiency(between);
        between.finish();
        in.finish();
        return table;
    }

  private:
    void read_curves(ProfileSection& in, CollectiveTable& table) const {
        for (const json& value : in.array("curves")) {
            const std::string here = fmt::format("curves/{}", table.curves.size());
            CollectiveCurve curve =
                read_curve(ProfileSection(value, kPointer + "/" + here, file_, ""));
            if (table.find(curve.collective, curve.ranks))
                in.fail(here, "a second curve of this collective and rank count");
            table.curves.push_back(std::move(curve));
        }
        std::sort(table.curves.begin(), table.curves.end(), before);
    }

    std::vector<ProtocolConstants> protocols(ProfileSection& algorithms, const std::string& name,
                                             const HopLinks& links) const {
        std::vector<ProtocolConstants> all;
        for (const json& value : algorithms.array(name)) {
            const std::string here = fmt::format("{}/algorithms/{}/{}", kPointer, name, all.size());
            all.push_back(read_protocol(ProfileSection(value, here, file_, algorithms.source())));
            all.back().nvswitch_link_us = links.nvswitch_us;
            all.back().pcie_link_us = links.pcie_us;
        }
        return all;
    }

    const std::string& file_;
};

}  // namespace

CollectiveTable read_collectives(const json& section, const std::string& file) {
    return CollectivesReader(file).read(section);
}

CollectiveTable parse_collectives(const std::string& text, const std::string& file) {
    json section;
    try {
        section = json::parse(text);
    } catch (const json::exception& error) {  // of the syntax, or a number beyond a double
        throw ProfileError(fmt::format("{}: {}: not JSON: {}", file, kPointer, error.what()));
    }
    return read_collectives(section, file);
}

}  // namespace orrery::sim
