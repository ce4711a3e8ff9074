// Who has which words of the vocabulary, for ops that see a share of them.
#pragma once

#include <cstdint>

namespace orrery::plan {

// The words are cut into as many shares as there are tensor ranks, or into tensor × pipeline ranks
// (layout.vocabulary_parallel): those of a pipeline rank follow those of the one before.
struct WordShares {
    std::int64_t pipeline_ranks = 1;

    template <typename V>
    static void fields(V&& v) {
        v.number("pipeline_ranks", &WordShares::pipeline_ranks);
    }
    // Number of the share that a rank has.
    std::int64_t number(std::int64_t tensor_ranks, std::int64_t tensor_rank,
                        std::int64_t pipeline_rank) const {
        return pipeline_ranks > 1 ? pipeline_rank * tensor_ranks + tensor_rank : tensor_rank;
    }
    bool operator==(const WordShares&) const = default;
};

}  // namespace orrery::plan
