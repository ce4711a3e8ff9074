// What a parameter is as a whole, declared where a block makes its share of it: whoever shares it
// out, fills, steps, saves or names it reads this. A block's tensor says what one rank has of it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/ops/fields.hpp"

namespace orrery::plan {

// How the tensor ranks share out a parameter (Shoeybi 2019).
enum class Cut : std::uint8_t {
    whole,  // each holds all of it
    rows,   // column-parallel linears, whose weights are [out, in], and vocabulary tables
    columns
};
template <>
struct Spelling<Cut> {
    static constexpr std::array<std::string_view, 3> names = {"whole", "rows", "columns"};
};

// What a parameter starts as.
enum class Start : std::uint8_t { normal, residual_normal, zero, one };
template <>
struct Spelling<Start> {
    static constexpr std::array<std::string_view, 4> names = {"normal", "residual_normal", "zero",
                                                              "one"};
};

struct ParameterSpec {
    std::vector<std::int64_t> dims;  // of the whole, padding included
    Cut cut = Cut::whole;
    // Rows of each part that is shared out by itself: q, k and v; gate and up. They add up to
    // dims[0], or to an expert's part of it. Cut::rows only.
    std::vector<std::int64_t> sections;
    Start start = Start::normal;
    bool decays = false;       // weight decay spares norms and biases
    std::int64_t padding = 0;  // rows at the end that only fill up a vocabulary
    // A second use of one that another part holds, too: counted, saved and normed there, where that
    // is another stage's.
    bool second_use = false;
    // Pipeline ranks that share out each tensor rank's words; Cut::rows only. 1: one holds them
    // all.
    std::int64_t pipeline_ranks = 1;
    // Held whole by every tensor rank, each of which has a part of its gradient whatever sequence
    // parallelism does: it belongs to the rank's heads.
    bool partial_gradient = false;
    // Of so many experts, one after another in rows; an expert group's ranks have whole ones of
    // them, and those that split these a share of each, as `cut` says; sections are of one. 0: it
    // is no expert's.
    std::int64_t experts = 0;
    // A step takes so much from it times the sign of its gradient, and neither decay, moments nor
    // the gradients' norm count it. 0: the optimizer's rule.
    double sign_rate = 0;
    // Never stepped: it has no gradient and the optimizer keeps nothing of it.
    bool frozen = false;

    std::int64_t elements() const;
    // Without the rows that only fill up.
    std::vector<std::int64_t> unpadded() const;
    bool operator==(const ParameterSpec&) const = default;
};

}  // namespace orrery::plan
