// choose_ranks, permute, unpermute, group_rows, spread_rows, spread_weights.
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

void clear_rows(const Permute& op, std::int64_t begin, std::int64_t end) {
    const auto clear = [&](const Buffer& buffer, std::int64_t width) {
        const std::int64_t bytes = width * plan::size_bytes(buffer.dtype);
        std::memset(static_cast<std::byte*>(buffer.data) + begin * bytes, 0,
                    static_cast<std::size_t>((end - begin) * bytes));
    };
    clear(op.y, op.width);
    if (op.weights) clear(op.permuted_weights, 1);
}

// Where choices stand when they are sorted by expert, in order among those of one; -1 stands
// nowhere. With a capacity each expert has as many places.
class SortedChoice {
  public:
    SortedChoice(const std::int32_t* choice, std::int64_t choices, std::int64_t experts,
                 std::int64_t capacity, Team& team)
        : starts_(static_cast<std::size_t>(experts) + 1) {
        team.reserve(static_cast<std::size_t>(choices) * sizeof(std::int64_t), 0);
        places_ = static_cast<std::int64_t*>(team.shared_scratch());
        if (capacity > 0)
            std::fill(starts_.begin() + 1, starts_.end(), capacity);
        else
            for (std::int64_t i = 0; i < choices; ++i)
                if (choice[i] >= 0) ++starts_[static_cast<std::size_t>(choice[i]) + 1];
        for (std::size_t expert = 1; expert < starts_.size(); ++expert)
            starts_[expert] += starts_[expert - 1];
        ends_.assign(starts_.begin(), starts_.end() - 1);
        for (std::int64_t i = 0; i < choices; ++i)
            places_[i] = choice[i] < 0 ? -1 : ends_[static_cast<std::size_t>(choice[i])]++;
    }
    std::int64_t place(std::int64_t choice) const { return places_[choice]; }
    std::int64_t start(std::int64_t expert) const {
        return starts_[static_cast<std::size_t>(expert)];
    }
    // Behind the last place of an expert that is taken.
    std::int64_t end(std::int64_t expert) const { return ends_[static_cast<std::size_t>(expert)]; }

  private:
    std::vector<std::int64_t> starts_, ends_;
    std::int64_t* places_;
};

template <typename W>
void unpermute_as(const Unpermute& op, Team& team) {
    const ExpertPlaces& places = op.places;
    const SortedChoice sorted(op.choice, op.rows * op.chosen, places.experts, op.capacity, team);
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
        bool first = true;
        for (std::int64_t i = 0; i < op.chosen * places.split; ++i) {
            const std::int64_t choice = row * op.chosen + i / places.split;
            if (op.choice[choice] < 0) continue;
            const std::int64_t from = returned_row(choice, i % places.split);
            const ConstArray<W> part(read(op.returned, from * op.width + column, n, space.at), n);
            if (first)
                Array<W>(sum.at, n) = part;
            else
                Array<W>(sum.at, n) += part;
            first = false;
        }
        if (first) Array<W>(sum.at, n).setZero();
        convert_to(op.y, row * op.width + column, n, sum.at);
    };
    const auto sum_dweights = [&](std::int64_t i) {
        if (op.choice[i] < 0) {
            data<W>(op.dweights)[i] = 0;
            return;
        }
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

// Where the row of each of a copy's experts lies among those of local experts; -1 of others.
class SpreadPlaces {
  public:
    SpreadPlaces(const ExpertPlaces& places, const std::int32_t* choice, std::int64_t choices,
                 Team& team) {
        team.reserve(static_cast<std::size_t>(choices) * sizeof(std::int64_t), 0);
        places_ = static_cast<std::int64_t*>(team.shared_scratch());
        const std::int64_t first = places.first_of(places.member), local = places.local();
        std::vector<std::int64_t> next(static_cast<std::size_t>(local) + 1);
        for (std::int64_t i = 0; i < local; ++i)
            next[static_cast<std::size_t>(i) + 1] =
                next[static_cast<std::size_t>(i)] + places.rows_of(first + i);
        for (std::int64_t i = 0; i < choices; ++i) {
            const std::int64_t expert = choice[i] - first;
            const bool here = expert >= 0 && expert < local;
            places_[i] = here ? next[static_cast<std::size_t>(expert)]++ : -1;
        }
    }
    std::int64_t place(std::int64_t choice) const { return places_[choice]; }

  private:
    std::int64_t* places_;
};

template <typename W>
void sum_spread(const SpreadRows& op, const SpreadPlaces& spread, std::int64_t copy) {
    for (std::int64_t column = 0; column < op.width; column += kPiece) {
        const std::int64_t n = std::min(kPiece, op.width - column);
        Space<W> sum, space;
        Array<W>(sum.at, n).setZero();
        for (std::int64_t i = copy * op.chosen; i < (copy + 1) * op.chosen; ++i)
            if (const std::int64_t from = spread.place(i); from >= 0)
                Array<W>(sum.at, n) +=
                    ConstArray<W>(read(op.x, from * op.width + column, n, space.at), n);
        convert_to(op.y, copy * op.width + column, n, sum.at);
    }
}

}  // namespace

