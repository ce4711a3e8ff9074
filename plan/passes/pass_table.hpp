// Every pass as a row of one ordered table: what it is called, when a plan has it, which others a
// plan cannot have beside it, and the function that does it over what it changes. build_plan asks
// the table alone, so that a new pass is its file and its row; docs/passes.md shows the rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plan/passes/passes.hpp"
#include "plan/passes/program_builder.hpp"

namespace orrery::plan {

enum class PassId : std::uint8_t {
    recompute_modules,
    recompute_operations,
    recompute_layers,
    recompute_groups,
    loss_chunks,
    compress_stash,
    split_tensor_communication,
    fuse_residuals,
    fuse_norms,
    fuse_epilogues,
    fuse_bias_gradients,
    halve_backward,
    halve_head,
    serialise_tensor_communication,
    defer_head,
    form_buckets,
    fixed_residents,
    zero_rings,
    statistics,
    gather_received,
    zero_gathers,
    quantize_weights,
    first_gathers,
    late_reduction,
    tied_reduction,
    unscale,
    clip,
    loss_spike,
    amaxes,
    optimizer,
    sums,
    release_received,
    offload_states,
    offload_activations
};

// What a plan is built from, as far as it decides which passes it has.
struct PlanInput {
    const Scenario& scenario;
    const Dims& dims;
    PartForms forms;  // of backward, that the schedule has
    Sharding sharding;
    Sharding of_experts;  // none where no other rank has a rank's
};

// The blocks of a part.
struct PartBlocks {
    PartPlace place = PartPlace::end;
    BlockPair pair;
    bool whole = true;  // the schedule has a use for the whole backward block
    std::optional<Block> recompute = std::nullopt;        // run again before backward
    std::optional<BackwardHalves> halves = std::nullopt;  // beside the whole, or in its place
};

// The uses of one action of a stage, in issue order.
struct ActionUses {
    const Stage& stage;
    ActionKind kind = ActionKind::forward;
    Gathering gathering = Gathering::now;
    bool first = false;  // of a step's first micro-batch, where that is another procedure
    std::vector<BlockUse> uses;
};

// What a pass runs over. Where forward blocks are layers': before backward is derived from them.
struct OverForward {
    void (*run)(const PlanInput&, ForwardBlock&);
};
// Derives the parts of these places in its own way. No two passes derive the same place.
struct OverDerivation {
    bool (*of)(const PlanInput&, PartPlace);
    PartBlocks (*run)(const PlanInput&, ForwardBlock, PartPlace);
};
struct OverPart {
    void (*run)(const PlanInput&, PartBlocks&);
};
// Of one pipeline rank.
struct OverSchedule {
    void (*run)(const StagePlacement&, std::int32_t pipeline_rank, std::vector<LoweredStep>&);
};
// A program that has its stages, and no steps: memory is said here.
struct OverStages {
    void (*run)(ProgramBuilder&);
};
struct OverAction {
    void (*run)(ProgramBuilder&, ActionUses&);
};
// A program that has the schedule's steps.
struct OverSteps {
    void (*run)(ProgramBuilder&);
};
// What comes before the buckets' steps in the procedure of the optimizer.
struct OverOptimizer {
    void (*run)(ProgramBuilder&, std::vector<BlockUse>&);
};

struct Pass {
    PassId id;
    std::string_view name;
    std::string_view does;  // one sentence, for docs/passes.md
    std::string_view when;  // the same of `applies`
    bool (*applies)(const PlanInput&);
    std::vector<PassId> excludes;  // in either direction
    std::variant<OverForward, OverDerivation, OverPart, OverSchedule, OverStages, OverAction,
                 OverSteps, OverOptimizer>
        over;
};

// In the order in which they run.
const std::vector<Pass>& passes();
std::string_view runs_over(const Pass& pass);  // "part", "steps", …

// The rows that a plan has. Which of them exclude each other is refused when a scenario is read:
// here two are a bug, and stop the program.
class ChosenPasses {
  public:
    explicit ChosenPasses(const PlanInput& input);

    const std::vector<const Pass*>& rows() const { return rows_; }
    bool has(PassId id) const;

    // Of those that run over `Over`, each in turn.
    template <typename Over, typename... Arguments>
    void run(Arguments&&... arguments) const {
        for (const Pass* pass : rows_)
            if (const auto* over = std::get_if<Over>(&pass->over)) over->run(arguments...);
    }
    PartBlocks derive(const PlanInput& input, ForwardBlock forward, PartPlace place) const;

  private:
    std::vector<const Pass*> rows_;
};

// The first two of these rows that exclude each other.
std::optional<std::pair<PassId, PassId>> excluded_pair(const std::vector<const Pass*>& rows);

}  // namespace orrery::plan
