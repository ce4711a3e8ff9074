// Which tokens sample n of a run is, whoever asks: a function of the seed, the file and n alone, so
// that every layout, every batch size and a run that was resumed train on the same samples.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/data/token_source.hpp"

namespace orrery::runtime {

// The file is cut into windows of s = sequence_length tokens, each with the one that follows it as
// the last target; (tokens − 1) / s of them, what is left over at the end is not used. An epoch
// shows each window once, in an order of its own (runtime/data/permutation.hpp).
class Sampler {
  public:
    // `source` outlives the sampler. Throws DataError where it has not a single window.
    Sampler(std::uint64_t seed, const TokenSource& source, std::int64_t sequence_length);

    std::int64_t windows() const { return windows_; }  // samples in an epoch

    // The window of sample `n` ≥ 0, counted over the whole run: its inputs begin at token
    // window · s.
    std::int64_t window(std::int64_t n) const;

    // Both of s tokens; targets[i] is what follows inputs[i]. Throws what TokenSource::copy does.
    // Any number of threads at once.
    void sample(std::int64_t n, std::span<std::int32_t> inputs,
                std::span<std::int32_t> targets) const;

  private:
    std::uint64_t seed_;
    const TokenSource& source_;
    std::int64_t sequence_length_;
    std::int64_t windows_;
};

}  // namespace orrery::runtime
