// Checkpoints in their folder: PATH/step-00000100 each, complete from the moment that it has this
// name. One is written into PATH/step-00000100.tmp, its files and the folder are brought to the
// disk, and then it is renamed: whatever is interrupted, the newest one with its own name can be
// loaded. One that goes is renamed to .old before it is removed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/files.hpp"
#include "runtime/checkpoint/manifest.hpp"

namespace orrery::runtime {

inline constexpr char kManifestFile[] = "manifest.json";

std::string checkpoint_path(const std::string& path, std::int64_t step);
// The number in a path that checkpoint_path made.
std::int64_t step_of_checkpoint(const std::string& path);
std::string unfinished_path(const std::string& path, std::int64_t step);

struct FoundCheckpoint {
    std::int64_t step = 0;
    std::string path;
};

// The complete ones, newest first; none where there is no such folder. What only has the name and
// no manifest is none.
std::vector<FoundCheckpoint> checkpoints_in(const std::string& path);

// A tensor of a shard with its bytes; the piece's hash is made when it is written.
struct PieceBytes {
    Piece piece;
    std::span<const std::byte> bytes;
};

// An empty folder for what is written of a checkpoint, whatever was left there.
void begin_checkpoint(Files& files, const std::string& path, std::int64_t step);

// Writes and synchronises a shard in it.
Shard write_shard(Files& files, const std::string& path, std::int64_t step, const std::string& file,
                  std::span<const PieceBytes> pieces);

// What becomes of other checkpoints in the folder when one is published.
struct Others {
    std::int64_t keep = 0;   // that many of the newest stay, the new one included; 0: all
    bool aside = false;      // some are of another run: moved to PATH/earlier-N …
    std::int64_t after = 0;  // … those of steps after this one
};

// With all shards there: manifest, synchronisation, rename.
void publish_checkpoint(Files& files, const std::string& path, const Manifest& manifest,
                        const Others& others);

// Removes what an interrupted save left.
void remove_unfinished(Files& files, const std::string& path);

}  // namespace orrery::runtime
