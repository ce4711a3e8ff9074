// The table of passes: rows that exclude each other are found, and refused where a scenario is
// read; docs/passes.md is what the rows say. ORRERY_REGENERATE=1 writes it anew.
#include "plan/passes/pass_table.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "plan/assemble/chosen_schedule.hpp"
#include "plan/scenario/reader.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

std::vector<const Pass*> rows_of(const Scenario& scenario) {
    const Dims dims = dims_of(scenario);
    const PlanInput input{scenario, dims, forms_in(chosen_schedule(scenario.layout).grid),
                          sharding_of(scenario), sharding_of(scenario)};
    std::vector<const Pass*> rows;
    for (const Pass& pass : passes())
        if (pass.applies(input)) rows.push_back(&pass);
    return rows;
}

TEST(PassTable, HasARowForEachPassInTheOrderOfTheirNames) {
    ASSERT_EQ(passes().size(), static_cast<std::size_t>(PassId::offload_activations) + 1);
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < passes().size(); ++i) {
        const Pass& pass = passes()[i];
        EXPECT_EQ(pass.id, static_cast<PassId>(i)) << pass.name;
        EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
        for (const PassId other : pass.excludes)
            EXPECT_NE(other, pass.id) << pass.name;
    }
}

Scenario two_stages() {
    Scenario s = small_gpt2();
    s.layout.pipeline_parallel = 2;
    s.layout.layers_per_stage = {2, 2};
    s.layout.global_batch_size = 4;
    return s;
}

using Pair = std::pair<PassId, PassId>;

// Filled as structs, scenarios have what the reader would refuse.
TEST(PassTable, FindsRowsThatExcludeEachOther) {
    EXPECT_EQ(excluded_pair(rows_of(two_stages())), std::nullopt);

    Scenario judged = two_stages();
    judged.layout.optimizer_post_validation = true;
    ASSERT_GT(judged.training.optimizer.clip_norm, 0);
    EXPECT_EQ(excluded_pair(rows_of(judged)), std::nullopt);
    judged.training.loss_spike = {2, 8};
    EXPECT_EQ(excluded_pair(rows_of(judged)), (Pair{PassId::statistics, PassId::loss_spike}));

    Scenario chunked = two_stages();
    chunked.training.loss_chunks = 2;
    EXPECT_EQ(excluded_pair(rows_of(chunked)), std::nullopt);
    chunked.training.framework.defer_embedding_gradient = true;
    EXPECT_EQ(excluded_pair(rows_of(chunked)), (Pair{PassId::loss_chunks, PassId::halve_head}));
}

// Where two rows that exclude each other follow from different keys: each is valid alone, both
// together are refused, with a code.
TEST(PassTable, WhatExcludesEachOtherIsRefusedWhereItIsRead) {
    const std::string library = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    const auto read = [&](std::vector<std::string> sets) {
        for (const char* set :
             {"layout.pipeline_parallel=2", "layout.schedule=1f1b",
              "cluster.host_memory.capacity_GB=64", "cluster.host_memory.bandwidth_GBps=10",
              "cluster.host_memory.latency_us=10"})
            sets.emplace_back(set);
        std::ifstream file(library + "/runs/tiny-gpt.json", std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        return read_scenario_text(text, "tiny-gpt.json", library, sets, library);
    };
    struct Case {
        const char *one, *other, *code;
        PassId first, second;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"layout.optimizer_post_validation=true",
              R"(training.loss_spike={"window":8,"skip_above":2})", "S047", PassId::statistics,
              PassId::loss_spike},
             {"layout.optimizer_post_validation=true", "layout.offload.optimizer=host", "S047",
              PassId::statistics, PassId::offload_states},
             {"layout.optimizer_post_validation=true", "layout.offload.activations=host", "S047",
              PassId::statistics, PassId::offload_activations},
             {"training.loss_chunks=2", "training.defer_embedding_gradient=true", "S035",
              PassId::loss_chunks, PassId::halve_head}}) {
        for (const auto& [set, id] : {std::pair{c.one, c.first}, {c.other, c.second}}) {
            const ReadResult alone = read({set});
            ASSERT_TRUE(alone.scenario) << set << '\n' << format_text(alone.errors);
            bool applies = false;
            for (const Pass* pass : rows_of(*alone.scenario))
                applies = applies || pass->id == id;
            EXPECT_TRUE(applies) << set;
        }
        const ReadResult both = read({c.one, c.other});
        EXPECT_FALSE(both.scenario) << c.one << ' ' << c.other;
        ASSERT_FALSE(both.errors.empty());
        EXPECT_EQ(both.errors.front().code, c.code);
        const std::vector<PassId>& excluded = passes()[static_cast<std::size_t>(c.first)].excludes;
        EXPECT_NE(std::find(excluded.begin(), excluded.end(), c.second), excluded.end());
    }
}

std::string page() {
    std::string text =
        "# Passes\n"
        "\n"
        "For whoever reads a plan, or adds a pass: what changes order and lifetime of a plan's "
        "ops, in the\n"
        "order in which it runs (`plan/passes/pass_table.cpp`). A pass runs over a layer's forward "
        "block, over\n"
        "how backward is derived from one, over the blocks of a part, over the actions of a "
        "pipeline rank, over a\n"
        "program's stages, over the uses of an action, over a program's steps, or over what comes "
        "before the\n"
        "optimizer's. Rows that exclude each other are refused where a scenario is read.\n"
        "\n"
        "| pass | over | what it does | when | excludes |\n"
        "|---|---|---|---|---|\n";
    for (const Pass& pass : passes()) {
        std::string excluded;
        for (const PassId id : pass.excludes)
            excluded += fmt::format("{}{}", excluded.empty() ? "" : ", ",
                                    passes()[static_cast<std::size_t>(id)].name);
        text += fmt::format("| {} | {} | {} | {} | {} |\n", pass.name, runs_over(pass), pass.does,
                            pass.when, excluded);
    }
    return text;
}

TEST(PassTable, TheReferenceIsTheTable) {
    const std::string path = ORRERY_SOURCE_DIR "/docs/passes.md";
    const char* wish = std::getenv("ORRERY_REGENERATE");
    if (wish != nullptr && std::string(wish) == "1") {
        std::ofstream(path, std::ios::binary) << page();
        return;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string written{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(written, page());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