void choose_ranks(const ChooseRanks& op, Team&) {
    const std::int64_t most = std::min(op.chosen, op.sets);
    std::fill_n(op.counts, op.sets, 0);
    std::vector<std::int32_t> sets(static_cast<std::size_t>(op.chosen));
    for (std::int64_t row = 0; row < op.rows; ++row) {
        auto end = sets.begin();
        for (std::int64_t i = row * op.chosen; i < (row + 1) * op.chosen; ++i)
            if (op.choice[i] >= 0) *end++ = static_cast<std::int32_t>(op.choice[i] / op.local);
        std::sort(sets.begin(), end);
        end = std::unique(sets.begin(), end);
        std::int32_t* const own = op.of_token + row * most;
        std::fill(std::copy(sets.begin(), end, own), own + most, -1);
        for (auto set = sets.begin(); set != end; ++set)
            ++op.counts[*set];
    }
}

void spread_rows(const SpreadRows& op, Team& team) {
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    const SpreadPlaces spread(op.places, op.choice, op.copies * op.chosen, team);
    team.parallel_for(op.copies, rows_per_part(op.width), [&](auto begin, auto end) {
        for (std::int64_t copy = begin; copy < end; ++copy) {
            if (op.apart) {
                with_work_type(op.x.dtype,
                               [&](auto w) { sum_spread<decltype(w)>(op, spread, copy); });
                continue;
            }
            for (std::int64_t i = copy * op.chosen; i < (copy + 1) * op.chosen; ++i)
                if (const std::int64_t to = spread.place(i); to >= 0)
                    copy_rows(op.x, copy, op.y, to, 1, op.width);
        }
    });
}

void spread_weights(const SpreadWeights& op, Team& team) {
    const SpreadPlaces spread(op.places, op.choice, op.copies * op.chosen, team);
    with_work_type(op.x.dtype, [&](auto w) {
        using W = decltype(w);
        for (std::int64_t i = 0; i < op.copies * op.chosen; ++i) {
            const std::int64_t place = spread.place(i);
            if (op.apart)
                data<W>(op.y)[i] = place < 0 ? W(0) : data<W>(op.x)[place];
            else if (place >= 0)
                data<W>(op.y)[place] = data<W>(op.x)[i];
        }
    });
}

void permute(const Permute& op, Team& team) {
    ORRERY_CHECK(op.x.dtype == op.y.dtype, "rows that are copied keep their type");
    const SortedChoice sorted(op.choice, op.rows * op.chosen, op.experts, op.capacity, team);
    if (op.capacity > 0)
        team.parallel_for(op.experts, 1, [&](auto begin, auto end) {
            for (std::int64_t expert = begin; expert < end; ++expert)
                clear_rows(op, sorted.end(expert), sorted.start(expert + 1));
        });
    team.parallel_for(op.rows, rows_per_part(op.width * op.chosen), [&](auto begin, auto end) {
        for (std::int64_t i = begin * op.chosen; i < end * op.chosen; ++i) {
            if (op.choice[i] < 0) continue;
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
