// Memory that changes hands is filled with NaN first, so that whoever reads what nobody has written
// since is found out by what comes of it. All bits are set: a NaN in every type of a tensor.
#pragma once

#include "runtime/streams/memory_tiers.hpp"
#include "runtime/streams/op_watch.hpp"

namespace orrery::runtime {

class Poison final : public OpWatch {
  public:
    // Both must outlive the object.
    Poison(StreamDriver& driver, const MemoryTiers& memory) : driver_(driver), memory_(memory) {}

    void around(const IssuedOp& op, const OpRest& rest) override {
        for (const Birth& birth : op.bound.births)
            driver_.fill(op.stream, memory_.at(birth.offset), birth.bytes, std::byte{0xff});
        rest.perform(op);
    }

  private:
    StreamDriver& driver_;
    const MemoryTiers& memory_;
};

}  // namespace orrery::runtime
