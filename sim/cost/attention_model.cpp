#include "sim/cost/attention_model.hpp"

#include "plan/ir/check.hpp"
#include "sim/cost/log2.hpp"

namespace orrery::sim {

double causal_flops(const AttentionShape& s) {
    const double pairs = s.queries <= s.keys ? s.queries * s.keys - 0.5 * s.queries * s.queries
                                             : 0.5 * s.keys * s.keys;
    return 4.0 * s.batch * s.heads * s.head_dim * pairs;
}

double query_elements(const AttentionShape& s) {
    return s.batch * s.queries * s.heads * s.head_dim;
}

double key_elements(const AttentionShape& s) {
    return s.batch * s.keys * s.kv_heads * s.head_dim;
}

const AttentionCurve& nearest_curve(const AttentionProfile& attention, std::int64_t head_dim) {
    ORRERY_CHECK(!attention.forward.empty(), "an attention profile has at least one curve");
    const double wanted = log2_of(static_cast<double>(head_dim));
    auto octaves_to = [&](const AttentionCurve& curve) {
        const double octaves = log2_of(static_cast<double>(curve.head_dim)) - wanted;
        return octaves < 0 ? -octaves : octaves;
    };
    const AttentionCurve* best = &attention.forward.front();
    for (const AttentionCurve& curve : attention.forward)
        if (octaves_to(curve) < octaves_to(*best)) best = &curve;
    return *best;
}

double attention_seconds(const AttentionCurve& curve, const AttentionShape& shape) {
    return curve.t0_us * 1e-6 + curve.query_element_ps * 1e-12 * query_elements(shape) +
           curve.key_element_ps * 1e-12 * key_elements(shape) +
           causal_flops(shape) / (curve.rate_tflops * 1e12);
}

}  // namespace orrery::sim
