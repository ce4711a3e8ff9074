// Reading the keys of a config.json that families share: sizes, alternative spellings, attention
// heads, activations, norms, first weights. Internal to plan/scenario/models.
#pragma once

#include <initializer_list>
#include <string>

#include "plan/scenario/models/family.hpp"

namespace orrery::plan {

constexpr std::int64_t kMostLayers = 32'767;  // traces have 16 bits for the layer of an op
constexpr std::int64_t kMostHidden = 1'000'000;
constexpr std::int64_t kMostFfn = 10'000'000;
constexpr std::int64_t kMostExperts = 65'536;
constexpr NumberRange kProbability = {0, 1, false, true};

// The first of `spellings` that the config has, else the first; all of them are known. Two that are
// there and differ are reported.
std::string spelling(Reading& reading, Section& section,
                     std::initializer_list<const char*> spellings);

// null where Hugging Face tells it from an absent key.
bool is_null(const Reading& reading, const char* key);

void read_sizes(Section& section, Model& model, const std::string& layers,
                const std::string& hidden, const std::string& heads);

// Keys and values for `usual` heads where the key is absent (0, or null: for every head); reported
// where they do not divide the heads.
void read_kv_heads(Reading& reading, Section& section, Model& model, const char* key,
                   std::int64_t usual);

// hidden ÷ heads, reported where that is not whole.
void split_heads(Reading& reading, Model& model);
// The same unless the key "head_dim" says otherwise; `usual` where the family has a default.
void read_head_dim(Reading& reading, Section& section, Model& model, std::int64_t usual);

// A word for some GELU, or for a ReLU too; `usual` is the default.
enum class Words { gelu, gelu_or_relu };
void read_activation(Section& section, Model& model, const char* key, Words words,
                     const char* usual);
// A word that reads to the same, where none stands there yet.
void write_activation(const Model& model, Json& out, const char* key);

// S010: what stands at the key would have the model compute `what`, which is not modelled.
void refuse_value(Reading& reading, const Section& section, const char* key, const char* what,
                  const char* help);

// A quantization_config by this method: how published weights are stored, and nothing that training
// computes. Another is refused.
void read_stored_type(Reading& reading, Section& section, const char* method);

// How many further tokens are predicted, by layers like the last one. After all that makes kinds.
void read_mtp_layers(Reading& reading, Section& section, Model& model, const char* key);

void read_norm_epsilon(Section& section, Model& model, const char* key, double usual);
void read_initializer(Section& section, Model& model, const char* key = "initializer_range");

}  // namespace orrery::plan
