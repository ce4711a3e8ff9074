// The sizes that a recorded operator says of its inputs, read from their text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace orrery::trace {

using Dims = std::vector<std::int64_t>;  // of a tensor

// By input its tensors: one, or those of a list; none where it is a number.
using Inputs = std::vector<std::vector<Dims>>;

// Of "[[2048,4096],[[16],[32]],[]]"; none where the text is no list, or cut off.
Inputs inputs_of(const std::string& dims);

// All tensors, whatever stands between them.
std::vector<Dims> tensors_of(const Inputs& inputs);

// Of all tensors together.
double elements_of(const std::vector<Dims>& tensors);

}  // namespace orrery::trace
