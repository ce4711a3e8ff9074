// The checks before a run: that every pair meets, that the plan is one that backends perform and
// the simulator prices, and that what is slow is found, and nothing else.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calib/preflight/judgement.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/checks/binding_faults.hpp"
#include "plan/checks/operand_faults.hpp"
#include "plan/scenario/reader.hpp"
#include "runtime/cpu/cpu_backend.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/network/mixed_network.hpp"

namespace orrery::preflight {
namespace ORRERY_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

std::string library() {
    return std::string(ORRERY_SOURCE_DIR) + "/scenarios";
}

plan::Scenario shipped(const std::string& run, const std::vector<std::string>& sets = {}) {
    const plan::ReadResult read =
        plan::read_scenario(library() + "/runs/" + run + ".json", sets, library());
    if (!read.scenario) throw std::runtime_error(plan::format_text(read.errors));
    return *read.scenario;
}

// Of two ranks that train data parallel on cores.
plan::Scenario on_cores(std::int64_t ranks) {
    return shipped("tiny-gpt", {fmt::format("layout.data_parallel={}", ranks),
                                fmt::format("layout.global_batch_size={}", ranks),
                                "layout.tensor_parallel=1", "layout.pipeline_parallel=1"});
}

Sizes small_sizes(bool host_is_apart = false) {
    Sizes sizes = sizes_of(plan::build_plan(on_cores(1)), false);
    sizes.host_is_apart = host_is_apart;
    sizes.copy_bytes = 1 << 16;
    sizes.message_bytes = 1 << 14;
    sizes.sum_bytes = 1 << 15;
    return sizes;
}

TEST(PreflightRounds, LetEachPairMeetOnce) {
    for (std::int64_t ranks = 0; ranks <= kMostRounds + 1; ++ranks) {
        std::set<Pair> met;
        for (const auto& round : rounds_of(ranks)) {
            std::set<plan::Rank> busy;
            for (const auto& [a, b] : round) {
                EXPECT_TRUE(0 <= a && a < b && b < ranks);
                EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
                EXPECT_TRUE(met.insert({a, b}).second) << a << ' ' << b;
            }
            EXPECT_GE(static_cast<std::int64_t>(busy.size()),
                      ranks - 1);  // one sits out of an odd number
        }
        EXPECT_EQ(static_cast<std::int64_t>(met.size()),
                  ranks * std::max<std::int64_t>(0, ranks - 1) / 2);
    }
}

TEST(PreflightRounds, OfManyRanksAreFew) {
    for (const std::int64_t ranks : {65, 128, 1001}) {
        const auto rounds = rounds_of(ranks);
        EXPECT_EQ(static_cast<std::int64_t>(rounds.size()), kMostRounds);
        std::map<plan::Rank, std::set<plan::Rank>> partners;
        for (const auto& round : rounds)
            for (const auto& [a, b] : round) {
                partners[a].insert(b);
                partners[b].insert(a);
            }
        for (const auto& [rank, of] : partners)  // all different, but one when it sits out
            EXPECT_GE(static_cast<std::int64_t>(of.size()), kMostRounds - 1) << rank;
        EXPECT_EQ(static_cast<std::int64_t>(partners.size()), ranks);
    }
}

TEST(PreflightPlan, HasNoFaults) {
    for (const bool host_is_apart : {false, true})
        for (const std::int64_t ranks : {1, 2, 3, 8}) {
            const PreflightPlan of = preflight_plan(ranks, small_sizes(host_is_apart));
            EXPECT_THAT(plan::operand_faults(of.plan.blocks, of.plan.mesh), IsEmpty());
            std::vector<std::string> faults;
            for (const plan::Program& program : of.plan.programs)
                plan::check_bindings(of.plan, program, faults);
            EXPECT_THAT(faults, IsEmpty());
            // A step stands for each op that a rank performs.
            for (std::size_t rank = 0; rank < of.steps.size(); ++rank)
                EXPECT_EQ(plan::link(of.plan, of.plan.programs[rank]).size(),
                          of.steps[rank].size());
        }
}

// The head's product of a run, and no smaller one; never in eight bits.
TEST(PreflightPlan, TakesTheLargestProductOfTheRun) {
    const plan::Scenario scenario = shipped("llama3-70b-h100x256");
    const plan::Layout& layout = scenario.layout;
    const Sizes sizes = sizes_of(plan::build_plan(scenario), true);
    EXPECT_EQ(sizes.product.m, layout.micro_batch_size * scenario.training.sequence_length /
                                   layout.context_parallel);
    EXPECT_GE(sizes.product.n * layout.tensor_parallel, scenario.model.vocabulary);
    EXPECT_EQ(sizes.product.k, scenario.model.hidden);
    EXPECT_EQ(sizes.dtype, plan::DType::bf16);
    const Sizes eight = sizes_of(
        plan::build_plan(shipped("llama3-70b-h100x256",
                                 {"training.precision=fp8", "training.fp8_recipe=delayed"})),
        true);
    EXPECT_EQ(eight.dtype, plan::DType::bf16);
}

// What is expected is what the profile's kernels and the cluster's links take alone, whatever the
// scenario says of its stack: as price by price.
TEST(PreflightExpectation, IsThatOfKernelsAndLinks) {
    for (const char* stack : {"orrery", "megatron"}) {
        const plan::Scenario scenario =
            shipped("llama3-70b-h100x256",
                    {"cluster.nodes=2", "layout.data_parallel=1", "layout.tensor_parallel=8",
                     "layout.pipeline_parallel=2", "layout.schedule=1f1b",
                     "layout.virtual_pipeline=1", std::string("training.framework=") + stack});
        const sim::Profile profile = sim::load_profiles(scenario.cluster);
        const PreflightPlan of =
            preflight_plan(scenario.layout.ranks(), sizes_of(plan::build_plan(scenario), true));
        const Expected expected = preflight::expected(of, scenario, profile);
        const sim::KernelCost kernels(profile);
        std::map<Check, double> alone;
        for (const plan::Block& block : of.plan.blocks) {
            const plan::Op& op = block.ops.front();
            if (op.is<plan::Gemm>()) alone[Check::product] = kernels.price(block, op).seconds;
            if (op.is<plan::Cast>()) alone[Check::memory] = kernels.price(block, op).seconds;
        }
        std::map<std::pair<Check, bool>, std::set<std::int64_t>> nanoseconds;
        for (const Timing& timing : expected.timings) {
            const bool between = timing.peer >= 0 && timing.rank / 8 != timing.peer / 8;
            nanoseconds[{timing.check, between}].insert(std::llround(timing.seconds * 1e9));
            if (alone.count(timing.check) == 0) continue;
            EXPECT_NEAR(timing.seconds, alone[timing.check], 2e-9);
        }
        // A message takes its bytes over its link, at the least; between nodes all eight adapters
        // are busy at once, in either direction one message each.
        const double bytes = static_cast<double>(of.sizes.message_bytes);
        const auto slowest = [&](bool between) {
            return static_cast<double>(*nanoseconds[{Check::pair, between}].rbegin()) * 1e-9;
        };
        EXPECT_GT(slowest(false), bytes / (scenario.cluster.intra_node.bandwidth_GBps * 1e9));
        EXPECT_LT(slowest(false), 2 * bytes / (scenario.cluster.intra_node.bandwidth_GBps * 1e9));
        EXPECT_GT(slowest(true), 4 * slowest(false));
        ASSERT_EQ(expected.relative_sd.size(), expected.timings.size());
        // This cluster says nothing of the way to the host's memory.
        for (std::size_t i = 0; i < expected.timings.size(); ++i) {
            const Check check = expected.timings[i].check;
            EXPECT_EQ(std::isinf(expected.relative_sd[i]),
                      check == Check::to_host || check == Check::from_host);
        }
    }
}

// Sixteen ranks on two nodes of eight, each check of which takes a third longer than expected.
class PreflightJudgement : public testing::Test {
  protected:
    PreflightJudgement() {
        for (const Check check : {Check::product, Check::memory})
            for (plan::Rank rank = 0; rank < 16; ++rank)
                add({check, rank, -1, 0.001});
        for (plan::Rank a = 0; a < 16; ++a)
            for (plan::Rank b = a + 1; b < 16; ++b)
                add({Check::pair, a, b, a / 8 == b / 8 ? 0.001 : 0.01});
        add({Check::sum, -1, -1, 0.02});
    }

