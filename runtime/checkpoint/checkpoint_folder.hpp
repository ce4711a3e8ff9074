// Checkpoints in their folder: PATH/step-00000100 each, complete from the moment that it has this
// name. One is written into PATH/.writing-step-00000100-RUN, its files and the folder are brought
// to the disk, and then it is renamed: whatever is interrupted, the newest one with its own name
// can be loaded. One that goes is renamed to .removing-step-00000100-RUN before it is removed. RUN
// is the run's id, so that these names are nobody else's: what people put beside them is left
// alone.
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
// The number in a path that checkpoint_path made; −1: it has another name.
std::int64_t step_of_checkpoint(const std::string& path);

struct FoundCheckpoint {
    std::int64_t step = 0;
    std::string path;
    bool has_manifest = true;  // without, something has happened to it since it was published
};

// All that have the name of one, newest first; none where there is no such folder. Throws DataError
// for anything else that keeps them from being seen: a folder that cannot be read may have some.
std::vector<FoundCheckpoint> named_checkpoints(const std::string& path);

// The complete ones of these.
std::vector<FoundCheckpoint> checkpoints_in(const std::string& path);

// Where a run writes its checkpoints. `run_id` as new_run_id() makes it.
struct CheckpointPlace {
    Files& files;
    std::string path;
    std::string run_id;
};

// The file of a rank's shard in it.
std::string shard_name(std::int64_t rank);

// The first entry of the folder, if any, that has the name of a checkpoint and has never been one:
// what a run would move or replace. One that lost its manifest is damaged, not foreign.
std::string foreign_checkpoint_in(const std::string& path);

// A tensor of a shard with its bytes; the piece's hash is made when it is written.
struct PieceBytes {
    Piece piece;
    std::span<const std::byte> bytes;
};

// An empty folder for what is written of a checkpoint, whatever was left there.
void begin_checkpoint(const CheckpointPlace& place, std::int64_t step);

// Writes and synchronises a shard in it.
Shard write_shard(const CheckpointPlace& place, std::int64_t step, const std::string& file,
                  std::span<const PieceBytes> pieces);

// What becomes of other checkpoints in the folder when one is published.
struct Others {
    std::int64_t keep = 0;   // that many of the newest stay, the new one included; 0: all
    bool aside = false;      // some are of another run: moved to PATH/earlier-N …
    std::int64_t after = 0;  // … those of steps after this one
};

// With all shards there: manifest, synchronisation, rename.
void publish_checkpoint(const CheckpointPlace& place, const Manifest& manifest,
                        const Others& others);

// Removes what interrupted saves of whatever run left: for who has the folder to itself.
void remove_unfinished(Files& files, const std::string& path);

}  // namespace orrery::runtime
