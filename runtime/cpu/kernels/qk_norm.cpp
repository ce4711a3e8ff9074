// qk_norm, qk_norm_sums and qk_norm_backward.
#include <cmath>

#include "runtime/cpu/kernels/column_sums.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

std::int64_t rows_of(const AttentionShape& shape) {
    return shape.batch * shape.sequence;
}

// What is normed of a packed row: queries, then keys.
struct Normed {
    std::int64_t first = 0, width = 0;
};
std::array<Normed, 2> normed_parts(const AttentionShape& shape) {
    const std::int64_t q = shape.heads * shape.head_dim;
    return {Normed{0, q}, Normed{q, shape.kv_heads * shape.head_dim}};
}

// Weights of a part as they scale its elements: one of all elements, or that of each head.
template <typename W>
void read_weights(const Buffer& weight, double offset, std::int64_t width, std::int64_t own,
                  W* to) {
    if (!weight) {
        Array<W>(to, width).setOnes();
        return;
    }
    for (std::int64_t at = 0; at < width; at += own)
        convert_from(weight, 0, own, to + at);
    if (offset != 0) Array<W>(to, width) += static_cast<W>(offset);
}

// 1/σ of the piece of a part that is normed together.
template <typename W>
W inverse_of(const W* x, std::int64_t n, double epsilon) {
    const W squares = sum_of<W>(n, [&](auto i) { return x[i] * x[i]; });
    return 1 / std::sqrt(squares / static_cast<W>(n) + static_cast<W>(epsilon));
}
template <typename W>
W inverse_of(W squares, std::int64_t n, std::int64_t ranks, double epsilon) {
    return 1 / std::sqrt(squares / static_cast<W>(n * ranks) + static_cast<W>(epsilon));
}

template <typename W>
void qk_norm_as(const QkNorm& op, Team& team) {
    const AttentionShape& shape = op.shape;
    const std::int64_t width = shape.qkv_width();
    const ScratchRows<W> space(team, width, 2, 2);
    const auto parts = normed_parts(shape);
    const std::array<Buffer, 2> weights = {op.q_weight, op.k_weight};
    for (std::size_t p = 0; p < 2; ++p)
        read_weights(weights[p], op.weight_offset, parts[p].width,
                     op.sums ? parts[p].width : shape.head_dim,
                     space.shared(static_cast<std::int64_t>(p)));
    team.parallel_for(rows_of(shape), rows_per_part(width), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row) {
            const W* const x = read(op.qkv, row * width, width, space.own(worker, 0));
            W* const y = target(op.y, row * width, space.own(worker, 1));
            for (std::size_t p = 0; p < 2; ++p) {
                const auto [first, part] = parts[p];
                const std::int64_t together = op.sums ? part : shape.head_dim;
                const W* const weight = space.shared(static_cast<std::int64_t>(p));
                for (std::int64_t at = 0; at < part; at += together) {
                    const W inverse =
                        op.sums
                            ? inverse_of(data<W>(op.sums)[2 * row + static_cast<std::int64_t>(p)],
                                         part, op.ranks, op.epsilon)
                            : inverse_of(x + first + at, together, op.epsilon);
                    for (std::int64_t i = at; i < at + together; ++i)
                        y[first + i] = x[first + i] * inverse * weight[i];
                }
            }
            const std::int64_t values = parts[1].first + parts[1].width;
            for (std::int64_t i = values; i < width; ++i)
                y[i] = x[i];
            store(y, op.y, row * width, width);
        }
    });
}

template <typename W>
void qk_norm_sums_as(const QkNormSums& op, Team& team) {
    const AttentionShape& shape = op.shape;
    const std::int64_t width = shape.qkv_width();
    const ScratchRows<W> space(team, width, 2, 2);
    const auto parts = normed_parts(shape);
    if (op.dy) {
        read_weights(op.q_weight, op.weight_offset, parts[0].width, parts[0].width,
                     space.shared(0));
        read_weights(op.k_weight, op.weight_offset, parts[1].width, parts[1].width,
                     space.shared(1));
    }
    team.parallel_for(rows_of(shape), rows_per_part(width), [&](auto begin, auto end, int worker) {
        for (std::int64_t row = begin; row < end; ++row) {
            const W* const x = read(op.qkv, row * width, width, space.own(worker, 0));
            const W* const dy =
                op.dy ? read(op.dy, row * width, width, space.own(worker, 1)) : nullptr;
            W* const sums = data<W>(op.sums, 2 * row);
            for (std::size_t p = 0; p < 2; ++p) {
                const W* const from = x + parts[p].first;
                const W* const with = dy != nullptr ? dy + parts[p].first : nullptr;
                const W* const weight = space.shared(static_cast<std::int64_t>(p));
                sums[p] = sum_of<W>(parts[p].width, [&](auto i) {
                    return with != nullptr ? with[i] * weight[i] * from[i] : from[i] * from[i];
                });
            }
        }
    });
}

