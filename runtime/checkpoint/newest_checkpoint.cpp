#include "runtime/checkpoint/newest_checkpoint.hpp"

#include <filesystem>
#include <system_error>

#include "runtime/checkpoint/checkpoint_folder.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

bool has_manifest(const std::string& path) {
    std::error_code ignored;
    return fs::exists(fs::path(path) / kManifestFile, ignored);
}

}  // namespace

CheckpointReader newest_checkpoint(const std::string& path) {
    if (has_manifest(path)) return CheckpointReader(path);
    for (;;) {
        const auto found = checkpoints_in(path);
        if (found.empty()) throw DataError(path, "is no checkpoint, and has none in it");
        try {
            return CheckpointReader(found.front().path);
        } catch (const DataError&) {
            if (has_manifest(found.front().path)) throw;  // it is still there, and damaged
        }
    }
}

}  // namespace orrery::runtime
