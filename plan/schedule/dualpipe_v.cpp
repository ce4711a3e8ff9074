// DualPipeV (DeepSeek, cut in half from the DualPipe of arXiv 2412.19437): two chunks per rank in a
// V; in the steady state the forward of one chunk and the full backward of the other follow on each
// other, for a machine to overlap the communication of one with the computation of the other.
// Action by action what PyTorch's ScheduleDualPipeV runs, its overlapped pairs one after the other.
// m ≥ 2p.
#include "plan/check.hpp"
#include "plan/schedule/chunk_row.hpp"

namespace orrery::plan {
namespace {

// While the steady state lasts: what fills and drains the V around it runs its backwards in halves.
void steady(ChunkRow& row, const ScheduleShape& shape, std::int32_t rank) {
    const std::int32_t before_last = shape.pipeline - rank - 1;
    for (std::int32_t n = 0; n < shape.micro_batches - 2 * shape.pipeline + rank + 1; ++n) {
        row.forward(0);
        row.backward(1);
        row.forward(1);
        row.backward(0);
    }
    for (std::int32_t n = 0; n < before_last; ++n) {
        row.backward(1);
        row.forward(1);
        row.backward(0);
    }
}

void drain(ChunkRow& row, const ScheduleShape& shape, std::int32_t rank) {
    const std::int32_t whole = rank + 1;  // backwards, of 2(rank + 1), that run in one piece
    std::int32_t begun = 0;
    const auto backward = [&](std::size_t chunk) {
        if (begun++ < whole)
            row.backward(chunk);
        else
            row.input(chunk);
    };
    for (std::int32_t n = 0; n <= rank; ++n) {
        backward(1);
        backward(0);
    }
    for (std::int32_t n = 0; n < shape.pipeline - rank - 1; ++n) {
        row.weight();
        row.input(0);
    }
    for (std::int32_t n = 0; n <= rank; ++n)
        row.weight();
}

}  // namespace

ActionGrid dualpipe_v(const ScheduleShape& shape) {
    ORRERY_CHECK(shape.micro_batches >= 2 * shape.pipeline, "dualpipe-v needs m ≥ 2p");
    ActionGrid grid;
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
        const std::int32_t before_last = shape.pipeline - rank - 1;
        ChunkRow row(shape, rank);
        for (std::int32_t n = 0; n < 2 * before_last; ++n)
            row.forward(0);
        for (std::int32_t n = 0; n <= rank; ++n) {
            row.forward(0);
            row.forward(1);
        }
        for (std::int32_t n = 0; n < before_last; ++n) {
            row.input(1);
            row.weight();
            row.forward(1);
        }
        steady(row, shape, rank);
        drain(row, shape, rank);
        grid.push_back(row.take());
    }
    return grid;
}

}  // namespace orrery::plan
