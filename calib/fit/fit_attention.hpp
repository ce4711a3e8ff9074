// The causal attention curve of one device and head size from a table of measured forwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calib/fit/held_out.hpp"
#include "sim/cost/attention_model.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {

struct AttentionRow {
    std::int64_t batch = 0;
    std::int64_t sequence = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    double time_us = 0;
};

sim::AttentionShape shape_of(const AttentionRow& row);
// Of a query and a key that the mask leaves, of all heads and samples.
double pairs_of(const AttentionRow& row);

// Rows of attention_forward_causal.csv (system, batch, sequence, heads, kv_heads, head_dim,
// time_us, source) of one system, all head sizes, in file order. Throws FitError.
std::vector<AttentionRow> read_attention_rows(const std::string& path, const std::string& system);

// Head sizes that occur, ascending.
std::vector<std::int64_t> head_dims(const std::vector<AttentionRow>& rows);

struct AttentionFit {
    sim::AttentionCurve curve;  // measured; source empty
    std::int64_t fitted_rows = 0;
    ErrorSummary held_out;
};

// Fits the four coefficients of sim::AttentionCurve to the rows of this head size that is_held_out
// leaves.
AttentionFit fit_attention(const std::vector<AttentionRow>& rows, std::int64_t head_dim);

}  // namespace orrery::fit
