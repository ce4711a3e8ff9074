// What the CUDA backend's kernels perform, asked before anything starts, with or without CUDA in
// the build: every op of a plan has a kernel there, or the run is refused with all reasons at once.
#pragma once

#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/diagnostic.hpp"

namespace orrery::runtime {

bool has_cuda_kernel(plan::OpKind kind);

// Why this plan, of a scenario read from `file`, cannot be performed on CUDA; empty where it can. A
// program that refuses with them ends with exit code 3.
//   T101  fp64
//   T102  heads that are wider than a tile of attention
//   T103  a kind of op without a kernel, or what no backend has in eight bits
std::vector<plan::Diagnostic> reasons_not_on_cuda(
    const plan::Plan& plan, const std::string& file,
    bool (*has_kernel)(plan::OpKind) = has_cuda_kernel);

}  // namespace orrery::runtime
