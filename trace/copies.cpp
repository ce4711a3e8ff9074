#include "trace/copies.hpp"

#include "trace/step_sums.hpp"

namespace orrery::trace {

CopySums copy_sums(const Trace& trace) {
    return copy_sums(trace, sums_of(trace));
}

}  // namespace orrery::trace
