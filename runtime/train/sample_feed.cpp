#include "runtime/train/sample_feed.hpp"

#include <algorithm>
#include <chrono>

#include "runtime/executor/part_of.hpp"

namespace orrery::runtime {
namespace {

using Tokens = std::array<std::vector<std::int32_t>, kTokensAhead>;

// The whole of a sample. What lies beyond its last target is no token.
Tokens read_whole(const SampleReader& reader, std::int64_t sample, std::size_t length) {
    Tokens whole;
    whole.fill(std::vector<std::int32_t>(length));
    reader(sample, whole[0], whole[1]);
    std::copy(whole[1].begin() + 1, whole[1].end(), whole[2].begin());
    whole[2].back() = -1;
    return whole;
}

// Of a sequence that ranks share out, where the rows that this rank holds stand.
std::vector<std::size_t> positions_of(const SampleRequest& request, std::size_t length) {
    std::vector<std::size_t> positions(length);
    const SequencePart part = part_of(request.mesh, request.tokens, request.at.context);
    for (std::size_t row = 0; row < length; ++row)
        positions[row] = static_cast<std::size_t>(
            part.position_of(static_cast<std::int64_t>(row), static_cast<std::int64_t>(length)));
    return positions;
}

// Micro-batches take samples in turn over the data-parallel ranks.
RankSamples read_samples(const SampleReader& reader, const SampleRequest& request) {
    const auto whole = static_cast<std::size_t>(request.tokens.sequence);
    const std::size_t length = whole / static_cast<std::size_t>(request.mesh.context);
    const auto own = static_cast<std::size_t>(
        request.needed ? request.micro_batches * request.tokens.samples : 0);
    const std::vector<std::size_t> positions = positions_of(request, length);
    RankSamples samples;
    for (std::vector<std::int32_t>& tokens : samples.tokens)
        tokens.reserve(own * length);
    for (std::size_t i = 0; i < own; ++i) {
        const auto size = static_cast<std::size_t>(request.tokens.samples);
        const auto micro_batch = static_cast<std::int64_t>(i / size);
        const std::int64_t sample =
            request.first +
            (micro_batch * request.mesh.data + request.at.data) * request.tokens.samples +
            static_cast<std::int64_t>(i % size);
        const Tokens read = read_whole(reader, sample, whole);
        for (std::size_t ahead = 0; ahead < kTokensAhead; ++ahead)
            for (const std::size_t position : positions)
                samples.tokens[ahead].push_back(read[ahead][position]);
    }
    return samples;
}

}  // namespace

RankSamples SampleFeed::take(const SampleRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    RankSamples samples;
    if (expected_ == request) {
        expected_.reset();
        samples = reading_.get();
    } else {
        samples = read_samples(reader_, request);
    }
    waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return samples;
}

void SampleFeed::expect(const SampleRequest& request) {
    if (!request.needed) return;
    if (reading_.valid()) reading_.wait();
    expected_ = request;
    reading_ = std::async(std::launch::async,
                          [&reader = reader_, request] { return read_samples(reader, request); });
}

}  // namespace orrery::runtime
