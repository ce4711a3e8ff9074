// Ops start after random delays, to shake out races: a fifth of them, by up to 0.4 ms. Of a device
// whose streams perform work in turn; elsewhere it is the host that is held up.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/random.hpp"
#include "runtime/streams/op_watch.hpp"

namespace orrery::runtime {

class RandomDelays final : public OpWatch {
  public:
    explicit RandomDelays(std::uint64_t seed) : seed_(seed) {}

    void around(const IssuedOp& op, const OpRest& rest) override {
        constexpr std::uint32_t kSite = 0xdeadU;
        const RandomKey key{seed_, kSite, static_cast<std::uint32_t>(op.inputs.step)};
        if (uniform(key, op.id) < 0.2) {
            const double share = uniform(key, op.id + (1U << 31));
            std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(400 * share)));
        }
        rest.perform(op);
    }

  private:
    std::uint64_t seed_;
};

}  // namespace orrery::runtime
