// The text form of plans parses back to the very same plan, and says where it does not parse.
#include "plan/text/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "plan/assemble/build_plan.hpp"
#include "plan/ir/action.hpp"
#include "tests/plan/small_scenarios.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

void expect_round_trip(const Plan& plan, const std::string& what) {
    const std::string text = to_text(plan);
    const ParsedPlan parsed = parse_plan(text);
    ASSERT_TRUE(parsed.plan.has_value()) << what << ": " << parsed.error;
    EXPECT_TRUE(*parsed.plan == plan) << what;
    EXPECT_EQ(to_text(*parsed.plan), text) << what;
}

struct Pipeline {
    const char* schedule;
    std::int64_t ranks;
    std::int64_t virtual_stages;
};

TEST(PlanText, ParsesBackToTheSamePlanOverAGridOfLayouts) {
    int plans = 0;
    for (const Pipeline& pipeline :
         {Pipeline{"1f1b", 1, 1}, Pipeline{"1f1b", 2, 1}, Pipeline{"1f1b", 4, 1},
          Pipeline{"gpipe", 2, 1}, Pipeline{"interleaved", 2, 2}})
        for (int zero = 0; zero <= 3; ++zero)
            for (bool sequence : {false, true})
                for (Recompute recompute :
                     {Recompute::none, Recompute::selective, Recompute::full, Recompute::every_k})
                    for (bool llama : {false, true})
                        for (bool fp32 : {false, true}) {
                            Scenario s = llama ? small_llama() : small_gpt2();
                            set_pipeline(s, pipeline.schedule, pipeline.ranks,
                                         pipeline.virtual_stages, 4);
                            set_data(s, 3);
                            set_tensor(s, 2, sequence);
                            s.layout.zero_stage = zero;
                            s.layout.recompute = recompute;
                            if (fp32)
                                s.training.precision = Precision::fp32;
                            else if (sequence)
                                s.training.precision = Precision::fp16;
                            if (!llama) set_unfused_dropout(s);
                            s.training.framework.overlap_gradient_reduce = !fp32;
                            s.training.framework.overlap_tensor_backward = sequence;
                            s.training.framework.gradient_bucket_mb = 0.05;
                            expect_round_trip(build_plan(s),
                                              std::string(pipeline.schedule) + " zero " +
                                                  std::to_string(zero) + (sequence ? " sp" : "") +
                                                  (llama ? " llama" : " gpt2") +
                                                  (fp32 ? " fp32" : " bf16") + " recompute " +
                                                  std::to_string(static_cast<int>(recompute)));
                            ++plans;
                        }
    EXPECT_EQ(plans, 5 * 4 * 2 * 4 * 2 * 2);
}

TEST(PlanText, ParsesBackHybridAndKeptParameters) {
    for (int zero = 1; zero <= 3; ++zero)
        for (bool reshard : {true, false}) {
            if (zero < 3 && !reshard) continue;
            Scenario s = small_llama();
            set_pipeline(s, "1f1b", 2, 1, 4);
            set_data(s, 4);
            s.layout.zero_stage = zero;
            s.layout.zero_group_size = 2;
            s.layout.reshard_after_forward = reshard;
            s.training.framework.zero_prefetch = 3;
            expect_round_trip(build_plan(s),
                              "hybrid zero " + std::to_string(zero) + (reshard ? "" : " kept"));
        }
}

TEST(PlanText, ParsesBackWindowsAndSkippedSteps) {
    Scenario s = small_llama();
    set_pipeline(s, "1f1b", 2, 1, 4);
    s.model.attention().window = 8;
    s.training.loss_spike = {2, 100};
    expect_round_trip(build_plan(s), "window and loss spike");
}

TEST(PlanText, ParsesBackValidationOfTheStepBefore) {
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
        Scenario s = small_llama();
        set_pipeline(s, "zb-h1", 2, 1, 4);
        s.training.precision = precision;
        s.layout.optimizer_post_validation = true;
        const Plan plan = build_plan(s);
        EXPECT_EQ(plan.statistics.size(), precision == Precision::fp16 ? 2U : 1U);
        expect_round_trip(plan, "post-validation");
    }
}