// With x̂ = x/σ and g = dy·weight: dx = (g − x̂·mean of g·x̂)/σ, dweight = Σ dy·x̂.
template <typename W>
class QkNormGradient {
  public:
    QkNormGradient(const QkNormBackward& op, Team& team)
        : op_(op),
          team_(team),
          parts_(normed_parts(op.shape)),
          width_(op.shape.qkv_width()),
          sums_(row_parts(rows_of(op.shape))),
          space_(team, width_, 2 + sums_, 3) {}

    void run() {
        const std::array<Buffer, 2> weights = {op_.q_weight, op_.k_weight};
        for (std::size_t p = 0; p < 2; ++p)
            read_weights(weights[p], op_.weight_offset, parts_[p].width, own(p), weight(p));
        team_.parallel_for(rows_of(op_.shape), kRowsPerSum, [&](auto begin, auto end, int worker) {
            W* const sums = space_.shared(2 + begin / kRowsPerSum);
            Array<W>(sums, width_).setZero();
            for (std::int64_t row = begin; row < end; ++row)
                run_row(row, worker, sums);
        });
        const std::array<Buffer, 2> to = {op_.dq_weight, op_.dk_weight};
        for (std::size_t p = 0; p < 2 && to[p]; ++p)
            add_parts(space_.shared(2) + parts_[p].first, sums_, space_.stride(), own(p), to[p],
                      op_.accumulate, team_);
    }

  private:
    // Elements of a weight.
    std::int64_t own(std::size_t p) const {
        return op_.sums ? parts_[p].width : op_.shape.head_dim;
    }
    W* weight(std::size_t p) const { return space_.shared(static_cast<std::int64_t>(p)); }

    // Sums of weights' gradients stand at the columns of the part, of all heads at those of the
    // first.
    void run_row(std::int64_t row, int worker, W* sums) {
        const std::int64_t at = row * width_;
        const W* const dy = read(op_.dy, at, width_, space_.own(worker, 0));
        const W* const x = read(op_.qkv, at, width_, space_.own(worker, 1));
        W* const dx = target(op_.dqkv, at, space_.own(worker, 2));
        for (std::size_t p = 0; p < 2; ++p) {
            const std::int64_t first = parts_[p].first, together = own(p);
            for (std::int64_t head = 0; head < parts_[p].width; head += together)
                run_piece(row, p, {dy + first + head, x + first + head, weight(p) + head}, together,
                          dx + first + head, sums + first);
        }
        for (std::int64_t i = parts_[1].first + parts_[1].width; i < width_; ++i)
            dx[i] = dy[i];
        store(dx, op_.dqkv, at, width_);
    }

    struct Piece {
        const W* dy;
        const W* x;
        const W* weight;
    };
    void run_piece(std::int64_t row, std::size_t p, const Piece& piece, std::int64_t n, W* dx,
                   W* sums) {
        const auto [dy, x, weight] = piece;
        W inverse, mean;
        if (op_.sums) {
            const std::int64_t at = 2 * row + static_cast<std::int64_t>(p);
            inverse = inverse_of(data<W>(op_.sums)[at], n, op_.ranks, op_.epsilon);
            mean = data<W>(op_.dots)[at] * inverse / static_cast<W>(n * op_.ranks);
        } else {
            inverse = inverse_of(x, n, op_.epsilon);
            mean = sum_of<W>(n, [&](auto i) { return dy[i] * weight[i] * x[i]; }) * inverse /
                   static_cast<W>(n);
        }
        for (std::int64_t i = 0; i < n; ++i) {
            const W normed = x[i] * inverse;
            sums[i] += dy[i] * normed;
            dx[i] = inverse * (dy[i] * weight[i] - normed * mean);
        }
    }

    const QkNormBackward& op_;
    Team& team_;
    std::array<Normed, 2> parts_;
    std::int64_t width_, sums_;
    ScratchRows<W> space_;
};

}  // namespace

void qk_norm(const QkNorm& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { qk_norm_as<decltype(w)>(op, team); });
}

void qk_norm_sums(const QkNormSums& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { qk_norm_sums_as<decltype(w)>(op, team); });
}

void qk_norm_backward(const QkNormBackward& op, Team& team) {
    with_work_type(op.qkv.dtype, [&](auto w) { QkNormGradient<decltype(w)>(op, team).run(); });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
