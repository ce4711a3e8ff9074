#include <cstdint>
#include <new>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

constexpr int kBins = 5;
// 1.5·2^52 units: x + c − c is x rounded to whole units (to nearest), as long as |x| is below 2^51
// of them.
constexpr double kConstant[kBins] = {0x1.8p39, 0x1.8p18, 0x1.8p-3, 0x1.8p-24, 0x1.8p-45};
constexpr std::int64_t kLanes = 8;  // sums side by side, so that vector instructions apply

struct Bins {
    Eigen::Array<double, kLanes, 1> sum[kBins];

    Bins() {
        for (auto& bin : sum)
            bin.setZero();
    }

    template <typename W>
    void add(const W* gradients) {
        const Eigen::Array<double, kLanes, 1> g =
            Eigen::Map<const Eigen::Array<W, kLanes, 1>>(gradients).template cast<double>();
        Eigen::Array<double, kLanes, 1> rest = g * g;
        for (int bin = 0; bin < kBins; ++bin) {
            const Eigen::Array<double, kLanes, 1> part = (rest + kConstant[bin]) - kConstant[bin];
            sum[bin] += part;
            rest -= part;
        }
    }
};

template <typename W>
void add_squares(const W* gradients, std::int64_t n, Bins& bins) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        bins.add(gradients + i);
    W last[kLanes] = {};
    for (std::int64_t lane = 0; i + lane < n; ++lane)
        last[lane] = gradients[i + lane];
    if (i < n) bins.add(last);
}

template <typename W>
void gradient_norm_as(const GradientNorm& op, Team& team) {
    team.reserve(static_cast<std::size_t>(team.size()) * sizeof(Bins), 0);
    auto* const of_worker = static_cast<Bins*>(team.shared_scratch());
    for (int worker = 0; worker < team.size(); ++worker)
        new (of_worker + worker) Bins;
    for_runs(op.runs, op.elements, [&](const ElementRun& run) {
        team.parallel_for(run.elements, kPiece * kPiecesPerPart,
                          [&](std::int64_t begin, std::int64_t end, int worker) {
                              Space<W> space;
                              for (std::int64_t i = begin; i < end; i += kPiece) {
                                  const std::int64_t n = end - i < kPiece ? end - i : kPiece;
                                  add_squares(read(op.gradients, run.first + i, n, space.at), n,
                                              of_worker[worker]);
                              }
                          });
    });
    for (int worker = 0; worker < team.size(); ++worker)
        for (int bin = 0; bin < kBins; ++bin)
            for (std::int64_t lane = 0; lane < kLanes; ++lane)
                op.bins[bin] += of_worker[worker].sum[bin][lane];
}

}  // namespace

void gradient_norm(const GradientNorm& op, Team& team) {
    with_work_type(op.gradients.dtype, [&](auto w) { gradient_norm_as<decltype(w)>(op, team); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
