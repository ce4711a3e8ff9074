#include "calib/measure/step_timings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "calib/measure/size_draw.hpp"
#include "calib/measure/timing.hpp"
#include "plan/ir/check.hpp"
#include "plan/ir/link.hpp"
#include "plan/scenario/reader.hpp"
#include "runtime/executor/measured_trace.hpp"
#include "runtime/train/trainer.hpp"

namespace orrery::measure {
namespace {

nlohmann::json gpt(std::int64_t width, std::int64_t heads, std::int64_t sequence,
                   std::int64_t vocabulary, bool dropout) {
    const double rate = dropout ? 0.1 : 0;
    return {{"model_type", "gpt2"},    {"n_layer", 1},
            {"n_embd", width},         {"n_head", heads},
            {"n_positions", sequence}, {"vocab_size", vocabulary},
            {"resid_pdrop", rate},     {"embd_pdrop", rate},
            {"attn_pdrop", 0}};
}

nlohmann::json llama(std::int64_t width, std::int64_t heads, std::int64_t vocabulary) {
    return {{"model_type", "llama"},        {"num_hidden_layers", 1},
            {"hidden_size", width},         {"num_attention_heads", heads},
            {"num_key_value_heads", heads}, {"intermediate_size", 3 * width},
            {"vocab_size", vocabulary},     {"tie_word_embeddings", false}};
}

struct Layout {
    std::int64_t tensor = 1;
    std::int64_t data = 1;
    bool sequence = false;
    int zero_stage = 0;
    std::int64_t zero_group = 1;
};

std::vector<Layout> layouts_of(std::int64_t ranks) {
    std::vector<Layout> layouts{{1, ranks, false, 0, 1}};
    for (std::int64_t group = 2; group <= ranks; ++group) {
        if (ranks % group != 0) continue;
        layouts.push_back({group, ranks / group, false, 0, 1});
        layouts.push_back({group, ranks / group, true, 0, 1});
        layouts.push_back({1, ranks, false, 3, group});
    }
    return layouts;
}

nlohmann::json scenario_json(int number, const Layout& layout, SizeDraw& draw,
                             const StepGrid& grid) {
    std::int64_t heads = layout.tensor * draw(1, 4, 1) * (layout.tensor == 1 ? 2 : 1);
    const std::int64_t width =
        draw(grid.least_width, grid.most_width, grid.head_dim > 0 ? grid.head_dim : 8 * heads);
    if (grid.head_dim > 0) heads = width / grid.head_dim;
    const std::int64_t sequence =
        draw(grid.least_sequence, grid.most_sequence, std::lcm(std::int64_t{32}, layout.tensor));
    const std::int64_t vocabulary = draw(grid.least_vocabulary, grid.most_vocabulary, 8);
    const std::int64_t samples = draw(1, 4, 1);
    nlohmann::json scenario;
    scenario["model"] = number % 2 == 0 ? gpt(width, heads, sequence, vocabulary, number % 4 == 2)
                                        : llama(width, heads, vocabulary);
    scenario["cluster"] = {
        {"nodes", 1},
        {"devices_per_node", layout.tensor * layout.data},
        {"device", "cpu-core"},
        {"profile", "profiles/cpu-core.json"},
        {"intra_node", {{"kind", "host"}, {"bandwidth_GBps", 5}, {"latency_us", 1}}},
        {"inter_node", {{"kind", "none"}}}};
    scenario["layout"] = {{"tensor_parallel", layout.tensor},
                          {"sequence_parallel", layout.sequence},
                          {"data_parallel", layout.data},
                          {"zero_stage", layout.zero_stage},
                          {"micro_batch_size", samples},
                          {"global_batch_size", samples * grid.micro_batches * layout.data}};
    if (layout.zero_stage > 0) scenario["layout"]["zero_group_size"] = layout.zero_group;
    scenario["training"] = {{"sequence_length", sequence},
                            {"precision", grid.precision},
                            {"framework", "orrery"},
                            {"optimizer", {{"clip_norm", 1.0}}}};
    return scenario;
}

// The same of fewer data-parallel ranks, each with as much to do.
nlohmann::json of_ranks(nlohmann::json scenario, std::int64_t ranks) {
    nlohmann::json& layout = scenario["layout"];
    layout["global_batch_size"] = layout["global_batch_size"].get<std::int64_t>() /
                                  layout["data_parallel"].get<std::int64_t>() * ranks;
    layout["data_parallel"] = ranks;
    scenario["cluster"]["devices_per_node"] = ranks;
    return scenario;
}

plan::Scenario read(const nlohmann::json& scenario, const std::string& scenarios_dir) {
    const plan::ReadResult read =
        plan::read_scenario_text(scenario.dump(), "calibration", "", {}, scenarios_dir);
    ORRERY_CHECK(read.scenario.has_value(), plan::format_text(read.errors));
    return *read.scenario;
}

// Of a step whose ranks all perform one program, as there is no pipeline: ops by their number
// across blocks, times the means over the ranks.
struct StepTimes {
    std::map<std::uint32_t, double> seconds;  // of one run of the op, the median of its runs
    double kernels_s = 0;                     // those of compute, as often as they run
    double busy_s = 0;                        // of the step, less communication that nothing hid
};

double hidden_s(const trace::Trace& trace, const trace::Track& track, const trace::Event& event) {
    double hidden = 0;
    for (std::size_t id = 0; id < track.events.size(); ++id) {
        if (trace.op_of(track, id).stream != plan::Stream::compute) continue;
        const trace::Event& other = track.events[id];
        const auto both = std::min(event.end, other.end) - std::max(event.start, other.start);
        hidden += static_cast<double>(std::max<trace::Picoseconds>(0, both)) * 1e-12;
    }
    return hidden;
}

StepTimes step_times(const runtime::TrainResult& result) {
    const plan::LinkedProgram linked = plan::link(result.plan, result.plan.programs.front());
    const trace::Trace trace = runtime::measured_trace(result.plan, result.times, "{}");
    const auto ranks = static_cast<double>(trace.tracks.size());
    StepTimes times;
    times.busy_s = static_cast<double>(trace.step_end) * 1e-12;
    for (const trace::Track& track : trace.tracks) {
        std::map<std::uint32_t, std::vector<double>> runs, kernels;
        for (std::size_t id = 0; id < track.events.size(); ++id) {
            const trace::Event& event = track.events[id];
            const double seconds = static_cast<double>(event.end - event.start) * 1e-12;
            runs[linked.op[id]].push_back(seconds);
            if (!plan::is_communication(trace.op_of(track, id).kind))
                kernels[linked.op[id]].push_back(seconds);
            else
                times.busy_s -= (seconds - hidden_s(trace, track, event)) / ranks;
        }
        for (auto& [op, own] : kernels)
            times.kernels_s += static_cast<double>(own.size()) * median(own) / ranks;
        for (auto& [op, own] : runs)
            times.seconds[op] += median(std::move(own)) / ranks;
    }
    return times;
}

void add_rows(const runtime::TrainResult& result, const std::map<std::uint32_t, double>& seconds,
              const fit::CollectiveSample& like, StepTimings& timings) {
    const std::vector<std::uint32_t> first_ops = result.plan.first_ops();
    for (std::size_t b = 0; b < result.plan.blocks.size(); ++b) {
        const plan::Block& block = result.plan.blocks[b];
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const plan::Op& op = block.ops[i];
            const auto found = seconds.find(first_ops[b] + static_cast<std::uint32_t>(i));
            if (found == seconds.end() || found->second <= 0) continue;
            const double time_us = found->second * 1e6;
            if (plan::is_communication(op.kind)) {
                fit::CollectiveSample sample = like;
                sample.collective = plan::name(op.kind);
                sample.ranks = static_cast<int>(result.plan.mesh.group_size(op.group));
                sample.bytes = static_cast<double>(plan::message_bytes(op));
                sample.seconds = found->second;
                if (sample.ranks > 1) timings.collectives.push_back(sample);
            } else if (op.kind == plan::OpKind::gemm) {
                timings.gemm.push_back({op.shape[0], op.shape[1], op.shape[2], time_us});
            } else if (plan::flops(op) == 0) {
                timings.memory.push_back({std::string(plan::name(op.kind)), false,
                                          plan::bytes_moved(block, op), time_us});
            }
        }
    }
}

runtime::TrainResult perform(const plan::Scenario& scenario, runtime::Backend& backend,
                             std::int64_t steps) {
    runtime::TrainOptions options;
    options.steps = steps;
    options.record = true;
    const auto vocabulary = static_cast<std::uint64_t>(scenario.model.vocabulary);
    const auto random_sample = [&](std::int64_t sample, std::span<std::int32_t> tokens,
                                   std::span<std::int32_t> targets) {
        std::mt19937_64 bits(static_cast<std::uint64_t>(sample));
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            tokens[i] = static_cast<std::int32_t>(bits() % vocabulary);
            targets[i] = static_cast<std::int32_t>(bits() % vocabulary);
        }
    };
    return runtime::train(scenario, options, backend, random_sample,
                          [](const runtime::StepReport&) { return true; });
}

}  // namespace

StepTimings time_steps(std::int64_t ranks, runtime::Backend& backend, const StepGrid& grid,
                       const std::string& scenarios_dir, const fit::CollectiveSample& like) {
    StepTimings timings;
    SizeDraw draw;
    const std::vector<Layout> layouts = layouts_of(ranks);
    const auto performed = [&](const nlohmann::json& scenario) {
        return perform(read(scenario, scenarios_dir), backend, grid.steps);
    };
    // One layout after the other each time: a machine that is slow for a while is slow for all.
    for (int number = 0; number < grid.models; ++number)
        for (const Layout& layout : layouts) {
            const nlohmann::json scenario = scenario_json(number, layout, draw, grid);
            const runtime::TrainResult result = performed(scenario);
            const StepTimes times = step_times(result);
            add_rows(result, times.seconds, like, timings);
            timings.sharing.push_back({ranks, times.busy_s / times.kernels_s});
            if (layout.data != ranks || layout.zero_stage > 0) continue;
            for (std::int64_t fewer = 1; fewer < ranks; fewer *= 2)
                timings.sharing.push_back(
                    {fewer,
                     step_times(performed(of_ranks(scenario, fewer))).busy_s / times.kernels_s});
        }
    return timings;
}

}  // namespace orrery::measure