TEST(PlanText, ParsesBackALossInChunksAndStatesOfSeveralTypes) {
    Scenario s = small_llama();
    set_pipeline(s, "1f1b", 2, 1, 4);
    s.training.loss_chunks = 4;
    s.training.optimizer.first_moment = StateType::fp8;
    s.training.optimizer.main_parameters = StateType::fp16;
    expect_round_trip(build_plan(s), "chunks and states");
}

TEST(PlanText, ParsesBackResidentsThatTakeTurns) {
    Scenario s = small_gpt2();
    set_pipeline(s, "1f1b", 2, 1, 4);
    set_data(s, 2);
    s.layout.zero_stage = 1;
    s.layout.staleness = 2;
    const Plan plan = build_plan(s);
    EXPECT_EQ(plan.programs.front().residents.front().turns, 3);
    expect_round_trip(plan, "staleness");
}

// A plan that no scenario makes: names, numbers and bindings off every beaten track.
Plan odd_plan() {
    Plan plan;
    plan.mesh = {2, 3, 5, 7};
    plan.tokens = {2, 9, false, 17};
    plan.micro_batches = 2;
    plan.schedule = "of \"mine\" \\ and\nyours";
    plan.conserved = {1, 2, 3, 0.1 + 0.2, 1.0 / 3.0 * 1e200};
    Block& block = plan.blocks.emplace_back();
    block.name = "scratch";  // a keyword
    block.tensors = {{"last", Role::scratch, DType::u8, {3}},
                     {"x", Role::stash, DType::bf16, {2, 2}},
                     {"x", Role::gradient, DType::fp32, {}},
                     {"x", Role::gradient, DType::fp32, {0}},
                     {"after", Role::scalar, DType::i32, {1}},
                     {"never mentioned", Role::output, DType::bf16, {1, 2, 3, 4}},
                     {"", Role::input, DType::bf16, {9}}};
    block.scratch_offsets = {512, -1, -1, 0, -1, -1, 768};
    block.scratch_bytes = 1024;
    block.ops.resize(3);
    block.ops[0].spec = spec_of(OpKind::attention_backward, {1, 2, 3, 4, 5, 6});
    block.ops[0].as<AttentionBackward>().scale = 1.0 / 3;
    block.ops[0].reads = {4, 1, 1};
    block.ops[0].writes = {3, 0};
    block.ops[1].spec = spec_of(OpKind::all_reduce);
    block.ops[1].phase = Phase::optimizer;
    block.ops[1].group = GroupKind::world;
    block.ops[1].stream = Stream::copy;
    block.ops[1].dtype = DType::u8;
    block.ops[1].label = "a \"label\"";
    block.ops[1].reads = {0, 6};
    block.ops[1].after = {0};
    block.ops[2].spec = spec_of(OpKind::exchange);  // of no group
    block.ops[2].writes = {2};
    block.ops[2].after = {0, 1};
    block.input = 6;
    block.reuse = {{0, 1}, {0, 2}};
    Block& unplanned = plan.blocks.emplace_back();
    unplanned.name = "unplanned";
    unplanned.tensors = {{"t", Role::scratch, DType::bf16, {1}}};
    unplanned.output = 0;
    plan.exchange_block = 1;
    Program& program = plan.programs.emplace_back();
    program.arena_bytes = std::int64_t{1} << 40;
    program.parameter_ring = {1};
    program.gradient_ring = {0, 1, -1};
    program.frames = {1, -1};
    program.stages = {{4, {{0, 1, -1, -1}, {0, 1, -1, -1}, {0, 1, 3, 0}}}, {5, {}}};
    program.buckets = {{4, false, true, 2, 1, 10, 1, 2, 1, 0, 0, -1, 1, {}, {}},
                       {5,
                        true,
                        false,
                        0,
                        0,
                        7,
                        0,
                        0,
                        5,
                        0,
                        -1,
                        0,
                        -1,
                        {{GroupKind::shard, 6}, {GroupKind::data, 30}},
                        {{StateKind::masters, Extent::in_place, DType::fp64, 12},
                         {StateKind::gradients, Extent::shard, DType::bf16}}}};
    BlockUse use;  // not bound to memory
    use.layer = 9;
    BlockUse bound{0, 7, 3, 0, true, std::vector<Slot>(7)};
    bound.slots[1] = {Frame::stash, -1, 2, 512};
    bound.slots[2] = {Frame::resident, 0, 0, 0, GroupKind::data};
    bound.slots[3] = {Frame::resident, -1, 1, 7};
    bound.slots[6] = {Frame::received, -1, 0, 9, GroupKind::tensor};
    std::vector<BlockUse> uses = {use, use};
    for (int i = 0; i < 5; ++i) {  // a run whose fields step, and whose residents take turns
        bound.position = 3 + 2 * i;
        bound.slots[1].piece = 9 - i;
        bound.slots[1].offset = 512 * i;
        bound.slots[2].resident = i % 2;
        uses.push_back(bound);
    }
    bound.slots[2].resident = 0;  // … and one that breaks it
    uses.push_back(bound);
    program.procedures = {{"forward 4", uses}, {"empty", {}}};
    program.residents = {{"stash 4F0", MemoryCategory::workspace, 5, 0, 4, 6, {}},
                         {"stash 4F0", MemoryCategory::communication, 7, 1, 1, 0, {0, 1}}};
    program.steps.resize(5);
    program.steps[0].action = {4, ActionKind::forward, 0};
    program.steps[0].procedure = 1;
    program.steps[0].stash = -1;
    program.steps[0].output = 1;
    program.steps[1].action = {4, ActionKind::forward, 0};  // as its names say
    program.steps[1].procedure = 0;
    program.steps[1].stash = 0;
    program.steps[1].received = 1;
    program.steps[2].action = {5, ActionKind::step, -1};
    program.steps[3].transfers = {{{6, ActionKind::recv_f, 0}, 6, 77, 1},
                                  {{4, ActionKind::send_b, 1}, 3, 0, -1, GroupKind::tensor},
                                  {{4, ActionKind::recv_b, 1}, 5, 0, -1}};
    program.steps[3].action = program.steps[3].transfers[0].action;
    program.steps[4].transfers = {{{6, ActionKind::send_f, 0}, 0, 0, -1}};
    program.steps[4].action = program.steps[4].transfers[0].action;
    return plan;
}

