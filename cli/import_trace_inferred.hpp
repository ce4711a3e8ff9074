// The scenario that import-trace infers: the cluster beside what the traces say, the choice among
// those that they allow, and both shown for confirmation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "calib/compare/inferred_scenario.hpp"
#include "cli/console.hpp"

namespace orrery::cli {

// How much of the recorded time a plan takes up.
struct MatchedShare {
    double one_by_one = 0, by_kind = 0;  // shares of the time

    double all() const { return one_by_one + by_kind; }
};

// One of the scenarios that the traces allow, and how it stands to them; no share: it is no sound
// scenario, or has other ranks than the files.
struct InferredCandidate {
    std::vector<compare::InferredKey> keys;
    nlohmann::ordered_json scenario;
    std::optional<MatchedShare> share;
};

struct InferredChoice {
    std::vector<InferredCandidate> candidates;  // as inferred first
    std::size_t chosen = 0;

    const InferredCandidate& best() const { return candidates[chosen]; }
};

// `share_of` plans a scenario and holds the traces against it. Of two that match alike the first
// stands.
InferredChoice choose_inferred(
    const compare::Inference& inference, const std::string& device,
    const std::function<std::optional<MatchedShare>(const nlohmann::ordered_json&)>& share_of);

// What was inferred, what is uncertain, and where it went:
//   layout.tensor_parallel  2  certain  24 all-reduces of 256 x 256 forward among 2 ranks
std::string inferred_text(const InferredChoice& choice, const std::string& path,
                          const Console& console);
// The keys that are known where they make no scenario.
std::string known_text(const compare::Inference& inference, const Console& console);

nlohmann::ordered_json inferred_json(const InferredChoice& choice);
nlohmann::ordered_json known_json(const compare::Inference& inference);

}  // namespace orrery::cli
