// What is done to gradients, the loss and states at the end of a step. Elements are those of a
// bucket that this rank steps, or 1.
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"

namespace orrery::plan {

struct GradientNorm {
    static constexpr std::string_view kDoc =
        "adds a bucket's sum of squares to that of the buckets before";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    bool copies = false;  // several ranks over which sums are summed have the same: the first's
                          // counts

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &GradientNorm::elements);
        v.number("copies", &GradientNorm::copies);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("gradients", elements);
        v.updates("norm", 1);
        v.writes("norm", 1);
    }
    bool operator==(const GradientNorm&) const = default;
};

struct Unscale {
    static constexpr std::string_view kDoc =
        "takes the loss scale off gradients and looks for infinities";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Unscale::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("gradients", elements);
        v.reads("loss scale", 1);
        v.writes("gradients", elements);
        v.writes("overflow", 1);
    }
    bool operator==(const Unscale&) const = default;
};

struct UpdateLossScale {
    static constexpr std::string_view kDoc =
        "the next step's scale, by whether this one overflowed";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    std::int64_t growth_interval = 0;  // steps without an overflow, after which it doubles
    std::int64_t hysteresis = 0;       // overflows, after which it halves
    double minimum = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &UpdateLossScale::elements);
        v.number("growth_interval", &UpdateLossScale::growth_interval);
        v.number("hysteresis", &UpdateLossScale::hysteresis);
        v.number("minimum", &UpdateLossScale::minimum);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("overflow", 1);
        v.writes("loss scale", 1);
        v.writes("counters", 1);
    }
    bool operator==(const UpdateLossScale&) const = default;
};

struct LossShare {
    static constexpr std::string_view kDoc =
        "what this rank adds to the batch's loss: nothing where another has it";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &LossShare::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.may_read("loss", 1);
        v.writes("share", 1);
    }
    bool operator==(const LossShare&) const = default;
};

struct JudgeLoss {
    static constexpr std::string_view kDoc =
        "whether the loss has spiked; one that has not counts from then on";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    std::int64_t window = 0;  // losses that count
    double skip_above = 0;    // times their mean

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &JudgeLoss::elements);
        v.number("window", &JudgeLoss::window);
        v.number("skip_above", &JudgeLoss::skip_above);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("loss", 1);
        v.updates("accepted losses", window);
        v.updates("count", 1);
        v.may_read("overflow", 1);
        v.writes("accepted losses", window);
        v.writes("count", 1);
        v.writes("spike", 1);
    }
    bool operator==(const JudgeLoss&) const = default;
};

// Reads gradients, states, parameters that are their own masters, then of norm, overflow and spike
// those that it is told to, in this order. States are m and v, then masters.
struct AdamW {
    static constexpr std::string_view kDoc =
        "AdamW (Loshchilov 2019) on a bucket's share; the learning rate is an input of the step";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t elements = 0;
    double beta1 = 0;
    double beta2 = 0;
    double epsilon = 0;
    double weight_decay = 0;      // of parameters that decay
    double clip_norm = 0;         // reads the norm where this is not 0
    bool skips_overflow = false;  // reads whether gradients overflowed
    bool skips_spike = false;     // reads whether the loss spiked

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &AdamW::elements);
        v.number("beta1", &AdamW::beta1);
        v.number("beta2", &AdamW::beta2);
        v.number("epsilon", &AdamW::epsilon);
        v.number("weight_decay", &AdamW::weight_decay);
        v.number("clip_norm", &AdamW::clip_norm);
        v.number("skips_overflow", &AdamW::skips_overflow);
        v.number("skips_spike", &AdamW::skips_spike);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("gradients", elements);
        v.updates_together("moments, masters, parameters", 3 * elements);
        if (clip_norm > 0) v.reads("norm", 1);
        if (skips_overflow) v.reads("overflow", 1);
        if (skips_spike) v.reads("spike", 1);
        v.writes_together("moments, masters, parameters", 3 * elements);
    }
    bool operator==(const AdamW&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_OPTIMIZER_OPS(OP)           \
    OP(gradient_norm, GradientNorm)        \
    OP(unscale, Unscale)                   \
    OP(update_loss_scale, UpdateLossScale) \
    OP(loss_share, LossShare)              \
    OP(judge_loss, JudgeLoss)              \
    OP(adamw, AdamW)
// clang-format on
