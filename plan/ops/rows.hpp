// Kernels over the rows of activations: as fast as the bytes that they read and write.
#pragma once

#include "plan/ops/attention.hpp"

namespace orrery::plan {

// Of the elements of rows of this width; width 0: of the maps of samples and heads of attention.
struct Dropout {
    static constexpr std::string_view kDoc =
        "zeroes elements by counted random numbers, and scales up the rest";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    Drop drop{};
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t total_heads = 0;
    std::int64_t sequence = 0;  // of maps

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Dropout::elements);
        v.part(&Dropout::drop);
        v.number("width", &Dropout::width);
        v.number("heads", &Dropout::heads);
        v.number("total_heads", &Dropout::total_heads);
        v.number("sequence", &Dropout::sequence);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", elements);
        v.may_read("dropout key", 1);
        v.writes("output", elements);
        v.may_write("dropout mask", elements);
    }
    bool operator==(const Dropout&) const = default;
};

struct DropoutBackward {
    static constexpr std::string_view kDoc =
        "its gradient, by its mask or by the same random numbers";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    Drop drop{};
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t total_heads = 0;
    std::int64_t sequence = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &DropoutBackward::elements);
        v.part(&DropoutBackward::drop);
        v.number("width", &DropoutBackward::width);
        v.number("heads", &DropoutBackward::heads);
        v.number("total_heads", &DropoutBackward::total_heads);
        v.number("sequence", &DropoutBackward::sequence);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", elements);
        v.may_read("dropout mask", elements);
        v.may_read("dropout key", 1);
        v.writes("dinput", elements);
    }
    bool operator==(const DropoutBackward&) const = default;
};

struct Normalize {
    static constexpr std::string_view kDoc =
        "LayerNorm where it is centred, else RMSNorm; leaves its statistics";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    bool centred = true;
    double epsilon = 1e-5;
    double weight_offset = 0;  // 1 where weights are stored as their difference from 1

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Normalize::rows);
        v.size("width", &Normalize::width);
        v.number("centred", &Normalize::centred);
        v.number("epsilon", &Normalize::epsilon);
        v.number("weight_offset", &Normalize::weight_offset);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", rows, width);
        v.reads("weight", width);
        if (centred) v.reads("bias", width);
        v.writes("output", rows * width);
        v.writes("statistics", rows * (centred ? 2 : 1));
    }
    bool operator==(const Normalize&) const = default;
};

struct NormalizeBackward {
    static constexpr std::string_view kDoc =
        "its gradients; adds what reached the input past the norm";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    bool centred = true;
    double weight_offset = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &NormalizeBackward::rows);
        v.size("width", &NormalizeBackward::width);
        v.number("centred", &NormalizeBackward::centred);
        v.number("weight_offset", &NormalizeBackward::weight_offset);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows * width);
        v.reads("input", rows, width);
        v.reads("weight", width);
        v.reads("statistics", rows * (centred ? 2 : 1));
        v.may_read("dresidual", rows * width);
        v.writes("dinput", rows * width);
        v.may_write("dweight", width);  // not of a frozen one
        if (centred) v.may_write("dbias", width);
    }
    bool operator==(const NormalizeBackward&) const = default;
};

enum class ActivationFunction : std::uint8_t {
    gelu_tanh,     // x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))   (Hendrycks 2016)
    gelu_erf,      // x/2·(1 + erf(x/√2))
    relu,          // max(x, 0)
    squared_relu,  // max(x, 0)²                                 (So 2021)
    swiglu,        // f(gate)·up, f = x/(1 + exp(−x))            (Shazeer 2020)
    geglu_tanh,    // …           f = gelu_tanh
    geglu_erf,     // …           f = gelu_erf
    // f(gate)·(up + 1), f = x/(1 + exp(−1.702·x)), of a gate of at most `limit` and an up within
    // ± limit                                                   (gpt-oss: OpenAI 2025)
    clamped_swiglu
};
template <>
struct Spelling<ActivationFunction> {
    static constexpr std::array<std::string_view, 8> names = {
        "gelu_tanh", "gelu_erf",   "relu",      "squared_relu",
        "swiglu",    "geglu_tanh", "geglu_erf", "clamped_swiglu"};
};
// The slope of a ReLU is told by its output, which the next product keeps anyway; that of the
// others by their input.
constexpr bool told_by_output(ActivationFunction function) {
    return function == ActivationFunction::relu;
}

// Two linears of the input, one of which the function lets through.
constexpr bool is_gated(ActivationFunction function) {
    return function == ActivationFunction::swiglu || function == ActivationFunction::geglu_tanh ||
           function == ActivationFunction::geglu_erf ||
           function == ActivationFunction::clamped_swiglu;
}

struct Activate {
    static constexpr std::string_view kDoc =
        "the function between the two products of an MLP, gated or not";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    ActivationFunction function = ActivationFunction::gelu_tanh;
    double limit = 0;  // of clamped_swiglu

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Activate::rows);
        v.size("width", &Activate::width);
        v.number("function", &Activate::function);
        v.number("limit", &Activate::limit);
    }
    template <typename V>
    void operands(V&& v) const {
        if (is_gated(function))
            v.reads_whole_or_halves("gate and up", 2 * rows * width);
        else
            v.reads("input", rows * width);
        v.writes("output", rows * width);
    }
    bool operator==(const Activate&) const = default;
};

struct ActivateBackward {
    static constexpr std::string_view kDoc = "its gradient";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    ActivationFunction function = ActivationFunction::gelu_tanh;
    double limit = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &ActivateBackward::rows);
        v.size("width", &ActivateBackward::width);
        v.number("function", &ActivateBackward::function);
        v.number("limit", &ActivateBackward::limit);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows * width);
        if (is_gated(function))
            v.reads_whole_or_halves("gate and up", 2 * rows * width);
        else
            v.reads(told_by_output(function) ? "output" : "input", rows * width);
        v.writes("dinput", rows * width * (is_gated(function) ? 2 : 1));
    }
    bool operator==(const ActivateBackward&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_ROW_OPS(OP)                    \
    OP(dropout, Dropout)                      \
    OP(dropout_backward, DropoutBackward)     \
    OP(norm, Normalize)                       \
    OP(norm_backward, NormalizeBackward)      \
    OP(activation, Activate)                  \
    OP(activation_backward, ActivateBackward)
// clang-format on
