#include "runtime/streams/stream_driver.hpp"

#include <chrono>
#include <thread>

#include "plan/check.hpp"

namespace orrery::runtime {

void StreamDriver::await(Event event, const std::function<void()>& meanwhile) {
    // Long enough to leave the core to others, short beside a step.
    constexpr std::chrono::microseconds kPoll{20};
    while (!passed(event)) {
        meanwhile();
        std::this_thread::sleep_for(kPoll);
    }
    meanwhile();
}

KeptWork StreamDriver::keep(Stream, const std::function<void()>&) {
    ORRERY_CHECK(false, "work is kept by drivers that say so");
}
void StreamDriver::launch(Stream, KeptWork) {
    ORRERY_CHECK(false, "work is kept by drivers that say so");
}

}  // namespace orrery::runtime
