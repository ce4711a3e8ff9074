#include "calib/measure/collective_timings.hpp"

#include "calib/measure/operand.hpp"

namespace orrery::measure {

using plan::DType;
using plan::GroupKind;

// `like` has the system, library and source of the samples.
std::vector<fit::CollectiveSample> time_collectives(runtime::Communicator& ranks,
                                                    const Sampling& sampling,
                                                    const CollectiveGrid& grid,
                                                    const fit::CollectiveSample& like) {
    constexpr auto kWorld = GroupKind::world;
    const std::int64_t size = ranks.mesh().ranks();
    const std::int64_t unit = size * plan::size_bytes(DType::fp32);
    std::vector<fit::CollectiveSample> samples;
    for (int repetition = 0; repetition < grid.repetitions; ++repetition)
        for (std::int64_t wanted = grid.low_bytes; wanted <= grid.high_bytes; wanted *= 2) {
            const std::int64_t bytes = (wanted + unit - 1) / unit * unit;  // ranks share it evenly
            const std::int64_t total = bytes / plan::size_bytes(DType::fp32);
            Operand all(DType::fp32, total);
            Operand mine(DType::fp32, total / size);
            const auto add = [&](const char* collective, const auto& call) {
                fit::CollectiveSample sample = like;
                sample.collective = collective;
                sample.ranks = static_cast<int>(size);
                sample.bytes = static_cast<double>(bytes);
                sample.seconds = timed(ranks, sampling, call);
                samples.push_back(sample);
            };
            add("all_gather",
                [&] { ranks.all_gather(kWorld, DType::fp32, mine.data(), all.data(), total); });
            add("reduce_scatter",
                [&] { ranks.reduce_scatter(kWorld, DType::fp32, all.data(), mine.data(), total); });
            // In place, over and over: its sums grow to infinity, which takes no longer to add.
            add("all_reduce", [&] { ranks.all_reduce(kWorld, DType::fp32, all.data(), total); });
        }
    return samples;
}

}  // namespace orrery::measure
