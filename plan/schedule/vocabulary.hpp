// The order of schedules whose pipeline ranks share out the vocabulary: passes over the pieces of
// the embedding and of the head, put between those of the layers (layout.vocabulary_parallel).
#pragma once

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

// Every backward pass comes two micro-batches later than the kind has it, and in the time between
// lie forward and backward of the head's pieces, the same of all ranks at once; one micro-batch
// earlier and later those of the embedding's. In flight are so two more micro-batches (Yeung et al.
// 2024, arXiv 2411.05288, section 5).
Schedule with_vocabulary_between(const ScheduleKind& kind, const ScheduleShape& shape);

// 1F1B in which both passes of the head's pieces follow each other, with all ranks at the same
// place of their rows; half as many micro-batches more are in flight as there are ranks.
Schedule interlaced_with_vocabulary(const ScheduleShape& shape);

// The passes over layers alone, in their order.
Schedule without_pieces(const Schedule& schedule);

}  // namespace orrery::plan
