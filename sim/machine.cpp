#include "sim/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "plan/scenario/diagnostic.hpp"
#include "sim/cost/copy_cost.hpp"
#include "sim/cost/expert_load.hpp"
#include "sim/cuda_graphs.hpp"
#include "sim/engine/drawn_cluster.hpp"
#include "sim/network/mixed_network.hpp"
#include "trace/describe_plan.hpp"

namespace orrery::sim {
namespace {

constexpr double kLongest_s = 1e3;  // of one op

// The clock of a step holds 106 days (time.hpp). An op that takes an hour is a slip in a bandwidth,
// a latency or a size: said here, before the clock runs over. `pointer`: what it is priced by.
[[noreturn]] void refuse_duration(double seconds, const std::string& what, const char* pointer) {
    plan::Diagnostic fault;
    fault.code = "S064";
    fault.pointer = pointer;
    fault.message = "an op takes longer than can be simulated";
    fault.arithmetic = fmt::format("{} = {:.3g} s > {:g} s", what, seconds, kLongest_s);
    fault.help = {"look at the bandwidths and latencies there, and at the sizes of the scenario"};
    throw plan::ScenarioError(std::move(fault));
}

bool is_duration(double seconds) {
    return seconds >= 0 && seconds <= kLongest_s;
}
Picoseconds duration_of(double seconds, const char* what, const char* pointer) {
    if (!is_duration(seconds)) refuse_duration(seconds, what, pointer);
    return from_seconds(seconds);
}

const char* priced_by(CostFamily family) {
    switch (family) {
        case CostFamily::intra_node_collective:
            return "/cluster/intra_node";
        case CostFamily::inter_node_collective:
        case CostFamily::point_to_point:
            return "/cluster/inter_node";
        default:
            return "/cluster/profile";
    }
}

std::int64_t ranks_of_node(const plan::Mesh& mesh, const plan::Cluster& cluster) {
    return std::min(cluster.devices_per_node, mesh.ranks());
}

// Of copies that go once to each node of a group: what a member sends, its own node included.
double node_bytes(const plan::Op& op, const GroupShape& shape) {
    const auto& rows = op.as<plan::AllToAllV>();
    return rows.copies(shape.nodes) * static_cast<double>(rows.width * plan::size_bytes(op.dtype));
}

// What an op takes where so many times the mean one's rows come to the rank's experts.
Price price_of(const plan::Block& block, const plan::Op& op, const KernelCost& kernels,
               const MixedNetwork& network, const Classes::Member& member, double load) {
    if (!plan::is_communication(op.kind())) return kernels.price(block, op, load);
    const GroupShape& shape = member.shapes[static_cast<std::size_t>(op.group)];
    // All members send as much; what the fullest receives ends last.
    const auto bytes =
        static_cast<std::int64_t>(static_cast<double>(plan::message_bytes(op)) * load);
    if (!op.is<plan::AllToAllV>()) return network.collective(op.kind(), bytes, shape);
    const auto& rows = op.as<plan::AllToAllV>();
    if (rows.tokens > 0)
        return network.copies(static_cast<double>(bytes), node_bytes(op, shape) * load, shape);
    return network.rows(bytes, shape, rows.split, rows.back);
}

NetworkUse use_of(const plan::Op& op, const MixedNetwork& network, const Classes::Member& member,
                  double seconds) {
    const GroupShape& shape = member.shapes[static_cast<std::size_t>(op.group)];
    std::int64_t bytes = plan::message_bytes(op);
    if (!op.is<plan::AllToAllV>()) return network.use_of(op.kind(), bytes, shape, seconds);
    if (op.as<plan::AllToAllV>().tokens > 0)
        bytes = static_cast<std::int64_t>(node_bytes(op, shape));
    return network.use_of(plan::OpKind::all_to_all, bytes, shape, seconds);
}

// nodes: of the kind that the rank is on; `other`: the table of a rank elsewhere on such nodes,
// whose kernels take as long, or null. gap: seconds that the device takes between the nodes of a
// graph.
PriceTable price_table(const plan::Plan& plan, const plan::Cluster& nodes,
                       const KernelCost& kernels, const MixedNetwork& network,
                       const ExpertLoads& loads, const Classes::Member& member,
                       const trace::GraphLaunches& graphs, double gap, const PriceTable* other) {
    PriceTable table;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops) {
            if (other != nullptr && !plan::is_communication(op.kind())) {
                const std::size_t number = table.prices.size();
                table.fullest = other->fullest;
                table.network.emplace_back();
                table.durations.push_back(other->durations[number]);
                table.balanced.push_back(other->balanced[number]);
                table.prices.push_back(other->prices[number]);
                continue;
            }
            Price price;
            NetworkUse use;
            const RowLoad load = loads.of(op.spec);
            double balanced = -1;
            if (plan::is_copy(op.kind())) {
                price = price_copy(op, nodes, ranks_of_node(plan.mesh, nodes));
            } else if (op.kind() !=
                       plan::OpKind::exchange) {  // transfers are priced by their route
                price = price_of(block, op, kernels, network, member, load.fullest);
                if (load.fullest > load.mean) {
                    balanced = price_of(block, op, kernels, network, member, load.mean).seconds;
                    table.fullest = std::max(table.fullest, load.fullest / load.mean);
                }
                if (plan::is_communication(op.kind()))
                    use = use_of(op, network, member, balanced < 0 ? price.seconds : balanced);
            }
            table.network.push_back(use);
            const bool in_graph =
                !graphs.ops.empty() && graphs.ops[table.prices.size()] != trace::InGraph::no;
            if (in_graph) price.seconds += gap;
            const auto duration = [&](double seconds) {
                if (!is_duration(seconds))
                    refuse_duration(seconds, block.name + ' ' + op.label, priced_by(price.family));
                return from_seconds(seconds);
            };
            table.durations.push_back(duration(price.seconds));
            table.balanced.push_back(balanced < 0 ? table.durations.back()
                                                  : duration(balanced + (in_graph ? gap : 0)));
            table.prices.push_back(price);
        }
    return table;
}

// What the model says of the op `id` of a track. Transfers are priced by their routes: of several
// that a step of a program makes the longest counts, and its link is that of the price.
Price price_on(const Machine& machine, std::size_t track, const trace::OpName& op,
               std::uint32_t id) {
    const EngineTrack& of_track = machine.input.tracks[track];
    const auto program = static_cast<std::size_t>(of_track.program);
    const plan::LinkedProgram& linked = machine.input.linked[program];
    Price price = machine.table_of[track]->prices[linked.op[id]];
    if (op.kind != plan::OpKind::exchange) return price;
    Picoseconds longest = -1;
    for (const plan::Transfer& transfer :
         machine.input.plan->programs[program].steps[linked.step[id]].transfers) {
        if (of_track.time_of(transfer) <= longest) continue;
        longest = of_track.time_of(transfer);
        const Hop& hop =
            machine.classes.members[track].hops[static_cast<std::size_t>(transfer.peer)];
        price.family =
            hop.same_node ? CostFamily::intra_node_collective : CostFamily::point_to_point;
    }
    price.seconds = to_seconds(std::max<Picoseconds>(0, longest));
    return price;
}

std::size_t ops_of_one_step(const Machine& machine, const EngineTrack& track) {
    return machine.input.linked[static_cast<std::size_t>(track.program)].size() /
           static_cast<std::size_t>(machine.repetitions);
}

using MeasuredPrices = std::vector<std::optional<MeasuredPrice>>;  // by op number

// Of all but transfers, each table's.
std::map<const PriceTable*, MeasuredPrices> measured_prices(const std::vector<trace::OpName>& ops,
                                                            const MeasuredCosts& costs,
                                                            const Machine& machine) {
    std::map<const PriceTable*, MeasuredPrices> prices;
    for (const auto& table : machine.tables) {
        MeasuredPrices& of_table = prices[table.get()];
        of_table.resize(ops.size());
        for (std::size_t op = 0; op < ops.size(); ++op)
            if (ops[op].kind != plan::OpKind::exchange)
                of_table[op] = costs.price(ops[op], table->prices[op]);
    }
    return prices;
}

// For the interval and the shares of the network, which ask tables. What was measured was measured
// beside whatever else ran; what the profile prices shares with its like.
void put_into_tables(const std::map<const PriceTable*, MeasuredPrices>& measured, bool all_measured,
                     Machine& machine) {
    for (const auto& table : machine.tables) {
        const MeasuredPrices& prices = measured.at(table.get());
        if (all_measured) table->network.assign(prices.size(), {});
        for (std::size_t op = 0; op < prices.size(); ++op) {
            if (!prices[op]) continue;
            table->network[op] = {};
            table->durations[op] = prices[op]->time.duration;
            table->prices[op].seconds = to_seconds(prices[op]->time.duration);
            table->prices[op].relative_sd = prices[op]->relative_sd;
        }
    }
}

// What was measured takes the place of prices, rank by rank or by what is known of ops.
void take_measured_times(const std::vector<trace::OpName>& ops, const MeasuredCosts& costs,
                         std::optional<Replay> replay, Machine& machine) {
    machine.input.launch = {};
    machine.input.graphs = {};
    machine.input.compute_slowdown_permille = 0;
    const auto by_table = measured_prices(ops, costs, machine);
    const bool is_replay = replay.has_value();
    const std::size_t tracks = machine.input.tracks.size();
    machine.times.resize(tracks);  // before anything points into it
    machine.sources.resize(tracks);
    machine.modelled.resize(tracks);
    for (std::size_t t = 0; t < tracks; ++t) {
        EngineTrack& track = machine.input.tracks[t];
        const plan::LinkedProgram& linked =
            machine.input.linked[static_cast<std::size_t>(track.program)];
        machine.input.launch_queue =
            std::max(machine.input.launch_queue, static_cast<std::int64_t>(linked.size()));
        const std::size_t size = ops_of_one_step(machine, track);
        for (std::uint32_t id = 0; id < size; ++id) {
            const trace::OpName& op = ops[linked.op[id]];
            const Price price = price_on(machine, t, op, id);
            machine.modelled[t].push_back(price.seconds);
            if (replay) continue;
            const bool transfers = op.kind == plan::OpKind::exchange;
            const auto measured = transfers ? costs.price(op, price)
                                            : by_table.at(machine.table_of[t])[linked.op[id]];
            machine.sources[t].push_back(measured ? measured->source : PriceSource::profile);
            const Picoseconds modelled =
                transfers ? from_seconds(price.seconds) : (*track.durations)[linked.op[id]];
            machine.times[t].push_back(measured ? measured->time
                                                : OpTime{costs.late_on(op.stream), modelled});
        }
        if (replay) {
            machine.times[t] =
                std::move(replay->times[static_cast<std::size_t>(machine.classes.members[t].rank)]);
            machine.sources[t].assign(size, PriceSource::own_time);
        }
        track.times = &machine.times[t];
    }
    put_into_tables(by_table, is_replay, machine);
}

// One rank communicates with nobody: a device that was calibrated by itself has no collectives.
CollectiveTable collectives_of(const Profile& profile, const plan::Mesh& mesh) {
    if (!profile.collectives_json.empty())
        return parse_collectives(profile.collectives_json, profile.path);
    if (mesh.ranks() == 1) return {};
    throw ProfileError(fmt::format(
        "{}: /collectives: missing, and the plan has {} ranks; orrery calibrate --import puts "
        "them in",
        profile.path, mesh.ranks()));
}

}  // namespace

