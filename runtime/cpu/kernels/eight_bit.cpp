// Casts to and from eight bits, largest magnitudes, transposes.
#include "runtime/kernels/eight_bit.hpp"

#include <algorithm>
#include <atomic>

#include "plan/check.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

static_assert(kPiece % kScaledBlock == 0, "a block lies within a piece");

// As bits: NaN is above all numbers.
template <typename W>
std::uint32_t largest_of(const W* from, std::int64_t n) {
    std::uint32_t largest = 0;
    for (std::int64_t i = 0; i < n; ++i)
        largest = std::max(largest, magnitude_bits(static_cast<float>(from[i])));
    return largest;
}

// Of numbers that share a scale.
template <typename Number, typename W>
void cast_run(const W* from, std::int64_t n, float scale, std::uint8_t* to) {
    const bool none = !(scale == scale);
    const float factor = none ? 0 : 1 / scale;
    if (none) return void(std::fill_n(to, n, std::uint8_t{0}));
    for (std::int64_t i = 0; i < n; ++i)
        to[i] = Number::from(static_cast<float>(from[i]) * factor);
}

template <typename W>
void pack_block(const W* from, std::int64_t n, std::uint8_t* to, std::uint8_t& scale) {
    scale = block_scale_for(std::bit_cast<float>(largest_of(from, n)), kLargestE4M3);
    cast_run<E4M3>(from, n, value_of(scale), to);
}

template <typename Number, typename W>
void expand_run(const std::uint8_t* from, std::int64_t n, float scale, W* to) {
    for (std::int64_t i = 0; i < n; ++i)
        to[i] = static_cast<W>(Number::value(from[i]) * scale);
}

// Calls f(first element within the piece, length, number of the block) for the blocks of a piece.
template <typename F>
void for_blocks(std::int64_t begin, std::int64_t n, const F& f) {
    for (std::int64_t i = 0; i < n; i += kScaledBlock)
        f(i, std::min(kScaledBlock, n - i), (begin + i) / kScaledBlock);
}

// Calls f(the type of numbers).
template <typename F>
void with_numbers(plan::DType dtype, const F& f) {
    if (dtype == plan::DType::fp8_e5m2) return f(E5M2{});
    ORRERY_CHECK(dtype == plan::DType::fp8_e4m3, "numbers of eight bits");
    f(E4M3{});
}

float scale_at(const Buffer& scales, std::int64_t i) {
    return scales.dtype == plan::DType::u8 ? value_of(*data<std::uint8_t>(scales, i))
                                           : *data<float>(scales, i);
}

void put_scale(const Buffer& scales, std::int64_t i, float largest, float most) {
    if (scales.dtype == plan::DType::u8)
        *data<std::uint8_t>(scales, i) = block_scale_for(largest, most);
    else
        *data<float>(scales, i) = scale_for(largest, most);
}

std::int64_t stride_of(const Quantize& op, const EightBitCopy& copy) {
    return copy.stride > 0 ? copy.stride : op.rows / op.matrices;
}

// A copy by how its source lies: one scale for so many rows and columns of that.
struct Cut {
    std::int64_t rows, columns;
    std::int64_t stride;  // from row to row of a transposed copy

    explicit Cut(const Quantize& op, const EightBitCopy& copy)
        : rows(copy.transposed ? copy.scales.columns : copy.scales.rows),
          columns(copy.transposed ? copy.scales.rows : copy.scales.columns),
          stride(stride_of(op, copy)) {}
};

// Where element (row, column) of the source is in the copy, and where its scale.
std::int64_t place_in(const Quantize& op, const EightBitCopy& copy, std::int64_t row,
                      std::int64_t column) {
    if (!copy.transposed) return row * op.width + column;
    const std::int64_t rows = op.rows / op.matrices;
    return (row / rows * op.width + column) * stride_of(op, copy) + row % rows;
}
std::int64_t scale_of(const Quantize& op, const EightBitCopy& copy, std::int64_t row,
                      std::int64_t column) {
    if (!copy.transposed) return copy.scales.index(row, column);
    const std::int64_t rows = op.rows / op.matrices;
    return copy.scales.index(row / rows * op.width + column, row % rows);
}