TEST(PlanText, ParsesBackWhatNoScenarioMakes) {
    expect_round_trip(odd_plan(), "odd");
    Plan empty;
    empty.blocks.emplace_back();
    expect_round_trip(empty, "empty");
}

TEST(PlanText, KeepsEveryDoubleExactly) {
    Plan plan;
    plan.blocks.emplace_back();
    for (double value : {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 123456789012345678.0, -0.1,
                         9007199254740993.0}) {
        plan.conserved.model_flops_per_step = value;
        expect_round_trip(plan, std::to_string(value));
    }
}

TEST(PlanText, KeepsToAHundredColumns) {
    Scenario s = small_gpt2();
    set_pipeline(s, "interleaved", 2, 2, 8);
    set_data(s, 4);
    set_tensor(s, 2, true);
    set_unfused_dropout(s);
    s.layout.zero_stage = 3;
    s.layout.recompute = Recompute::full;
    std::string line;
    for (char c : to_text(build_plan(s))) {
        if (c != '\n') {
            if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) line += c;
            continue;
        }
        EXPECT_LE(line.size(), 100U) << line;
        EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
        line.clear();
    }
}

TEST(PlanText, ARankIsItsBlocksAndItsProgram) {
    Scenario s = small_gpt2();
    set_pipeline(s, "1f1b", 2, 1, 4);
    const Plan plan = build_plan(s);
    const std::string last = to_text(plan, 1);
    EXPECT_EQ(last.find("embedding.forward\n"), std::string::npos);
    EXPECT_EQ(last.find("program 0"), std::string::npos);
    EXPECT_NE(last.find("head.forward\n"), std::string::npos);
    EXPECT_NE(last.find("\nprogram 1"), std::string::npos);
    EXPECT_FALSE(parse_plan(last).plan.has_value());  // an excerpt
    EXPECT_NE(to_text(plan).find(last.substr(last.find("program 1"))), std::string::npos);
}

