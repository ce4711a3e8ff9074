// Devices that are not alike: one that is slower than the profile says, kernels that do not take
// equally long each time. What is drawn is a function of seed, rank and op, of nothing else: the
// same on every machine, whatever is simulated before.
#pragma once

#include <cstdint>

#include "plan/ir/mesh.hpp"
#include "plan/scenario/scenario.hpp"
#include "sim/engine/time.hpp"

namespace orrery::sim {

// The kernels of one rank. Collectives and copies keep their time.
class Uneven {
  public:
    Uneven(const plan::Cluster& cluster, plan::Rank rank) : Uneven(cluster, rank, rank) {}
    // `drawn_as`: in the place of the rank's number where factors are drawn, so that ranks of jobs
    // beside each other do not draw alike.
    Uneven(const plan::Cluster& cluster, plan::Rank rank, std::int64_t drawn_as);

    // From now on the kernels of another step draw, as if jitter's seed were so much higher. What
    // devices draw they keep.
    void draw_step(std::int64_t step) { step_ = step; }

    // What all its kernels have in common.
    double lasting() const { return slow_ * device_; }
    bool changes() const { return slow_ != 1 || jitter_.any(); }
    // Whether ops that are priced alike take unlike times.
    bool draws_each() const { return jitter_.any() && jitter_.per == plan::JitterPer::kernel; }
    bool operator==(const Uneven&) const = default;

    // What op `op` takes, which is priced at `duration`. Throws ProfileError beyond 1000 s.
    Picoseconds of(std::uint32_t op, Picoseconds duration) const;

  private:
    double drawn(std::int64_t step, std::uint64_t op) const;

    double slow_;
    plan::Jitter jitter_;
    double log_sd_ = 0;  // of a lognormal factor
    double device_ = 1;  // drawn once, where devices vary and not kernels
    std::uint64_t rank_;
    std::uint64_t drawn_as_;
    std::int64_t step_ = 0;
};

// Of a normal distribution of mean 0 and deviation 1: Marsaglia's polar method (Marsaglia and Bray
// 1964) on numbers that are hashes of (seed, stream, index).
double normal_draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

// e^x for |x| <= 64, relative error below 1e-13; only + − × ÷, as libm's differs between machines.
double exp_of(double x);

}  // namespace orrery::sim
