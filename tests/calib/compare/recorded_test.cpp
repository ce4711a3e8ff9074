// Traces that another program has recorded: what kernels are by their names, what a step did, and
// which op of the plan is which. The traces of traces/ are real ones, by PyTorch's profiler
// (traces/record_gpt.py says of what).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "calib/compare/recorded_match.hpp"
#include "calib/compare/recorded_timeline.hpp"
#include "plan/assemble/build_plan.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "trace/accounts.hpp"
#include "trace/formats/kineto.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

TEST(RecordedNames, AreOfTheirKinds) {
    for (const auto& [name, kind] : std::vector<std::pair<const char*, WorkKind>>{
             {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", WorkKind::gemm},
             {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", WorkKind::gemm},
             {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", WorkKind::gemm},
             {"Cijk_Ailk_Bjlk_BBS_BH_MT128x128x32", WorkKind::gemm},
             {"void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm>", WorkKind::gemm},
             {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64>>", WorkKind::attention},
             {"void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<…>", WorkKind::attention_backward},
             {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", WorkKind::attention},
             {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16",
              WorkKind::attention_backward},
             {"fmha_cutlassF_bf16_aligned_64x128_rf_sm80", WorkKind::attention},
             {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>",
              WorkKind::norm},
             {"triton_red_fused_native_layer_norm_0", WorkKind::norm},
             {"triton_poi_fused_add_mul_3", WorkKind::elementwise},
             {"void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>",
              WorkKind::activation},
             {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>",
              WorkKind::elementwise},
             {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<…AdamFunctor>",
              WorkKind::optimizer},
             {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
              WorkKind::all_reduce},
             {"ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWork*)", WorkKind::all_gather},
             {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", WorkKind::reduce_scatter},
             {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", WorkKind::send_receive},
             {"Memcpy HtoD (Pageable -> Device)", WorkKind::copy},
             {"Memcpy DtoD (Device -> Device)", WorkKind::elementwise},
             {"void splitKreduce_kernel<32, 16, int, __nv_bfloat16>", WorkKind::elementwise},
             {"a kernel of the user's own", WorkKind::other}})
        EXPECT_EQ(kind_of_name(name, true), kind) << name;
    EXPECT_EQ(kind_of_name("aten::addmm", false), WorkKind::gemm);
    EXPECT_EQ(kind_of_name("aten::_log_softmax", false), WorkKind::loss);
    EXPECT_EQ(kind_of_name("gloo:all_reduce", false), WorkKind::all_reduce);
    EXPECT_EQ(kind_of_name("aten::_scaled_dot_product_flash_attention_for_cpu_backward", false),
              WorkKind::attention_backward);
}

TEST(RecordedNames, ProductsAreOfTheShapesOfTheirInputs) {
    const auto shape = [](const char* op, const char* dims) {
        const auto found = product_shape(op, dims);
        return found ? fmt::format("{} {} {} {}", found->m, found->n, found->k, found->batch) : "";
    };
    EXPECT_EQ(shape("aten::mm", "[[256,64],[64,32]]"), "256 32 64 1");
    EXPECT_EQ(shape("aten::addmm", "[[32],[256,64],[64,32],[],[]]"), "256 32 64 1");
    EXPECT_EQ(shape("aten::linear", "[[2,128,64],[32,64],[32]]"), "256 32 64 1");
    EXPECT_EQ(shape("aten::bmm", "[[8,128,64],[8,64,32]]"), "128 32 64 8");
    EXPECT_EQ(shape("aten::mm", "[[256,64],[65,32]]"), "") << "no product";
    EXPECT_EQ(shape("aten::mm", "[[256"), "");
    EXPECT_EQ(shape("aten::mul", "[[256,64],[64,32]]"), "");
}

std::string written(const std::string& name, const std::string& text) {
    std::string path = testing::TempDir() + name;
    std::ofstream(path) << text;
    return path;
}

std::string span(const char* category, const char* name, int pid, int tid, double start,
                 double duration, const std::string& arguments = "") {
    return fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, )"
        R"("args": {{{}}}}},)",
        category, name, pid, tid, start, duration, arguments);
}

// Three steps of 100, 100 and 120 µs; in the second a product of 30 µs from 20 µs on, a reduction
// from 40 to 80 µs, and a kernel that the host launched in it and that runs in the third.
TEST(RecordedSteps, HoldWhatTheirHostLaunched) {
    std::string events;
    for (const auto& [number, start, length] :
         {std::tuple{0, 0.0, 100.0}, {1, 100.0, 100.0}, {2, 200.0, 120.0}})
        events += span("user_annotation", fmt::format("ProfilerStep#{}", number).c_str(), 1, 1,
                       start, length);
    const auto launched = [&](int number, const char* name, double at, double start,
                              double duration, int stream, const std::string& more = "") {
        events += span("cuda_runtime", "cudaLaunchKernel", 1, 1, at, 1,
                       fmt::format(R"("correlation": {})", number));
        events += span("kernel", name, 0, stream, start, duration,
                       fmt::format(R"("correlation": {}, "stream": {}{})", number, stream, more));
    };
    events += span("cpu_op", "aten::mm", 1, 1, 104, 10, R"("Input Dims": [[64, 32], [32, 16]])");
    launched(1, "sm90_xmma_gemm_bf16", 105, 120, 30, 7);
    launched(2, "ncclDevKernel_AllReduce_Sum_bf16", 115, 140, 40, 9,
             R"(, "Collective name": "allreduce", "dtype": "BFloat16", "In msg nelems": 1000,
                "Out msg nelems": 1000, "Group size": 8)");
    launched(3, "void at::native::elementwise_kernel", 190, 205, 10, 7);
    launched(4, "void at::native::elementwise_kernel", 50, 60, 10, 7);
    const std::string path = written(
        "recorded.json",
        R"({"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
            "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
            "traceEvents": [)" +
            events + R"({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "p"}}]})");
    const RecordedRank rank = recorded_rank(trace::read_kineto(path, true), "recorded.json");
    EXPECT_EQ(rank.rank, 3);
    EXPECT_EQ(rank.world_size, 8);
    EXPECT_EQ(rank.device, "NVIDIA H100");
    ASSERT_EQ(rank.steps.size(), 3U);
    EXPECT_TRUE(rank.steps_named);
    EXPECT_EQ(rank.typical, 1U) << "the shorter of the two that are not the first";
    EXPECT_NEAR(rank.step_s(), 100e-6, 1e-12);
    ASSERT_EQ(rank.work.size(), 3U);
    ASSERT_TRUE(rank.work[0].product.has_value());
    EXPECT_EQ(rank.work[0].product->m, 64);
    EXPECT_EQ(rank.work[0].product->n, 16);
    EXPECT_EQ(rank.work[0].product->k, 32);
    EXPECT_EQ(rank.work[1].message_bytes, 2000);
    EXPECT_EQ(rank.work[1].group_size, 8);
    EXPECT_NEAR(rank.compute_s, 40e-6, 1e-12);
    EXPECT_NEAR(rank.exposed_s, 30e-6, 1e-12) << "from 150 to 180 µs nothing computes";
    EXPECT_NEAR(rank.idle_s, 30e-6, 1e-12);
    EXPECT_NEAR(rank.busy_s[static_cast<std::size_t>(WorkKind::all_reduce)], 40e-6, 1e-12);
}

constexpr const char* kGpt = R"({
  "model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "n_positions": 128,
            "vocab_size": 512, "tie_word_embeddings": false,
            "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
  "cluster": "clusters/cpu-8.json",
  "layout": {"micro_batch_size": 2, "global_batch_size": 4, "data_parallel": 1},
  "training": {"sequence_length": 128, "precision": "fp32", "framework": "orrery",
               "vocabulary_multiple": 1}
})";

RecordedRank recorded(const std::string& name) {
    const std::string path =
        std::string(ORRERY_SOURCE_DIR) + "/tests/calib/compare/traces/" + name + ".json.gz";
    return recorded_rank(trace::read_kineto(path, true), name);
}

struct Replayed {
    std::vector<RecordedRank> ranks;
    std::vector<RankMatch> matches;
    trace::Trace measured;
    sim::Prediction replay;
};

Replayed replayed(const std::vector<std::string>& traces, const theory::Sets& sets) {
    Replayed out;
    const plan::Scenario scenario = theory::scenario(sets, kGpt);
    const plan::Plan plan = plan::build_plan(scenario);
    const sim::Profile profile = sim::load_profiles(scenario.cluster);
    const sim::Prediction prediction = sim::simulate(scenario, profile, {}, "");
    std::vector<const RecordedRank*> ranks;
    std::vector<const trace::Track*> tracks;
    for (const std::string& name : traces)
        out.ranks.push_back(recorded(name));
    for (std::size_t r = 0; r < traces.size(); ++r) {
        if (out.ranks[r].rank < 0) out.ranks[r].rank = static_cast<std::int64_t>(r);
        ranks.push_back(&out.ranks[r]);
        const auto own = std::find_if(
            prediction.trace.tracks.begin(), prediction.trace.tracks.end(),
            [&](const trace::Track& track) { return track.rank == out.ranks[r].rank; });
        tracks.push_back(own == prediction.trace.tracks.end() ? &prediction.trace.tracks.front()
                                                              : &*own);
        out.matches.push_back(match_rank(out.ranks[r], plan, prediction.trace, *tracks.back()));
    }
    out.measured = laid_out(matched_trace(ranks, out.matches, prediction.trace, tracks), ranks,
                            out.matches, prediction.trace, tracks, plan, scenario, profile);
    const sim::MeasuredCosts costs(out.measured, "recorded");
    sim::SimulateOptions how;
    how.costs = &costs;
    out.replay = sim::simulate(scenario, profile, how, "");
    return out;
}

const KindMatch& of_kind(const RankMatch& match, WorkKind kind) {
    for (const KindMatch& one : match.kinds)
        if (one.kind == kind) return one;
    ADD_FAILURE() << name(kind);
    return match.kinds.front();
}

// A product of each of a layer's four matrices and of the head forward, two backward, for each of
// two micro-batches.
constexpr std::int64_t kProducts = (2 * 4 + 1) * 3 * 2;

TEST(RecordedStep, OfPyTorchIsMatchedWithThePlan) {
    const Replayed all = replayed({"gpt-1"}, {});
    const RankMatch& match = all.matches[0];
    EXPECT_EQ(of_kind(match, WorkKind::gemm).recorded, kProducts);
    EXPECT_EQ(of_kind(match, WorkKind::gemm).by_op, kProducts);
    // What was matched by kind is measured, too.
    ASSERT_TRUE(all.replay.prices);
    EXPECT_EQ(all.replay.prices->ops[static_cast<std::size_t>(sim::PriceSource::profile)], 0);
    EXPECT_EQ(of_kind(match, WorkKind::attention).by_op, 2 * 2);
    EXPECT_EQ(of_kind(match, WorkKind::attention_backward).by_op, 2 * 2);
    EXPECT_EQ(of_kind(match, WorkKind::norm).by_op, 5 * 2 * 2) << "forward and backward";
    EXPECT_EQ(match.unmatched, 0);
    EXPECT_GT(match.by_op_s, 0.8 * (match.by_op_s + match.by_kind_s));
    double busy = 0;
    for (const double seconds : all.ranks[0].busy_s)
        busy += seconds;
    EXPECT_NEAR(busy + all.ranks[0].idle_s, all.ranks[0].step_s(), 0.02 * busy);
    // Replayed it takes as long as it took: its operators, and between them the interpreter.
    const double step = all.ranks[0].step_s();
    EXPECT_NEAR(all.replay.step.time_s, step, 0.002 * step);
    EXPECT_DOUBLE_EQ(all.replay.prices->share[static_cast<std::size_t>(sim::PriceSource::own_time)],
                     1);
    // What was matched by kind alone has no more than the room that it has in the plan: the rest is
    // the host's, besides the time in which nothing ran.
    const double launch =
        all.replay.step.breakdown_s[static_cast<std::size_t>(trace::Account::launch)];
    EXPECT_GT(launch, all.ranks[0].idle_s - 1e-6);
    EXPECT_LT(launch, all.ranks[0].idle_s + 0.1 * match.by_kind_s);
}

TEST(RecordedStep, OfTwoRanksHasTheirExchange) {
    const Replayed all = replayed({"gpt-2-rank0", "gpt-2-rank1"},
                                  {"layout.data_parallel=2", "layout.global_batch_size=8"});
    ASSERT_EQ(all.ranks.size(), 2U);
    EXPECT_EQ(all.ranks[0].rank, 0);
    EXPECT_EQ(all.ranks[1].rank, 1);
    EXPECT_EQ(all.ranks[0].world_size, 2);
    for (const RankMatch& match : all.matches) {
        EXPECT_EQ(of_kind(match, WorkKind::gemm).by_op, kProducts);
        EXPECT_GT(of_kind(match, WorkKind::all_reduce).recorded, 0);
        const double time = match.by_op_s + match.by_kind_s + match.unmatched_s;
        EXPECT_GT(match.by_op_s + match.by_kind_s, 0.95 * time);
    }
    // Each rank's ops have their own times: the step is that of the rank that took longest.
    const double step = std::max(all.ranks[0].step_s(), all.ranks[1].step_s());
    EXPECT_NEAR(all.replay.step.time_s, step, 0.01 * step);
    ASSERT_EQ(all.measured.tracks.size(), 2U);
    for (std::size_t r = 0; r < 2; ++r) {
        const trace::Accounts accounts = trace::accounts_of(all.measured, all.measured.tracks[r]);
        const auto of = [&](trace::Account account) {
            return sim::to_seconds(accounts[static_cast<std::size_t>(account)]);
        };
        // DDP's buckets are no messages of the plan, which has its own: what was waited for them
        // may be the host's.
        EXPECT_GT(of(trace::Account::launch), all.ranks[r].idle_s - 1e-6) << "rank " << r;
        EXPECT_LT(of(trace::Account::launch), all.ranks[r].idle_s + all.ranks[r].exposed_s)
            << "rank " << r;
        EXPECT_NEAR(of(trace::Account::compute) + of(trace::Account::optimizer),
                    all.ranks[r].compute_s, 0.05 * all.ranks[r].compute_s)
            << "rank " << r;
    }
}

// What is recorded of all ranks is in the plan, at least 95 % of its time; replayed the step takes
// as long as it took, at most 3 % more or less.
Replayed replayed_of_two(const std::string& name, const theory::Sets& sets) {
    Replayed all = replayed({name + "-rank0", name + "-rank1"}, sets);
    double step = 0;
    for (std::size_t r = 0; r < all.ranks.size(); ++r) {
        const RankMatch& match = all.matches[r];
        const double time = match.by_op_s + match.by_kind_s + match.unmatched_s;
        EXPECT_GT(match.by_op_s + match.by_kind_s, 0.95 * time) << name << ", rank " << r;
        step = std::max(step, all.ranks[r].step_s());
    }
    EXPECT_NEAR(all.replay.step.time_s, step, 0.03 * step) << name;
    EXPECT_DOUBLE_EQ(all.replay.prices->share[static_cast<std::size_t>(sim::PriceSource::own_time)],
                     1)
        << name;
    return all;
}

// Each of the six modules that are sharded by themselves is gathered forward and backward, and its
// gradient scattered, for each of two micro-batches. Gloo sums up all of what it scatters.
TEST(RecordedStep, OfShardedRanksIsReplayed) {
    const Replayed all = replayed_of_two(
        "gpt-fsdp",
        {"layout.data_parallel=2", "layout.global_batch_size=8", "layout.zero_stage=3"});
    for (const RankMatch& match : all.matches) {
        EXPECT_EQ(of_kind(match, WorkKind::gemm).by_op, kProducts);
        EXPECT_EQ(of_kind(match, WorkKind::all_gather).by_op, 6 * 2 * 2);
        EXPECT_EQ(of_kind(match, WorkKind::reduce_scatter).by_op, 6 * 2);
    }
}

// Sums of hidden states: behind the embedding, twice a layer forward and twice backward, and of the
// head's input, for each of two micro-batches.
TEST(RecordedStep, OfTensorParallelRanksIsReplayed) {
    const Replayed all =
        replayed_of_two("gpt-tp", {"layout.tensor_parallel=2", "training.optimizer.clip_norm=0"});
    for (const RankMatch& match : all.matches) {
        EXPECT_EQ(of_kind(match, WorkKind::gemm).by_op, kProducts);
        EXPECT_EQ(of_kind(match, WorkKind::all_reduce).by_op, (1 + 2 * 2 + 2 * 2 + 1) * 2);
    }
}

// Forward gathers the inputs of two layers' two pairs of products and of the head, and scatters the
// words' rows and what the pairs give; backward does the reverse with gradients, as the inputs are
// kept.
TEST(RecordedStep, OfSequenceParallelRanksIsReplayed) {
    const Replayed all = replayed_of_two(
        "gpt-sp", {"layout.tensor_parallel=2", "layout.sequence_parallel=true",
                   "training.gathered_inputs=kept", "training.optimizer.clip_norm=0"});
    for (const RankMatch& match : all.matches) {
        EXPECT_EQ(of_kind(match, WorkKind::gemm).by_op, kProducts);
        EXPECT_EQ(of_kind(match, WorkKind::all_gather).by_op, (2 * 2 + 1 + 2 * 2 + 1) * 2);
        EXPECT_EQ(of_kind(match, WorkKind::reduce_scatter).by_op, (1 + 2 * 2 + 2 * 2 + 1) * 2);
    }
}

// Each of two ranks has a layer; four micro-batches are handed on and four gradients back, of
// which each rank posts either end by itself.
TEST(RecordedStep, OfPipelineRanksIsReplayed) {
    const Replayed all =
        replayed_of_two("gpt-pp", {"layout.pipeline_parallel=2", "layout.global_batch_size=8",
                                   "training.optimizer.clip_norm=0"});
    EXPECT_EQ(of_kind(all.matches[0], WorkKind::gemm).by_op, 4 * 3 * 4);
    EXPECT_EQ(of_kind(all.matches[1], WorkKind::gemm).by_op, (4 + 1) * 3 * 4) << "and the head";
    for (const RankMatch& match : all.matches)
        EXPECT_EQ(of_kind(match, WorkKind::send_receive).by_op, 4 + 4);
}

// What Gloo did is of the call before it whose buffer it is; the call itself is no work, and
// neither is waiting. A call of another size is left for another message.
TEST(RecordedMessages, AreOfTheCallsThatIssuedThem) {
    std::string events = span("user_annotation", "ProfilerStep#1", 1, 1, 0, 100);
    events += span("cpu_op", "c10d::_reduce_scatter_base_", 1, 1, 10, 5,
                   R"("Input Dims": [[50], [100], []])");
    events += span("cpu_op", "c10d::allreduce_", 1, 1, 16, 1, R"("Input Dims": [[[30]], []])");
    events += span("user_annotation", "gloo:all_reduce", 1, 2, 12, 20,
                   R"("Input type": ["float"], "Input Dims": [[100]])");
    events += span("user_annotation", "gloo:all_reduce", 1, 3, 17, 3,
                   R"("Input type": ["float"], "Input Dims": [[30]])");
    events +=
        span("cpu_op", "_c10d_functional::wait_tensor", 1, 1, 20, 12, R"("Input Dims": [[50]])");
    events += span("cpu_op", "c10d::send", 1, 1, 40, 4, R"("Input Dims": [[[8]], [], [], []])");
    events += span("user_annotation", "gloo:send", 1, 1, 43, 20,
                   R"("Input type": ["float"], "Input Dims": [[8]])");
    events += span("cpu_op", "aten::mm", 1, 1, 50, 5, R"("Input Dims": [[4, 4], [4, 4]])");
    const std::string path =
        written("gloo.json",
                R"({"traceEvents": [)" + events +
                    R"({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}}]})");
    const RecordedRank rank = recorded_rank(trace::read_kineto(path, true), "gloo.json");
    ASSERT_EQ(rank.work.size(), 4U);
    EXPECT_EQ(rank.work[0].kind, WorkKind::reduce_scatter);
    EXPECT_EQ(rank.work[0].message_bytes, 400);
    EXPECT_EQ(rank.work[0].group_size, 2) << "100 of 50 each";
    EXPECT_EQ(rank.work[1].kind, WorkKind::all_reduce);
    EXPECT_EQ(rank.work[1].message_bytes, 120);
    EXPECT_EQ(rank.work[2].kind, WorkKind::send_receive);
    EXPECT_EQ(rank.work[2].way, MessageWay::sent);
    EXPECT_EQ(rank.work[2].message_bytes, 32);
    EXPECT_EQ(rank.work[2].duration(), 23'000'000) << "from its call on, in picoseconds";
    EXPECT_EQ(rank.work[3].kind, WorkKind::gemm) << "it runs while the message is on its way";
    EXPECT_NEAR(rank.exposed_s, (20 + 18) * 1e-6, 1e-12);
}

// Another model's plan: what does not fit is counted, and nothing is guessed.
TEST(RecordedStep, OfAnotherModelIsMatchedByKindAlone) {
    const Replayed all = replayed({"gpt-1"}, {"model.n_embd=320", "model.n_head=5"});
    EXPECT_EQ(of_kind(all.matches[0], WorkKind::gemm).by_op, 0);
    EXPECT_EQ(of_kind(all.matches[0], WorkKind::gemm).by_kind, kProducts);
}

// Half the batch a rank: every second product is nobody's.
TEST(RecordedStep, OfAnotherBatchIsNotTakenForThePlans) {
    const Replayed all = replayed({"gpt-1"}, {"layout.global_batch_size=2"});
    const KindMatch& products = of_kind(all.matches[0], WorkKind::gemm);
    EXPECT_EQ(products.planned, kProducts / 2);
    EXPECT_EQ(products.by_op + products.by_kind, 0);
    EXPECT_GE(all.matches[0].unmatched, kProducts);
    ASSERT_FALSE(all.matches[0].names.empty());
    EXPECT_EQ(all.matches[0].names[0].kind, WorkKind::gemm);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
