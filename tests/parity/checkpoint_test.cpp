// A run that is stopped and goes on from a checkpoint is the run that was never stopped, to the
// last bit; and a checkpoint of any layout is one of any other.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <random>

#include "plan/assemble/build_plan.hpp"
#include "tests/parity/expert_layouts.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"
#include "tests/runtime/checkpoint/faulty_files.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

constexpr std::int64_t kSteps = 6, kStoppedAfter = 3;

runtime::UnsynchronisedFiles unsynchronised;

class CheckpointFolder {
  public:
    explicit CheckpointFolder(const std::string& name) : path_(testing::TempDir() + name) {
        fs::remove_all(path_);
    }
    ~CheckpointFolder() { fs::remove_all(path_); }
    CheckpointFolder(const CheckpointFolder&) = delete;
    CheckpointFolder& operator=(const CheckpointFolder&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

RunOptions saving(const std::string& path, std::int64_t steps, bool resume) {
    RunOptions options;
    options.steps = steps;
    options.checkpoint.emplace();
    options.checkpoint->path = path;
    options.checkpoint->every_steps = 2;
    options.checkpoint->resume = resume;
    options.checkpoint->files = &unsynchronised;
    return options;
}

// Numbers that are none are the same, too.
std::vector<std::uint64_t> bits(const std::vector<double>& values) {
    std::vector<std::uint64_t> all;
    for (const double value : values)
        all.push_back(std::bit_cast<std::uint64_t>(value));
    return all;
}

struct ResumeCase {
    const char* text;
    NamedLayout layout;
    bool skips = false;
};
void PrintTo(const ResumeCase& tested, std::ostream* os) {
    *os << tested.layout.name;
}

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, IsTheRunThatWasNeverStopped) {
    const plan::Scenario tested = scenario(GetParam().text, GetParam().layout.sets);
    const CheckpointFolder folder("resume-" + GetParam().layout.name);
    const CheckpointFolder other("whole-" + GetParam().layout.name);
    RunOptions options = saving(other.path(), kSteps, false);
    options.checkpoint->every_steps = kSteps;
    const Trained whole = train(tested, options);
    const Trained first = train(tested, saving(folder.path(), kStoppedAfter, false));
    const Trained second = train(tested, saving(folder.path(), kSteps, true));
    std::vector<double> losses = first.losses, norms = first.norms;
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    norms.insert(norms.end(), second.norms.begin(), second.norms.end());
    EXPECT_EQ(losses, whole.losses);
    EXPECT_EQ(bits(norms), bits(whole.norms));
    EXPECT_EQ(std::vector(whole.skipped.begin() + kStoppedAfter, whole.skipped.end()),
              second.skipped);
    EXPECT_EQ(second.parameters, whole.parameters);
    EXPECT_EQ(second.moments, whole.moments);
    EXPECT_EQ(second.disagreement, "");
    // What is skipped is, before the checkpoint and after it, and not everything.
    const auto taken = std::count(whole.skipped.begin(), whole.skipped.end(), runtime::Skipped::no);
    EXPECT_GT(taken, 0);
    EXPECT_EQ(taken < kSteps, GetParam().skips);
}

std::vector<ResumeCase> resume_cases() {
    const std::string tp2 = "tensor_parallel=2", pp2 = "pipeline_parallel=2",
                      dp2 = "data_parallel=2", bf16 = "training.precision=bf16",
                      fp16 = "training.precision=fp16", v2 = "virtual_pipeline=2";
    std::vector<ResumeCase> all = {
        {kGpt, layout("alone", {})},
        {kLlama, layout("alone_fp64", {"training.precision=fp64"})},
        {kGpt, layout("alone_bf16", {bf16})},
        {kGpt, layout("tensor_pipeline_data", {tp2, pp2, dp2})},
        {kGpt, layout("interleaved_zero1", {pp2, dp2, v2, "schedule=interleaved", "zero_stage=1",
                                            bf16, "training.gradient_bucket_mb=0.02"})},
        {kGpt, layout("zero1_ahead",
                      {dp2, "zero_stage=1", "training.overlap_parameter_gather=true", bf16})},
        {kLlama, layout("zero2_sequence", {dp2, tp2, "sequence_parallel=true", "zero_stage=2"})},
        {kGpt,
         layout("zero3_hybrid", {"data_parallel=4", "zero_stage=3", "zero_group_size=2", bf16})},
        {kMixtral,
         layout("spread_experts_hybrid", {"data_parallel=4", "zero_stage=1", "zero_group_size=2",
                                          "expert_parallel=2", bf16})},
        {kGpt, layout("shared_vocabulary",
                      {pp2, dp2, bf16, "zero_stage=1", "vocabulary_parallel=vocab-1"})},
        {kGpt, layout("zb_v_zero3", {pp2, v2, dp2, "schedule=zb-v", "zero_stage=3"})},
        {kLlama, layout("ring_zero3", {"context_parallel=2", dp2, "zero_stage=3"})},
        // Scales that overflow, fall and grow, on both sides of the checkpoint.
        {kGpt,
         layout("fp16_loss_scale",
                {fp16, dp2, "zero_stage=1", "training.gradient_dtype=same",
                 "training.loss_scale.initial=524288", "training.loss_scale.hysteresis=1"}),
         true},
        {kGpt, layout("fp16_growing_scale", {fp16, pp2, "training.loss_scale.growth_interval=2",
                                             "training.loss_scale.initial=4096"})},
        {kGpt,
         layout("loss_spike",
                {pp2, "training.loss_spike.skip_above=1.01", "training.loss_spike.window=2",
                 "training.optimizer.learning_rate=3"}),
         true},
        {kGpt,
         layout("batch_ramp", {dp2, R"(training.batch_ramp={"start_batch_size": 4, "increment": 2,
                              "over_samples": 20})"})},
        {kLlama, layout("post_validation", {"pipeline_parallel=4", "schedule=zb-2p",
                                            "optimizer_post_validation=true"})},
        {kLlama,
         layout("post_validation_fp16",
                {pp2, fp16, "schedule=zb-h1", "optimizer_post_validation=true",
                 "training.gradient_dtype=same", "training.loss_scale.initial=524288"}),
         true},
        // Moments and weights of 16 bits, which go through the checkpoint as they are.
        {kGpt, layout("delayed_scales",
                      {tp2, dp2, "training.precision=fp8", "training.fp8_recipe=delayed"})},
        {kGpt, layout("states_of_bf16",
                      {dp2, bf16, "zero_stage=1", "training.optimizer.exp_avg_dtype=bf16",
                       "training.optimizer.exp_avg_sq_dtype=bf16",
                       "training.optimizer.main_params_dtype=none"})},
        {kLlama,
         layout("states_of_two_types", {pp2, bf16, "training.optimizer.exp_avg_dtype=bf16"})},
        // Steps under way are computed with parameters that are older than those that are saved.
        {kGpt, layout("staleness", {dp2, tp2, bf16, "zero_stage=1", "staleness=2",
                                    "data_parallel_mode=parameter_server"})},
        {kLlama, layout("staleness_pipeline", {dp2, pp2, "zero_stage=1", "staleness=3",
                                               "data_parallel_mode=parameter_server",
                                               "training.gradient_bucket_mb=0.02"})},
        {kGpt,
         layout("staleness_ramp", {dp2, "zero_stage=1", "data_parallel_mode=parameter_server",
                                   R"(training.batch_ramp={"start_batch_size": 4, "increment": 2,
                                   "over_samples": 20})"})},
        {kGpt, layout("dropout", {tp2, "model.resid_pdrop=0.1", "model.embd_pdrop=0.1"})},
    };
    for (const NamedLayout& named : offload_layouts())
        if (named.name == "infinity" || named.name == "optimizer_host_zero1")
            all.push_back({kGpt, named});
    return all;
}

INSTANTIATE_TEST_SUITE_P(All, Resume, testing::ValuesIn(resume_cases()),
                         [](const auto& tested) { return tested.param.layout.name; });

// Loads a checkpoint in a layout and saves what was loaded, of no step more.
void save_again(const runtime::CheckpointReader& checkpoint, const plan::Scenario& scenario,
                const std::string& path) {
    const plan::Plan plan = plan::build_plan(scenario);
    runtime::CheckpointOptions options;
    options.path = path;
    options.files = &unsynchronised;
    runtime::CpuBackend cpu({}, std::chrono::seconds(60));
    cpu.run_ranks(plan.mesh, [&](runtime::RankSeat& seat) {
        const plan::Program& planned = plan.program_of(seat.rank());
        const runtime::BoundProgram program = runtime::bind_program(plan, planned, seat.rank());
        const auto device = seat.make_device(program, scenario.run.offload_path);
        runtime::load_state(*device, program, planned, checkpoint, 1);
        const runtime::HeldFolder held(options, seat.control());
        runtime::Checkpointing checkpoints(options, held, seat.control(), 0);
        checkpoints.save(*device, runtime::saved_parts(program, planned, plan.mesh, seat.rank(), 0),
                         checkpoint.manifest().progress, plan);
        checkpoints.finish();
        seat.control().finish();
    });
}

// Of whole tensors, whatever the shards are.
std::map<std::string, std::vector<double>> all_of(const runtime::CheckpointReader& checkpoint) {
    std::map<std::string, std::vector<double>> all;
    for (const auto& [tensor, shape] : checkpoint.manifest().tensors)
        for (const runtime::Quantity quantity : runtime::kQuantities) {
            auto& values = all[tensor + std::string(name(quantity))];
            values.resize(static_cast<std::size_t>(runtime::elements_of(shape)));
            checkpoint.read(tensor, quantity, 0, values);
        }
    return all;
}

runtime::CheckpointReader newest(const CheckpointFolder& folder) {
    const auto found = runtime::checkpoints_in(folder.path());
    EXPECT_FALSE(found.empty());
    return runtime::CheckpointReader(found.front().path);
}

std::vector<NamedLayout> layouts_of_one_model() {
    std::vector<NamedLayout> all = all_layouts();
    for (const auto& more : {zero_bubble_layouts(), context_layouts()})
        all.insert(all.end(), more.begin(), more.end());
    return all;
}

// Trained in layout a, loaded and saved again in b, and that in a.
void expect_there_and_back(const char* text, const NamedLayout& a, const NamedLayout& b,
                           bool masters) {
    SCOPED_TRACE(a.name + " to " + b.name);
    const CheckpointFolder first("reshard-a"), there("reshard-b"), back("reshard-c");
    Sets sets_a = a.sets, sets_b = b.sets;
    for (Sets* sets : {&sets_a, &sets_b})
        sets->push_back(masters ? "training.precision=bf16" : "training.precision=fp32");
    const plan::Scenario scenario_a = scenario(text, sets_a);
    const Trained run = train(scenario_a, saving(first.path(), 2, false));
    const runtime::CheckpointReader saved = newest(first);
    save_again(saved, scenario(text, sets_b), there.path());
    const runtime::CheckpointReader between = newest(there);
    save_again(between, scenario_a, back.path());
    const runtime::CheckpointReader again = newest(back);
    EXPECT_EQ(all_of(between), all_of(saved));
    EXPECT_EQ(all_of(again), all_of(saved));
    EXPECT_EQ(again.manifest().tensors, saved.manifest().tensors);
    EXPECT_EQ(between.manifest().progress, saved.manifest().progress);
    EXPECT_EQ(again.manifest().progress, saved.manifest().progress);
    EXPECT_EQ(again.manifest().shards, saved.manifest().shards) << "bit for bit the same files";
    if (masters) return;
    // What was saved is what was trained.
    for (const auto& [tensor, values] : run.parameters) {
        std::vector<double> read(values.size());
        again.read(tensor, runtime::Quantity::weight, 0, read);
        EXPECT_EQ(read, values) << tensor;
    }
}

TEST(Reshard, ThereAndBackIsWhatWasSaved) {
    const std::vector<NamedLayout> layouts = layouts_of_one_model();
    std::mt19937 random(8);  // the same pairs in every run
    const auto any = [&]() -> const NamedLayout& { return layouts[random() % layouts.size()]; };
    const int pairs = sanitized() ? 5 : 20;
    for (int pair = 0; pair < pairs; ++pair) {
        const NamedLayout &a = any(), &b = any();
        expect_there_and_back(pair % 2 == 0 ? kGpt : kLlama, a, b, pair % 3 == 0);
    }
}

// Words lie on all pipeline ranks, filled up to as many shares as there are.
TEST(Reshard, OfAVocabularyThatPipelineRanksShareOut) {
    const std::string vocab = "vocabulary_parallel=vocab-1", pp2 = "pipeline_parallel=2";
    const NamedLayout shared =
        layout("shared", {"pipeline_parallel=4", "data_parallel=2", "zero_stage=1", vocab});
    for (const char* text : {kGpt, kLlama}) {
        expect_there_and_back(text, shared, layout("tensor", {pp2, "tensor_parallel=2"}), false);
        expect_there_and_back(text, layout("alone", {}), shared, true);
        expect_there_and_back(text, shared,
                              layout("shared_by_tensor", {pp2, "tensor_parallel=2", vocab}), true);
    }
}

// What was trained in one layout goes on in another as it would have in its own.
TEST(Reshard, GoesOnInAnotherLayoutThatComputesTheSame) {
    const CheckpointFolder folder("elsewhere");
    Sets sets = {"layout.data_parallel=4", "training.precision=fp32"};
    const Trained whole = train(scenario(kLlama, sets), saving(folder.path(), kSteps, false));
    fs::remove_all(folder.path());
    train(scenario(kLlama, sets), saving(folder.path(), kStoppedAfter, false));
    sets.push_back("layout.zero_stage=1");
    const Trained sharded = train(scenario(kLlama, sets), saving(folder.path(), kSteps, true));
    EXPECT_EQ(sharded.losses,
              std::vector(whole.losses.begin() + kStoppedAfter, whole.losses.end()));
    EXPECT_EQ(sharded.parameters, whole.parameters);
}

// Parameters that are older than the newest are whole in a checkpoint, too.
TEST(Reshard, GoesOnWithStaleParametersInAnotherLayout) {
    const CheckpointFolder folder("stale-elsewhere");
    Sets sets = {"layout.data_parallel=2", "training.precision=bf16", "layout.zero_stage=1",
                 "layout.staleness=2", "layout.data_parallel_mode=parameter_server"};
    const Trained whole = train(scenario(kLlama, sets), saving(folder.path(), kSteps, false));
    fs::remove_all(folder.path());
    train(scenario(kLlama, sets), saving(folder.path(), kStoppedAfter, false));
    sets.push_back("layout.pipeline_parallel=2");
    const Trained other = train(scenario(kLlama, sets), saving(folder.path(), kSteps, true));
    EXPECT_EQ(other.losses, std::vector(whole.losses.begin() + kStoppedAfter, whole.losses.end()));
    EXPECT_EQ(other.parameters, whole.parameters);
    // Steps that wait for every update begin with the newest.
    for (const char* set : {"layout.staleness=0", "layout.staleness=5"}) {
        sets.push_back(set);
        train(scenario(kLlama, sets), saving(folder.path(), kSteps + 1, true));
    }
}

// Another number of data-parallel ranks, and a batch that grows: every sample once.
TEST(Reshard, SkipsAndRepeatsNoSample) {
    const CheckpointFolder folder("samples");
    const std::string ramp =
        R"(training.batch_ramp={"start_batch_size": 4, "increment": 4, "over_samples": 12})";
    std::vector<std::int64_t> seen;
    std::int64_t steps = 0;
    for (const char* layout : {"layout.data_parallel=4", "layout.data_parallel=2",
                               "layout.data_parallel=1", "layout.data_parallel=4"}) {
        steps += 2;
        RunOptions options = saving(folder.path(), steps, true);
        std::mutex mutex;
        options.samples = [&](std::int64_t sample, std::span<std::int32_t> tokens,
                              std::span<std::int32_t> targets) {
            std::fill(tokens.begin(), tokens.end(), 1);
            std::fill(targets.begin(), targets.end(), 1);
            const std::lock_guard lock(mutex);
            seen.push_back(sample);
        };
        train(scenario(kGpt, {layout, ramp}), options);
    }
    std::sort(seen.begin(), seen.end());
    std::vector<std::int64_t> expected(seen.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
    EXPECT_GT(std::ssize(seen), 4 * steps);
}

// Struck at any of its calls, a run goes on from what is there as if nothing had been.
TEST(Checkpoints, ARunThatIsKilledAtAnyCallOfASaveGoesOn) {
    const CheckpointFolder folder("killed");
    const plan::Scenario tested =
        scenario(kGpt, {"layout.data_parallel=2", "layout.zero_stage=1", "model.n_layer=1",
                        "layout.global_batch_size=2", "training.sequence_length=4"});
    const Trained whole = train(tested, saving(folder.path(), 3, false));
    bool struck = true;
    for (int at = 0; struck; at += sanitized() ? 7 : 1) {
        SCOPED_TRACE(at);
        fs::remove_all(folder.path());
        runtime::FaultyFiles files(runtime::Fault::kills, at);
        RunOptions options = saving(folder.path(), 3, false);
        options.checkpoint->every_steps = 1;
        options.checkpoint->keep = 1;
        options.checkpoint->files = &files;
        std::int64_t published = 0;
        options.checkpoint->published = [&](const runtime::CheckpointReport& report) {
            published = report.step;
        };
        try {
            train(tested, options);
        } catch (const runtime::StorageError&) {
        }
        struck = files.has_struck();
        options.checkpoint->files = &unsynchronised;
        options.checkpoint->resume = true;
        options.checkpoint->published = {};
        std::int64_t from = 0;
        options.checkpoint->resumed = [&](const runtime::CheckpointReader& checkpoint,
                                          const runtime::ResumptionReport&) {
            from = checkpoint.manifest().progress.step;
        };
        const Trained rest = train(tested, options);
        EXPECT_GE(from, published);
        EXPECT_EQ(rest.losses, std::vector(whole.losses.begin() + from, whole.losses.end()));
        if (from == 3) continue;  // nothing was left to train
        EXPECT_EQ(rest.parameters, whole.parameters);
        EXPECT_EQ(rest.moments, whole.moments);
    }
}

TEST(Checkpoints, NewestOnesStayAndOthersOfAnEarlierRunAreMovedAside) {
    const CheckpointFolder folder("keep");
    const plan::Scenario tested = scenario(kGpt, {"layout.data_parallel=2"});
    RunOptions options = saving(folder.path(), 5, false);
    options.checkpoint->every_steps = 1;
    options.checkpoint->keep = 2;
    std::vector<std::int64_t> published;
    options.checkpoint->published = [&](const runtime::CheckpointReport& report) {
        published.push_back(report.step);
        EXPECT_GT(report.bytes, 0);
    };
    train(tested, options);
    EXPECT_EQ(published, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
    const auto steps = [&] {
        std::vector<std::int64_t> found;
        for (const auto& each : runtime::checkpoints_in(folder.path()))
            found.push_back(each.step);
        return found;
    };
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{5, 4}));
    options.steps = 1;
    train(tested, options);  // not told to resume
    EXPECT_EQ(steps(), (std::vector<std::int64_t>{1}));
    EXPECT_EQ(runtime::checkpoints_in(folder.path() + "/earlier-1").size(), 2U);
    for (const auto& entry : fs::directory_iterator(folder.path()))
        EXPECT_TRUE(entry.path().extension().empty() ||
                    entry.path().filename() == runtime::kRunLock)
            << entry.path();
}

// On all ranks, as a run that is resumed does it.
void load_newest(const plan::Scenario& scenario, const std::string& path) {
    runtime::CheckpointOptions options;
    options.path = path;
    runtime::CpuBackend cpu({}, std::chrono::seconds(60));
    cpu.run_ranks(plan::build_plan(scenario).mesh, [&](runtime::RankSeat& seat) {
        runtime::newest_checkpoint(options, seat.control());
        seat.control().finish();
    });
}

// Every byte of a checkpoint belongs to something, which a flip of any of its bits is reported of.
TEST(Checkpoints, AFlippedBitAnywhereIsRefusedByName) {
    const CheckpointFolder folder("flip");
    const plan::Scenario tested = scenario(kGpt, {"layout.data_parallel=2", "model.n_layer=1"});
    train(tested, saving(folder.path(), 1, false));
    const std::string path = runtime::checkpoints_in(folder.path()).front().path;
    std::mt19937 random(3);
    for (const auto& entry : fs::directory_iterator(path)) {
        std::ifstream in(entry.path(), std::ios::binary);
        const std::string good((std::istreambuf_iterator<char>(in)), {});
        const bool shard = entry.path().extension() == ".safetensors";
        runtime::SafetensorsFile stored;
        if (shard) stored = runtime::read_safetensors("", std::as_bytes(std::span(good)));
        for (int flip = 0; flip < (sanitized() ? 20 : 60); ++flip) {
            // The first bytes one by one, then anywhere.
            const std::size_t at = flip < 10 ? static_cast<std::size_t>(flip) * 9 % good.size()
                                             : random() % good.size();
            std::string bad = good;
            bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
            std::ofstream(entry.path(), std::ios::binary) << bad;
            std::string expected = entry.path().filename().string();
            for (const runtime::StoredTensor& tensor : stored.tensors)
                if (static_cast<std::int64_t>(at) >= tensor.begin &&
                    static_cast<std::int64_t>(at) < tensor.end)
                    expected = "tensor " + tensor.name + " is not as it was written";
            try {
                load_newest(tested, folder.path());
                ADD_FAILURE() << "byte " << at << " of " << entry.path();
            } catch (const runtime::DataError& refused) {
                EXPECT_NE(std::string(refused.what()).find(expected), std::string::npos)
                    << refused.what();
            }
        }
        std::ofstream(entry.path(), std::ios::binary) << good;
    }
    EXPECT_EQ(train(tested, saving(folder.path(), 2, true)).losses.size(), 1U);
}

// Where the interval is measured, all ranks still save after the same steps, and nothing that is
// trained changes.
TEST(Checkpoints, AreAsFarApartAsIsMeasured) {
    const CheckpointFolder folder("measured");
    const plan::Scenario tested = scenario(kGpt, {"layout.data_parallel=2"});
    const std::int64_t steps = 12;
    RunOptions calm;
    calm.steps = steps;
    RunOptions options = saving(folder.path(), steps, false);
    options.checkpoint->every_steps = 0;
    options.checkpoint->mean_time_to_failure_s = 1e-6;  // as often as stalls and writes allow
    std::vector<std::int64_t> published;
    std::vector<runtime::IntervalChoice> chosen;
    options.checkpoint->published = [&](const runtime::CheckpointReport& report) {
        published.push_back(report.step);
    };
    options.checkpoint->chosen = [&](const runtime::IntervalChoice& choice) {
        chosen.push_back(choice);
    };
    const Trained run = train(tested, options);
    EXPECT_EQ(run.losses, train(tested, calm).losses);
    ASSERT_GE(published.size(), 2U);
    EXPECT_EQ(published.front(), 4) << "to be measured";
    EXPECT_EQ(published.back(), steps);
    ASSERT_GE(chosen.size(), 1U);
    for (const runtime::IntervalChoice& choice : chosen) {
        EXPECT_GE(choice.steps, 1);
        EXPECT_LE(choice.stall_share(), runtime::kMostStall);
        EXPECT_GT(choice.measures.step_s, 0);
        EXPECT_GT(choice.measures.write_s, 0);
    }
    const runtime::CheckpointReader checkpoint(runtime::checkpoint_path(folder.path(), steps));
    EXPECT_EQ(checkpoint.manifest().shards.size(), 2U);
}

TEST(Checkpoints, OfAnotherModelAreRefused) {
    const CheckpointFolder folder("other-model");
    train(scenario(kGpt, {}), saving(folder.path(), 1, false));
    try {
        train(scenario(kGpt, {"model.n_embd=128"}), saving(folder.path(), 2, true));
        ADD_FAILURE();
    } catch (const runtime::DataError& refused) {
        EXPECT_NE(std::string(refused.what()).find("is of another model: its "), std::string::npos)
            << refused.what();
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
