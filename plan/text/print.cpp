#include <fmt/format.h>

#include "plan/check.hpp"
#include "plan/text/print_parts.hpp"
#include "plan/text/spelling.hpp"
#include "plan/text/text.hpp"
#include "plan/text/version.hpp"

namespace orrery::plan {
namespace {

// Doubles in the fewest digits that read back to the same value.
std::string header(const Plan& plan) {
    const Mesh& mesh = plan.mesh;
    const TokenLayout& tokens = plan.tokens;
    const Conserved& c = plan.conserved;
    std::string others;
    if (plan.exchange_before >= 0) others += fmt::format(" before b{}", plan.exchange_before);
    for (std::size_t i = 0; i < plan.statistics.size(); ++i) {
        others += fmt::format(" statistic b{}", plan.statistics[i]);
        if (i < plan.statistics_before.size())
            others += fmt::format(" before b{}", plan.statistics_before[i]);
    }
    return fmt::format(
        "orrery plan {}\n"
        "mesh           tensor {} context {} data {} pipeline {}{}{}\n"
        "tokens         samples {} sequence {}{} seed {}\n"
        "schedule       {} micro_batches {}\n"
        "conserved      layers {} parameters {} tokens_per_step {}\n"
        "flops          model {} hardware {}\n"
        "contents       blocks {} programs {} exchange b{}{}\n",
        kPlanTextVersion, mesh.tensor, mesh.context, mesh.data, mesh.pipeline,
        mesh.expert > 0 ? fmt::format(" expert {} split {}", mesh.expert, mesh.expert_split) : "",
        mesh.shard > 0 ? fmt::format(" shard {}", mesh.shard) : "", tokens.samples, tokens.sequence,
        tokens.zigzag ? " zigzag" : "", tokens.seed, in_quotes(plan.schedule), plan.micro_batches,
        c.layers, c.parameters, c.tokens_per_step, c.model_flops_per_step,
        c.hardware_flops_per_step, plan.blocks.size(), plan.programs.size(), plan.exchange_block,
        others);
}

std::string text_of(const Plan& plan, const std::vector<bool>& blocks,
                    std::optional<std::int32_t> rank) {
    std::string out = header(plan);
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        if (blocks[b])
            out += '\n' + block_text(plan.blocks[b], static_cast<std::int32_t>(b), &plan.mesh);
    for (const Program& program : plan.programs)
        if (!rank || program.pipeline_rank == *rank) out += '\n' + program_text(plan, program);
    return out;
}

}  // namespace

std::string to_text(const Plan& plan) {
    return text_of(plan, std::vector<bool>(plan.blocks.size(), true), std::nullopt) + "\nend\n";
}

std::string to_text(const Plan& plan, std::int32_t pipeline_rank) {
    return text_of(plan, blocks_used(plan, pipeline_rank), pipeline_rank);
}

std::string to_text(const Block& block) {
    return block_text(block, -1, nullptr);
}

std::vector<bool> blocks_used(const Plan& plan, std::int32_t pipeline_rank) {
    ORRERY_CHECK(
        pipeline_rank >= 0 && static_cast<std::size_t>(pipeline_rank) < plan.programs.size(),
        "a pipeline rank that the plan lacks");
    const Program& program = plan.programs[static_cast<std::size_t>(pipeline_rank)];
    std::vector<bool> used(plan.blocks.size(), false);
    for (const Procedure& procedure : program.procedures)
        for (const BlockUse& use : procedure.uses)
            used[static_cast<std::size_t>(use.block)] = true;
    for (const Step& step : program.steps)
        if (!step.transfers.empty())
            used[static_cast<std::size_t>(plan.exchange_of(program, step))] = true;
    return used;
}

}  // namespace orrery::plan
