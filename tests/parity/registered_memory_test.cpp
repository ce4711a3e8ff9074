// Communicators that know a step's memory: before any call names it, all that calls name is in
// there, and it is forgotten before it is freed. Nothing that is learnt depends on it.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/streams/stream_backend.hpp"
#include "tests/parity/host_streams.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using runtime::BlockBounds;
using runtime::Stream;

// Of all ranks.
struct Seen {
    std::mutex mutex;
    std::int64_t registered = 0, symmetric = 0, deregistered = 0;
    std::int64_t inside = 0, outside = 0;  // buffers that calls named
};

class WatchedCollectives final : public HostCollectives {
  public:
    explicit WatchedCollectives(Seen& seen) : seen_(seen) {}

    Registration register_memory(Communicator communicator, std::byte* memory, std::int64_t bytes,
                                 bool symmetric) override {
        const std::lock_guard lock(seen_.mutex);
        memory_ = memory;
        bytes_ = bytes;
        ++seen_.registered;
        if (symmetric) ++seen_.symmetric;
        return HostCollectives::register_memory(communicator, memory, bytes, symmetric);
    }
    void deregister(Communicator communicator, Registration registration) override {
        const std::lock_guard lock(seen_.mutex);
        ++seen_.deregistered;
        HostCollectives::deregister(communicator, registration);
    }
    void all_reduce(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                    runtime::Reduction reduction, Stream stream) override {
        note(data);
        HostCollectives::all_reduce(communicator, dtype, data, elements, reduction, stream);
    }
    void all_gather(Communicator communicator, plan::DType dtype, const void* mine, void* all,
                    std::int64_t each, Stream stream) override {
        note(mine);
        note(all);
        HostCollectives::all_gather(communicator, dtype, mine, all, each, stream);
    }
    void reduce_scatter(Communicator communicator, plan::DType dtype, const void* all, void* mine,
                        std::int64_t each, Stream stream) override {
        note(all);
        note(mine);
        HostCollectives::reduce_scatter(communicator, dtype, all, mine, each, stream);
    }
    void send(Communicator communicator, const void* data, std::int64_t bytes, std::int64_t member,
              Stream stream) override {
        note(data);
        HostCollectives::send(communicator, data, bytes, member, stream);
    }
    void receive(Communicator communicator, void* data, std::int64_t bytes, std::int64_t member,
                 Stream stream) override {
        note(data);
        HostCollectives::receive(communicator, data, bytes, member, stream);
    }

  private:
    void note(const void* data) {
        const std::lock_guard lock(seen_.mutex);
        const auto* const at = static_cast<const std::byte*>(data);
        const bool inside = memory_ != nullptr && at >= memory_ && at < memory_ + bytes_;
        ++(inside ? seen_.inside : seen_.outside);
    }

    Seen& seen_;
    const std::byte* memory_ = nullptr;
    std::int64_t bytes_ = 0;
};

Trained train_with(const Sets& sets, bool registers, Seen& seen) {
    runtime::DriverSource source = host_devices(8);
    source.collectives = [&seen](int) { return std::make_unique<WatchedCollectives>(seen); };
    runtime::StreamBackendOptions streams;
    streams.communicators.registers_memory = registers;
    runtime::StreamBackend backend(source, std::nullopt, streams);
    RunOptions options;
    options.steps = 3;
    options.backend = &backend;
    return train(scenario(kGpt, sets), options);
}

TEST(RegisteredMemory, HoldsAllThatCallsName) {
    const Sets sets = {"layout.tensor_parallel=2", "layout.data_parallel=2",
                       "layout.pipeline_parallel=2", "layout.zero_stage=1",
                       "training.precision=fp32"};
    Seen unknown, known;
    const Trained without = train_with(sets, false, unknown);
    const Trained with = train_with(sets, true, known);
    EXPECT_EQ(without.losses, with.losses);
    EXPECT_EQ(without.parameters, with.parameters);
    EXPECT_EQ(unknown.registered, 0);
    EXPECT_GT(unknown.outside, 0);
    EXPECT_GT(known.symmetric, 0);
    EXPECT_GT(known.registered, known.symmetric);  // those between stages
    EXPECT_EQ(known.registered, known.deregistered);
    EXPECT_GT(known.inside, 0);
    EXPECT_EQ(known.outside, 0);
}

// Another batch is another plan, whose memory takes the place of the last one's.
TEST(RegisteredMemory, IsTheMemoryOfTheBatch) {
    const Sets sets = {
        "layout.data_parallel=2", "layout.micro_batch_size=1",
        R"(training.batch_ramp={"start_batch_size": 4, "increment": 4, "over_samples": 4})"};
    Seen ramped, steady;
    train_with(sets, true, ramped);
    train_with({sets[0], sets[1]}, true, steady);
    EXPECT_EQ(ramped.registered, 2 * steady.registered);
    EXPECT_EQ(ramped.registered, ramped.deregistered);
    EXPECT_EQ(ramped.outside, 0);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
