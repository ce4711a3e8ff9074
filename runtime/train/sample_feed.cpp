#include "runtime/train/sample_feed.hpp"

#include <chrono>

#include "runtime/executor/part_of.hpp"

namespace orrery::runtime {
namespace {

// Of a sequence that ranks share out, what this one holds.
void read_part(const SampleReader& reader, const SampleRequest& request, std::int64_t sample,
               std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
    if (request.mesh.context == 1) return reader(sample, tokens, targets);
    const auto whole = static_cast<std::size_t>(request.tokens.sequence);
    std::vector<std::int32_t> whole_tokens(whole), whole_targets(whole);
    reader(sample, whole_tokens, whole_targets);
    const SequencePart part = part_of(request.mesh, request.tokens, request.at.context);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
        const auto position = static_cast<std::size_t>(
            part.position_of(static_cast<std::int64_t>(row), std::ssize(tokens)));
        tokens[row] = whole_tokens[position];
        targets[row] = whole_targets[position];
    }
}

// Micro-batches take samples in turn over the data-parallel ranks.
RankSamples read_samples(const SampleReader& reader, const SampleRequest& request) {
    const auto length = static_cast<std::size_t>(request.tokens.sequence / request.mesh.context);
    const auto own = static_cast<std::size_t>(
        request.needed ? request.micro_batches * request.tokens.samples : 0);
    RankSamples samples;
    samples.tokens.resize(own * length);
    samples.targets.resize(own * length);
    for (std::size_t i = 0; i < own; ++i) {
        const auto size = static_cast<std::size_t>(request.tokens.samples);
        const auto micro_batch = static_cast<std::int64_t>(i / size);
        const std::int64_t sample =
            request.first +
            (micro_batch * request.mesh.data + request.at.data) * request.tokens.samples +
            static_cast<std::int64_t>(i % size);
        read_part(reader, request, sample, std::span(samples.tokens).subspan(i * length, length),
                  std::span(samples.targets).subspan(i * length, length));
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