bool asks_all_ranks(const plan::Training& training) {
    return training.optimizer.clip_norm > 0 || training.precision == plan::Precision::fp16;
}

trace::LaunchTimes launch_times(const plan::Framework& framework) {
    constexpr const char* kLaunch = "/training/launch_us";
    const double seconds = framework.launch_us * 1e-6;
    trace::LaunchTimes times(duration_of(seconds, "launch_us", kLaunch));
    times.backward =
        duration_of(seconds * framework.backward_launch_factor, "launch_us in backward", kLaunch);
    times.forward_collective = duration_of(seconds * framework.collective_launch_factor,
                                           "launch_us of a collective", kLaunch);
    times.backward_collective =
        duration_of(seconds * framework.backward_launch_factor * framework.collective_launch_factor,
                    "launch_us of a collective in backward", kLaunch);
    times.transfer =
        duration_of(seconds * framework.transfer_launch_factor, "launch_us of a transfer", kLaunch);
    return times;
}

namespace {

Machine::Above above_of(const Classes::Member& member, const MixedNetwork& network) {
    Machine::Above above;
    for (std::size_t kind = 0; kind < member.shapes.size(); ++kind)
        above.groups[kind] = network.travels(member.shapes[kind].kinds, member.shapes[kind].slow);
    for (const Hop& hop : member.hops)
        above.peers.push_back(network.travels(hop.kinds, hop.slow));
    return above;
}

// Devices draw, whatever rank is on them.
std::int64_t drawn_as(plan::Rank rank, const plan::Cluster& cluster, const RankPlaces* places) {
    if (places == nullptr) return rank;
    const auto node = static_cast<std::size_t>(rank / cluster.devices_per_node);
    return places->nodes[node] * cluster.devices_per_node + rank % cluster.devices_per_node;
}

Machine machine_of(const plan::Plan& plan, const plan::Scenario& scenario, const Profile& profile,
                   bool unfolded, const MeasuredCosts* costs, const MachineParts* parts,
                   const RankPlaces* places) {
    std::optional<plan::Cluster> drawn;
    if (parts == nullptr) drawn = drawn_cluster(scenario.cluster);
    const plan::Cluster& cluster = parts == nullptr ? *drawn : parts->cluster;
    const plan::Framework& framework = scenario.training.framework;
    const std::int64_t machines =
        (plan.mesh.ranks() + cluster.devices_per_node - 1) / cluster.devices_per_node;
    // Of the kinds of nodes that have ranks.
    std::vector<KernelCost> kernels;
    std::vector<CollectiveTable> tables_of_kinds;
    for (std::size_t kind = 0; kind <= cluster.kind_of_device(plan.mesh.ranks() - 1); ++kind) {
        const Profile& of_kind = profile.of_kind(kind);
        kernels.emplace_back(of_kind, framework, ranks_of_node(plan.mesh, cluster), machines,
                             scenario.training.sequence_length / scenario.layout.context_parallel,
                             parts == nullptr ? nullptr : &parts->ratios);
        if (parts == nullptr) tables_of_kinds.push_back(collectives_of(of_kind, plan.mesh));
    }
    std::optional<MixedNetwork> made;
    if (parts == nullptr) made.emplace(cluster, std::move(tables_of_kinds));
    const MixedNetwork& network = parts == nullptr ? *made : parts->network;
    const ExpertLoads loads(scenario);

    Machine machine;
    std::optional<Replay> replay;
    // Of steps that run on the measured one began before those before it had ended: it is priced op
    // by op.
    if (costs != nullptr && scenario.layout.staleness == 0) replay = costs->replay_of(plan);
    if (replay && !costs->are_priced_alike(predicted_ops(plan, scenario, profile))) replay.reset();
    machine.classes = parts != nullptr ? parts->classes
                                       : fold_ranks(plan.mesh, cluster, unfolded || replay,
                                                    scenario.model.has_experts(), places);
    machine.input.plan = &plan;
    // Without that the first stages begin the next step while the last still end this one.
    const bool waits = plan.statistics.empty() && asks_all_ranks(scenario.training);
    // Parameters that are gathered ahead of the next step's forward pass cross the boundary too.
    const bool overlaps = (plan.mesh.pipeline > 1 && !waits) || gathers_parameters_ahead(scenario);
    machine.repetitions = overlaps ? 2 : 1;
    // Where validation is all that is left of the waiting, first stages run on into the next step
    // while the last still end this one: it is simulated, too, or they would seem to idle.
    machine.following = plan.statistics.empty() ? 0 : 1;
    if (const auto staleness = static_cast<int>(scenario.layout.staleness); staleness > 0) {
        // The first steps wait for no update; ranks go on with the steps after the one that counts
        // while it ends.
        machine.repetitions = staleness + 3;
        machine.following = staleness + 1;
    }
    machine.repetitions += machine.following;
    if (replay) machine.repetitions = replay->repetitions;
    if (replay) machine.following = 0;
    if (replay) machine.tail = replay->tail;
    if (parts != nullptr) {
        machine.repetitions = 1;
        machine.following = 0;
    }
    machine.input.linked =
        parts != nullptr ? parts->linked : plan::link_all(plan, machine.repetitions);
    machine.input.groups = machine.classes.groups;
    machine.input.launch = launch_times(framework);
    machine.input.launch_queue = framework.launch_queue;
    machine.input.graphs = graph_launches(plan, scenario, profile.hardware);
    const double gap = scenario.training.cuda_graphs.node_us * 1e-6;
    const auto slowdown_permille = [&](const Profile& of) {
        return static_cast<std::int64_t>(
            (of.overlap.compute_slowdown.value - 1.0) * framework.overlap_factor * 1000 + 0.5);
    };
    machine.input.compute_slowdown_permille = slowdown_permille(profile);

    const std::int64_t boundary =
        plan::message_bytes(plan.blocks[static_cast<std::size_t>(plan.exchange_block)].ops.front());
    machine.input.node_network_kBps = network.node_kBps();
    auto seconds = [&](std::int64_t bytes, const Hop& hop) {
        return network.point_to_point(bytes, hop).seconds;
    };
    std::vector<trace::OpName> ops;
    if (costs != nullptr) ops = trace::describe_plan(plan, machine.input.linked).ops;
    std::map<std::pair<std::int32_t, std::size_t>, const PriceTable*> tables;
    for (const Classes::Member& member : machine.classes.members) {
        const std::size_t kind = cluster.kind_of_device(member.rank);
        const PriceTable*& table = tables[{member.alike, kind}];
        if (table == nullptr) {
            const auto alike =
                std::find_if(machine.tables.begin(), machine.tables.end(),
                             [&](const auto& other) { return other->node_kind == kind; });
            machine.tables.push_back(std::make_unique<PriceTable>(
                price_table(plan, cluster.node_kind(kind), kernels[kind], network, loads, member,
                            machine.input.graphs, gap,
                            alike == machine.tables.end() ? nullptr : alike->get())));
            machine.tables.back()->node_kind = kind;
            table = machine.tables.back().get();
        }
        machine.table_of.push_back(table);
        EngineTrack track;
        track.program = static_cast<std::int32_t>(plan.mesh.coordinates(member.rank).pipeline);
        track.durations = &table->durations;
        if (kind > 0 && costs == nullptr)
            track.compute_slowdown_permille = slowdown_permille(profile.of_kind(kind));
        track.groups = member.groups;
        track.pipeline_peers = member.pipeline_peers;
        const auto hops = [&](std::int64_t bytes) {
            std::vector<Picoseconds> to_peer;
            for (std::size_t peer = 0; peer < member.hops.size(); ++peer)
                to_peer.push_back(static_cast<std::int32_t>(peer) == track.program
                                      ? 0
                                      : duration_of(seconds(bytes, member.hops[peer]),
                                                    "a transfer between pipeline ranks",
                                                    priced_by(CostFamily::point_to_point)));
            return to_peer;
        };
        track.transfer_to_peer = hops(boundary);
        track.network_uses = &table->network;
        for (const Hop& hop : member.hops)
            track.use_to_peer.push_back(
                network.use_of(boundary, hop, hop.same_node ? 0 : seconds(boundary, hop)));
        for (const std::int32_t block : plan.statistics)
            track.statistic_to_peer.push_back(hops(
                plan::message_bytes(plan.blocks[static_cast<std::size_t>(block)].ops.front())));
        if (places != nullptr) machine.above.push_back(above_of(member, network));
        auto uneven =
            std::make_unique<Uneven>(cluster, member.rank, drawn_as(member.rank, cluster, places));
        if (costs == nullptr && uneven->changes()) {
            track.uneven = uneven.get();
            machine.uneven.push_back(std::move(uneven));
        }
        machine.input.tracks.push_back(std::move(track));
    }
    if (costs != nullptr) take_measured_times(ops, *costs, std::move(replay), machine);
    return machine;
}

}  // namespace

