#include "plan/assemble/chosen_schedule.hpp"

#include "plan/check.hpp"
#include "plan/schedule/vocabulary.hpp"

namespace orrery::plan {

Schedule chosen_schedule(const Layout& layout) {
    if (!layout.imported.schedule.grid.empty()) return layout.imported.schedule;
    const ScheduleKind* kind = find_schedule(layout.schedule);
    ORRERY_CHECK(kind != nullptr, "an unknown schedule passed validation");
    const ScheduleShape shape{static_cast<std::int32_t>(layout.pipeline_parallel),
                              static_cast<std::int32_t>(layout.virtual_pipeline),
                              static_cast<std::int32_t>(layout.micro_batches()),
                              layout.overlap_expert_communication};
    switch (layout.vocabulary_parallel) {
        case VocabularyParallel::none:
            break;
        case VocabularyParallel::interlaced:
            return interlaced_with_vocabulary(shape);
        case VocabularyParallel::vocab_1:
            return with_vocabulary_between(*kind, shape, LossBarriers::two);
        case VocabularyParallel::vocab_2:
            return with_vocabulary_between(*kind, shape, LossBarriers::one);
    }
    return kind->schedule(shape);
}

PartForms forms_in(const ActionGrid& grid) {
    PartForms forms{false, false};
    for (const auto& row : grid)
        for (const Action& action : row) {
            forms.whole = forms.whole || action.kind == ActionKind::backward;
            forms.split = forms.split || action.kind == ActionKind::backward_input;
        }
    return forms;
}

}  // namespace orrery::plan
