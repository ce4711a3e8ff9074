// Which rows belong to which expert, of the counts that all members of an expert group have
// gathered; plan/ops/experts.hpp has the orders in which they lie. For the host and for devices.
#pragma once

#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

// Added to a sum of sigmoids before it divides, which may all have become 0 (DeepSeek-V3's
// published model does so).
inline constexpr double kLeastSum = 1e-20;

// `ranks` members, of which `split` in a row have shares of the same experts; of experts in order
// each such row of members has as many.
struct ExpertPlaces {
    std::int64_t experts = 0, ranks = 1, split = 1;
    std::int64_t member = 0;               // this rank
    const std::int32_t* counts = nullptr;  // [ranks, experts]: rows that a member has for an expert
    std::int64_t room = 0;                 // rows that may be in use, where that is known

    ORRERY_HOST_DEVICE std::int64_t local() const { return experts * split / ranks; }
    ORRERY_HOST_DEVICE std::int64_t first_of(std::int64_t of) const { return of / split * local(); }
    ORRERY_HOST_DEVICE std::int64_t count(std::int64_t from, std::int64_t expert) const {
        return counts[from * experts + expert];
    }
    // Rows of member `from` for the experts of member `to`.
    ORRERY_HOST_DEVICE std::int64_t sent(std::int64_t from, std::int64_t to) const {
        std::int64_t rows = 0;
        for (std::int64_t i = 0; i < local(); ++i)
            rows += count(from, first_of(to) + i);
        return rows;
    }
    // Rows that come to a member.
    ORRERY_HOST_DEVICE std::int64_t received(std::int64_t by) const {
        std::int64_t rows = 0;
        for (std::int64_t from = 0; from < ranks; ++from)
            rows += sent(from, by);
        return rows;
    }
    // Of an expert's rows those of the members before `from` come first.
    ORRERY_HOST_DEVICE std::int64_t rows_before(std::int64_t from, std::int64_t expert) const {
        std::int64_t rows = 0;
        for (std::int64_t before = 0; before < from; ++before)
            rows += count(before, expert);
        return rows;
    }
    // Rows for an expert.
    ORRERY_HOST_DEVICE std::int64_t rows_of(std::int64_t expert) const {
        return rows_before(ranks, expert);
    }
};

}  // namespace orrery::runtime