// Of blocks in bands of rows that share scales, and of columns so many that blocks are whole.
void make_scales(const Quantize& op, const EightBitCopy& copy, float most, Team& team) {
    const Cut cut(op, copy);
    const std::int64_t wide =
        cut.columns >= kPiece ? cut.columns : kPiece / cut.columns * cut.columns;
    const std::int64_t across = (op.width + wide - 1) / wide;
    const std::int64_t down = (op.rows + cut.rows - 1) / cut.rows;
    const auto make = [&](std::int64_t row, std::int64_t column) {
        const std::int64_t end = std::min(op.width, column + wide);
        const std::int64_t last_row = std::min(op.rows, row + cut.rows);
        std::uint32_t largest[kPiece] = {};
        Space<float> space;
        for (std::int64_t r = row; r < last_row; ++r)
            for (std::int64_t c = column; c < end; c += kPiece) {
                const std::int64_t n = std::min(kPiece, end - c);
                const float* const x = read(op.x, r * op.width + c, n, space.at);
                for (std::int64_t i = 0; i < n;) {
                    const std::int64_t block = (c + i - column) / cut.columns;
                    const std::int64_t run =
                        std::min(n - i, column + (block + 1) * cut.columns - c - i);
                    largest[block] = std::max(largest[block], largest_of(x + i, run));
                    i += run;
                }
            }
        for (std::int64_t c = column; c < end; c += cut.columns)
            put_scale(copy.scales.values, scale_of(op, copy, row, c),
                      std::bit_cast<float>(largest[(c - column) / cut.columns]), most);
    };
    team.parallel_for(down * across, 1, [&](std::int64_t begin, std::int64_t unit_end) {
        for (std::int64_t unit = begin; unit < unit_end; ++unit)
            make(unit / across * cut.rows, unit % across * wide);
    });
}

template <typename Number>
void cast_copy(const Quantize& op, const EightBitCopy& copy, Team& team) {
    const Cut cut(op, copy);
    // Of a transposed copy so many rows together that what is written lies in whole lines.
    constexpr std::int64_t kTogether = 64;
    team.parallel_for(op.rows, kTogether, [&](std::int64_t begin, std::int64_t end) {
        Space<float> space;
        alignas(64) std::uint8_t numbers[kPiece];
        for (std::int64_t c = 0; c < op.width; c += kPiece)
            for (std::int64_t row = begin; row < end; ++row) {
                const std::int64_t n = std::min(kPiece, op.width - c);
                const float* const x = read(op.x, row * op.width + c, n, space.at);
                std::uint8_t* const to =
                    copy.transposed ? numbers : data<std::uint8_t>(copy.data, row * op.width + c);
                for (std::int64_t i = 0; i < n;) {
                    const std::int64_t run =
                        std::min(n - i, ((c + i) / cut.columns + 1) * cut.columns - c - i);
                    cast_run<Number>(x + i, run,
                                     scale_at(copy.scales.values, scale_of(op, copy, row, c + i)),
                                     to + i);
                    i += run;
                }
                if (!copy.transposed) continue;
                std::uint8_t* const first =
                    data<std::uint8_t>(copy.data, place_in(op, copy, row, c));
                for (std::int64_t i = 0; i < n; ++i)
                    first[i * cut.stride] = numbers[i];
            }
    });
}

}  // namespace

void pack(const Cast& op, Team& team) {
    with_work_type(op.x.dtype, [&](auto w) {
        using W = decltype(w);
        for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
            Space<W> space;
            const W* const from = read(op.x, begin, n, space.at);
            for_blocks(begin, n, [&](std::int64_t i, std::int64_t length, std::int64_t block) {
                pack_block(from + i, length, data<std::uint8_t>(op.y, begin + i),
                           *data<std::uint8_t>(op.scales, block));
            });
        });
    });
}

void unpack(const Cast& op, Team& team) {
    with_work_type(op.y.dtype, [&](auto w) {
        using W = decltype(w);
        for_pieces(team, op.elements, [&](std::int64_t begin, std::int64_t n) {
            Space<W> space;
            W* const to = target(op.y, begin, space.at);
            for_blocks(begin, n, [&](std::int64_t i, std::int64_t length, std::int64_t block) {
                expand_run<E4M3>(data<std::uint8_t>(op.x, begin + i), length,
                                 value_of(*data<std::uint8_t>(op.scales, block)), to + i);
            });
            store(to, op.y, begin, n);
        });
    });
}

