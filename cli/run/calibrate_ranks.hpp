// The ranks of a calibration: who they are, how they are started, and what is timed between them.
#pragma once

#include <cstdint>
#include <optional>

#include "calib/measure/device_profile.hpp"
#include "cli/console.hpp"
#include "cli/run/train_backend.hpp"
#include "runtime/machine/library_loader.hpp"

namespace orrery::cli {

// As many as a launcher has started, else as `asked` (0: one). Throws UsageError where both are
// said and differ.
std::int64_t ranks_of_calibration(const std::optional<runtime::Launch>& launch, std::int64_t asked);

// This program once for each rank, on this machine; returns what it then ends with.
int start_ranks_of_calibration(const BackendOptions& options, std::int64_t ranks);

// Between GPUs, in at most a quarter of the calibration's seconds; nothing where rank 0 is another
// process. Throws what the backend throws.
std::optional<measure::CollectivesOfRanks> time_ranks_of_gpus(const BackendOptions& options,
                                                              std::int64_t ranks,
                                                              runtime::LibraryLoader& loader,
                                                              const measure::DeviceOptions& device,
                                                              Console& console);

// Between ranks that are threads of this process.
measure::CollectiveTimings time_ranks_of_host(const BackendOptions& options, std::int64_t ranks,
                                              Console& console);

}  // namespace orrery::cli
