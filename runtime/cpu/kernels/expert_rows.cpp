// permute, unpermute, group_rows.
#include <algorithm>
#include <cstring>
#include <vector>

#include "plan/check.hpp"
#include "runtime/cpu/kernels/elements.hpp"
#include "runtime/cpu/kernels/functions.hpp"
#include "runtime/cpu/kernels/lanes.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Copies rows [row, row + rows) of x to those from `to` on.
void copy_rows(const Buffer& x, std::int64_t row, const Buffer& y, std::int64_t to,
               std::int64_t rows, std::int64_t width) {
    const std::int64_t bytes = width * plan::size_bytes(x.dtype);
    std::memcpy(static_cast<std::byte*>(y.data) + to * bytes,
                static_cast<const std::byte*>(x.data) + row * bytes,
                static_cast<std::size_t>(rows * bytes));
}

// Where choices stand when they are sorted by expert, in order among those of one.
class SortedChoice {
  public:
    SortedChoice(const std::int32_t* choice, std::int64_t choices, std::int64_t experts, Team& team)
        : starts_(static_cast<std::size_t>(experts) + 1) {
        team.reserve(static_cast<std::size_t>(choices) * sizeof(std::int64_t), 0);
        places_ = static_cast<std::int64_t*>(team.shared_scratch());
        for (std::int64_t i = 0; i < choices; ++i)
            ++starts_[static_cast<std::size_t>(choice[i]) + 1];
        for (std::size_t expert = 1; expert < starts_.size(); ++expert)
            starts_[expert] += starts_[expert - 1];
        std::vector<std::int64_t> next(starts_.begin(), starts_.end() - 1);
        for (std::int64_t i = 0; i < choices; ++i)
            places_[i] = next[static_cast<std::size_t>(choice[i])]++;
    }
    std::int64_t place(std::int64_t choice) const { return places_[choice]; }
    std::int64_t start(std::int64_t expert) const {
        return starts_[static_cast<std::size_t>(expert)];
    }

  private:
    std::vector<std::int64_t> starts_;
    std::int64_t* places_;
};

template <typename W>
void unpermute_as(const Unpermute& op, Team& team) {
    const ExpertPlaces& places = op.places;
    const SortedChoice sorted(op.choice, op.rows * op.chosen, places.experts, team);
    const std::int64_t local = places.local();
    // Of a share of choice i's row.
    const auto returned_row = [&](std::int64_t i, std::int64_t share) {
        const std::int64_t group = op.choice[i] / local;
        const std::int64_t start = sorted.start(group * local);
        const std::int64_t rows = sorted.start((group + 1) * local) - start;
        return start * places.split + share * rows + sorted.place(i) - start;
    };
    const auto sum_piece = [&](std::int64_t row, std::int64_t column, std::int64_t n) {
        Space<W> sum, space;
        for (std::int64_t i = 0; i < op.chosen * places.split; ++i) {
            const std::int64_t from =
                returned_row(row * op.chosen + i / places.split, i % places.split);
            const ConstArray<W> part(read(op.returned, from * op.width + column, n, space.at), n);
            if (i == 0)
                Array<W>(sum.at, n) = part;
            else
                Array<W>(sum.at, n) += part;
        }
        convert_to(op.y, row * op.width + column, n, sum.at);
    };
    const auto sum_dweights = [&](std::int64_t i) {
        W sum = data<W>(op.returned_dweights)[returned_row(i, 0)];
        for (std::int64_t share = 1; share < places.split; ++share)
            sum += data<W>(op.returned_dweights)[returned_row(i, share)];
        data<W>(op.dweights)[i] = sum;
    };
    team.parallel_for(op.rows, rows_per_part(op.width * op.chosen), [&](auto begin, auto end) {
        for (std::int64_t row = begin; row < end; ++row) {
            for (std::int64_t column = 0; column < op.width; column += kPiece)
                sum_piece(row, column, std::min(kPiece, op.width - column));
            for (std::int64_t i = 0; op.returned_dweights && i < op.chosen; ++i)
                sum_dweights(row * op.chosen + i);
        }
    });
}

}  // namespace

void permute(const Permute& op, Team& team) {
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    const SortedChoice sorted(op.choice, op.rows * op.chosen, op.experts, team);
    team.parallel_for(op.rows, rows_per_part(op.width * op.chosen), [&](auto begin, auto end) {
        for (std::int64_t i = begin * op.chosen; i < end * op.chosen; ++i) {
            copy_rows(op.x, i / op.chosen, op.y, sorted.place(i), 1, op.width);
            if (op.weights) copy_rows(op.weights, i, op.permuted_weights, sorted.place(i), 1, 1);
        }
    });
}

void unpermute(const Unpermute& op, Team& team) {
    with_work_type(op.returned.dtype, [&](auto w) { unpermute_as<decltype(w)>(op, team); });
}

void group_rows(const GroupRows& op, Team& team) {
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    struct Run {
        std::int64_t by_member, by_expert, rows;
    };
    const ExpertPlaces& places = op.places;
    const std::int64_t local = places.local(), first = places.first_of(places.member);
    std::vector<Run> runs;  // by member, then by expert
    std::int64_t row = 0;
    for (std::int64_t from = 0; from < places.ranks; ++from)
        for (std::int64_t i = 0; i < local; ++i) {
            runs.push_back({row, 0, places.count(from, first + i)});
            row += runs.back().rows;
        }
    row = 0;
    for (std::int64_t i = 0; i < local; ++i)
        for (std::int64_t from = 0; from < places.ranks; ++from) {
            Run& run = runs[static_cast<std::size_t>(from * local + i)];
            run.by_expert = row;
            row += run.rows;
        }
    team.parallel_for(static_cast<std::int64_t>(runs.size()), 1, [&](auto i, auto) {
        const Run& run = runs[static_cast<std::size_t>(i)];
        const auto [from, to] = op.apart ? std::pair(run.by_expert, run.by_member)
                                         : std::pair(run.by_member, run.by_expert);
        copy_rows(op.x, from, op.y, to, run.rows, op.width);
    });
}

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
