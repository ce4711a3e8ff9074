// Which pipeline rank holds which stage. Programs ask here, whatever schedule made the order: an
// imported grid may place its stages at will.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::plan {

class StagePlacement {
  public:
    StagePlacement() = default;
    explicit StagePlacement(std::vector<std::int32_t> rank_of_stage)
        : rank_of_stage_(std::move(rank_of_stage)) {}

    std::int32_t rank_of(std::int32_t stage) const {
        return rank_of_stage_[static_cast<std::size_t>(stage)];
    }
    std::int32_t stages() const { return static_cast<std::int32_t>(rank_of_stage_.size()); }

    bool operator==(const StagePlacement&) const = default;

  private:
    std::vector<std::int32_t> rank_of_stage_;
};

// How a schedule of v chunks per rank places its stages: chunk after chunk in ascending ranks, or
// every other chunk in descending ones, so that the last rank hands chunk 0 on to itself (v = 2: a
// V, with the first and the last stage on rank 0).
enum class Placement : std::uint8_t { wrap, v };

StagePlacement place(Placement placement, std::int32_t pipeline, std::int32_t virtual_stages);

}  // namespace orrery::plan
