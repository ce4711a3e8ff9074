// Which tokens of a sequence a rank holds, where several share it out. All that depends on a
// token's position (tables of positions, rotation, masks, slopes, dropout, samples) asks here.
//
// Rank r of c holds the r-th of c parts, or, in a zigzag, chunks r and 2c − 1 − r of 2c: then the
// pairs of a query and a key before it are as many on every rank (Llama team 2024, arXiv
// 2407.21783, 3.3.2).
#pragma once

#include <cstdint>

#include "runtime/host_device.hpp"

namespace orrery::runtime {

// `rows` below are the rank's rows of one sequence; a zigzag's are even.
struct SequencePart {
    std::int64_t ranks = 1, rank = 0;
    bool zigzag = false;

    // Pieces that are in a row in the sequence, all of one size.
    ORRERY_HOST_DEVICE std::int64_t runs() const { return zigzag ? 2 : 1; }

    // Position of the first row of a run.
    ORRERY_HOST_DEVICE std::int64_t first_of(std::int64_t run, std::int64_t rows) const {
        const std::int64_t chunk = run == 0 ? rank : 2 * ranks - 1 - rank;
        return chunk * (rows / runs());
    }

    ORRERY_HOST_DEVICE std::int64_t position_of(std::int64_t row, std::int64_t rows) const {
        const std::int64_t of_run = rows / runs();
        const std::int64_t run = zigzag && row >= of_run ? 1 : 0;
        return first_of(run, rows) + row - run * of_run;
    }
};

}  // namespace orrery::runtime
