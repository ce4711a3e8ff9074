// What a rank has put into the streams of its device, for its flight record: ops are recorded as
// they are issued, and end where a mark behind them is seen to have been passed. Marks are those
// that stand in the streams anyway: none is added, and none is asked for while a step goes well.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/flight/flight_recorder.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime {

class IssuedOps {
  public:
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

    // Looks at the marks for the last time: where calls are aborted, what waits for them goes on,
    // and says nothing any more. From any thread.
    void freeze();

  private:
    struct Mark {
        Event event;
        std::size_t ops = 0;  // of the stream since the mark before
    };
    struct OfStream {
        std::deque<std::uint64_t> ops;  // numbers of those that have not been seen to end
        std::deque<Mark> marks;         // behind them
        std::size_t unmarked = 0;       // of the last ops
    };
    void add_mark(OfStream& stream, Event mark);
    void end_through_first_mark(OfStream& stream);

    FlightRecorder& recorder_;
    std::mutex mutex_;  // guards what follows; while it is held, only freeze() asks the driver
    StreamDriver* driver_ = nullptr;
    std::vector<std::uint64_t> begun_;
    std::map<void*, OfStream> streams_;
    bool frozen_ = false;
};

}  // namespace orrery::runtime
