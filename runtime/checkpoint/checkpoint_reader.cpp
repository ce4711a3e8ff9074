#include "runtime/checkpoint/checkpoint_reader.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/stored_numbers.hpp"
#include "runtime/data/content_hash.hpp"

namespace orrery::runtime {
namespace {

Manifest manifest_at(const std::string& path) {
    const MappedFile file(path + "/" + kManifestFile);
    Manifest manifest = read_manifest(
        file.path(), {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
    file.require_read();
    return manifest;
}

template <typename Stored>
void widen(const std::byte* data, std::span<double> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        Stored value{};
        std::memcpy(&value, data + i * sizeof value, sizeof value);
        values[i] = static_cast<double>(value);
    }
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& path)
    : path_(path), manifest_(manifest_at(path)) {
    if (const std::int64_t step = step_of_checkpoint(path);
        step >= 0 && step != manifest_.progress.step)
        throw DataError(path, fmt::format("its manifest is of step {}", manifest_.progress.step));
    for (const Shard& shard : manifest_.shards)
        open_shard(shard);
}

void CheckpointReader::open_shard(const Shard& shard) {
    files_.push_back(std::make_unique<MappedFile>(path_ + "/" + shard.file));
    const MappedFile& file = *files_.back();
    if (std::ssize(file.bytes()) != shard.bytes)
        throw DataError(file.path(), fmt::format("has {} bytes, {} were written",
                                                 file.bytes().size(), shard.bytes));
    // Before it is parsed: what follows is then what was written.
    std::int64_t data = shard.bytes;
    for (const Piece& piece : shard.pieces)
        data -= std::min(data, piece.elements() * bytes_of_stored(piece.dtype));
    if (content_hash(file.bytes().first(static_cast<std::size_t>(data))) != shard.head_hash) {
        file.require_read();
        const std::string of =
            shard.pieces.empty() ? ""
                                 : " of " + shard.pieces[0].stored_name() + " and what follows it";
        throw DataError(file.path(), "the head" + of + " is not as it was written");
    }
    heads_.push_back(read_safetensors(file.path(), file.bytes()));
    for (const Piece& piece : shard.pieces) {
        const StoredTensor* stored = heads_.back().find(piece.stored_name());
        if (stored == nullptr || stored->dtype != piece.dtype ||
            elements_of(stored->shape) != piece.elements())
            throw DataError(file.path(),
                            "lacks tensor " + piece.stored_name() + " as the manifest has it");
        const std::byte* at = file.bytes().data() + stored->begin;
        const std::int64_t size = bytes_of_stored(piece.dtype);
        for (const Slice& slice : piece.slices) {
            sources_[{piece.tensor, piece.quantity, piece.age}].push_back({slice, at, size, &file});
            at += slice.all() * size;
        }
    }
}

void CheckpointReader::verify_shard(std::size_t shard) const {
    const MappedFile& file = *files_[shard];
    for (const Piece& piece : manifest_.shards[shard].pieces) {
        const StoredTensor* stored = heads_[shard].find(piece.stored_name());
        const auto bytes = file.bytes().subspan(static_cast<std::size_t>(stored->begin),
                                                static_cast<std::size_t>(stored->bytes()));
        const std::string hash = content_hash(bytes);
        file.require_read();
        if (hash != piece.hash)
            throw DataError(
                file.path(),
                fmt::format("tensor {} is not as it was written: the XXH3 of its bytes "
                            "{} to {} is {}, of what was written {}",
                            piece.stored_name(), stored->begin, stored->end, hash, piece.hash));
    }
}

// What the source has of `values`, whose first is element `first`; returns how many.
std::int64_t CheckpointReader::copy(const Source& source, std::int64_t first,
                                    std::span<double> values) const {
    const Slice& slice = source.slice;
    const std::int64_t end = first + std::ssize(values);
    const bool within = slice.count > 1 && first > slice.first;
    std::int64_t run = within ? (first - slice.first) / slice.stride : 0;
    std::int64_t copied = 0;
    for (; run < slice.count; ++run) {
        const std::int64_t run_first = slice.first + run * slice.stride;
        if (run_first >= end) break;
        const std::int64_t from = std::max(first, run_first);
        const std::int64_t to = std::min(end, run_first + slice.elements);
        if (from >= to) continue;
        const std::byte* at =
            source.data + (run * slice.elements + from - run_first) * source.element_bytes;
        const auto into = values.subspan(static_cast<std::size_t>(from - first),
                                         static_cast<std::size_t>(to - from));
        if (source.element_bytes == sizeof(double))
            widen<double>(at, into);
        else if (source.element_bytes == sizeof(float))
            widen<float>(at, into);
        else
            for (double& value : into) {
                value = load_number(at, "BF16");
                at += source.element_bytes;
            }
        copied += to - from;
    }
    return copied;
}

void CheckpointReader::read(const std::string& tensor, Quantity quantity, std::int64_t first,
                            std::span<double> values, std::int64_t age) const {
    const auto found = sources_.find({tensor, quantity, age});
    if (found == sources_.end()) throw DataError(path_, "has no tensor " + tensor);
    const std::int64_t whole = elements_of(manifest_.tensors.at(tensor));
    ORRERY_CHECK(first >= 0 && first + std::ssize(values) <= whole, "elements of the tensor");
    std::int64_t copied = 0;
    for (const Source& source : found->second) {
        copied += copy(source, first, values);
        source.file->require_read();
    }
    if (copied != std::ssize(values))
        throw DataError(path_,
                        fmt::format("{} of the {} elements of {} from {} on are in no shard "
                                    "or in several",
                                    std::ssize(values) - copied, values.size(), tensor, first));
}

}  // namespace orrery::runtime
