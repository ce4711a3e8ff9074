// Where to put what lives for a while, so that no two that live at once share memory and the whole
// takes little room: dynamic storage allocation with all lifetimes known. The best there can be is
// the most that lives at any moment; finding how near one can come is NP-hard (Garey and Johnson
// 1979, problem SR2), so that several orders of first fit are tried and the smallest is taken.
#pragma once

#include <cstdint>
#include <vector>

namespace orrery::plan {

struct Lifetime {
    std::int64_t bytes = 0;
    std::int32_t first = 0;  // steps, both inclusive
    std::int32_t last = 0;
    // Births that lie apart from the others where all are placed in order of birth: small ones that
    // would take the room of a large one and keep it from the next.
    bool apart = false;
};

struct Placement {
    std::vector<std::int64_t> offsets;  // as the lifetimes are given
    std::int64_t bytes = 0;             // of the whole
};

// `lifetimes` are in order of birth. The result depends on nothing else.
Placement place(const std::vector<Lifetime>& lifetimes);

// The most that lives at once: no placement is smaller.
std::int64_t most_alive(const std::vector<Lifetime>& lifetimes);

}  // namespace orrery::plan
