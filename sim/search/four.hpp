// Four numbers that are reckoned side by side, each to what it would be alone, for code that is
// written once for these and for a double.
#pragma once

#include <cstddef>

namespace orrery::sim {

using Two __attribute__((vector_size(2 * sizeof(double)))) = double;
struct Four {
    Two a, b;
};
inline Four operator+(const Four& x, const Four& y) {
    return {x.a + y.a, x.b + y.b};
}
inline Four operator-(const Four& x, const Four& y) {
    return {x.a - y.a, x.b - y.b};
}
inline Four operator*(const Four& x, const Four& y) {
    return {x.a * y.a, x.b * y.b};
}
inline double larger(double x, double y) {
    return x < y ? y : x;
}
inline double smaller(double x, double y) {
    return y < x ? y : x;
}
inline Four larger(const Four& x, const Four& y) {
    return {x.a < y.a ? y.a : x.a, x.b < y.b ? y.b : x.b};
}
inline Four smaller(const Four& x, const Four& y) {
    return {y.a < x.a ? y.a : x.a, y.b < x.b ? y.b : x.b};
}

template <typename Seconds>
constexpr std::size_t kLanes = sizeof(Seconds) / sizeof(double);
inline void set_lane(double& of, std::size_t /*lane*/, double value) {
    of = value;
}
inline void set_lane(Four& of, std::size_t lane, double value) {
    Two& half = lane < 2 ? of.a : of.b;
    half[lane % 2] = value;
}
inline double lane(double of, std::size_t /*lane*/) {
    return of;
}
inline double lane(const Four& of, std::size_t lane) {
    const Two& half = lane < 2 ? of.a : of.b;
    return half[lane % 2];
}
template <typename Seconds>
Seconds in_all(double value) {
    Seconds all{};
    for (std::size_t i = 0; i < kLanes<Seconds>; ++i)
        set_lane(all, i, value);
    return all;
}

}  // namespace orrery::sim
