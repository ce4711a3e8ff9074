// The loss: softmax over a vocabulary that the tensor group shares out (Shoeybi 2019).
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"
#include "plan/ops/words.hpp"

namespace orrery::plan {

struct CrossEntropyMax {
    static constexpr std::string_view kDoc = "the largest logit of each row";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t vocabulary = 0;  // words that are not padding
    double soft_cap = 0;  // logits count as soft_cap·tanh(logit ÷ soft_cap); 0: as they are
    WordShares words{};

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CrossEntropyMax::rows);
        v.size("width", &CrossEntropyMax::width);
        v.number("vocabulary", &CrossEntropyMax::vocabulary);
        v.number("soft_cap", &CrossEntropyMax::soft_cap);
        v.part(&CrossEntropyMax::words);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("logits", rows * width);
        v.writes("largest", rows);
    }
    bool operator==(const CrossEntropyMax&) const = default;
};

struct CrossEntropySum {
    static constexpr std::string_view kDoc =
        "of each row the sum of exponentials, and the target's logit; perhaps the largest logit";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t vocabulary = 0;  // words that are not padding
    bool finds_largest = false;   // in the same pass over the logits, and writes them
    double soft_cap = 0;     // logits count as soft_cap·tanh(logit ÷ soft_cap); 0: as they are
    std::int64_t ahead = 0;  // a target is so many tokens beyond the next
    WordShares words{};

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CrossEntropySum::rows);
        v.size("width", &CrossEntropySum::width);
        v.number("vocabulary", &CrossEntropySum::vocabulary);
        v.number("finds_largest", &CrossEntropySum::finds_largest);
        v.number("soft_cap", &CrossEntropySum::soft_cap);
        v.number("ahead", &CrossEntropySum::ahead);
        v.part(&CrossEntropySum::words);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("logits", rows * width);
        if (!finds_largest) v.reads("largest", rows);
        v.reads("targets", rows);
        v.writes("sums", 2 * rows);
        if (finds_largest) v.writes("largest", rows);
    }
    bool operator==(const CrossEntropySum&) const = default;
};

struct CrossEntropyJoin {
    static constexpr std::string_view kDoc =
        "sums and largest logits of whole rows, of those that each part of the vocabulary has";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, parts = 0;
    std::int64_t width = 0;  // words of each part

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CrossEntropyJoin::rows);
        v.size("parts", &CrossEntropyJoin::parts);
        v.number("width", &CrossEntropyJoin::width);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("sums of parts", 2 * rows * parts);
        v.reads("largest of parts", rows * parts);
        v.reads("targets", rows);
        v.writes("sums", 2 * rows);
        v.writes("largest", rows);
    }
    bool operator==(const CrossEntropyJoin&) const = default;
};

struct CrossEntropy {
    static constexpr std::string_view kDoc =
        "the loss of all rows, added to that of the micro-batches before";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    double weight = 1;  // of a row, beside that of the model's own loss

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CrossEntropy::rows);
        v.size("width", &CrossEntropy::width);
        v.number("weight", &CrossEntropy::weight);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("sums", width * rows);
        v.reads("largest", rows);
        v.reads("targets", rows);
        v.updates("loss", 1);
        v.writes("loss", 1);
    }
    bool operator==(const CrossEntropy&) const = default;
};

struct CrossEntropyBackward {
    static constexpr std::string_view kDoc =
        "(softmax − one-hot of the target) ÷ valid tokens × loss scale";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t vocabulary = 0;  // words that are not padding
    double soft_cap = 0;  // logits count as soft_cap·tanh(logit ÷ soft_cap); 0: as they are
    double weight = 1;    // of a row's loss in that of the step
    WordShares words{};

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CrossEntropyBackward::rows);
        v.size("width", &CrossEntropyBackward::width);
        v.number("vocabulary", &CrossEntropyBackward::vocabulary);
        v.number("soft_cap", &CrossEntropyBackward::soft_cap);
        v.number("weight", &CrossEntropyBackward::weight);
        v.part(&CrossEntropyBackward::words);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("logits", rows * width);
        v.reads("largest", rows);
        v.reads("sums", 2 * rows);
        v.reads("targets", rows);
        v.may_read("loss scale", 1);
        v.writes("dlogits", rows * width);
    }
    bool operator==(const CrossEntropyBackward&) const = default;
};

// What comes of dlogits, and of the product with the weight, that a part of the vocabulary has made
// with the sums of its own words: its softmax counts for the part's share of the whole row's sum,
// the target's one-hot for all (Yeung et al. 2024, arXiv 2411.05288, Algorithm 2).
struct CrossEntropyRescale {
    static constexpr std::string_view kDoc =
        "gradients that a part of the vocabulary made with its own sums, of the sums of whole rows";
    static constexpr OpFamily kFamily = OpFamily::memory;
    std::int64_t rows = 0, width = 0;
    std::int64_t hidden = 0;      // of a row of the head's input
    std::int64_t vocabulary = 0;  // words that are not padding
    double soft_cap = 0;  // logits count as soft_cap·tanh(logit ÷ soft_cap); 0: as they are
    WordShares words{};

    template <typename V>
    static void fields(V&& v) {
        v.size("rows", &CrossEntropyRescale::rows);
        v.size("width", &CrossEntropyRescale::width);
        v.size("hidden", &CrossEntropyRescale::hidden);
        v.number("vocabulary", &CrossEntropyRescale::vocabulary);
        v.number("soft_cap", &CrossEntropyRescale::soft_cap);
        v.part(&CrossEntropyRescale::words);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("dlogits of part", rows * width);
        v.reads("dinput of part", rows, hidden);
        v.reads("targets' words", rows, hidden);
        v.reads("sums of part", 2 * rows);
        v.reads("largest of part", rows);
        v.reads("sums", 2 * rows);
        v.reads("largest", rows);
        v.reads("targets", rows);
        v.may_read("loss scale", 1);
        v.writes("dlogits", rows * width);
        v.writes("dinput", rows * hidden);
    }
    bool operator==(const CrossEntropyRescale&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_LOSS_OPS(OP)                          \
    OP(cross_entropy_max, CrossEntropyMax)           \
    OP(cross_entropy_sum, CrossEntropySum)           \
    OP(cross_entropy_join, CrossEntropyJoin)         \
    OP(cross_entropy, CrossEntropy)                  \
    OP(cross_entropy_backward, CrossEntropyBackward) \
    OP(cross_entropy_rescale, CrossEntropyRescale)
// clang-format on
