#include "plan/checks/staleness_faults.hpp"

#include <algorithm>

#include "plan/ir/link.hpp"

namespace orrery::plan {
namespace {

class Check {
  public:
    Check(const Plan& plan, const Program& program, std::int64_t staleness,
          std::vector<std::string>& faults)
        : plan_(plan), program_(program), turns_(staleness + 1), faults_(faults) {}

    void run() {
        for (const Bucket& bucket : program_.buckets) {
            expect_turns(bucket.parameters, turns_);
            expect_turns(bucket.gradients, turns_);
            expect_turns(bucket.optimizer, 1);
        }
        expect_turns(program_.scalars, turns_);
        if (turns_ == 1) return;
        for (const Procedure& procedure : program_.procedures)
            for (const BlockUse& use : procedure.uses)
                for (const Op& op : block(use).ops)
                    if (op.stream != Stream::server && touches_states(block(use), op))
                        fault(block(use).name + " touches states beside their server");
        expect_free_compute();
    }

  private:
    const Block& block(const BlockUse& use) const {
        return plan_.blocks[static_cast<std::size_t>(use.block)];
    }
    void fault(const std::string& text) {
        faults_.push_back("pipeline rank " + std::to_string(program_.pipeline_rank) + ": " + text);
    }
    void expect_turns(std::int32_t id, std::int64_t turns) {
        if (id < 0) return;
        const Resident& resident = program_.residents[static_cast<std::size_t>(id)];
        if (resident.turns != turns)
            fault(resident.name + " has " + std::to_string(resident.turns) + " copies, not " +
                  std::to_string(turns));
    }
    static bool touches_states(const Block& block, const Op& op) {
        const auto is_state = [&](TensorId id) {
            return block.tensors[static_cast<std::size_t>(id)].role == Role::optimizer;
        };
        return std::any_of(op.reads.begin(), op.reads.end(), is_state) ||
               std::any_of(op.writes.begin(), op.writes.end(), is_state);
    }

    // The step after the first begins before anything of the first one's update is known.
    void expect_free_compute() {
        const LinkedProgram linked = link(plan_, program_, 2);
        std::vector<const Op*> ops;
        for (const Block& each : plan_.blocks)
            for (const Op& op : each.ops)
                ops.push_back(&op);
        for (std::size_t id = 0; id < linked.size(); ++id) {
            if (ops[linked.op[id]]->stream != Stream::compute) continue;
            for (std::uint32_t w = linked.first_wait[id]; w < linked.first_wait[id + 1]; ++w)
                if (linked.waits[w].stream == Stream::server ||
                    linked.waits[w].stream == Stream::data_comm)
                    return fault(ops[linked.op[id]]->label +
                                 " waits for an update that its step does without");
        }
    }

    const Plan& plan_;
    const Program& program_;
    std::int64_t turns_;
    std::vector<std::string>& faults_;
};

}  // namespace

void check_turns(const Plan& plan, std::int64_t staleness, std::vector<std::string>& faults) {
    for (const Program& program : plan.programs)
        Check(plan, program, staleness, faults).run();
}

}  // namespace orrery::plan
