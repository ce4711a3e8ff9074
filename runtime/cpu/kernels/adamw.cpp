// unscale and adamw.
#include <atomic>
#include <cmath>

#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

template <typename W>
void unscale_as(const Unscale& op, Team& team) {
    const auto factor = static_cast<W>(1 / static_cast<double>(*op.loss_scale));
    std::atomic<bool> overflow = false;
    for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
        Space<W> space, scaled;
        const ConstArray<W> g(read(op.gradients, begin, n, space.at), n);
        // Before the factor, and before what it makes is rounded: both may hide an infinity.
        if (!(g - g).isZero(0)) overflow = true;
        W* const y = target(op.gradients, begin, scaled.at);
        Array<W>(y, n) = g * factor;
        store(y, op.gradients, begin, n);
    });
    if (overflow || !op.accumulate) *op.overflow = overflow ? 1.0F : 0.0F;
}

template <typename W>
void sign_piece(const AdamW& op, double sign_rate, std::int64_t begin, std::int64_t n) {
    const Buffer& weights = op.master ? op.master : op.parameters;
    const auto rate = static_cast<W>(sign_rate);
    Space<W> gradient, parameter;
    const ConstArray<W> g(read(op.gradients, begin, n, gradient.at), n);
    const ConstArray<W> before(read(weights, begin, n, parameter.at), n);
    W* const w = target(weights, begin, parameter.at);
    for (std::int64_t i = 0; i < n; ++i) {
        W stepped = before[i];
        if (g[i] > 0) stepped -= rate;
        if (g[i] < 0) stepped += rate;
        w[i] = stepped;
    }
    store(w, weights, begin, n);
    if (op.master) convert_to(op.parameters, begin, n, w);
}

template <typename W>
void adamw_piece(const AdamW& op, double clip, double decay, std::int64_t begin, std::int64_t n) {
    Space<W> gradient, parameter;
    const Buffer& weights = op.master ? op.master : op.parameters;
    const auto beta1 = static_cast<W>(op.beta1), beta2 = static_cast<W>(op.beta2);
    const auto rest1 = static_cast<W>(1 - op.beta1), rest2 = static_cast<W>(1 - op.beta2);
    const auto factor = static_cast<W>(clip), epsilon = static_cast<W>(op.epsilon);
    const auto rate = static_cast<W>(op.learning_rate / op.correction1);
    const auto inverse2 = static_cast<W>(1 / op.correction2);
    const auto kept = static_cast<W>(1 - op.learning_rate * decay);
    const ConstArray<W> g(read(op.gradients, begin, n, gradient.at), n);
    Space<W> first, second;
    const ConstArray<W> m_before(read(op.m, begin, n, first.at), n);
    const ConstArray<W> v_before(read(op.v, begin, n, second.at), n);
    W *const m_after = target(op.m, begin, first.at), *const v_after =
                                                          target(op.v, begin, second.at);
    Array<W> m(m_after, n), v(v_after, n);
    const ConstArray<W> before(read(weights, begin, n, parameter.at), n);
    W* const w = target(weights, begin, parameter.at);
    m = beta1 * m_before + (rest1 * factor) * g;
    v = beta2 * v_before + (rest2 * factor * factor) * g.square();
    // Eigen's root of a packet is an approximation, that of a single number is not; and which are
    // in packets depends on how the memory happens to be aligned.
    Space<W> roots;
    for (std::int64_t i = 0; i < n; ++i)
        roots.at[i] = std::sqrt(v[i] * inverse2);
    Array<W>(w, n) = kept * before - rate * m / (ConstArray<W>(roots.at, n) + epsilon);
    store(w, weights, begin, n);
    store(m_after, op.m, begin, n);
    store(v_after, op.v, begin, n);
    if (op.master) convert_to(op.parameters, begin, n, w);
}

}  // namespace

void unscale(const Unscale& op, Team& team) {
    with_work_type(op.gradients.dtype, [&](auto w) { unscale_as<decltype(w)>(op, team); });
}

void adamw(const AdamW& op, Team& team) {
    for (const float* flag : op.skip_where)
        if (flag != nullptr && *flag > 0) return;
    const double clip = clip_factor(op.norm_bins, op.clip_norm);
    with_work_type(op.m.dtype, [&](auto w) {
        for_runs(op.runs, op.elements, [&](const SteppedRun& run) {
            const double decay = run.decays ? op.weight_decay : 0;
            for_pieces(team, run.elements, [&](std::int64_t begin, std::int64_t n) {
                if (run.sign_rate > 0)
                    sign_piece<decltype(w)>(op, run.sign_rate, run.first + begin, n);
                else
                    adamw_piece<decltype(w)>(op, clip, decay, run.first + begin, n);
            });
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
