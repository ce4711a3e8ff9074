// What a model is by meaning, whatever its family calls its keys: for comparing models of unlike
// families, whose config.json have few keys in common.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

// Where kinds of layers differ, the values of all of them, in the order of the kinds.
struct ModelFact {
    const char* key;                     // of JSON: a contract (docs/explain.md)
    const char* words;                   // for people
    std::vector<nlohmann::json> values;  // empty: the model has no such thing

    nlohmann::ordered_json json() const;  // null, the one value, or an array
    std::string text() const;             // "none", or the values
};

// The same facts of every scenario, in one order.
std::vector<ModelFact> model_facts(const plan::Scenario& scenario);

// "deepseek-v3 (deepseek_v3): 683 billion parameters, 38.2 billion active; 61 layers, …".
std::string model_line(const plan::Scenario& scenario);

}  // namespace orrery::cli