TEST(PlanText, ABlockOnItsOwnHasNeitherNumberNorGroupSizes) {
    Scenario s = small_gpt2();
    set_tensor(s, 2, false);
    const Plan plan = build_plan(s);
    for (const Block& block : plan.blocks)
        if (block.name == "layer.forward") {
            EXPECT_EQ(to_text(block).substr(0, 20), "block layer.forward\n");
            EXPECT_NE(to_text(block).find("all_reduce 2048 tensor "), std::string::npos);
        }
}

// A text of one block, small enough to see every fault.
constexpr const char* kSmallText =
    "orrery plan 3\n"
    "mesh           tensor 2 context 1 data 1 pipeline 1\n"
    "tokens         samples 1 sequence 2 seed 1\n"
    "schedule       \"1f1b\" micro_batches 1\n"
    "conserved      layers 1 parameters 8 tokens_per_step 2\n"
    "flops          model 1.5 hardware 2.5\n"
    "contents       blocks 1 programs 1 exchange b0\n"
    "\n"
    "block 0 layer.forward\n"
    "    w  bf16 [4,2]  parameter\n"
    "    x  bf16 [2,2]  stash\n"
    "   0  gemm 2×4×2           \"fc1\"  compute      x, w -> y bf16 [2,4] scratch @0\n"
    "   1  all_reduce 8 tensor/2  tensor_comm  y -> y\n"
    "    chain  x -> y\n"
    "    scratch  256 bytes\n"
    "    reuse  none\n"
    "    order  1 0 2\n"
    "\n"
    "program 0  arena 1024 bytes\n"
    "  fixed scratch r0 workspace r0 frames r0 r0 scalars r0\n"
    "  stage 0\n"
    "    layer.forward b0  layer.forward b0  layer 0\n"
    "  procedure p0 \"forward 0\"\n"
    "    layer.forward b0  layer 0  position 0\n"
    "      x=stash@0 w=r0@256\n"
    "  resident r0  \"all\"  activations  1024  @0  always\n"
    "  steps 2\n"
    "    0F0 0F1{s0}\n"
    "\n"
    "end\n";

TEST(PlanText, ASmallTextIsAPlan) {
    const ParsedPlan parsed = parse_plan(kSmallText);
    ASSERT_TRUE(parsed.plan.has_value()) << parsed.error;
    const Plan& plan = *parsed.plan;
    EXPECT_EQ(plan.mesh.tensor, 2);
    ASSERT_EQ(plan.blocks.at(0).tensors.size(), 3U);
    EXPECT_EQ(plan.blocks[0].tensors[0].name, "x");  // by "order"
    EXPECT_EQ(plan.blocks[0].ops.at(0).reads, (std::vector<TensorId>{0, 1}));
    EXPECT_EQ(plan.programs.at(0).steps.at(1).stash, 0);
    EXPECT_EQ(plan.programs[0].steps[0].stash, -1);
}

struct Fault {
    std::string from;  // replaced in the small text …
    std::string to;    // … by this
    std::string error;
};

