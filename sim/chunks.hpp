// The chunks of layers that pipeline ranks compute: how long a micro-batch takes in each, which one
// is the longest and why, and a machine in which all take equally long. What the step waits there
// for pipeline peers is what its schedule alone leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/ir/plan.hpp"
#include "sim/machine.hpp"
#include "sim/prediction.hpp"

namespace orrery::sim {

// The work of chunks: kernels, and the collectives of tensor, context and expert groups, which wait
// for each other. `plan` and `machine` must outlive the object.
class Chunks {
  public:
    Chunks(const plan::Plan& plan, const Machine& machine);
    // With these tracks for the machine's: ops that take another time.
    Chunks(const plan::Plan& plan, const Machine& machine, const std::vector<EngineTrack>& tracks);

    // By stage with layers: picoseconds of one micro-batch, forward and backward, mean over its
    // ranks.
    std::vector<double> times() const;

    // By stage: the pipeline rank that it is on.
    const std::vector<std::int32_t>& pipeline_ranks() const { return rank_of_; }

    // Nothing where all are alike, or there is one.
    std::optional<HeaviestChunk> heaviest() const;

    // By track and op id of one step: what its time is multiplied by so that the passes of one kind
    // (forward, backward, its halves) take their mean in every chunk, and in every piece of a
    // vocabulary that pipeline ranks share out.
    std::vector<std::vector<double>> equalising() const;

  private:
    // Of one kind of pass through one stage.
    struct Pass {
        double time = 0;  // picoseconds, of all
        double count = 0;
        double mean() const { return count > 0 ? time / count : 0; }
    };

    bool is_work(std::uint32_t number) const { return work_[number]; }
    Pass& pass(const plan::Action& action);
    // What a stage is one of.
    enum class Kind : std::uint8_t { layers, embedding, head };
    static constexpr std::size_t kKinds = 3;
    void settle_kinds();
    double mean_of(Kind stages, std::size_t pass) const;

    const plan::Plan& plan_;
    const Machine& machine_;
    std::vector<bool> work_;                  // by op number
    std::vector<std::vector<Pass>> passes_;   // by stage and kind of pass
    std::vector<std::vector<double>> of_op_;  // by stage and op number: of all micro-batches
    std::vector<std::int32_t> rank_of_;       // by stage
    std::vector<Kind> kind_of_;               // by stage
    double micro_batches_ = 0;
};

}  // namespace orrery::sim
