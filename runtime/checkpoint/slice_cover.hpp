// Whether slices of a tensor cover it: each element once. As many elements as there are do not show
// it, where one is there twice and another not at all.
#pragma once

#include <span>
#include <string>

#include "runtime/checkpoint/manifest.hpp"

namespace orrery::runtime {

// Slices lie within the tensor and have as many elements in all. Empty where no two overlap, else
// what is wrong: "element 12 is there twice". Time and memory go with the number of runs, of which
// there may be 2^24.
std::string cover_fault(std::span<const Slice> slices);

}  // namespace orrery::runtime
