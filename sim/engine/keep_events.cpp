// The engine with a listener that keeps every event.
#include <utility>

#include "sim/engine/engine.hpp"

namespace orrery::sim {
namespace {

using trace::Event;

class Keeper : public EngineListener {
  public:
    explicit Keeper(const EngineInput& input) : events(input.tracks.size()) {
        for (std::size_t t = 0; t < events.size(); ++t)
            events[t].resize(
                input.linked[static_cast<std::size_t>(input.tracks[t].program)].size());
    }
    void ended(TrackId track, std::uint32_t op, std::uint32_t /*number*/,
               const Event& event) override {
        events[static_cast<std::size_t>(track)][op] = event;
    }

    std::vector<std::vector<Event>> events;
};

}  // namespace

EngineResult run_engine(const EngineInput& input) {
    return run_engine(input, input.tracks);
}

EngineResult run_engine(const EngineInput& input, const std::vector<EngineTrack>& tracks) {
    Keeper keeper(input);
    EngineResult result;
    static_cast<EngineRun&>(result) = run_engine(input, tracks, keeper);
    result.events = std::move(keeper.events);
    return result;
}

}  // namespace orrery::sim
