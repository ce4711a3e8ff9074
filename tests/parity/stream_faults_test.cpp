// A driver that stands still, or fails, at each of the calls that a step asks of it, on one of its
// ranks: the run ends, and says on which rank and in which op.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/parity/host_streams.hpp"
#include "tests/parity/offload_layouts.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using namespace std::chrono_literals;
using nlohmann::json;
using runtime::Event;
using runtime::Stream;

constexpr std::int64_t kStep = 2;  // the one that the driver fails in

// Steps are performed by the thread that has brought their inputs.
thread_local bool in_step = false;

enum class Fault { none, blocks, throws };

// Of all calls of a rank's driver and of its collectives, within the step.
class Calls {
  public:
    Calls(Fault fault, std::size_t at) : fault_(fault), at_(at) {}

    void come(const std::string& name) {
        if (!in_step) return;
        names.push_back(name);
        if (names.size() - 1 != at_ || fault_ == Fault::none) return;
        if (fault_ == Fault::throws) throw runtime::DeviceError("it has failed");
        for (const auto begin = std::chrono::steady_clock::now(); !released;) {
            std::this_thread::sleep_for(1ms);
            gave_up = std::chrono::steady_clock::now() - begin > 5s;
            if (gave_up) break;
        }
        throw runtime::DeviceError("it has let go");
    }

    std::vector<std::string> names;
    std::atomic<bool> released = false;
    std::atomic<bool> gave_up = false;  // nobody has ended the run

  private:
    const Fault fault_;
    const std::size_t at_;
};

class FaultyKernels final : public runtime::Kernels {
  public:
    FaultyKernels(std::unique_ptr<runtime::Kernels> inner, Calls& calls)
        : inner_(std::move(inner)), calls_(calls) {}
    void launch(const runtime::KernelRequest& request) override {
        calls_.come(std::string(runtime::name(request)));
        inner_->launch(request);
    }
    void bring(std::span<const std::int32_t> from, void* to) override {
        calls_.come("bring");
        inner_->bring(from, to);
    }
    void copy(const void* from, void* to, std::int64_t bytes) override {
        calls_.come("copy");
        inner_->copy(from, to, bytes);
    }
    const std::int32_t* fetch(std::span<const std::int32_t> numbers) override {
        calls_.come("fetch");
        return inner_->fetch(numbers);
    }
    const void* keep_bytes(std::span<const std::byte> bytes) override {
        return inner_->keep_bytes(bytes);
    }

  private:
    std::unique_ptr<runtime::Kernels> inner_;
    Calls& calls_;
};

class FaultyDriver final : public runtime::StreamDriver {
  public:
    explicit FaultyDriver(Calls& calls) : calls_(calls) {}
    std::byte* allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
    std::byte* allocate_host(std::int64_t bytes) override { return inner_.allocate_host(bytes); }
    Stream create_stream(runtime::StreamUse use) override { return inner_.create_stream(use); }
    Event create_event(bool timed) override { return inner_.create_event(timed); }
    void record(Event event, Stream stream) override {
        calls_.come("record");
        inner_.record(event, stream);
    }
    void wait(Stream stream, Event event) override {
        calls_.come("wait");
        inner_.wait(stream, event);
    }
    bool passed(Event event) override {
        calls_.come("passed");
        return inner_.passed(event);
    }
    std::int64_t nanoseconds(Event from, Event to) override {
        calls_.come("nanoseconds");
        return inner_.nanoseconds(from, to);
    }
    std::optional<std::int64_t> bytes_in_use() const override { return inner_.bytes_in_use(); }
    void copy(Stream stream, std::byte* to, const std::byte* from, std::int64_t bytes) override {
        calls_.come("copy between tiers");
        inner_.copy(stream, to, from, bytes);
    }
    void fill(Stream stream, std::byte* memory, std::int64_t bytes, std::byte value) override {
        calls_.come("fill");
        inner_.fill(stream, memory, bytes, value);
    }
    void call(Stream stream, std::function<void()> host) override {
        calls_.come("call");
        inner_.call(stream, std::move(host));
    }
    void read(const std::byte* from, std::span<std::byte> into) override {
        inner_.read(from, into);
    }
    void write(std::byte* to, std::span<const std::byte> from) override { inner_.write(to, from); }
    std::unique_ptr<runtime::Kernels> kernels(Stream stream, std::byte* workspace,
                                              std::int64_t bytes) override {
        return std::make_unique<FaultyKernels>(inner_.kernels(stream, workspace, bytes), calls_);
    }