    void add(Timing timing) {
        expected_.timings.push_back(timing);
        expected_.relative_sd.push_back(0);
        timing.seconds *= 4.0 / 3;
        measured_.push_back(timing);
    }
    // Multiplies what these take.
    template <typename These>
    void slow_down(double factor, const These& these) {
        for (Timing& timing : measured_)
            if (these(timing)) timing.seconds *= factor;
    }
    Judgement judged() const { return judge(measured_, expected_, 8, 0.1); }

    Expected expected_;
    std::vector<Timing> measured_;
};

TEST_F(PreflightJudgement, OfAllAlikeNamesNobodyButTheProfile) {
    const Judgement judgement = judged();
    EXPECT_THAT(judgement.slow, IsEmpty());
    EXPECT_EQ(judgement.families.size(), 5U);
    EXPECT_THAT(judgement.behind_profile, ElementsAre(0, 1, 2, 3, 4));
    for (const Family& family : judgement.families)
        EXPECT_NEAR(family.usual, 4.0 / 3, 1e-12);
    // A third longer is within what a profile leaves open whose residual is a fifth: 0.1 + 1.645/5.
    for (double& sd : expected_.relative_sd)
        sd = 0.2;
    EXPECT_THAT(judged().behind_profile, IsEmpty());
}

TEST_F(PreflightJudgement, NamesARank) {
    slow_down(1.5, [](const Timing& of) { return of.check == Check::product && of.rank == 3; });
    slow_down(1.09, [](const Timing& of) { return of.check == Check::memory && of.rank == 4; });
    const Judgement judgement = judged();
    ASSERT_EQ(judgement.slow.size(), 1U);
    EXPECT_EQ(judgement.slow[0].check, Check::product);
    EXPECT_EQ(judgement.slow[0].rank, 3);
    EXPECT_EQ(judgement.slow[0].node, -1);
    EXPECT_NEAR(judgement.slow[0].slowdown, 1.5, 1e-12);
}

// A slow adapter is slow with all that it talks to, and its partners are not to blame.
TEST_F(PreflightJudgement, NamesARankWhoseLinksAreSlow) {
    slow_down(2, [](const Timing& of) {
        return of.peer >= 0 && of.rank / 8 != of.peer / 8 && (of.rank == 5 || of.peer == 5);
    });
    const Judgement judgement = judged();
    ASSERT_EQ(judgement.slow.size(), 1U);
    EXPECT_EQ(judgement.slow[0].check, Check::pair);
    EXPECT_TRUE(judgement.slow[0].between_nodes);
    EXPECT_EQ(judgement.slow[0].rank, 5);
    EXPECT_EQ(judgement.slow[0].slow_pairs, 8);
    EXPECT_EQ(judgement.slow[0].pairs, 8);
}

TEST_F(PreflightJudgement, NamesAPair) {
    slow_down(3, [](const Timing& of) { return of.rank == 2 && of.peer == 6; });
    const Judgement judgement = judged();
    ASSERT_EQ(judgement.slow.size(), 1U);
    EXPECT_FALSE(judgement.slow[0].between_nodes);
    EXPECT_EQ(judgement.slow[0].rank, 2);
    EXPECT_EQ(judgement.slow[0].peer, 6);
    EXPECT_NEAR(judgement.slow[0].slowdown, 3, 1e-12);
}

// Of two nodes the one that is faster is the yardstick.
TEST_F(PreflightJudgement, NamesANode) {
    slow_down(1.4, [](const Timing& of) { return of.check == Check::memory && of.rank >= 8; });
    slow_down(1.2, [](const Timing& of) { return of.check == Check::product && of.rank == 0; });
    const Judgement judgement = judged();
    ASSERT_EQ(judgement.slow.size(), 2U);
    EXPECT_EQ(judgement.slow[0].check, Check::memory);
    EXPECT_EQ(judgement.slow[0].node, 1);
    EXPECT_NEAR(judgement.slow[0].slowdown, 1.4, 1e-12);
    EXPECT_EQ(judgement.slow[1].rank, 0);
    EXPECT_EQ(judgement.slow[1].node, -1);
}

// Of cores, one of whose ranks seems to compute more slowly than it does.
class SlowRank final : public runtime::Backend {
  public:
    SlowRank(plan::Rank slow, double factor) : slow_(slow), factor_(factor) {}

