// Sums of rows: of a branch and the residual, of branches, of a bias's gradient.
#pragma once

#include "plan/ops/rows.hpp"

namespace orrery::plan {

struct ResidualAdd {
    static constexpr std::string_view kDoc =
        "residual + dropout(branch + biases); or a table of positions in the place of the residual";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    Drop drop{};
    std::int64_t position_offset = 0;  // rows of a table of positions before the first

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ResidualAdd::rows);
        v.size("width", &ResidualAdd::width);
        v.part(&ResidualAdd::drop);
        v.number("position_offset", &ResidualAdd::position_offset);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("branch", rows, width);
        v.may_read("residual", rows * width);
        v.may_read("bias", width);
        v.may_read("bias", width);
        v.may_read("positions", width);
        if (drop.rate > 0) v.may_read("dropout key", 1);
        v.writes("output", rows * width);
        if (drop.rate > 0) v.may_write("dropout mask", rows * width);
    }
    bool operator==(const ResidualAdd&) const = default;
};

// The sum is rounded to its own type before it is normed, so that both come out as they do apart.
struct ResidualNormalize {
    static constexpr std::string_view kDoc =
        "a residual_add and the norm of its sum, which is not read again (flash-attention's "
        "dropout_add_layer_norm, Liger's fused add RMSNorm)";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    Drop drop{};
    bool centred = true;
    double epsilon = 1e-5;
    double weight_offset = 0;

    ResidualAdd sum() const { return {rows, width, drop}; }
    Normalize norm() const { return {rows, width, centred, epsilon, weight_offset}; }

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ResidualNormalize::rows);
        v.size("width", &ResidualNormalize::width);
        v.part(&ResidualNormalize::drop);
        v.number("centred", &ResidualNormalize::centred);
        v.number("epsilon", &ResidualNormalize::epsilon);
        v.number("weight_offset", &ResidualNormalize::weight_offset);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("branch", rows, width);
        v.reads("residual", rows * width);
        v.reads("weight", width);
        if (centred) v.reads("norm bias", width);
        v.may_read("bias", width);
        v.may_read("bias", width);
        if (drop.rate > 0) v.may_read("dropout key", 1);
        v.writes("sum", rows * width);
        v.writes("output", rows * width);
        v.writes("statistics", rows * (centred ? 2 : 1));
        if (drop.rate > 0) v.may_write("dropout mask", rows * width);
    }
    bool operator==(const ResidualNormalize&) const = default;
};

struct Add {
    static constexpr std::string_view kDoc = "the sum of two tensors, of any element types";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Add::rows);
        v.size("width", &Add::width);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("a", rows * width);
        v.reads("b", rows * width);
        v.writes("sum", rows * width);
    }
    // The sum of the branches of a parallel block: each has the gradient of the whole.
    template <typename Writer, typename Op>
    void gradient(Writer& w, const Op& op) const {
        const auto dy = w.gradient_of(op.writes[0]);
        for (const auto term : op.reads)
            w.contribute(term, dy);
    }
    bool operator==(const Add&) const = default;
};

struct BiasGradient {
    static constexpr std::string_view kDoc = "sums of columns";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &BiasGradient::rows);
        v.size("width", &BiasGradient::width);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows * width);
        v.writes("dbias", width);
    }
    bool operator==(const BiasGradient&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_RESIDUAL_OPS(OP)          \
    OP(residual_add, ResidualAdd)        \
    OP(residual_norm, ResidualNormalize) \
    OP(add, Add)                         \
    OP(bias_gradient, BiasGradient)
// clang-format on