Machine build_machine(const plan::Plan& plan, const plan::Scenario& scenario,
                      const Profile& profile, bool unfolded, const MeasuredCosts* costs,
                      const MachineParts* parts, const RankPlaces* places) {
    try {
        return machine_of(plan, scenario, profile, unfolded, costs, parts, places);
    } catch (const plan::ScenarioError& error) {
        plan::Diagnostic fault = error.diagnostic();
        fault.file = scenario.source_path;
        throw plan::ScenarioError(std::move(fault));
    }
}

void multiply_times(Machine& machine, std::vector<std::vector<double>> factors) {
    machine.factors = std::move(factors);
    for (std::size_t t = 0; t < machine.input.tracks.size(); ++t)
        machine.input.tracks[t].factors = machine.factors.empty() ? nullptr : &machine.factors[t];
}

std::vector<EngineTrack> balanced_tracks(const Machine& machine) {
    std::vector<EngineTrack> tracks = machine.input.tracks;
    for (std::size_t t = 0; t < tracks.size(); ++t)
        tracks[t].durations = &machine.table_of[t]->balanced;
    return tracks;
}

double fullest_rank(const Machine& machine) {
    double most = 1;
    for (const auto& table : machine.tables)
        most = std::max(most, table->fullest);
    return most;
}

