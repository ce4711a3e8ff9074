// Kernels that only move bytes, each over sizes from the first cache to beyond the last. Bytes are
// those of the operands of the plan's op, each once, as the simulator prices it.
#include <functional>

#include "calib/measure/kernel_timings.hpp"
#include "calib/measure/operand.hpp"
#include "runtime/cpu/kernels.hpp"

namespace orrery::measure {
namespace {

using plan::DType;
using runtime::kernels;
using runtime::Team;

constexpr std::int64_t kRowWidth = 256;  // of rows

// Operands of one size, shared by all kernels; `big` and `other` are [rows, width].
struct Operands {
    explicit Operands(std::int64_t row_count)
        : rows(row_count),
          elements(row_count * kRowWidth),
          a(DType::fp32, elements),
          b(DType::fp32, elements),
          c(DType::fp32, elements),
          d(DType::fp32, elements),
          bias(DType::fp32, kRowWidth) {}

    std::int64_t rows;
    std::int64_t elements;
    Operand a, b, c, d;
    Operand bias;
};

struct MemoryKernel {
    const char* name;
    bool reduction;
    double tensors;  // of [rows, width], each counted once per read and once per write
    void (*call)(Operands&, Team&);
};

const MemoryKernel kKernels[] = {
    {"add", false, 3,
     [](Operands& o, Team& team) {
         kernels().add({o.elements, o.a, o.b, o.c}, team);
     }},
    {"bias_gradient", true, 1,
     [](Operands& o, Team& team) {
         kernels().bias_gradient({o.rows, kRowWidth, o.a, o.bias, false}, team);
     }},
    {"cast", false, 2,
     [](Operands& o, Team& team) {
         kernels().cast({o.elements, o.a, o.b}, team);
     }},
    {"adamw", false, 7,  // gradients; moments and parameters read and written
     [](Operands& o, Team& team) {
         runtime::AdamW adamw;
         adamw.elements = o.elements;
         adamw.learning_rate = 1e-6;
         adamw.gradients = o.a;
         adamw.m = o.b;
         adamw.v = o.c;
         adamw.parameters = o.d;
         kernels().adamw(adamw, team);
     }},
};

}  // namespace

std::vector<fit::MemoryRow> time_memory_bound(runtime::Communicator& ranks, Team& team,
                                              const Sampling& sampling, const KernelGrid& grid) {
    std::vector<fit::MemoryRow> rows;
    std::size_t index = 0;
    for (const MemoryKernel& kernel : kKernels) {
        std::int64_t last = 0;
        for (double bytes = grid.memory_low; bytes <= grid.memory_high; bytes *= grid.memory_step) {
            const auto count = static_cast<std::int64_t>(bytes / kernel.tensors / kRowWidth / 4);
            if (count <= last) continue;  // too few bytes for another row
            last = count;
            if (!grid.has_turn(index++)) continue;
            Operands operands(count);
            const double seconds = timed(ranks, sampling, [&] { kernel.call(operands, team); });
            rows.push_back({kernel.name, kernel.reduction,
                            kernel.tensors * static_cast<double>(operands.elements) * 4,
                            seconds * 1e6});
        }
    }
    return rows;
}

}  // namespace orrery::measure
