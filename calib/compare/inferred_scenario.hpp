// The scenario that a recorded step was of, as far as the step says it: model, layout, training.
// Each key has what speaks for it, how sure it is, and the other values that the trace allows; a
// plan of the scenario, held against the trace (recorded_match.hpp), chooses among those. The
// cluster is not inferred here: a trace names a device, and a library knows clusters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "calib/compare/step_facts.hpp"

namespace orrery::compare {

enum class Certainty : std::uint8_t {
    certain,  // the trace says it
    likely,   // the trace speaks for it, and allows other values
    assumed   // the trace says nothing
};
std::string_view name(Certainty certainty);

struct InferredKey {
    std::string key;  // "layout.tensor_parallel"
    nlohmann::ordered_json value;
    Certainty certainty = Certainty::assumed;
    std::string evidence;
    std::vector<nlohmann::ordered_json> alternatives;  // the likelier first
};

struct Inference {
    std::vector<InferredKey>
        keys;  // in the order of a scenario; where some are missing, those known
    // What keeps a scenario from being made, and how a trace says it; empty: the keys make one.
    std::vector<std::string> missing;
    std::int64_t ranks = 1;  // of the layout

    const InferredKey* find(std::string_view key) const;
};

// Of all files given, which are of one run.
Inference infer_scenario(const std::vector<StepFacts>& ranks);

// Model, layout and training with these keys.
nlohmann::ordered_json scenario_of(const std::vector<InferredKey>& keys);

// The inferred keys, and the same with each of their alternatives in turn and together, at most
// `most`; the inferred ones first.
std::vector<std::vector<InferredKey>> candidates_of(const Inference& inference, std::size_t most);

}  // namespace orrery::compare
