// embedding and embedding_backward.
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Calls f(column, length) for pieces of a row.
template <typename F>
void for_pieces_of_row(std::int64_t width, const F& f) {
    for (std::int64_t column = 0; column < width; column += kPiece)
        f(column, width - column < kPiece ? width - column : kPiece);
}

template <typename W>
void embedding_as(const Embedding& op, Team& team) {
    const auto scale = static_cast<W>(op.scale);
    team.parallel_for(op.rows, rows_per_part(op.width), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row)
            for_pieces_of_row(op.width, [&](std::int64_t column, std::int64_t n) {
                const std::int64_t entry = op.tokens[row] - op.part.first;
                const bool here = entry >= 0 && entry < op.part.rows;
                Space<W> y;
                Array<W> out(y.at, n);
                if (here) convert_from(op.table, entry * op.width + column, n, y.at);
                if (here)
                    out *= scale;
                else
                    out.setZero();
                convert_to(op.y, row * op.width + column, n, y.at);
            });
    });
}

// Entry of the table that row r looked up, or −1.
std::int64_t entry_of(const EmbeddingBackward& op, std::int64_t row) {
    const std::int64_t entry =
        op.tokens != nullptr ? op.tokens[row] - op.part.first : op.position_rows.of(row);
    return entry >= 0 && entry < op.part.rows ? entry : -1;
}

// The rows that looked up each entry, in ascending order: those of entry e are
// rows[first[e]] … rows[first[e + 1] − 1].
struct RowsByEntry {
    std::int64_t* first;
    std::int64_t* rows;
};

RowsByEntry sort_rows(const EmbeddingBackward& op, Team& team) {
    const auto entries = static_cast<std::size_t>(op.part.rows);
    team.reserve((entries + 2 + static_cast<std::size_t>(op.rows)) * sizeof(std::int64_t), 0);
    auto* const next = static_cast<std::int64_t*>(team.shared_scratch());
    for (std::size_t entry = 0; entry < entries + 2; ++entry)
        next[entry] = 0;
    std::int64_t* const rows = next + entries + 2;
    for (std::int64_t row = 0; row < op.rows; ++row)
        ++next[entry_of(op, row) + 2];
    next[1] = 0;  // rows of no entry
    for (std::size_t entry = 2; entry < entries + 2; ++entry)
        next[entry] += next[entry - 1];
    // next[e + 1] is now where rows of e begin; each row moves it on, to where those of e + 1 do.
    for (std::int64_t row = 0; row < op.rows; ++row)
        if (const std::int64_t entry = entry_of(op, row); entry >= 0) rows[next[entry + 1]++] = row;
    return {next, rows};
}

template <typename W>
void embedding_backward_entry(const EmbeddingBackward& op, std::int64_t entry,
                              const RowsByEntry& by_entry) {
    const std::int64_t first = by_entry.first[entry], last = by_entry.first[entry + 1];
    if (first == last && op.accumulate) return;
    const auto scale = static_cast<W>(op.scale);
    for_pieces_of_row(op.width, [&](std::int64_t column, std::int64_t n) {
        Space<W> total, space;
        Array<W> sum(total.at, n);
        sum.setZero();
        for (std::int64_t i = first; i < last; ++i) {
            const std::int64_t at = by_entry.rows[i] * op.width + column;
            sum += ConstArray<W>(read(op.dy, at, n, space.at), n);
        }
        sum *= scale;
        const std::int64_t at = entry * op.width + column;
        if (op.accumulate) sum += ConstArray<W>(read(op.dtable, at, n, space.at), n);
        convert_to(op.dtable, at, n, total.at);
    });
}

}  // namespace

void embedding(const Embedding& op, Team& team) {
    with_work_type(op.table.dtype, [&](auto w) { embedding_as<decltype(w)>(op, team); });
}

void embedding_backward(const EmbeddingBackward& op, Team& team) {
    const RowsByEntry by_entry = sort_rows(op, team);
    with_work_type(op.dy.dtype, [&](auto w) {
        team.parallel_for(op.part.rows, 64, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t entry = begin; entry < end; ++entry)
                embedding_backward_entry<decltype(w)>(op, entry, by_entry);
        });
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
