// Where steps run on into one another (BoundProgram::other_turns): who is told when all of a step
// has ended on this rank, step after step, and who waits until so many have.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/executor/device.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

// What has been issued of a step.
struct IssuedStep {
    std::size_t slot = 0;         // its turn: a step with the same one comes once this has ended
    std::span<const Event> done;  // stand behind it, one in each stream
    StepInputs inputs;
};

class StepEnds {
  public:
    using Tell = std::function<void(const StepInputs&)>;

    StepEnds() = default;
    virtual ~StepEnds() = default;
    StepEnds(const StepEnds&) = delete;
    StepEnds& operator=(const StepEnds&) = delete;

    // Device::when_ended. Before the first step.
    virtual void tell(Tell tell) = 0;
    virtual void issued(const IssuedStep& step) = 0;
    // Returns once all but the last `steps` of those issued have ended and have been told of; calls
    // `meanwhile` now and then. Throws what that, the steps or who is told has thrown.
    virtual void await_all_but(std::int64_t steps, const std::function<void()>& meanwhile) = 0;
    // Throws what has been thrown on a thread of its own, if anything.
    virtual void rethrow() {}
};

// In the stream that communicates, where calls of the communicator are made in a stream's turn: who
// is told may make more of them there, and the stream goes on afterwards.
class EndsInStream final : public StepEnds, private QueuedWork {
  public:
    EndsInStream(StreamDriver& driver, Stream stream, std::size_t slots);

    void tell(Tell tell) override { tell_ = std::move(tell); }
    void issued(const IssuedStep& step) override;
    void await_all_but(std::int64_t steps, const std::function<void()>& meanwhile) override;

  private:
    void perform(std::uint32_t slot) override;

    StreamDriver& driver_;
    Stream stream_;
    Tell tell_;
    std::vector<StepInputs> inputs_;  // by slot
    std::vector<Event> ended_;        // likewise
    std::vector<std::size_t> slots_;  // of all steps that were issued
};

// On a thread of its own, where calls are put into streams and return: later steps go on meanwhile.
class EndsOnThread final : public StepEnds {
  public:
    // `failed`: told on that thread what has been thrown there, once rethrow() throws it.
    EndsOnThread(StreamDriver& driver, std::function<void(const std::exception_ptr&)> failed);
    ~EndsOnThread() override;

    void tell(Tell tell) override { tell_ = std::move(tell); }
    void issued(const IssuedStep& step) override;
    void await_all_but(std::int64_t steps, const std::function<void()>& meanwhile) override;
    void rethrow() override;

  private:
    void serve();
    bool end(const IssuedStep& step);
    bool leaving();

    StreamDriver& driver_;
    std::function<void(const std::exception_ptr&)> failed_;
    Tell tell_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::vector<IssuedStep> steps_;  // that have not ended, oldest first
    std::exception_ptr cause_;
    bool leaving_ = false;
    std::thread thread_;
};

}  // namespace orrery::runtime
