#include "runtime/data/sampler.hpp"

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/data/permutation.hpp"

namespace orrery::runtime {

Sampler::Sampler(std::uint64_t seed, const TokenSource& source, std::int64_t sequence_length)
    : seed_(seed),
      source_(source),
      sequence_length_(sequence_length),
      windows_((source.tokens() - 1) / sequence_length) {
    ORRERY_CHECK(sequence_length > 0, "a sample without tokens");
    if (windows_ < 1)
        throw DataError(source.path(),
                        fmt::format("{} tokens are too few: one sample takes sequence_length + 1 = "
                                    "{} + 1 = {}, its inputs and the last one's target",
                                    source.tokens(), sequence_length, sequence_length + 1));
}

std::int64_t Sampler::window(std::int64_t n) const {
    ORRERY_CHECK(n >= 0, "a sample before the first");
    const auto epoch = static_cast<std::uint64_t>(n / windows_);
    const Permutation order(seed_, epoch, static_cast<std::uint64_t>(windows_));
    return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(n % windows_)));
}

void Sampler::sample(std::int64_t n, std::span<std::int32_t> inputs,
                     std::span<std::int32_t> targets) const {
    ORRERY_CHECK(std::ssize(inputs) == sequence_length_ && std::ssize(targets) == sequence_length_,
                 "not a sample's length");
    const std::int64_t first = window(n) * sequence_length_;
    source_.copy(first, inputs);
    source_.copy(first + 1, targets);
}

}  // namespace orrery::runtime
