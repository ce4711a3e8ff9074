#include "calib/measure/step_timings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/ir/check.hpp"
#include "plan/ir/link.hpp"
#include "plan/scenario/reader.hpp"
#include "runtime/train/trainer.hpp"

namespace orrery::measure {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMicroBatches = 5;  // an odd number: the median is one of them

// Bits of the engine and libm alone decide: the same models on every machine.
class Draw {
  public:
    std::int64_t operator()(std::int64_t low, std::int64_t high, std::int64_t multiple) {
        const double unit = static_cast<double>(bits_() >> 11) * 0x1p-53;
        const double size = static_cast<double>(low) *
                            std::pow(static_cast<double>(high) / static_cast<double>(low), unit);
        return std::max<std::int64_t>(low, std::llround(size / static_cast<double>(multiple)) * multiple);
    }

  private:
    std::mt19937_64 bits_{1};
};

Json gpt(std::int64_t width, std::int64_t heads, std::int64_t sequence, std::int64_t vocabulary,
         bool dropout) {
    const double rate = dropout ? 0.1 : 0;
    return {{"model_type", "gpt2"},    {"n_layer", 1},
            {"n_embd", width},         {"n_head", heads},
            {"n_positions", sequence}, {"vocab_size", vocabulary},
            {"resid_pdrop", rate},     {"embd_pdrop", rate},
            {"attn_pdrop", 0}};
}

Json llama(std::int64_t width, std::int64_t heads, std::int64_t vocabulary) {
    return {{"model_type", "llama"},        {"num_hidden_layers", 1},
            {"hidden_size", width},         {"num_attention_heads", heads},
            {"num_key_value_heads", heads}, {"intermediate_size", 3 * width},
            {"vocab_size", vocabulary},     {"tie_word_embeddings", false}};
}

Json scenario_json(int number, Draw& draw, std::int64_t ranks, const StepGrid& grid) {
    const std::int64_t heads = draw(2, 8, 2);
    const std::int64_t width = draw(grid.least_width, grid.most_width, 8 * heads);
    const std::int64_t sequence = draw(grid.least_sequence, grid.most_sequence, 32);
    const std::int64_t vocabulary = draw(grid.least_vocabulary, grid.most_vocabulary, 8);
    const std::int64_t samples = draw(1, 4, 1);
    Json scenario;
    scenario["model"] = number % 2 == 0 ? gpt(width, heads, sequence, vocabulary, number % 4 == 2)
                                        : llama(width, heads, vocabulary);
    scenario["cluster"] = {
        {"nodes", 1},
        {"devices_per_node", ranks},
        {"device", "cpu-core"},
        {"profile", "profiles/cpu-core.json"},
        {"intra_node", {{"kind", "host"}, {"bandwidth_GBps", 5}, {"latency_us", 1}}},
        {"inter_node", {{"kind", "none"}}}};
    scenario["layout"] = {{"data_parallel", ranks},
                          {"micro_batch_size", samples},
                          {"global_batch_size", samples * kMicroBatches * ranks}};
    scenario["training"] = {{"sequence_length", sequence},
                            {"precision", "fp32"},
                            {"framework", "orrery"},
                            {"optimizer", {{"clip_norm", 1.0}}}};
    return scenario;
}

plan::Scenario read(const Json& scenario, const std::string& library_dir) {
    const plan::ReadResult read =
        plan::read_scenario_text(scenario.dump(), "calibration", "", {}, library_dir);
    ORRERY_CHECK(read.scenario.has_value(), plan::format_text(read.errors));
    return *read.scenario;
}

struct PlannedOp {
    std::size_t block = 0;
    std::size_t index = 0;
    bool operator<(const PlannedOp& other) const {
        return std::pair(block, index) < std::pair(other.block, other.index);
    }
};

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Seconds of each op of the blocks, as StepTimings has it. Data parallel: one program for all.
std::map<PlannedOp, double> seconds_by_op(const runtime::TrainResult& result) {
    const plan::LinkedProgram linked = plan::link(result.plan, result.plan.programs.front());
    const std::vector<std::uint32_t> first_ops = result.plan.first_ops();
    std::map<PlannedOp, double> seconds;
    for (const std::vector<runtime::OpTime>& times : result.times) {
        std::map<PlannedOp, std::vector<double>> runs;
        for (std::size_t id = 0; id < linked.size(); ++id) {
            const auto next = std::upper_bound(first_ops.begin(), first_ops.end(), linked.op[id]);
            const auto block = static_cast<std::size_t>(next - first_ops.begin()) - 1;
            const auto nanoseconds = static_cast<double>(times[id].end - times[id].begin);
            runs[{block, linked.op[id] - first_ops[block]}].push_back(nanoseconds * 1e-9);
        }
        for (auto& [op, own] : runs)
            seconds[op] += median(std::move(own)) / static_cast<double>(result.times.size());
    }
    return seconds;
}

void add_rows(const runtime::TrainResult& result, StepTimings& timings) {
    for (const auto& [place, seconds] : seconds_by_op(result)) {
        const plan::Block& block = result.plan.blocks[place.block];
        const plan::Op& op = block.ops[place.index];
        if (plan::is_communication(op.kind) || seconds <= 0) continue;
        if (op.kind == plan::OpKind::gemm)
            timings.gemm.push_back({op.shape[0], op.shape[1], op.shape[2], seconds * 1e6});
        else if (plan::flops(op) == 0)
            timings.memory.push_back({std::string(plan::name(op.kind)), false,
                                      plan::bytes_moved(block, op), seconds * 1e6});
    }
}

}  // namespace

StepTimings time_steps(std::int64_t ranks, int threads_per_rank, const StepGrid& grid,
                       const std::string& library_dir) {
    StepTimings timings;
    Draw draw;
    for (int number = 0; number < grid.models; ++number) {
        const plan::Scenario scenario = read(scenario_json(number, draw, ranks, grid), library_dir);
        runtime::TrainOptions options;
        options.steps = grid.steps;
        options.cpu.threads = threads_per_rank;
        options.record = true;
        const auto vocabulary = static_cast<std::uint64_t>(scenario.model.vocabulary);
        const auto sample = [&](std::int64_t number_of_sample, std::span<std::int32_t> tokens,
                                std::span<std::int32_t> targets) {
            std::mt19937_64 bits(static_cast<std::uint64_t>(number_of_sample));
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                tokens[i] = static_cast<std::int32_t>(bits() % vocabulary);
                targets[i] = static_cast<std::int32_t>(bits() % vocabulary);
            }
        };
        add_rows(runtime::train(scenario, options, sample,
                                [](const runtime::StepReport&) { return true; }),
                 timings);
    }
    return timings;
}

}  // namespace orrery::measure