  private:
    HostDriver inner_;
    Calls& calls_;
};

class FaultyCollectives final : public HostCollectives {
  public:
    explicit FaultyCollectives(Calls& calls) : calls_(calls) {}
    void all_reduce(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                    runtime::Reduction reduction, Stream stream) override {
        calls_.come("all_reduce");
        HostCollectives::all_reduce(communicator, dtype, data, elements, reduction, stream);
    }
    void all_gather(Communicator communicator, plan::DType dtype, const void* mine, void* all,
                    std::int64_t each, Stream stream) override {
        calls_.come("all_gather");
        HostCollectives::all_gather(communicator, dtype, mine, all, each, stream);
    }
    void reduce_scatter(Communicator communicator, plan::DType dtype, const void* all, void* mine,
                        std::int64_t each, Stream stream) override {
        calls_.come("reduce_scatter");
        HostCollectives::reduce_scatter(communicator, dtype, all, mine, each, stream);
    }

  private:
    Calls& calls_;
};

// A run, and what became of it.
struct Outcome {
    std::vector<std::string> calls;  // of the faulty rank, in the step
    std::string overdue;             // what ends of processes were told, a line each
    std::string thrown;              // "": the run has ended well
    bool gave_up = false;
    json record;  // of the faulty rank
};

class FaultyRun : public testing::Test {
  protected:
    static Outcome run(Fault fault, std::size_t at, int ranks = 2) {
        const std::string folder = testing::TempDir() + "faulty-run-" + std::to_string(at);
        const int faulty = ranks - 1;
        std::filesystem::remove_all(folder);
        runtime::FlightRecords records(folder, [](const std::string&) {});
        Calls calls(fault, at), others(Fault::none, 0);
        Outcome outcome;
        std::mutex mutex;
        int held = 0;
        runtime::StreamBackendOptions options;
        options.records = &records;
        options.timeouts.usual = options.watching.held = 500ms;
        options.watching.away = 10ms;
        options.watching.until_back = 20ms;
        options.watching.overdue = [&](const std::string& reason) {
            const std::lock_guard lock(mutex);
            outcome.overdue += reason + '\n';
            records.write_failure(reason);
            // The other rank waits for this one within its driver, and may be told first.
            if (++held == ranks || reason.find("on rank 1") != std::string::npos)
                calls.released = true;
        };
        const auto calls_of = [&](int device) -> Calls& {
            return device == faulty ? calls : others;
        };
        const runtime::DriverSource source{
            ranks, [&](int device) { return std::make_unique<FaultyDriver>(calls_of(device)); },
            [&](int device) { return std::make_unique<FaultyCollectives>(calls_of(device)); }};
        runtime::StreamBackend backend(source, std::nullopt, options);
        RunOptions steps;
        steps.steps = kStep;
        steps.backend = &backend;
        steps.change_inputs = [](runtime::StepInputs& inputs) { in_step = inputs.step == kStep; };
        steps.after_step = [](plan::Rank, const runtime::Device&, const runtime::BoundProgram&,
                              const plan::Program&, std::int64_t) { in_step = false; };
        try {
            train(scenario(kGpt, sets(ranks)), steps);
        } catch (const std::exception& error) {
            outcome.thrown = error.what();
        }
        outcome.calls = calls.names;
        outcome.gave_up = calls.gave_up;
        std::ifstream file(folder + "/rank-0000" + std::to_string(faulty) + ".json");
        outcome.record = json::parse(file, nullptr, false);
        std::filesystem::remove_all(folder);
        return outcome;
    }

