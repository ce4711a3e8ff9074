// A plan for each size of the global batch that a run comes to: with a batch that ramps up, they
// are several. The ranks of a process share them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "plan/ir/plan.hpp"

namespace orrery::runtime {

// The plan of a step of so many sequences, the same but for that. From any thread.
using PlanOfBatch = std::function<plan::Plan(std::int64_t global_batch)>;

class BatchPlans {
  public:
    // Both must outlive the object. `change`: of each plan, once; may be empty.
    BatchPlans(const PlanOfBatch& plan_of, const std::function<void(plan::Plan&)>& change)
        : plan_of_(plan_of), change_(change) {}

    // Lives as long as this object. From any thread.
    const plan::Plan& of(std::int64_t global_batch);

  private:
    const PlanOfBatch& plan_of_;
    const std::function<void(plan::Plan&)>& change_;
    std::mutex mutex_;
    std::map<std::int64_t, std::unique_ptr<plan::Plan>> plans_;
};

}  // namespace orrery::runtime
