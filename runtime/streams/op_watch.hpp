// What a device does besides around each op, where the op is put into its stream or performed there
// (StreamDriver::issue): poison, guard, delays. Watches stand in one another, the first outermost.
#pragma once

#include <memory>
#include <span>

#include "runtime/executor/device.hpp"
#include "runtime/kernels/kernels.hpp"
#include "runtime/streams/stream.hpp"

namespace orrery::runtime {

// An op whose turn has come.
struct IssuedOp {
    const BoundOp& bound;
    const StepInputs& inputs;
    std::uint32_t id = 0;
    Stream stream;
    Kernels& kernels;
};

// Who performs it in the end.
class OpPerformer {
  public:
    virtual void perform(const IssuedOp& op) = 0;

  protected:
    ~OpPerformer() = default;
};

class OpWatch;

// The watches that are further in, and the op.
class OpRest {
  public:
    OpRest(std::span<const std::unique_ptr<OpWatch>> watches, OpPerformer& performer)
        : watches_(watches), performer_(performer) {}

    void perform(const IssuedOp& op) const;

  private:
    std::span<const std::unique_ptr<OpWatch>> watches_;
    OpPerformer& performer_;
};

class OpWatch {
  public:
    OpWatch() = default;
    virtual ~OpWatch() = default;
    OpWatch(const OpWatch&) = delete;
    OpWatch& operator=(const OpWatch&) = delete;

    // Performs the rest, once. Ops of different streams may come from different threads.
    virtual void around(const IssuedOp& op, const OpRest& rest) = 0;
};

inline void OpRest::perform(const IssuedOp& op) const {
    if (watches_.empty()) return performer_.perform(op);
    watches_.front()->around(op, {watches_.subspan(1), performer_});
}

}  // namespace orrery::runtime
