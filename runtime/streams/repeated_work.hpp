// What a step puts into the stream that computes for each pass of a layer, as work that the driver
// keeps and launches at once (CUDA graphs): a small layer's kernels take less time than a host
// needs to issue them one by one.
//
// A run of ops is such work where they follow one another in the stream, belong to one pass of one
// layer, ask the same of their kernels in each step, and nobody waits between them: whatever the
// streams exchange, what a step brings (its number, its share of the loss), and what the host reads
// stands outside of it. Runs that ask the same, as those of micro-batches do that come to the same
// slot of the stash, are kept once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executor/bound_program.hpp"
#include "runtime/streams/stream_driver.hpp"
#include "runtime/streams/stream_schedule.hpp"

namespace orrery::runtime {

class RepeatedWork {
  public:
    // `repeats`: whether an op asks the same of its kernels in every step. All must outlive it.
    RepeatedWork(const BoundProgram& program, const StreamSchedule& schedule, StreamDriver& driver,
                 const std::function<bool(const BoundOp&)>& repeats);

    // Puts the run that begins with op `id` into the stream, by `put(op)` for each of its ops where
    // it is issued for the first time, or is to be kept; false: none begins there.
    bool issue(std::uint32_t id, Stream stream, const std::function<void(std::uint32_t)>& put);
    // The ops of the run that begins with op `id`; none: none begins there.
    std::span<const std::uint32_t> issued_with(std::uint32_t id) const;
    // Whether op `id` comes with one before it.
    bool is_within(std::uint32_t id) const { return within_[id]; }

    std::size_t runs() const { return runs_.size(); }
    std::size_t kept() const;  // different ones so far

  private:
    struct Run {
        std::vector<std::uint32_t> ops;
        bool issued = false;                // before
        std::size_t first_alike = 0;        // of the runs that ask the same
        std::optional<KeptWork> work = {};  // of that one
    };

    StreamDriver& driver_;
    std::vector<Run> runs_;
    std::vector<std::int32_t> run_of_;  // by op id: that begins with it; −1: none
    std::vector<bool> within_;
};

}  // namespace orrery::runtime
