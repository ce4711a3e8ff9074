// Model families: how the config.json of one Hugging Face model_type reads into a Model, and how a
// Model is written back. A family is one file here and one line in the registry. Internal to
// plan/scenario.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/parts.hpp"

namespace orrery::plan {

struct Family {
    const char* name;               // model_type
    std::vector<const char*> keys;  // that give the model its shape: under another model_type they
                                    // would be passed over, and another model trained than meant
    void (*read)(Reading&, Section&, Model&);
    void (*write)(const Model&, Json&);  // every key above that the model settles, HF's spelling
};

Family gpt2();
Family llama();
Family llama4();
Family qwen2();
Family qwen3();
Family olmo2();
Family phi3();
Family gpt_oss();
Family mistral();
Family mixtral();
Family qwen2_moe();
Family qwen3_moe();
Family deepseek_v2();
Family deepseek_v3();
Family grok1();
Family gemma();
Family gemma2();
Family gemma3();
Family opt();
Family bloom();
Family falcon();
Family gpt_neox();
Family nemotron();
Family megatron();

const std::vector<Family>& families();

// The family named by model_type; null, and reported, where there is none.
const Family* read_family(Reading& reading, Section& section);

// Reports keys which change the computation in a way that no family here models, unless the family
// has read them, and keys of other families.
void refuse_unmodelled(Reading& reading, Section& section);
void refuse_other_families(Reading& reading, const Section& section, const Family& family);

}  // namespace orrery::plan