TEST(PlanText, FaultsAreToldWithTheirPlace) {
    const std::vector<Fault> faults = {
        {"orrery plan 3", "orrery plan 2",
         "line 1, column 13: found \"2\", expected version 3 of the text form"},
        {"scratch @0\n   1", "scratch @0 with product=forwards\n   1",
         "line 12, column 93: found \"forwards\", expected product of gemm: forward, "
         "input_gradient, weight_gradient"},
        {"scratch @0\n   1", "scratch @0 with rows=3\n   1",
         "line 12, column 85: found \"rows\", expected a field of gemm (product, factor, "
         "transposed)"},
        {"tokens         samples 1 sequence 2", "tokens         samples 1 sequence 0",
         "line 3, column 35: found \"0\", expected the tokens of a sequence"},
        {"orrery plan 3\n", "{}", "line 1, column 1: found \"{\", expected \"orrery\""},
        {"tensor 2 context", "tensor 0 context",
         "line 2, column 23: found \"0\", expected a number of ranks from 1 on"},
        {"data 1 pipeline 1", "data 6 pipeline 1 shard 4",
         "line 2, column 59: found \"4\", expected fewer ranks than context × data = 6, which they "
         "divide"},
        {"data 1 pipeline 1", "data 6 pipeline 1 expert 6 split 1 shard 2",
         "line 2, column 76: found \"2\", expected as many ranks as have all experts: tensor × "
         "shard = 4, a multiple of 6"},
        {"model 1.5", "model 1.5x",
         "line 6, column 22: found \"1.5x\", expected model FLOPs per step"},
        {"exchange b0", "exchange b1",
         "line 7, column 45: found \"b1\", expected the block that transfers use (b0)"},
        {"block 0 layer", "block 1 layer", "line 9, column 7: found \"1\", expected block 0"},
        {"x  bf16", "x  bf17",
         "line 11, column 8: found \"bf17\", expected an element type (u8, i32, bf16, fp16, fp32)"},
        {"x  bf16 [2,2]", "x  bf16 [2,9999999999999999]",
         "line 11, column 16: found \"9999999999999999\", expected a dimension"},
        {"x  bf16 [2,2]", "x  bf16 [999999999,99999999]",
         "line 11, column 13: found \"[\", expected a tensor of at most 2⁵⁰ bytes"},
        {"   0  gemm", "   0  gem", "line 12, column 7: found \"gem\", expected a kind of op"},
        {"   0  gemm", "   1  gemm", "line 12, column 4: found \"1\", expected op 0"},
        {"2×4×2", "2×4x2", "line 12, column 14: found \"4x2\", expected n of gemm"},
        {"compute ", "computer",
         "line 12, column 35: found \"computer\", expected a stream (compute, tensor_comm, "
         "context_comm, expert_comm, data_comm, pipeline_comm, pipeline_before_comm, "
         "vocabulary_comm, copy, copy_out, disk_read, disk_write, server)"},
        {"\"fc1\"", "\"fc1",
         "line 12, column 28: found a string without its closing quote, "
         "expected a stream (compute, tensor_comm, context_comm, expert_comm, "
         "data_comm, pipeline_comm, pipeline_before_comm, vocabulary_comm, copy, copy_out, "
         "disk_read, disk_write, server)"},
        {"x, w ->", "x, v ->",
         "line 12, column 51: found \"v\", expected a tensor of block "
         "layer.forward"},
        {"x, w ->", "x w ->", "line 12, column 50: found \"w\", expected \"->\""},
        {"-> y bf16", "-> y#2 bf16",
         "line 12, column 56: found \"y#2\", expected \"y\", the tensor's name by its place"},
        {"tensor/2", "tensor/4",
         "line 13, column 27: found \"4\", expected 2, the ranks of this group in the mesh"},
        {"tensor_comm  y -> y\n", "tensor_comm  y -> y after 1\n",
         "line 13, column 56: found \"1\", expected the number of an earlier op"},
        {"reuse  none", "reuse  0 after 1",
         "line 16, column 12: found \"0\", expected an op of this block, after one that is issued "
         "before it"},
        {"order  1 0 2", "order  1 0 1",
         "line 17, column 5: found \"order\", expected the ids 0..2, each once"},
        {"order  1 0 2", "order  0..99999999999",
         "line 17, column 5: found \"order\", expected the ids 0..2, each once"},
        {"fixed scratch r0", "fixed scratch r7",
         "line 20, column 17: found \"r7\", expected a resident of this program"},
        {"layer.forward b0  layer 0  position", "layer.forwards b0  layer 0  position",
         "line 24, column 5: found \"layer.forwards\", expected \"layer.forward\", the name of "
         "block 0"},
        {"b0  layer 0  position 0", "b0 ×3 layer 0..3  position 0",
         "line 24, column 31: found \"0..3\", expected a range of 3 equal steps"},
        {"b0  layer 0  position 0", "b0 ×1000000000 layer 0",
         "line 24, column 23: found \"1000000000\", expected the length of a run, from 2 to 65536"},
        {"layer 0  position 0", "layer 0  position 0 bucket 0",
         "line 24, column 50: found \"0\", expected buckets of this program"},
        {"x=stash", "y=stash",
         "line 25, column 7: found \"y\", expected x, the next tensor of the block"},
        {"x=stash", "x=stack",
         "line 25, column 9: found \"stack\", expected a resident (r12) or a frame (stash, kept, "
         "deferred, received, input, output, stored)"},
        {"w=r0", "w=r7", "line 25, column 19: found \"r7\", expected a resident of this program"},
        {"w=r0@256", "w=r0@0..256",
         "line 25, column 22: found \"0..256\", expected a range of 1 equal steps"},
        {"w=r0@256", "w=r0@256:world",
         "line 25, column 26: found \"world\", expected the group that shares it out (tensor, "
         "data, shard, expert_data, expert_shard)"},
        {"always", "steps 0..2", "line 26, column 52: found \"0..2\", expected steps up to 1"},
        {"steps 2", "steps 3", "line 27, column 9: found \"3\", expected 2, the steps listed"},
        {"0F1{s0}", "0F1{s1}",
         "line 28, column 13: found \"s1\", expected a resident as stash (s12)"},
        {"0F1{s0}", "0G1",
         "line 28, column 9: found \"0G1\", expected an action (0F3, 0SEND_F3, exchange)"},
        {"0F1{s0}\n\nend\n", "0F1{s0",
         "line 28, column 15: found the end of the text, expected a procedure (p1), stash (s2), "
         "input (i3) or output (o4)"},
        {"0F1{s0}", "0F1{s0} €",
         "line 28, column 17: found a character that plans do not use, expected an action (0F3, "
         "0SEND_F3, exchange)"},
    };
    for (const Fault& fault : faults) {
        std::string text = kSmallText;
        const std::size_t at = text.find(fault.from);
        ASSERT_NE(at, std::string::npos) << fault.from;
        text.replace(at, fault.from.size(), fault.to);
        const ParsedPlan parsed = parse_plan(text);
        EXPECT_FALSE(parsed.plan.has_value()) << fault.to;
        EXPECT_EQ(parsed.error, fault.error) << fault.to;
    }
}

