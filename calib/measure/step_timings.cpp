#include "calib/measure/step_timings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "calib/measure/size_draw.hpp"
#include "calib/measure/step_communication.hpp"
#include "calib/measure/timing.hpp"
#include "plan/assemble/batch_plan.hpp"
#include "plan/check.hpp"
#include "plan/ir/link.hpp"
#include "plan/ops/matrix.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/scenario/training_facts.hpp"
#include "runtime/executor/measured_trace.hpp"
#include "runtime/train/trainer.hpp"

namespace orrery::measure {
namespace {

nlohmann::json gpt(std::int64_t layers, std::int64_t width, std::int64_t heads,
                   std::int64_t sequence, std::int64_t vocabulary, bool dropout) {
    const double rate = dropout ? 0.1 : 0;
    return {{"model_type", "gpt2"}, {"n_layer", layers},       {"n_embd", width},
            {"n_head", heads},      {"n_positions", sequence}, {"vocab_size", vocabulary},
            {"resid_pdrop", rate},  {"embd_pdrop", rate},      {"attn_pdrop", 0}};
}

nlohmann::json llama(std::int64_t layers, std::int64_t width, std::int64_t heads,
                     std::int64_t vocabulary) {
    return {{"model_type", "llama"},        {"num_hidden_layers", layers},
            {"hidden_size", width},         {"num_attention_heads", heads},
            {"num_key_value_heads", heads}, {"intermediate_size", 3 * width},
            {"vocab_size", vocabulary},     {"tie_word_embeddings", false}};
}

struct Layout {
    std::int64_t tensor = 1;
    std::int64_t data = 1;
    std::int64_t pipeline = 1;
    bool sequence = false;
    int zero_stage = 0;
    std::int64_t zero_group = 1;
    int turn = 0;  // among the layouts
};

std::vector<Layout> layouts_of(std::int64_t ranks) {
    std::vector<Layout> layouts{{1, ranks, 1, false, 0, 1}};
    for (std::int64_t group = 2; group <= ranks; ++group) {
        if (ranks % group != 0) continue;
        layouts.push_back({group, ranks / group, 1, false, 0, 1});
        layouts.push_back({group, ranks / group, 1, true, 0, 1});
        layouts.push_back({1, ranks, 1, false, 3, group});
    }
    if (ranks % 2 == 0) layouts.push_back({1, ranks / 2, 2, false, 0, 1});
    for (std::size_t i = 0; i < layouts.size(); ++i)
        layouts[i].turn = static_cast<int>(i);
    return layouts;
}

nlohmann::json scenario_json(int number, const Layout& layout, SizeDraw& draw,
                             const StepGrid& grid) {
    std::int64_t heads = layout.tensor * draw(1, 4, 1) * (layout.tensor == 1 ? 2 : 1);
    std::int64_t width = draw(grid.least_width, grid.most_width, 8 * heads);
    if (!grid.head_dims.empty()) {
        const auto turn = static_cast<std::size_t>(number + layout.turn) % grid.head_dims.size();
        const std::int64_t head_dim = grid.head_dims[turn];
        heads = draw(std::max(layout.tensor, grid.least_width / head_dim),
                     std::max(layout.tensor, grid.most_width / head_dim), layout.tensor);
        width = heads * head_dim;
    }
    const std::int64_t sequence =
        draw(grid.least_sequence, grid.most_sequence, std::lcm(std::int64_t{32}, layout.tensor));
    const std::int64_t vocabulary = draw(grid.least_vocabulary, grid.most_vocabulary, 8);
    const std::int64_t samples = draw(1, 4, 1);
    nlohmann::json scenario;
    scenario["model"] =
        number % 2 == 0 ? gpt(layout.pipeline, width, heads, sequence, vocabulary, number % 4 == 2)
                        : llama(layout.pipeline, width, heads, vocabulary);
    scenario["cluster"] = {
        {"nodes", 1},
        {"devices_per_node", layout.tensor * layout.pipeline * layout.data},
        {"device", "cpu-core"},
        {"profile", "profiles/cpu-core.json"},
        {"intra_node", {{"kind", "host"}, {"bandwidth_GBps", 5}, {"latency_us", 1}}},
        {"inter_node", {{"kind", "none"}}}};
    scenario["layout"] = {{"tensor_parallel", layout.tensor},
                          {"sequence_parallel", layout.sequence},
                          {"pipeline_parallel", layout.pipeline},
                          {"data_parallel", layout.data},
                          {"zero_stage", layout.zero_stage},
                          {"micro_batch_size", samples},
                          {"global_batch_size", samples * grid.micro_batches * layout.data}};
    if (layout.zero_stage > 0) scenario["layout"]["zero_group_size"] = layout.zero_group;
    scenario["training"] = {{"sequence_length", sequence},
                            {"precision", grid.precision},
                            {"framework", "orrery"},
                            {"loss_logits", "in_place"},  // maximum and sum each by itself
                            {"optimizer", {{"clip_norm", 1.0}}}};
    if (!grid.fp8_recipe.empty()) scenario["training"]["fp8_recipe"] = grid.fp8_recipe;
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

double seconds_of(trace::Picoseconds time) {
    return static_cast<double>(time) / trace::kPsPerSecond;
}

// Of communication that compute goes on beside: its thread may have had to wait for a core, which
// is nobody's loss. That of the rest is longer: until those that waited went on.
constexpr double kMostHidden = 0.1;
double transfer_s(const trace::Event& event) {
    return seconds_of(event.end - event.start);
}

StepTimes step_times(const runtime::TrainResult& result) {
    const plan::LinkedProgram linked = plan::link(result.plan, result.plan.programs.front());
    const trace::Trace trace = runtime::measured_trace(result.plan, result.times, "{}");
    const auto ranks = static_cast<double>(trace.tracks.size());
    StepTimes times;
    times.busy_s = seconds_of(trace.step_end);
    for (const trace::Track& track : trace.tracks) {
        std::map<std::uint32_t, std::vector<double>> runs, kernels;
        const std::vector<Passage> passed = passages(trace, track);
        for (std::size_t id = 0; id < track.events.size(); ++id) {
            if (plan::is_communication(trace.op_of(track, id).kind)) {
                // From when this rank was ready, though another was not: they do the same, so
                // that by which one comes later is what waiting for each other costs all of them.
                Passage own = passed[id];
                own.came = own.ready;
                const double seconds = seconds_of(own.over - own.came);
                const double hidden = hidden_s(trace, track, own);
                const bool exposed = hidden < kMostHidden * seconds;
                runs[linked.op[id]].push_back(exposed ? seconds : transfer_s(track.events[id]));
                times.busy_s -= (seconds - hidden) / ranks;
                continue;
            }
            const double seconds = seconds_of(track.events[id].duration());
            runs[linked.op[id]].push_back(seconds);
            kernels[linked.op[id]].push_back(seconds);
        }
        for (auto& [op, own] : kernels)
            times.kernels_s += static_cast<double>(own.size()) * median(own) / ranks;
        for (auto& [op, own] : runs)
            times.seconds[op] += median(std::move(own)) / ranks;
    }
    return times;
}

// Of those that see all keys: what a profile's rows are of.
void add_attention(const plan::WindowedAttention& op, double time_us,
                   std::vector<fit::AttentionRow>& rows) {
    if (op.queries == op.keys && op.window == 0)
        rows.push_back({op.batch, op.queries, op.heads, op.kv_heads, op.head_dim, time_us});
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
            if (plan::is_communication(op.kind())) {
                fit::CollectiveSample sample = like;
                sample.collective = plan::name(op.kind());
                sample.ranks = static_cast<int>(result.plan.mesh.group_size(op.group));
                sample.bytes = static_cast<double>(plan::message_bytes(op));
                sample.seconds = found->second;
                if (sample.ranks > 1) timings.collectives.push_back(sample);
            } else if (const auto* gemm = std::get_if<plan::Gemm>(&op.spec)) {
                timings.gemm.push_back({gemm->m, gemm->n, gemm->k, time_us, gemm->product});
            } else if (op.is<plan::Attention>()) {
                add_attention(op.as<plan::Attention>(), time_us, timings.attention);
            } else if (op.is<plan::AttentionBackward>()) {
                add_attention(op.as<plan::AttentionBackward>(), time_us,
                              timings.attention_backward);
            } else if (plan::flops(op) == 0) {
                timings.memory.push_back({std::string(plan::name(op.kind())), false,
                                          plan::bytes_moved(block, op), time_us});
            }
        }
    }
}

// Of a step with a pipeline: the exchanges that compute waited for.
void add_exchanges(const runtime::TrainResult& result, const fit::CollectiveSample& like,
                   StepTimings& timings) {
    const trace::Trace trace = runtime::measured_trace(result.plan, result.times, "{}");
    std::vector<double> seconds;
    for (const trace::Track& track : trace.tracks) {
        const std::vector<Passage> passed = passages(trace, track);
        for (std::size_t id = 0; id < passed.size(); ++id)
            if (trace.op_of(track, id).kind == plan::OpKind::exchange && passed[id].awaited)
                seconds.push_back(seconds_of(passed[id].over - passed[id].came));
    }
    if (seconds.empty()) return;
    const plan::Block& block =
        result.plan.blocks[static_cast<std::size_t>(result.plan.exchange_block)];
    fit::CollectiveSample sample = like;
    sample.collective = plan::name(plan::OpKind::exchange);
    sample.ranks = 2;
    sample.bytes = static_cast<double>(plan::message_bytes(block.ops.front()));
    sample.seconds = median(std::move(seconds));
    if (sample.seconds > 0) timings.collectives.push_back(sample);
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
    return runtime::train(
        plan::training_facts(scenario),
        [&](std::int64_t batch) { return plan::build_batch_plan(scenario, batch); }, options,
        backend, random_sample, [](const runtime::StepReport&) { return true; });
}

// Again, where others had the machine meanwhile; the last time counts. Not again on a machine that
// others have nearly always: nothing would come of it but waiting.
runtime::TrainResult perform_undisturbed(const plan::Scenario& scenario, runtime::Backend& backend,
                                         const StepGrid& grid) {
    constexpr int kMostTries = 3;
    constexpr std::int64_t kMostInARow = 6;
    for (int tries = 1;; ++tries) {
        const OtherWork others;
        runtime::TrainResult result = perform(scenario, backend, grid.steps);
        if (grid.count == nullptr) return result;
        ++grid.count->taken;
        const bool disturbed = others.disturbs();
        if (disturbed) ++grid.count->dropped;
        const bool hopeless =
            grid.count->dropped > kMostInARow && 2 * grid.count->dropped > grid.count->taken;
        if (!disturbed || hopeless || tries == kMostTries) return result;
    }
}

}  // namespace

StepTimings time_steps(std::int64_t ranks, runtime::Backend& backend, const StepGrid& grid,
                       const std::string& scenarios_dir, const fit::CollectiveSample& like) {
    StepTimings timings;
    SizeDraw draw;
    const std::vector<Layout> layouts = layouts_of(ranks);
    const auto performed = [&](const nlohmann::json& scenario) {
        return perform_undisturbed(read(scenario, scenarios_dir), backend, grid);
    };
    // One layout after the other each time: a machine that is slow for a while is slow for all.
    for (int number = 0; number < grid.models && (!grid.in_time || grid.in_time()); ++number)
        for (const Layout& layout : layouts) {
            const nlohmann::json scenario = scenario_json(number, layout, draw, grid);
            if (number % grid.rounds != grid.round) continue;  // what it draws is another's too
            const runtime::TrainResult result = performed(scenario);
            if (layout.pipeline > 1) {
                add_exchanges(result, like, timings);
                continue;
            }
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
