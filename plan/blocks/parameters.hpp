// The parameters of a model, one by one: their whole shapes, what a tensor rank holds of each, and
// where they lie in a bucket. Plans count parameters; whoever fills, saves or compares them asks
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::plan {

// How the tensor ranks share out a parameter (Shoeybi 2019).
enum class Cut : std::uint8_t {
    whole,  // each holds all of it
    rows,   // column-parallel linears, whose weights are [out, in], and vocabulary tables
    columns
};

// What a parameter starts as.
enum class Start : std::uint8_t { normal, residual_normal, zero, one };

struct Parameter {
    std::string name;                // as in the blocks: "qkv.weight"
    std::vector<std::int64_t> dims;  // of the whole, vocabulary padded
    Cut cut = Cut::whole;
    // Rows of each part that is shared out by itself: q, k and v; gate and up. They add up to
    // dims[0]. Cut::rows only.
    std::vector<std::int64_t> sections;
    Start start = Start::normal;

    std::int64_t elements() const;
    bool decays() const { return dims.size() > 1; }  // weight decay spares norms and biases
};

// The name must be one of the model's.
Parameter parameter_of(const Scenario& scenario, const std::string& name);

// Elements of a rank's part that are in a row in the whole, too.
struct ParameterRun {
    std::int64_t local = 0;
    std::int64_t whole = 0;
    std::int64_t elements = 0;
};
std::vector<ParameterRun> runs_of(const Parameter& parameter, std::int64_t tensor_ranks,
                                  std::int64_t tensor_rank);

// A parameter in its bucket. Those that every tensor rank holds whole come first, so that sequence
// parallelism reduces them as one piece; within either kind the order is that of parts and blocks.
struct BucketEntry {
    std::string name;
    std::int32_t position = 0;  // part of the stage
    std::int32_t layer = -1;
    std::int64_t offset = 0;  // elements from the start of the bucket
    std::int64_t elements = 0;
    Parameter parameter;
};
std::vector<BucketEntry> bucket_entries(const std::vector<Block>& blocks, const Program& program,
                                        const Scenario& scenario, const Bucket& bucket);

// "layer.3/qkv.weight", "embedding.weight": the same in every layout.
std::string full_name(std::int32_t layer, const std::string& name);

}  // namespace orrery::plan
