#include <fmt/format.h>

#include "plan/text/reader.hpp"
#include "plan/text/text.hpp"
#include "plan/text/version.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20;  // in each dimension; no product of
                                                            // three overflows, nor of mesh and op

// Ranks of a stage among which experts are spread.
void read_experts(Reader& reader, Mesh& mesh) {
    if (!reader.accept_word("expert")) return;
    const std::size_t here = reader.place();
    mesh.expert = reader.integer("a number of ranks from 1 on", 1, kLargest);
    const std::int64_t ranks = mesh.tensor * mesh.context * mesh.data;
    if (ranks % mesh.expert != 0)
        reader.fail_at(here, "a number that divides the " + std::to_string(ranks) + " of a stage");
    reader.expect_word("split");
    const std::size_t split = reader.place();
    mesh.expert_split = reader.integer("a number of ranks from 1 on", 1, mesh.expert);
    if (mesh.expert % mesh.expert_split != 0)
        reader.fail_at(split, "a number that divides " + std::to_string(mesh.expert));
}

Mesh read_mesh(Reader& reader) {
    Mesh mesh;
    auto degree = [&](std::string_view word, std::int64_t& into) {
        reader.expect_word(word);
        into = reader.integer("a number of ranks from 1 on", 1, kMostRanks);
    };
    const std::size_t here = reader.place();
    reader.expect_word("mesh");
    degree("tensor", mesh.tensor);
    degree("context", mesh.context);
    degree("data", mesh.data);
    degree("pipeline", mesh.pipeline);
    std::int64_t ranks = mesh.tensor * mesh.context;
    for (std::int64_t degree_of : {mesh.data, mesh.pipeline})
        if (__builtin_mul_overflow(ranks, degree_of, &ranks) || ranks > kLargest)
            reader.fail_at(here, "a mesh of at most 2⁵⁰ ranks");
    read_experts(reader, mesh);
    if (!reader.accept_word("shard")) return mesh;
    const std::int64_t all = mesh.context * mesh.data;
    const std::size_t shard = reader.place();
    mesh.shard = reader.integer("a number of ranks from 2 on", 2, kMostRanks);
    if (mesh.shard >= all || all % mesh.shard != 0)
        reader.fail_at(shard, "fewer ranks than context × data = " + std::to_string(all) +
                                  ", which they divide");
    if (mesh.expert > 0 && mesh.tensor * mesh.shard % mesh.expert != 0)
        reader.fail_at(shard, fmt::format("as many ranks as have all experts: tensor × shard = {}, "
                                          "a multiple of {}",
                                          mesh.tensor * mesh.shard, mesh.expert));
    return mesh;
}

TokenLayout read_tokens(Reader& reader, const Mesh& mesh) {
    TokenLayout tokens;
    reader.expect_word("tokens");
    reader.expect_word("samples");
    tokens.samples = reader.integer("the samples of a micro-batch", 1);
    reader.expect_word("sequence");
    const std::size_t sequence = reader.place();
    tokens.sequence = reader.integer("the tokens of a sequence", 1);
    tokens.zigzag = reader.accept_word("zigzag");
    const std::int64_t pieces = mesh.context * (tokens.zigzag ? 2 : 1);
    if (tokens.sequence % pieces != 0)
        reader.fail_at(sequence, fmt::format("a multiple of {}, the pieces of a sequence", pieces));
    reader.expect_word("seed");
    tokens.seed = reader.integer("the seed of random numbers");
    return tokens;
}

void read_conserved(Reader& reader, Conserved& conserved) {
    reader.expect_word("conserved");
    reader.expect_word("layers");
    conserved.layers = reader.integer("the number of layers");
    reader.expect_word("parameters");
    conserved.parameters = reader.integer("the number of parameters");
    reader.expect_word("tokens_per_step");
    conserved.tokens_per_step = reader.integer("the number of tokens");
    reader.expect_word("flops");
    reader.expect_word("model");
    conserved.model_flops_per_step = reader.real("model FLOPs per step");
    reader.expect_word("hardware");
    conserved.hardware_flops_per_step = reader.real("executed FLOPs per step");
}

Plan read_plan(Reader& reader) {
    Plan plan;
    reader.expect_word("orrery");
    reader.expect_word("plan");
    const std::size_t version = reader.place();
    const std::string wanted = fmt::format("version {} of the text form", kPlanTextVersion);
    if (reader.word(wanted) != std::to_string(kPlanTextVersion)) reader.fail_at(version, wanted);
    plan.mesh = read_mesh(reader);
    plan.tokens = read_tokens(reader, plan.mesh);
    reader.expect_word("schedule");
    plan.schedule = reader.in_quotes("the name of a schedule in quotes");
    reader.expect_word("micro_batches");
    plan.micro_batches = reader.index("the number of micro-batches");
    read_conserved(reader, plan.conserved);
    reader.expect_word("contents");
    reader.expect_word("blocks");
    const std::int32_t blocks = reader.index("the number of blocks");
    reader.expect_word("programs");
    const std::int32_t programs = reader.index("the number of programs");
    reader.expect_word("exchange");
    const auto block = [&](const char* what) {
        return reader.some_id('b', static_cast<std::size_t>(blocks), what);
    };
    plan.exchange_block = block("the block that transfers use (b0)");
    const bool apart = reader.accept_word("before");
    if (apart) plan.exchange_before = block("the block of transfers with the rank before (b1)");
    while (reader.accept_word("statistic")) {
        plan.statistics.push_back(block("the block that a statistic's transfers use (b9)"));
        if (!apart) continue;
        reader.expect_word("before");
        plan.statistics_before.push_back(
            block("the block of a statistic's transfers with the rank before (b10)"));
    }
    for (std::int32_t b = 0; b < blocks; ++b)
        plan.blocks.push_back(read_block(reader, plan.mesh, b));
    for (std::int32_t p = 0; p < programs; ++p)
        plan.programs.push_back(read_program(reader, plan, p));
    reader.expect_word("end");  // a text that was cut off has none
    if (!reader.at_end()) reader.fail("the end of the text");
    return plan;
}

}  // namespace

ParsedPlan parse_plan(std::string_view text) {
    ParsedPlan parsed;
    Reader reader(text);
    try {
        parsed.plan = read_plan(reader);
    } catch (const ParseFault& fault) {
        parsed.error = fault.message;
    }
    return parsed;
}

}  // namespace orrery::plan
