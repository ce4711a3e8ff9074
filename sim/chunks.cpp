#include "sim/chunks.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace orrery::sim {
namespace {

constexpr std::size_t kPassKinds = static_cast<std::size_t>(plan::ActionKind::backward_weight) + 1;
constexpr double kAlike = 1.001;  // chunks that differ by less are alike

std::vector<bool> work_of_chunks(const plan::Plan& plan) {
    std::vector<bool> work;
    for (const plan::Block& block : plan.blocks)
        for (const plan::Op& op : block.ops)
            work.push_back(op.stream <= plan::Stream::expert_comm);
    return work;
}

std::size_t index(plan::ActionKind kind) {
    return static_cast<std::size_t>(kind);
}

// f(position in one step, op number, action) for each op of a chunk's pass.
template <typename Function>
void each_op(const plan::Program& program, const plan::LinkedProgram& linked, int repetitions,
             const Function& f) {
    const std::size_t once = linked.size() / static_cast<std::size_t>(repetitions);
    for (std::size_t i = 0; i < once; ++i) {
        const plan::Action& action = program.steps[linked.step[i]].action;
        if (plan::is_compute(action.kind)) f(i, linked.op[i], action);
    }
}

}  // namespace

Chunks::Chunks(const plan::Plan& plan, const Machine& machine)
    : Chunks(plan, machine, machine.input.tracks) {}

Chunks::Chunks(const plan::Plan& plan, const Machine& machine,
               const std::vector<EngineTrack>& tracks)
    : plan_(plan), machine_(machine), work_(work_of_chunks(plan)) {
    for (std::size_t t = 0; t < tracks.size(); ++t) {
        const EngineTrack& track = tracks[t];
        const auto p = static_cast<std::size_t>(track.program);
        const auto represents = static_cast<double>(machine.classes.members[t].represents);
        for (const plan::Step& step : plan.programs[p].steps) {
            if (!plan::is_compute(step.action.kind)) continue;
            pass(step.action).count += represents;
            rank_of_[static_cast<std::size_t>(step.action.stage)] = plan.programs[p].pipeline_rank;
        }
        each_op(plan.programs[p], machine.input.linked[p], machine.repetitions,
                [&](std::size_t, std::uint32_t number, const plan::Action& action) {
                    if (!is_work(number)) return;
                    const double time =
                        static_cast<double>((*track.durations)[number]) * represents;
                    pass(action).time += time;
                    of_op_[static_cast<std::size_t>(action.stage)][number] += time;
                });
    }
    if (!passes_.empty()) micro_batches_ = passes_.front()[0].count;
    settle_kinds();
}

// A piece of a vocabulary declares words that pipeline ranks share; with layers is every other
// stage.
void Chunks::settle_kinds() {
    kind_of_.resize(passes_.size(), Kind::layers);
    for (const plan::Program& program : plan_.programs)
        for (const plan::Stage& stage : program.stages) {
            const plan::Block& first =
                plan_.blocks[static_cast<std::size_t>(stage.parts.front().forward)];
            const bool shared =
                std::any_of(first.parameters.begin(), first.parameters.end(),
                            [](const auto& declared) { return declared.spec.pipeline_ranks > 1; });
            const bool loses = std::any_of(first.ops.begin(), first.ops.end(), [](const auto& op) {
                return op.template is<plan::CrossEntropySum>();
            });
            if (shared && static_cast<std::size_t>(stage.index) < kind_of_.size())
                kind_of_[static_cast<std::size_t>(stage.index)] =
                    loses ? Kind::head : Kind::embedding;
        }
}

Chunks::Pass& Chunks::pass(const plan::Action& action) {
    const auto stage = static_cast<std::size_t>(action.stage);
    if (stage >= passes_.size()) {
        passes_.resize(stage + 1, std::vector<Pass>(kPassKinds));
        of_op_.resize(stage + 1, std::vector<double>(work_.size()));
        rank_of_.resize(stage + 1);
    }
    return passes_[stage][index(action.kind)];
}

double Chunks::mean_of(Kind stages, std::size_t pass) const {
    Pass all;
    for (std::size_t stage = 0; stage < passes_.size(); ++stage) {
        if (kind_of_[stage] != stages) continue;
        all.time += passes_[stage][pass].time;
        all.count += passes_[stage][pass].count;
    }
    return all.mean();
}

std::vector<double> Chunks::times() const {
    std::vector<double> times;  // stages with layers come first
    for (std::size_t stage = 0; stage < passes_.size(); ++stage)
        if (kind_of_[stage] == Kind::layers)
            times.push_back(
                std::accumulate(passes_[stage].begin(), passes_[stage].end(), 0.0,
                                [](double sum, const Pass& pass) { return sum + pass.mean(); }));
    return times;
}

std::optional<HeaviestChunk> Chunks::heaviest() const {
    const std::vector<double> times = this->times();
    if (times.size() < 2) return std::nullopt;
    const double mean =
        std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    const auto most = std::max_element(times.begin(), times.end());
    if (*most < mean * kAlike) return std::nullopt;
    const auto stage = static_cast<std::size_t>(most - times.begin());
    HeaviestChunk heaviest;
    heaviest.stage = static_cast<std::int32_t>(stage);
    heaviest.pipeline_rank = rank_of_[stage];
    heaviest.time_s = *most / kPicosecondsPerSecond;
    heaviest.mean_s = mean / kPicosecondsPerSecond;
    double excess = 0;
    std::size_t number = 0;
    for (const plan::Block& block : plan_.blocks)
        for (const plan::Op& op : block.ops) {
            double all = 0;
            for (std::size_t s = 0; s < times.size(); ++s)
                all += of_op_[s][number];
            const double more = of_op_[stage][number] - all / static_cast<double>(times.size());
            if (more > excess) {
                excess = more;
                heaviest.op = block.name + ' ' + op.label;
            }
            ++number;
        }
    heaviest.op_excess_s = excess / micro_batches_ / kPicosecondsPerSecond;
    return heaviest;
}

std::vector<std::vector<double>> Chunks::equalising() const {
    std::array<std::vector<double>, kKinds> means;
    for (std::size_t kind = 0; kind < kKinds; ++kind)
        for (std::size_t pass = 0; pass < kPassKinds; ++pass)
            means[kind].push_back(mean_of(static_cast<Kind>(kind), pass));
    std::vector<std::vector<double>> factors;
    for (const EngineTrack& track : machine_.input.tracks) {
        const auto p = static_cast<std::size_t>(track.program);
        const plan::LinkedProgram& linked = machine_.input.linked[p];
        factors.emplace_back(linked.size() / static_cast<std::size_t>(machine_.repetitions), 1.0);
        each_op(plan_.programs[p], linked, machine_.repetitions,
                [&](std::size_t i, std::uint32_t number, const plan::Action& action) {
                    const auto stage = static_cast<std::size_t>(action.stage);
                    const double own = passes_[stage][index(action.kind)].mean();
                    if (is_work(number) && own > 0)
                        factors.back()[i] =
                            means[static_cast<std::size_t>(kind_of_[stage])][index(action.kind)] /
                            own;
                });
    }
    return factors;
}

}  // namespace orrery::sim
