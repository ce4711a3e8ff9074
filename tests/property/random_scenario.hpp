// Random valid scenarios over everything that a scenario knows, small enough to simulate rank by
// rank in milliseconds. A key whose value suits any scenario is one line in free_keys(), a model
// family one line in families(); what other keys decide (sizes that must divide, batches, clusters
// that must hold the ranks) stands in Draft.
#pragma once

#include <string>
#include <vector>

namespace orrery::property {

// A scenario in the program's own words: a text, and the --set lines that change it.
struct RandomScenario {
    const char* text = nullptr;
    std::vector<std::string> sets;
};

// Where a model family keeps its sizes: Hugging Face's keys. An empty key: the family has none.
struct Family {
    const char* model_type;
    const char* layers;
    const char* hidden;
    const char* heads;
    const char* kv_heads;  // grouped queries
    const char* head_dim;  // free of hidden / heads
    const char* ffn;
    bool ffn_required;
    const char* positions;              // required where there is one
    const char* window;                 // of attention; at least the sequence
    std::vector<const char*> switches;  // booleans that suit every size
    std::vector<const char*> always;    // "key=value" without which a size would not be free
};
const std::vector<Family>& families();

// Drawn with RapidCheck's generators, within a property. Shrinks towards the first of each choice.
RandomScenario random_scenario(const Family& family);

}  // namespace orrery::property
