// Sums and maxima of rows, in lanes side by side: fast, and in one order wherever a row lies in
// memory. Rows of scratch that are padded to whole lanes, and functions over them: all elements
// then go the same way through vector instructions, so that no value depends on where in a row it
// stands.
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/cpu/team.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {

inline constexpr std::int64_t kLanes = 16;

inline std::int64_t whole_lanes(std::int64_t n) {
    return (n + kLanes - 1) / kLanes * kLanes;
}

// Σ of term(i) over [0, n).
template <typename W, typename Term>
W sum_of(std::int64_t n, const Term& term) {
    W lane[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        for (std::int64_t l = 0; l < kLanes; ++l)
            lane[l] += term(i + l);
    for (std::int64_t l = 0; i + l < n; ++l)
        lane[l] += term(i + l);
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
        for (std::int64_t l = 0; l < half; ++l)
            lane[l] += lane[l + half];
    return lane[0];
}

// The largest that is not NaN, or −∞.
template <typename W>
W max_of(const W* x, std::int64_t n) {
    constexpr W kNone = -std::numeric_limits<W>::infinity();
    W lane[kLanes];
    for (W& l : lane)
        l = kNone;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        for (std::int64_t l = 0; l < kLanes; ++l)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (std::int64_t l = 0; i + l < n; ++l)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    W largest = kNone;
    for (const W l : lane)
        largest = l > largest ? l : largest;
    return largest;
}

// A row of scratch: aligned to 64 bytes, its length rounded up to whole lanes. What stands in the
// padding does not matter, nor do functions of it.
template <typename W>
auto padded(W* row, std::int64_t n) {
    return Eigen::Map<Eigen::Array<W, Eigen::Dynamic, 1>, Eigen::Aligned64>(row, whole_lanes(n));
}

// cap·tanh(x ÷ cap) of a padded row, where there is a cap.
template <typename W>
void cap_softly(W* row, std::int64_t n, double soft_cap) {
    if (soft_cap == 0) return;
    const auto cap = static_cast<W>(soft_cap);
    auto x = padded(row, n);
    x = (x / cap).tanh() * cap;
}

// Its slope, 1 − tanh²(x ÷ cap), of a padded row.
template <typename W>
void slopes_of_cap(W* row, std::int64_t n, double soft_cap) {
    auto x = padded(row, n);
    x = 1 - (x / static_cast<W>(soft_cap)).tanh().square();
}

// Rows of W in the team's scratch memory, each padded to whole lanes.
template <typename W>
class ScratchRows {
  public:
    ScratchRows(Team& team, std::int64_t width, std::int64_t shared, std::int64_t per_worker)
        : team_(team), stride_(whole_lanes(width)) {
        team.reserve(bytes(shared), bytes(per_worker));
    }
    std::int64_t stride() const { return stride_; }
    W* shared(std::int64_t row) const {
        return static_cast<W*>(team_.shared_scratch()) + row * stride_;
    }
    W* own(int worker, std::int64_t row) const {
        return static_cast<W*>(team_.scratch(worker)) + row * stride_;
    }

  private:
    std::size_t bytes(std::int64_t rows) const {
        return static_cast<std::size_t>(rows * stride_) * sizeof(W);
    }
    Team& team_;
    std::int64_t stride_;
};

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
