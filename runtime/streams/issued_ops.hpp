// What a rank has put into the streams of its device, for its flight record, and what it is asking
// of the driver, for its watch. Ops are recorded as they are issued, and end where a mark behind
// them is seen to have been passed. Marks are those that stand in the streams anyway: none is
// added, and none is asked for while a step goes well.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/flight/flight_recorder.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

class IssuedOps {
  public:
    // What the thread that issues is asking of the driver.
    struct Asking {
        std::string what;  // "gemm of fc1 on rank 1 in step 3"
        std::chrono::steady_clock::time_point since;
    };

    explicit IssuedOps(FlightRecorder& recorder) : recorder_(recorder) {}

    // Whose marks are meant from now on; null: nobody's. What was issued is forgotten.
    void use(StreamDriver* driver);

    // An op that is about to be issued; several may be issued as one.
    void begin(const BoundOp& bound, std::int64_t step);
    // Those that were begun are in the stream, and what `mark` stands for behind them, if anything.
    void issued(Stream stream, Event mark);
    // The mark stands behind all that the stream has been given.
    void marked(Stream stream, Event mark);
    // It has been passed: what its stream was given before has ended.
    void passed(Event mark);

    // Something of a step that is no op's: "the end". Until answered().
    void ask(const char* what, std::int64_t step);
    void answered();
    // The driver has answered, and is asked once more.
    void ask_again();
    // From any thread; none: it is not asked for anything.
    std::optional<Asking> asking() const;

    // Looks at the marks for the last time: where calls are aborted, what waits for them goes on,
    // and says nothing any more. From any thread.
    void freeze();

  private:
    struct Asked {
        const plan::Op* op = nullptr;  // null: `what` is asked
        const char* what = nullptr;
        std::int64_t step = 0;
        std::chrono::steady_clock::time_point since;
    };
    struct Mark {
        Event event;
        std::size_t ops = 0;  // of the stream since the mark before
    };
    struct OfStream {
        std::deque<std::uint64_t> ops;  // numbers of those that have not been seen to end
        std::deque<Mark> marks;         // behind them
        std::size_t unmarked = 0;       // of the last ops
    };
    void ask(const Asked& asked);
    void add_mark(OfStream& stream, Event mark);
    void end_through_first_mark(OfStream& stream);

    FlightRecorder& recorder_;
    mutable std::mutex asked_mutex_;
    std::optional<Asked> asked_;
    std::mutex mutex_;  // guards what follows; while it is held, only freeze() asks the driver
    StreamDriver* driver_ = nullptr;
    std::vector<std::uint64_t> begun_;
    std::map<void*, OfStream> streams_;
    bool frozen_ = false;
};

}  // namespace orrery::runtime
