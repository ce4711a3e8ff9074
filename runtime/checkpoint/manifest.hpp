// What a checkpoint says of itself: how far the run had come, and how the tensors of its shards
// make up the whole model, whatever layout reads it. docs/checkpoint.md says what each field means.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::runtime {

// What is kept of each parameter: itself, in the type that the optimizer steps, and the moments of
// its gradients.
enum class Quantity : std::uint8_t { weight, first_moment, second_moment };
inline constexpr std::array kQuantities = {Quantity::weight, Quantity::first_moment,
                                           Quantity::second_moment};

std::string_view name(Quantity quantity);  // "weight"

// `count` runs of `elements` each of a whole tensor, the first at `first`, `stride` apart.
struct Slice {
    std::int64_t first = 0;
    std::int64_t elements = 0;
    std::int64_t stride = 0;
    std::int64_t count = 1;

    std::int64_t all() const { return elements * count; }
    bool operator==(const Slice&) const = default;
};

// Appends a run of a whole tensor to slices, where it can to the last.
void append_run(std::vector<Slice>& slices, std::int64_t first, std::int64_t elements);

// A tensor of a shard: the elements that its slices say, in their order.
struct Piece {
    std::string tensor;  // of the model, "layer.0/qkv.weight"
    Quantity quantity = Quantity::weight;
    std::string dtype;  // as safetensors has it
    std::vector<Slice> slices;
    std::string hash;  // content_hash of its bytes
    // Of a weight: as it was so many updates before, which a step under way is computed with.
    std::int64_t age = 0;

    std::int64_t elements() const;
    // "layer.0/qkv.weight", "layer.0/qkv.weight:first_moment", "layer.0/qkv.weight:before_1"
    std::string stored_name() const;
    bool operator==(const Piece&) const = default;
};

struct Shard {
    std::string file;
    std::int64_t bytes = 0;
    std::string head_hash;      // of what stands before the data
    std::vector<Piece> pieces;  // in the order of the file
    bool operator==(const Shard&) const = default;
};

struct SavedLossScale {
    float scale = 1;
    std::int32_t steps_without_overflow = 0;
    std::int32_t overflows = 0;  // since it last grew
    bool operator==(const SavedLossScale&) const = default;
};

// The ring of losses that count, for training.loss_spike.
struct SavedLosses {
    std::vector<double> accepted;
    std::int32_t count = 0;
    bool operator==(const SavedLosses&) const = default;
};

struct Progress {
    std::int64_t step = 0;              // the last that is in it
    std::int64_t updates = 0;           // of the optimizer: steps that were not skipped
    std::int64_t consumed_samples = 0;  // the position in the data
    std::optional<SavedLossScale> loss_scale;
    std::optional<SavedLosses> losses;
    std::int64_t older_weights = 0;  // layout.staleness: ages of weights beside the newest
    bool operator==(const Progress&) const = default;
};

// What the numbers of samples mean: other data, or another seed, and the position is another's.
// Random numbers are functions of the seed and what they are for: nothing else is kept of them.
struct SavedData {
    std::int64_t seed = 0;
    std::int64_t sequence_length = 0;
    std::string path;
    std::int64_t tokens = 0;
    std::string content;  // hash of samples of it (TokenSource::content_sample); empty: not known
    bool operator==(const SavedData&) const = default;
};

struct Manifest {
    Progress progress;
    SavedData data;
    std::string scenario = "{}";                               // resolved, JSON
    std::map<std::string, std::vector<std::int64_t>> tensors;  // shapes of the model's, unpadded
    std::set<std::string> frozen;                              // those that have no moments
    std::vector<Shard> shards;
};

// A shard as JSON, for whoever collects them.
std::string shard_text(const Shard& shard);
Shard read_shard_text(const std::string& path, std::string_view text);

// The file manifest.json. Its first value is the hash of its second.
std::string manifest_text(const Manifest& manifest);

// Throws DataError with `path`: no manifest, another version, a byte that is not as it was written,
// slices beyond their tensor, or too few or too many of them.
Manifest read_manifest(const std::string& path, std::string_view text);

}  // namespace orrery::runtime