std::vector<PredictedOp> predicted_ops(const plan::Plan& plan, const plan::Scenario& scenario,
                                       const Profile& profile) {
    const Machine machine = build_machine(plan, scenario, profile, false);
    const std::vector<trace::OpName> names = trace::describe_plan(plan, machine.input.linked).ops;
    std::map<std::pair<std::uint32_t, double>, PredictedOp> ops;  // by number and price
    for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
        const EngineTrack& track = machine.input.tracks[t];
        const auto& linked = machine.input.linked[static_cast<std::size_t>(track.program)];
        const std::size_t size = ops_of_one_step(machine, track);
        for (std::uint32_t id = 0; id < size; ++id) {
            const std::uint32_t number = linked.op[id];
            const Price price = price_on(machine, t, names[number], id);
            PredictedOp& op = ops[{number, price.seconds}];
            if (op.runs == 0) op = {names[number], price, 0};
            op.runs += machine.classes.members[t].represents;
        }
    }
    std::vector<PredictedOp> run;
    for (auto& [key, op] : ops)
        run.push_back(std::move(op));
    return run;
}

PriceSources price_sources(const Machine& machine, const MeasuredCosts& costs) {
    PriceSources sources;
    sources.path = costs.path();
    std::map<plan::OpKind, PriceSources::OfKind> kinds;
    std::map<plan::OpKind, double> modelled;
    std::vector<plan::OpKind> kind_of;
    for (const plan::Block& block : machine.input.plan->blocks)
        for (const plan::Op& op : block.ops)
            kind_of.push_back(op.kind());
    double all = 0;
    for (std::size_t t = 0; t < machine.input.tracks.size(); ++t) {
        const auto& ops =
            machine.input.linked[static_cast<std::size_t>(machine.input.tracks[t].program)].op;
        const std::vector<OpTime>& times = *machine.input.tracks[t].times;
        const std::int64_t ranks = machine.classes.members[t].represents;
        for (std::size_t i = 0; i < times.size(); ++i) {
            const auto source = static_cast<std::size_t>(machine.sources[t][i]);
            const double time = static_cast<double>(times[i].duration) * static_cast<double>(ranks);
            sources.ops[source] += ranks;
            sources.share[source] += time;
            all += time;
            kinds[kind_of[ops[i]]].share[source] += time;
            modelled[kind_of[ops[i]]] += machine.modelled[t][i] * static_cast<double>(ranks);
        }
    }
    for (double& share : sources.share)
        share = all > 0 ? share / all : 0;
    for (auto& [kind, of_kind] : kinds) {
        double time = 0;
        for (double& share : of_kind.share) {
            time += share;
            share = all > 0 ? share / all : 0;
        }
        if (time <= 0) continue;
        of_kind.kind = kind;
        if (modelled[kind] > 0) of_kind.over_model = time / trace::kPsPerSecond / modelled[kind];
        sources.kinds.push_back(of_kind);
    }
    return sources;
}

