// The time of causal attention without materialised scores, shared by the fit and the simulator.
#pragma once

#include <cstdint>

#include "sim/cost/profile.hpp"

namespace orrery::sim {

struct AttentionShape {
    double batch = 0;
    double queries = 0;
    double keys = 0;
    double heads = 0;
    double kv_heads = 0;
    double head_dim = 0;
    // Of a head, where values are not as wide as queries and keys: elements that a product of the
    // pass goes over, and elements of a row of queries or keys and of what comes of it or of
    // values, each in the mean. 0: head_dim.
    double product_dim = 0;
    double element_dim = 0;
    double window = 0;      // keys that a query sees at most; 0: all
    bool balanced = false;  // queries from both ends of the sequence, which see half of the keys
};

// FLOP of the forward that the causal mask leaves: 4·b·heads·d per (query, key) pair (of the pass,
// as far as it goes over other elements of a head than forward does). The mask
// ends flush with the last key: q·k − q²/2 pairs for q ≤ k (half the square for q = k), k²/2 for
// q > k, whose first q − k queries see nothing. Of a window w the last query that sees all before
// it sees w keys: q·w − w²/2 pairs for q = k ≥ w. Balanced: q·k/2 pairs.
double causal_flops(const AttentionShape& shape);
// Pairs of a query and a key that the mask leaves, of all heads and samples.
double attended_pairs(const AttentionShape& shape);

double query_elements(const AttentionShape& shape);  // b·q·heads·d
double key_elements(const AttentionShape& shape);    // b·k·kv_heads·d

// The curve of the nearest head size by ratio; of two equally near, the smaller.
const AttentionCurve& nearest_curve(const std::vector<AttentionCurve>& curves,
                                    std::int64_t head_dim);

// Seconds of the pass that this curve is of, in the element type of its measurement.
double attention_seconds(const AttentionCurve& curve, const AttentionShape& shape);

}  // namespace orrery::sim
