// Where every tensor of every block use lies in a rank's arena: the byte that an executor hands to
// a kernel.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/blocks/parameters.hpp"
#include "plan/ir/homes.hpp"
#include "plan/memory/arena.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

struct Place {
    std::int32_t resident = -1;
    std::int64_t offset = 0;  // bytes from the resident's start
};

class Places {
  public:
    // Of one rank; all must outlive the object.
    Places(const Plan& plan, const Program& program, const Scenario& scenario, Rank rank);

    Place of(const Step& step, const BlockUse& use, TensorId tensor) const;

    // Bytes from the start of the arena; of the rank's memory on all tiers, behind it.
    std::int64_t address(const Place& place) const;

    // Of what a rank sends or receives of a boundary activation: its share, where tensor ranks
    // share it out.
    Place of(const Transfer& transfer) const;

    // Device scalars by name; −1: the program has none of this name.
    std::int64_t scalar_offset(const std::string& name) const;

    const std::vector<BucketEntry>& entries(std::size_t bucket) const { return entries_[bucket]; }
    std::int64_t shard() const { return shard_; }  // index among the ranks that share states out
    std::int64_t shards() const { return shards_; }

  private:
    std::int64_t offset_of(const Step& step, const BlockUse& use, const Block& block,
                           TensorId tensor, const Home& home) const;
    std::int64_t in_bucket(const BlockUse& use, const Tensor& tensor, const Home& home) const;
    std::int64_t in_shards(const Bucket& bucket, const Tensor& tensor) const;
    std::int64_t in_area(const Step& step, std::int32_t position, Role role,
                         std::string_view name) const;
    std::int64_t missing(const Stage& stage, std::int32_t position, Role role) const;
    const StashArea& area(std::int32_t block, Role role) const;

    const Plan& plan_;
    const Program& program_;
    const Scenario& scenario_;
    Homes homes_;
    std::int64_t shard_ = 0;
    std::int64_t shards_ = 1;
    std::int64_t tensor_rank_ = 0;
    std::vector<std::vector<BucketEntry>> entries_;  // by bucket
    std::map<std::string, std::int64_t> scalars_;
    mutable std::map<std::pair<std::int32_t, Role>, StashArea> areas_;  // by block
};

}  // namespace orrery::plan