trace::Trace trace_to_fill(const plan::Plan& plan, const Machine& machine,
                           const std::string& resolved_json) {
    trace::Trace trace = trace::describe_plan(plan, machine.input.linked);
    trace.scenario_json = resolved_json;
    for (std::size_t t = 0; t < machine.classes.members.size(); ++t)
        trace.tracks.push_back(
            {machine.classes.members[t].rank, {}, machine.input.tracks[t].program, {}});
    for (std::size_t r = 0; r < machine.classes.class_of.size(); ++r) {
        trace::Track& track = trace.tracks[static_cast<std::size_t>(machine.classes.class_of[r])];
        const auto rank = static_cast<std::int64_t>(r);
        std::vector<trace::RankRange>& alike = track.alike;
        if (rank == track.rank) continue;
        if (!alike.empty() && alike.back().first + alike.back().count == rank)
            ++alike.back().count;
        else
            alike.push_back({rank, 1});
    }
    return trace;
}

StepWindow step_window(const Machine& machine, const EngineResult& result) {
    StepWindow window;
    for (const auto& events : result.events) {
        const std::size_t of_one_step =
            events.size() / static_cast<std::size_t>(machine.repetitions);
        const std::size_t end =
            events.size() - of_one_step * static_cast<std::size_t>(machine.following);
        for (std::size_t i = 0; i < end; ++i) {
            window.end = std::max(window.end, events[i].end);
            if (i < end - of_one_step) window.start = std::max(window.start, events[i].end);
        }
    }
    window.end += machine.tail;
    if (machine.repetitions > 1) window.start += machine.tail;
    return window;
}

}  // namespace orrery::sim
