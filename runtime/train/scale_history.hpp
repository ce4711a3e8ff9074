// Of delayed scaling, what a rank keeps between steps: of each tensor that is cast to eight bits
// the largest magnitudes of the steps before, and that of the last one, which goes in front of them
// when the next begins (plan/passes/quantize.cpp). All ranks of a stage have the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "runtime/executor/device.hpp"

namespace orrery::runtime {

// In the arena, fp32.
struct ScaleHistory {
    std::string tensor;       // plan::full_name
    std::int64_t offset = 0;  // bytes from the arena's start
    std::int64_t elements = 0;
};
std::vector<ScaleHistory> scale_histories(const BoundProgram& program);

// Of all of the plan, with their elements.
std::map<std::string, std::int64_t> scale_histories(const plan::Plan& plan);

// Nothing has been seen yet: scales are 1.
void begin_scales(Device& device, const BoundProgram& program);

// Those of the checkpoint; of a run that had none, as above. Throws DataError.
void load_scales(Device& device, const BoundProgram& program, const CheckpointReader& checkpoint);

}  // namespace orrery::runtime
