// The layers that a rank's recorded step went through: attention's core comes once a layer, the
// products before it make queries, keys and values, the one behind it brings heads together, and
// those up to the next are the feed-forward network's. From their sizes follow the widths, from
// their number layers times micro-batches, and from what is done once a micro-batch (look-ups,
// losses, the product over the vocabulary) each of the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calib/compare/step_facts.hpp"

namespace orrery::compare {

struct Width {
    std::int64_t out = 0, in = 0;  // n and k
    auto operator<=>(const Width&) const = default;
};

// Sizes are those of the rank's share; 0: not seen.
struct RankLayers {
    const StepFacts* facts = nullptr;
    std::int64_t tokens = 0;  // rows of a layer's products
    std::int64_t hidden = 0;
    AttentionFact attention;  // that of most calls
    std::int64_t calls = 0;   // of attention forward: layers × micro-batches
    std::int64_t query_width = 0, kv_width = 0;
    std::vector<Width> lead, ups;  // products before attention; those into the feed-forward's width
    Width projection, down;        // behind attention; back from the feed-forward's width
    std::int64_t odd_layers = 0;   // calls with other products than most
    bool lead_bias = false, projection_bias = false, up_bias = false;
    std::int64_t run = 0;         // attention calls behind each other: layers of a stage
    std::int64_t first_runs = 0;  // … before anything of backward
    // Of the vocabulary; 0: none on this rank.
    std::int64_t word_lookups = 0, word_rows = 0;  // calls; rows of the table
    std::int64_t position_rows = 0;
    std::int64_t head_rows = 0, head_width = 0, head_calls = 0;  // rows: of all calls together
    std::int64_t loss_rows = 0, loss_words = 0;
    std::int64_t micro_batches = 0;  // 0: nothing on this rank tells
    std::string micro_batches_by;    // "8 look-ups of words"
    std::int64_t sequences = 0;      // of a micro-batch

    bool has_embedding() const { return word_lookups > 0; }
    bool has_head() const { return head_calls > 0 || loss_rows > 0; }
    bool layers_end_gated() const;  // the gate stands beside what it gates
    std::int64_t up_width() const;
};

// What a trace does not say so that its layers cannot be told, for people; empty: they were told.
struct LayersRead {
    RankLayers layers;
    std::vector<std::string> missing;
};
LayersRead layers_of(const StepFacts& facts);

// Facts of one kind and pass.
template <typename Fact, typename Visit>
void each(const StepFacts& facts, plan::Phase phase, const Visit& visit) {
    for (const StepFact& fact : facts.facts)
        if (fact.phase == phase)
            if (const auto* one = std::get_if<Fact>(&fact.what)) visit(*one);
}

}  // namespace orrery::compare
