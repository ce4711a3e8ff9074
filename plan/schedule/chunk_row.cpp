#include "plan/schedule/chunk_row.hpp"

#include <algorithm>

namespace orrery::plan {

void ChunkRow::weight() {
    if (owed_.empty()) return;
    row_.push_back(owed_.front());
    owed_.erase(owed_.begin());
}

void ChunkRow::weight(std::size_t chunk) {
    const auto found = std::find_if(owed_.begin(), owed_.end(), [&](const Action& action) {
        return action.stage == stages_[chunk];
    });
    if (found == owed_.end()) return;
    row_.push_back(*found);
    owed_.erase(found);
}

}  // namespace orrery::plan
