#include "runtime/train/batch_plans.hpp"

#include <utility>

namespace orrery::runtime {

const plan::Plan& BatchPlans::of(std::int64_t global_batch) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<plan::Plan>& plan = plans_[global_batch];
    if (plan == nullptr) {
        auto made = std::make_unique<plan::Plan>(plan_of_(global_batch));
        if (change_) change_(*made);
        plan = std::move(made);
    }
    return *plan;
}

}  // namespace orrery::runtime
