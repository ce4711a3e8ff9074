// The order of schedules whose pipeline ranks share out the vocabulary: passes over the pieces of
// the embedding and of the head, put between those of the layers (layout.vocabulary_parallel).
#pragma once

#include "plan/schedule/schedule.hpp"

namespace orrery::plan {

// How often ranks wait for each other between a micro-batch's logits and the gradient that its last
// stage begins with: for the sums of all parts and then for the sum of their gradients, or for both
// with little work between (Algorithms 1 and 2 of Yeung et al. 2024, arXiv 2411.05288, section 4).
enum class LossBarriers : std::uint8_t { two, one };

// Every backward pass comes as many micro-batches later than the kind has it as there are barriers,
// and in the time between lie forward and backward of the head's pieces, the same of all ranks at
// once; earlier and later those of the embedding's. As many more micro-batches are in flight
// (section 5).
Schedule with_vocabulary_between(const ScheduleKind& kind, const ScheduleShape& shape,
                                 LossBarriers barriers);

// 1F1B in which both passes of the head's pieces follow each other, with all ranks at the same
// place of their rows; half as many micro-batches more are in flight as there are ranks.
Schedule interlaced_with_vocabulary(const ScheduleShape& shape);

// The passes over layers alone, in their order.
Schedule without_pieces(Schedule schedule);

}  // namespace orrery::plan