    void run_ranks(const plan::Mesh& mesh,
                   const std::function<void(runtime::RankSeat&)>& body) override {
        cores_.run_ranks(mesh, [&](runtime::RankSeat& own) {
            Seat seat(own, own.rank() == slow_ ? factor_ : 1);
            body(seat);
        });
    }
    int threads_per_rank() const override { return 1; }

  private:
    class SlowDevice final : public runtime::Device {
      public:
        SlowDevice(std::unique_ptr<runtime::Device> own, const runtime::BoundProgram& program,
                   double factor)
            : own_(std::move(own)), program_(program), factor_(factor) {}
        void run(const runtime::StepInputs& inputs) override {
            own_->run(inputs);
            times_.assign(own_->times().begin(), own_->times().end());
            for (std::size_t op = 0; op < times_.size(); ++op)
                if (program_.ops[op].op->is<plan::Gemm>())
                    times_[op].end = times_[op].begin +
                                     std::llround(factor_ * static_cast<double>(times_[op].end -
                                                                                times_[op].begin));
        }
        std::span<const runtime::OpTime> times() const override { return times_; }
        void read(std::int64_t offset, std::span<std::byte> into) const override {
            own_->read(offset, into);
        }
        void write(std::int64_t offset, std::span<const std::byte> from) override {
            own_->write(offset, from);
        }

