// The samples of a rank's steps, those of the next one read on a thread while this one runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "plan/ir/plan.hpp"
#include "runtime/executor/device.hpp"

namespace orrery::runtime {

// Samples of the run by number: tokens and targets of sequence_length each. Called from any thread.
using SampleReader = std::function<void(std::int64_t sample, std::span<std::int32_t> tokens,
                                        std::span<std::int32_t> targets)>;

// What a rank needs of a step's samples.
struct SampleRequest {
    std::int64_t first = 0;  // of the step, in the run
    plan::Mesh mesh;
    plan::TokenLayout tokens;
    std::int64_t micro_batches = 0;  // of the step
    plan::Coordinates at;
    bool needed = false;  // by who holds the first or the last stage
    bool operator==(const SampleRequest&) const = default;
};

// By micro-batch: tokens, and what comes one and two tokens later (StepInputs).
struct RankSamples {
    std::array<std::vector<std::int32_t>, kTokensAhead> tokens;
};

class SampleFeed {
  public:
    // `reader` outlives the feed.
    explicit SampleFeed(const SampleReader& reader) : reader_(reader) {}

    // Waits until they are read. Throws what the reader throws.
    RankSamples take(const SampleRequest& request);

    // Begins to read what is likely to be taken next.
    void expect(const SampleRequest& request);

    double waited_s() const { return waited_s_; }  // in the last take()

  private:
    const SampleReader& reader_;
    std::optional<SampleRequest> expected_;
    double waited_s_ = 0;
    std::future<RankSamples> reading_;  // last: its thread uses the others
};

}  // namespace orrery::runtime
