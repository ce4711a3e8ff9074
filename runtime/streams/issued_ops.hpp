// What a rank has put into the streams of its device, for its flight record, and what it is asking
// of the driver and where its streams stand still, for its watch. Ops are recorded as they are
// issued, and end where a mark behind them is seen to have been passed. Marks are those that stand
// in the streams anyway: none is added, and none is asked for while a step goes well.
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

    // What the device has been at for longer than it may: of the op that was issued first, of those
    // that have not been seen to end. Nothing while ops are issued, marks passed, or `excused`: the
    // streams wait for what has a time of its own. Marks are asked for from half of that time on,
    // and at most so often. From any thread.
    static constexpr std::chrono::milliseconds kLooksEvery{50};
    std::optional<std::string> stands_still(std::chrono::steady_clock::time_point now,
                                            std::chrono::milliseconds allowed, bool excused);

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
    struct Issued {
        std::uint64_t number = 0;  // the recorder's: in the order of issue
        const plan::Op* op = nullptr;
        std::int64_t step = 0;
    };
    struct Mark {
        Event event;
        std::size_t ops = 0;  // of the stream since the mark before
    };
    struct OfStream {
        std::deque<Issued> ops;    // that have not been seen to end
        std::deque<Mark> marks;    // behind them
        std::size_t unmarked = 0;  // of the last ops
    };
    void ask(const Asked& asked);
    void add_mark(OfStream& stream, Event mark);
    void end_through_first_mark(OfStream& stream);
    void end_what_has_passed(OfStream& stream);
    std::string told(const Issued& op) const;

    FlightRecorder& recorder_;
    mutable std::mutex asked_mutex_;
    std::optional<Asked> asked_;
    // Guards what follows; while it is held, only freeze() and stands_still() ask the driver.
    std::mutex mutex_;
    StreamDriver* driver_ = nullptr;
    std::vector<Issued> begun_;
    std::map<void*, OfStream> streams_;
    bool frozen_ = false;
    bool moved_ = true;  // since it was last asked whether the device stands still
    std::chrono::steady_clock::time_point still_since_, looked_;
};

}  // namespace orrery::runtime
