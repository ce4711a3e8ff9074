// What NeMo's own recipes of pre-training say before a line of the user's does, and the models of
// its config classes. Internal.
#pragma once

#include <string>

#include "plan/scenario/import/python_script.hpp"

namespace orrery::plan::imports {

inline constexpr const char* kNemoRelease = "NeMo at 8cfedd7 (2025-09-20)";

struct NemoRecipe {
    const char* name;    // "llama3_8b"
    const char* config;  // the class of its model's config
    const char* model;   // in the library
    int layers;
    const char* note;                       // where the two are not quite the same
    int tensor, pipeline, chunks, context;  // chunks: 0 where there are no virtual stages
    bool sequence_parallel;
    int gpus_per_node;
    int sequence, global_batch, micro_batch;
    double learning_rate, least_rate;
    int warmup_steps, max_steps;
    bool overlaps;  // of gradients' reductions and parameters' gathers
    // What performance_mode adds: the overlap of tensor communication.
    enum class Performance { none, without_tensor, with_tensor } performance;
};

const NemoRecipe* find_nemo_recipe(const std::string& name);
// By the class of a config, "Llama3Config8B".
const NemoRecipe* find_nemo_config(const std::string& name);

// Gives what a call has made the fields that NeMo's function of that name gives it.
void make_nemo_object(PythonObject& object);

// The last part of a dotted name.
std::string last_part(const std::string& name);
// The recipe that a call makes: "llama3_8b" of "llm.llama3_8b.pretrain_recipe"; else empty.
std::string recipe_of_call(const std::string& of);

}  // namespace orrery::plan::imports