    // All kinds of calls, in as few ops as have them.
    static Sets sets(int ranks) {
        Sets all = offload_cluster();
        for (const char* set : {"layout.global_batch_size=1", "layout.micro_batch_size=1",
                                "model.n_layer=1", "layout.offload.optimizer=host"})
            all.emplace_back(set);
        if (ranks == 1) return all;
        all.emplace_back("layout.tensor_parallel=2");
        all.emplace_back("layout.sequence_parallel=true");
        return all;
    }

    // "fc1": the op that the driver was asked for when the run ended, by the flight record; "":
    // none.
    static std::string asked_for(const json& record) {
        for (const json& op : record.at("ops"))
            if (op.at("issued_ns").is_null()) return op.at("label");
        return "";
    }

    // The op and the rank, or the end of the step at which no op is asked for.
    static void expect_named(const std::string& reason, const json& record) {
        ASSERT_TRUE(record.is_object()) << reason;
        const std::string label = asked_for(record);
        if (label.empty()) {
            EXPECT_THAT(reason,
                        testing::AnyOf(testing::HasSubstr("the beginning of step 2 on rank 1"),
                                       testing::HasSubstr("the end of step 2 on rank 1")));
            return;
        }
        EXPECT_THAT(reason,
                    testing::AnyOf(testing::HasSubstr(" of " + label + " on rank 1 in step 2: "),
                                   testing::HasSubstr(" of " + label + " in its ")));
    }
};

TEST_F(FaultyRun, ThatFailsAtACallOfTheDriverNamesItsOp) {
    const Outcome well = run(Fault::none, 0);
    ASSERT_EQ(well.thrown, "");
    const std::set<std::string> kinds(well.calls.begin(), well.calls.end());
    EXPECT_THAT(kinds, testing::IsSupersetOf({"gemm", "attention", "bring", "record", "wait",
                                              "passed", "copy between tiers", "all_gather",
                                              "reduce_scatter", "all_reduce"}));
    for (std::size_t at = 0; at < well.calls.size(); ++at) {
        SCOPED_TRACE("call " + std::to_string(at) + ", " + well.calls[at]);
        const Outcome failed = run(Fault::throws, at);
        EXPECT_THAT(failed.thrown, testing::HasSubstr("it has failed"));
        expect_named(failed.thrown, failed.record);
        if (HasFailure()) return;
    }
}

TEST_F(FaultyRun, ThatIsHeldInACallOfTheDriverNamesItsOp) {
    const Outcome well = run(Fault::none, 0);
    ASSERT_EQ(well.thrown, "");
    std::vector<Outcome> all(well.calls.size());
    // Each run waits most of its time; under a sanitizer a rank may be late by itself.
    const std::size_t at_once = sanitized() ? 1 : 8, every = sanitized() ? 16 : 1;
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < at_once; ++first)
        threads.emplace_back([&, first] {
            for (std::size_t at = first * every; at < all.size(); at += at_once * every)
                all[at] = run(Fault::blocks, at);
        });
    for (std::thread& thread : threads)
        thread.join();
    for (std::size_t at = 0; at < all.size(); at += every) {
        SCOPED_TRACE("call " + std::to_string(at) + ", " + well.calls[at]);
        EXPECT_FALSE(all[at].gave_up);
        EXPECT_THAT(all[at].overdue, testing::HasSubstr("the driver has held it for 0.5 s"));
        expect_named(all[at].overdue, all[at].record);
        if (HasFailure()) return;
    }
}

// No other rank misses it.
TEST_F(FaultyRun, OfOneRankThatIsHeldNamesItsOp) {
    const Outcome well = run(Fault::none, 0, 1);
    ASSERT_EQ(well.thrown, "");
    const auto product = std::find(well.calls.begin(), well.calls.end(), "gemm");
    ASSERT_NE(product, well.calls.end());
    const Outcome held =
        run(Fault::blocks, static_cast<std::size_t>(product - well.calls.begin()), 1);
    EXPECT_FALSE(held.gave_up);
    EXPECT_EQ(held.overdue, "gemm of qkv on rank 0 in step 2: the driver has held it for 0.5 s\n");
    EXPECT_EQ(asked_for(held.record), "qkv");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