template <typename W>
void expand(const Buffer& from, const Scales& scales, const MatrixPart& part, W* to) {
    with_numbers(from.dtype, [&](auto number) {
        using Number = decltype(number);
        const auto* const row = data<std::uint8_t>(from, part.row * part.stride);
        for (std::int64_t i = 0; i < part.columns;) {
            const std::int64_t column = part.column + i;
            const std::int64_t run =
                std::min(part.columns - i, (column / scales.columns + 1) * scales.columns - column);
            expand_run<Number>(row + column, run,
                               scale_at(scales.values, scales.index(part.row, column)), to + i);
            i += run;
        }
    });
}
template void expand<float>(const Buffer&, const Scales&, const MatrixPart&, float*);
template void expand<double>(const Buffer&, const Scales&, const MatrixPart&, double*);

void amax(const Amax& op, Team& team) {
    const std::int64_t each = op.elements / op.matrices;
    for (std::int64_t i = 0; i < op.matrices; ++i) {
        std::atomic<std::uint32_t> largest{
            op.accumulate ? magnitude_bits(*data<float>(op.largest, i)) : 0};
        for_pieces(team, each, [&](std::int64_t begin, std::int64_t n) {
            Space<float> space;
            const std::uint32_t here = largest_of(read(op.x, i * each + begin, n, space.at), n);
            std::uint32_t before = largest.load(std::memory_order_relaxed);
            while (before < here && !largest.compare_exchange_weak(before, here)) {
            }
        });
        *data<float>(op.largest, i) = std::bit_cast<float>(largest.load());
    }
}

void update_scales(const UpdateScales& op, Team&) {
    float* const history = data<float>(op.history);
    float* const noted = data<float>(op.noted);
    std::move_backward(history + op.matrices, history + (op.steps - 1) * op.matrices,
                       history + op.steps * op.matrices);
    std::replace_copy_if(
        noted, noted + op.matrices, history + op.matrices,
        [](float most) { return magnitude_bits(most) >= 0x7f800000U; }, 0.0F);
    std::fill_n(noted, op.matrices, 0.0F);
    for (std::int64_t i = 0; i < op.matrices; ++i) {
        std::uint32_t largest = 0;
        for (std::int64_t step = 1; step < op.steps; ++step)
            largest = std::max(largest, magnitude_bits(history[step * op.matrices + i]));
        history[i] = std::bit_cast<float>(largest);
    }
}

void quantize(const Quantize& op, Team& team) {
    for (const EightBitCopy& copy : op.copies) {
        if (!copy.data) continue;
        with_numbers(copy.data.dtype, [&](auto number) {
            using Number = decltype(number);
            if (op.largest)
                for (std::int64_t i = 0; i < op.matrices; ++i)
                    put_scale(copy.scales.values, i, *data<float>(op.largest, i), Number::kLargest);
            else
                make_scales(op, copy, Number::kLargest, team);
            cast_copy<Number>(op, copy, team);
        });
    }
}

namespace {

template <typename T>
void turn(const Transpose& op, Team& team) {
    constexpr std::int64_t kTile = 64;
    const std::int64_t rows = op.rows / op.matrices, across = (op.width + kTile - 1) / kTile;
    const std::int64_t down = (rows + kTile - 1) / kTile;
    team.parallel_for(op.matrices * across * down, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t tile = begin; tile < end; ++tile) {
            const std::int64_t matrix = tile / (across * down);
            const T* const x = data<T>(op.x, matrix * rows * op.width);
            T* const y = data<T>(op.y, matrix * rows * op.width);
            const std::int64_t first = tile / across % down * kTile, left = tile % across * kTile;
            for (std::int64_t r = first; r < std::min(rows, first + kTile); ++r)
                for (std::int64_t c = left; c < std::min(op.width, left + kTile); ++c)
                    y[c * rows + r] = x[r * op.width + c];
        }
    });
}

}  // namespace

void transpose(const Transpose& op, Team& team) {
    if (plan::size_bytes(op.x.dtype) == 1)
        turn<std::uint8_t>(op, team);
    else
        turn<std::uint32_t>(op, team);
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
