// A rank's share of the model between steps: which elements of which whole parameter lie where in
// its arena. Filling first weights, comparing gradients over layouts and saving a model are all
// walks over this.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plan/ir/parameters.hpp"
#include "runtime/executor/device.hpp"

namespace orrery::runtime {

using plan::StateKind;

// Where a bucket's state of one kind begins, and which of the bucket's elements it has.
struct HeldState {
    std::int32_t resident = -1;  // −1: there is none
    std::int64_t skipped = 0;    // elements of the resident before the first
    std::int64_t first = 0;      // of the bucket
    std::int64_t elements = 0;
    plan::DType dtype = plan::DType::fp32;
};
HeldState held_state(const BoundProgram& program, std::size_t bucket, StateKind kind);

// Elements in a row both in the arena and in the whole parameter.
struct StateRun {
    const plan::Parameter* parameter = nullptr;
    std::string name;         // plan::full_name
    std::int64_t whole = 0;   // index of the first element in the whole parameter
    std::int64_t offset = 0;  // bytes from the arena's start
    std::int64_t elements = 0;
    plan::DType dtype = plan::DType::fp32;
};

// What this rank holds between steps: parameters of ZeRO-3 and gradients of ZeRO-1 and up as
// shards, masters only where parameters are of 16 bits. Gradients are the step's, summed over all
// ranks. The copy of a tied embedding on a last stage is there as well, its second accumulator on
// a rank that holds both is not.
std::vector<StateRun> state_runs(const BoundProgram& program, const plan::Program& planned,
                                 StateKind kind);

// Fills in elements of a whole parameter, from number `first` on. Called from any thread.
using FirstWeights = std::function<void(const plan::Parameter&, const std::string& name,
                                        std::int64_t first, std::span<double> values)>;

// Normal with this deviation, divided by √(2·layers) for what a residual adds (Radford 2019;
// Megatron-LM's scaled_init_method_normal); norms start as the identity, biases at 0. Elements are
// numbered, so that every layout starts from the same model.
FirstWeights random_weights(std::int64_t seed, double deviation, std::int64_t layers);

// Fills what there is of a kind, on so many threads. Throws what `values` throws.
void fill_state(Device& device, const BoundProgram& program, const plan::Program& planned,
                StateKind kind, const FirstWeights& values, int threads);

// Fills parameters and their masters.
void fill_weights(Device& device, const BoundProgram& program, const plan::Program& planned,
                  const FirstWeights& weights, int threads);

// The elements of a run, as doubles.
std::vector<double> read_run(const Device& device, const StateRun& run);

}  // namespace orrery::runtime
