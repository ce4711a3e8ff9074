#include "sim/cost/attention_model.hpp"

#include "plan/check.hpp"
#include "sim/cost/log2.hpp"

namespace orrery::sim {

namespace {

// ∫ min(t, w) dt from 0 to `keys`: the pairs of as many queries and keys.
double pairs_of_square(double keys, double window) {
    if (window <= 0 || keys <= window) return 0.5 * keys * keys;
    return keys * window - 0.5 * window * window;
}

double or_head_dim(double dim, const AttentionShape& s) {
    return dim > 0 ? dim : s.head_dim;
}

}  // namespace

double causal_flops(const AttentionShape& s) {
    const double d = or_head_dim(s.product_dim, s);
    if (s.balanced) return 2.0 * s.batch * s.heads * d * s.queries * s.keys;
    // The first queries, which see keys − queries keys already, are missing from the square.
    const double before = s.queries < s.keys ? s.keys - s.queries : 0;
    const double pairs = pairs_of_square(s.keys, s.window) - pairs_of_square(before, s.window);
    return 4.0 * s.batch * s.heads * d * pairs;
}

double attended_pairs(const AttentionShape& s) {
    return causal_flops(s) / (4.0 * or_head_dim(s.product_dim, s));
}

double query_elements(const AttentionShape& s) {
    return s.batch * s.queries * s.heads * or_head_dim(s.element_dim, s);
}

double key_elements(const AttentionShape& s) {
    return s.batch * s.keys * s.kv_heads * or_head_dim(s.element_dim, s);
}

const AttentionCurve& nearest_curve(const std::vector<AttentionCurve>& curves,
                                    std::int64_t head_dim) {
    ORRERY_CHECK(!curves.empty(), "an attention profile has at least one curve");
    const double wanted = log2_of(static_cast<double>(head_dim));
    auto octaves_to = [&](const AttentionCurve& curve) {
        const double octaves = log2_of(static_cast<double>(curve.head_dim)) - wanted;
        return octaves < 0 ? -octaves : octaves;
    };
    const AttentionCurve* best = &curves.front();
    for (const AttentionCurve& curve : curves)
        if (octaves_to(curve) < octaves_to(*best)) best = &curve;
    return *best;
}

double attention_seconds(const AttentionCurve& curve, const AttentionShape& shape) {
    return curve.t0_us * 1e-6 + curve.query_element_ps * 1e-12 * query_elements(shape) +
           curve.key_element_ps * 1e-12 * key_elements(shape) +
           causal_flops(shape) / (curve.rate_tflops * 1e12);
}

}  // namespace orrery::sim
