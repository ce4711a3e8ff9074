// Words to rows.
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"
#include "plan/ops/words.hpp"

namespace orrery::plan {

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

}  // namespace orrery::plan

// clang-format off
#define ORRERY_EMBEDDING_OPS(OP)              \
    OP(embedding, Embedding)                  \
    OP(embedding_backward, EmbeddingBackward)
// clang-format on
