#include "runtime/train/batch_plans.hpp"

#include "plan/assemble/build_plan.hpp"

namespace orrery::runtime {

const BatchPlans::Entry& BatchPlans::of(std::int64_t global_batch) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Entry>& entry = entries_[global_batch];
    if (entry == nullptr) {
        auto made = std::make_unique<Entry>();
        made->scenario = scenario_;
        made->scenario.layout.global_batch_size = global_batch;
        const bool whole = global_batch == scenario_.layout.global_batch_size;
        made->plan = whole && given_ != nullptr ? *given_ : plan::build_plan(made->scenario);
        if (change_) change_(made->plan);
        entry = std::move(made);
    }
    return *entry;
}

}  // namespace orrery::runtime
