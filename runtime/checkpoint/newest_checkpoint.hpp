// The checkpoint that is meant by a path, opened while a run may go on saving beside it.
#pragma once

#include <string>

#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace orrery::runtime {

// `path` is a checkpoint, or the folder of a run's, of which the newest is taken: where the run
// removed that one before all its files were open, the newest that there is then. Throws DataError
// as CheckpointReader does, and where there is none.
CheckpointReader newest_checkpoint(const std::string& path);

}  // namespace orrery::runtime