      private:
        std::unique_ptr<runtime::Device> own_;
        const runtime::BoundProgram& program_;
        double factor_;
        std::vector<runtime::OpTime> times_;
    };

    class Seat final : public runtime::RankSeat {
      public:
        Seat(runtime::RankSeat& own, double factor) : own_(own), factor_(factor) {}
        plan::Rank rank() const override { return own_.rank(); }
        runtime::ControlPlane& control() override { return own_.control(); }
        std::unique_ptr<runtime::Device> make_device(const runtime::BoundProgram& program,
                                                     const std::string& path) override {
            return std::make_unique<SlowDevice>(own_.make_device(program, path), program, factor_);
        }

      private:
        runtime::RankSeat& own_;
        double factor_;
    };

    runtime::CpuBackend cores_{runtime::CpuOptions{}};
    plan::Rank slow_;
    double factor_;
};

// Performed by ranks on cores, with copies between the tiers of memory too. A rank that takes a
// hundred times as long is named; whatever else this machine did meanwhile is not ours to say.
TEST(Preflight, FindsThePlantedRank) {
    for (const auto& [ranks, host_is_apart] :
         {std::pair<std::int64_t, bool>{2, true}, {3, false}}) {
        const plan::Scenario scenario = on_cores(ranks);
        const sim::Profile profile = sim::load_profiles(scenario.cluster);
        const PreflightPlan of = preflight_plan(ranks, small_sizes(host_is_apart));
        const Expected expected = preflight::expected(of, scenario, profile);
        SlowRank backend(1, 100);
        int agreed = 0;
        const Measured measured = measure(of, backend, {1, 3}, [&](runtime::ControlPlane& control) {
            control.barrier();
            if (control.rank() == 0) ++agreed;
        });
        EXPECT_EQ(agreed, 1);
        const auto copies_back =
            std::count_if(measured.timings.begin(), measured.timings.end(),
                          [](const Timing& timing) { return timing.check == Check::from_host; });
        EXPECT_EQ(copies_back, host_is_apart ? ranks : 0);
        EXPECT_EQ(static_cast<std::int64_t>(measured.hosts.size()), ranks);
        ASSERT_EQ(measured.timings.size(), expected.timings.size());
        for (std::size_t i = 0; i < measured.timings.size(); ++i) {
            EXPECT_EQ(measured.timings[i].check, expected.timings[i].check);
            EXPECT_EQ(measured.timings[i].rank, expected.timings[i].rank);
            EXPECT_EQ(measured.timings[i].peer, expected.timings[i].peer);
            EXPECT_GT(measured.timings[i].seconds, 0);
        }
        const Judgement judgement =
            judge(measured.timings, expected, scenario.cluster.devices_per_node, 9);
        std::vector<plan::Rank> slow;
        for (const Slow& each : judgement.slow)
            if (each.check == Check::product) slow.push_back(each.rank);
        EXPECT_THAT(slow, ElementsAre(1));
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::preflight