TEST(PlanText, NoTruncationIsAPlan) {
    const std::string text = kSmallText;
    for (std::size_t length = 0; length + 1 < text.size(); ++length) {
        const ParsedPlan parsed = parse_plan(text.substr(0, length));
        EXPECT_FALSE(parsed.plan.has_value()) << length;
        EXPECT_EQ(parsed.error.rfind("line ", 0), 0U) << parsed.error;
    }
}

// Bytes overwritten, dropped, doubled, and words swapped, by a fixed generator: a plan that prints
// and reads back, or an error. Sanitizers see the rest.
void garble(const std::string& text, int rounds) {
    std::uint64_t state = 1;
    auto random = [&](std::size_t below) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<std::size_t>((state >> 33U) % below);
    };
    constexpr std::string_view kBytes = "0123456789-.,[](){}\"# @/>×\nabrx";
    int plans = 0;
    for (int round = 0; round < rounds; ++round) {
        std::string garbled = text;
        for (std::size_t change = 0; change <= random(3); ++change) {
            const std::size_t at = random(garbled.size());
            const std::size_t length = std::min<std::size_t>(random(20), garbled.size() - at);
            switch (random(5)) {
                case 0:
                    garbled[at] = kBytes[random(kBytes.size())];
                    break;
                case 1:
                    garbled.erase(at, length);
                    break;
                case 2:
                    garbled.insert(at, garbled.substr(random(garbled.size()), length));
                    break;
                case 3:
                    garbled[at] = static_cast<char>(random(256));
                    break;
                default:
                    garbled.replace(at, length, garbled, random(garbled.size() - length), length);
            }
            if (garbled.empty()) break;
        }
        const ParsedPlan parsed = parse_plan(garbled);
        ASSERT_EQ(parsed.plan.has_value(), parsed.error.empty());
        if (!parsed.plan) continue;
        ++plans;
        expect_round_trip(*parsed.plan, "garbled " + std::to_string(round));
    }
    EXPECT_GT(plans, 0);           // a changed digit is another plan …
    EXPECT_LT(plans, rounds / 2);  // … and most changes are none
}

TEST(PlanText, GarbledSmallTextsEndInAnErrorOrAPlan) {
    garble(kSmallText, 8000);
}

TEST(PlanText, GarbledPlansEndInAnErrorOrAPlan) {
    Scenario s = small_gpt2();
    set_pipeline(s, "1f1b", 2, 1, 2);
    set_tensor(s, 2, true);
    set_data(s, 2);
    s.layout.zero_stage = 3;
    garble(to_text(build_plan(s)), 400);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
