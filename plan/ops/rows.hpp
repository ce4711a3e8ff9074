// Kernels over the rows of activations: as fast as the bytes that they read and write.
#pragma once

#include "plan/ops/attention.hpp"
#include "plan/ops/words.hpp"

namespace orrery::plan {

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

struct Embedding {
    static constexpr std::string_view kDoc =
        "looks tokens up in the rank's rows of the table; 0 where another has them";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    double scale = 1;
    std::int64_t ahead = 0;  // looks up what comes so many tokens later
    WordShares words{};

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &Embedding::rows);
        v.size("width", &Embedding::width);
        v.number("scale", &Embedding::scale);
        v.number("ahead", &Embedding::ahead);
        v.part(&Embedding::words);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("tokens", rows);
        v.reads("table", 1, width);
        v.writes("output", rows * width);
    }
    bool operator==(const Embedding&) const = default;
};

struct EmbeddingBackward {
    static constexpr std::string_view kDoc =
        "adds gradients to the rows that were looked up, by token or by position";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    double scale = 1;
    std::int64_t position_offset = 0;
    WordShares words{};

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &EmbeddingBackward::rows);
        v.size("width", &EmbeddingBackward::width);
        v.number("scale", &EmbeddingBackward::scale);
        v.number("position_offset", &EmbeddingBackward::position_offset);
        v.part(&EmbeddingBackward::words);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("doutput", rows, width);
        v.may_read("tokens", rows);
        v.writes("dtable", width);
    }
    bool operator==(const EmbeddingBackward&) const = default;
};

struct Cast {
    static constexpr std::string_view kDoc =
        "a copy of another element type; of eight bits with scales";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Cast::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("input", elements);
        v.may_read("scales", 1);
        v.writes("output", elements);
        v.may_write("scales", 1);
    }
    bool operator==(const Cast&) const = default;
};

}  // namespace orrery::plan
