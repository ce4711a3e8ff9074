#include "runtime/data/content_hash.hpp"

#include <xxhash.h>

#include <memory>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {

namespace {

std::string digits_of(const XXH128_hash_t& hash) {
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string content_hash(std::span<const std::byte> bytes) {
    return digits_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string content_hash(std::string_view text) {
    return content_hash(std::as_bytes(std::span(text.data(), text.size())));
}

std::string sample_hash(std::span<const std::byte> bytes) {
    constexpr std::size_t kBlocks = 64, kBlockBytes = 64 * 1024;
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                         XXH3_freeState);
    ORRERY_CHECK(state != nullptr, "memory for the state of a hash");
    const std::uint64_t size = bytes.size();
    XXH3_128bits_reset(state.get());
    XXH3_128bits_update(state.get(), &size, sizeof size);
    if (size <= kBlocks * kBlockBytes) {
        XXH3_128bits_update(state.get(), bytes.data(), bytes.size());
    } else {
        const std::size_t apart = (size - kBlockBytes) / (kBlocks - 1);
        for (std::size_t i = 0; i + 1 < kBlocks; ++i)
            XXH3_128bits_update(state.get(), bytes.data() + i * apart, kBlockBytes);
        XXH3_128bits_update(state.get(), bytes.data() + size - kBlockBytes, kBlockBytes);
    }
    return digits_of(XXH3_128bits_digest(state.get()));
}

}  // namespace orrery::runtime
