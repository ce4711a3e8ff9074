#include "runtime/checkpoint/newest_checkpoint.hpp"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/checkpoint/checkpoint_folder.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

bool has_manifest(const std::string& path) {
    std::error_code ignored;
    return fs::exists(fs::path(path) / kManifestFile, ignored);
}

// A listing is of no one moment: of a run that keeps one, the old checkpoint may be on its way out
// when it is looked at, and the new one have come behind it. None is there if it stays so.
std::vector<FoundCheckpoint> lasting_checkpoints_in(const std::string& path) {
    constexpr int kListings = 5;
    constexpr std::chrono::milliseconds kPause{10};
    auto found = checkpoints_in(path);
    for (int again = 1; again < kListings && found.empty(); ++again) {
        std::this_thread::sleep_for(kPause);
        found = checkpoints_in(path);
    }
    return found;
}

}  // namespace

CheckpointReader newest_checkpoint(const std::string& path) {
    if (has_manifest(path)) return CheckpointReader(path);
    for (;;) {
        const auto found = lasting_checkpoints_in(path);
        if (found.empty()) throw DataError(path, "is no checkpoint, and has none in it");
        try {
            return CheckpointReader(found.front().path);
        } catch (const DataError&) {
            if (has_manifest(found.front().path)) throw;  // it is still there, and damaged
        }
    }
}

}  // namespace orrery::runtime
