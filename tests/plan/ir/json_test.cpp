// The JSON form holds what the plan holds.
#include "plan/text/json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/assemble/build_plan.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

using Json = nlohmann::ordered_json;

Plan two_stage_plan() {
    Scenario s = small_gpt2();
    set_pipeline(s, "1f1b", 2, 1, 4);
    set_tensor(s, 2, true);
    return build_plan(s);
}

TEST(PlanJson, HoldsBlocksAndPrograms) {
    const Plan plan = two_stage_plan();
    const Json json = Json::parse(plan_json(plan, std::nullopt));
    ASSERT_EQ(json["blocks"].size(), plan.blocks.size());
    ASSERT_EQ(json["programs"].size(), 2U);
    EXPECT_EQ(json["mesh"]["tensor"], 2);
    EXPECT_EQ(json["conserved"]["parameters"], plan.conserved.parameters);
    for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
        const Block& block = plan.blocks[b];
        const Json& from = json["blocks"][b];
        EXPECT_EQ(from["name"], block.name);
        EXPECT_EQ(from["input"].is_null(), block.input < 0);
        ASSERT_EQ(from["tensors"].size(), block.tensors.size());
        ASSERT_EQ(from["ops"].size(), block.ops.size());
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
            EXPECT_EQ(from["ops"][i]["kind"], name(block.ops[i].kind()));
            EXPECT_EQ(from["ops"][i]["reads"], block.ops[i].reads);
            EXPECT_EQ(from["ops"][i].contains("group"), block.ops[i].group != GroupKind::none);
        }
        for (std::size_t t = 0; t < block.tensors.size(); ++t) {
            EXPECT_EQ(from["tensors"][t]["dims"], block.tensors[t].dims);
            EXPECT_EQ(from["tensors"][t].contains("scratch_offset"),
                      block.tensors[t].role == Role::scratch);
        }
    }
    for (std::size_t p = 0; p < 2; ++p) {
        const Program& program = plan.programs[p];
        const Json& from = json["programs"][p];
        EXPECT_EQ(from["residents"].size(), program.residents.size());
        ASSERT_EQ(from["steps"].size(), program.steps.size());
        for (std::size_t s = 0; s < program.steps.size(); ++s) {
            EXPECT_EQ(from["steps"][s]["action"], to_text(program.steps[s].action));
            EXPECT_EQ(from["steps"][s].contains("transfers"), !program.steps[s].transfers.empty());
        }
    }
}

TEST(PlanJson, ARankIsItsBlocksAndItsProgram) {
    const Plan plan = two_stage_plan();
    const Json json = Json::parse(plan_json(plan, 1));
    ASSERT_EQ(json["programs"].size(), 1U);
    EXPECT_EQ(json["programs"][0]["pipeline_rank"], 1);
    bool head = false;
    for (const Json& block : json["blocks"]) {
        EXPECT_NE(block["name"], "embedding.forward");
        head = head || block["name"] == "head.forward";
        EXPECT_EQ(block["name"], plan.blocks[block["number"].get<std::size_t>()].name);
    }
    EXPECT_TRUE(head);
}

TEST(PlanJson, KeysStandInOneOrder) {
    const std::string json = plan_json(two_stage_plan(), std::nullopt);
    std::size_t at = 0;
    for (const char* key : {"\"mesh\"", "\"micro_batches\"", "\"schedule\"", "\"exchange_block\"",
                            "\"conserved\"", "\"blocks\"", "\"programs\""}) {
        const std::size_t found = json.find(key, at);
        ASSERT_NE(found, std::string::npos) << key;
        at = found;
    }
    EXPECT_EQ(json, plan_json(two_stage_plan(), std::nullopt));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
