// The parts of a Megatron-LM command line, each mapped by a file of its own. Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/scenario/import/import.hpp"
#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {

// What one part settles and another needs.
struct MegatronFacts {
    bool of_2021 = false;
    std::optional<std::int64_t> layers;
    std::int64_t mtp_layers = 0;
    std::int64_t tensor = 1;
    std::int64_t pipeline = 1;
    std::int64_t context = 1;
    std::int64_t chunks = 1;  // virtual stages of a rank
    std::optional<std::int64_t> data;
    std::optional<std::int64_t> sequence;
    std::optional<std::int64_t> global_batch;  // where the batch does not grow
    bool fp16 = false;
};

// Whether the option gives the model its shape.
bool is_of_megatron_model(const std::string& option);
void map_megatron_model(Sheet& sheet, const Wishes& wishes, MegatronFacts& facts);
void map_megatron_degrees(Sheet& sheet, const Wishes& wishes, MegatronFacts& facts);
void map_megatron_experts(Sheet& sheet, const Wishes& wishes, const MegatronFacts& facts);

// Of Megatron Core, by the keys that say it: its dispatcher, which rows that stay on their rank do
// not have; how experts are balanced; what they have capacity for.
void map_dispatcher(Sheet& sheet, const char* key, bool spread);
void map_permutation(Sheet& sheet, const char* key);
void map_expert_products(Sheet& sheet, const char* key);
void map_expert_balance(Sheet& sheet, const char* type, const char* coefficient);
void map_expert_capacity(Sheet& sheet, const char* factor, const char* policy, const char* pads);
void map_megatron_stages(Sheet& sheet, MegatronFacts& facts);
void map_megatron_sharding(Sheet& sheet, const MegatronFacts& facts);
void map_megatron_recompute(Sheet& sheet, const MegatronFacts& facts);
void map_megatron_batch(Sheet& sheet, MegatronFacts& facts);
void map_megatron_precision(Sheet& sheet, MegatronFacts& facts);
void map_megatron_optimizer(Sheet& sheet, const MegatronFacts& facts);
void map_megatron_kernels(Sheet& sheet, const MegatronFacts& facts);

}  // namespace orrery::plan::imports
