// The parameters of a plan, one by one: what a tensor rank holds of each, and where they lie in a
// bucket. Blocks declare them (plan/ir/parameter.hpp); whoever fills, saves or compares them asks
// here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

struct Parameter : ParameterSpec {
    std::string name;  // as in the blocks: "qkv.weight"
};

// Elements of a rank's part that are in a row in the whole, too.
struct ParameterRun {
    std::int64_t local = 0;
    std::int64_t whole = 0;
    std::int64_t elements = 0;
};
std::vector<ParameterRun> runs_of(const ParameterSpec& parameter, const Mesh& mesh, Rank rank);
// What a rank has of the dimensions of the whole.
std::vector<std::int64_t> share_of(const ParameterSpec& parameter, std::int64_t tensor_ranks,
                                   const ExpertPlaces& places);

// A parameter in its bucket. First come those of whose gradients tensor ranks have parts, then the
// others that every tensor rank holds whole, so that sequence parallelism reduces them as one
// piece; within each kind the order is that of parts and blocks.
struct BucketEntry {
    std::string name;
    std::int32_t position = 0;  // part of the stage
    std::int32_t layer = -1;
    std::int64_t offset = 0;  // elements from the start of the bucket
    std::int64_t elements = 0;
    Parameter parameter;
};
std::vector<BucketEntry> bucket_entries(const std::vector<Block>& blocks, const Program& program,
                                        const Bucket& bucket);

// Every parameter of the model once, by its full name.
std::map<std::string, Parameter> parameters_of(const Plan& plan);

// "layer.3/qkv.weight", "embedding.weight": the same in every layout.
std::string full_name(std::int32_t layer, const std::string& name);

}  // namespace orrery::plan
