// Which parts (embedding, its norm, positions, layers, final norm, multi-token prediction, head) a
// stage is made of, and what passes between stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/passes/pass_table.hpp"

namespace orrery::plan {

// One kind of layer, by its place in recomputation.
struct LayerParts {
    PartKind alone;   // without recomputation, or alone in its group
    PartKind chosen;  // with recomputation of the whole layer, beside those without
    PartKind first;   // of a group of several that keeps only its input …
    PartKind middle;
    PartKind last;
};

// The blocks of each kind of part, built once for all stages.
struct PartKinds {
    PartKind embedding;
    PartKind embedding_elsewhere;  // pieces of other ranks than the one that hands it on, …
    PartKind embedding_norm;       // where the model has one
    PartKind positions;            // where the model learns positions
    std::vector<LayerParts> layers;
    std::vector<std::size_t> kind_of_layer;  // in `layers`, of the model's own
    PartKind final_norm;
    PartKind mtp_embedding;  // where further tokens are predicted
    LayerParts mtp_layer;
    PartKind head;
    PartKind head_elsewhere;  // … and than the one that it is handed to, where they share it out
};

// Layers of the largest group of any stage.
std::int64_t largest_group(const Layout& layout);

PartKinds build_parts(const PlanInput& input, const ChosenPasses& passes,
                      const StagePlacement& placement, BlockLibrary& blocks);

// Appends the stages of the builder's pipeline rank.
void add_stages(ProgramBuilder& builder, const PartKinds& kinds);

// Elements of one transfer between stages.
std::int64_t boundary_elements(const Scenario& scenario, const Dims& dims);

// The block with the one op that all transfers of a stream are.
Block exchange_block(const Scenario& scenario, const Dims& dims, Stream stream);

}  // namespace orrery::plan
