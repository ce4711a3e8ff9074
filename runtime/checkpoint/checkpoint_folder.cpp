#include "runtime/checkpoint/checkpoint_folder.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kWriting = ".writing-", kRemoving = ".removing-";
constexpr std::string_view kShardPrefix = "rank-", kShardEnding = ".safetensors";
constexpr std::size_t kRunIdDigits = 16;

// The number in "step-00000012"; −1: another name.
std::int64_t step_of(std::string_view name) {
    if (!name.starts_with(kPrefix)) return -1;
    name.remove_prefix(kPrefix.size());
    std::int64_t step = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

[[noreturn]] void cannot_be_seen(const fs::path& path, const char* doing, std::error_code error) {
    throw DataError(path.string(), fmt::format("{}: {}", doing, error.message()));
}

// False where it is not there; whatever else keeps it from being seen is an error.
bool is_there(const fs::path& path) {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    if (status.type() == fs::file_type::not_found) return false;
    if (failed) cannot_be_seen(path, "cannot be looked at", failed);
    return true;
}

std::vector<std::string> folders_in(const std::string& path) {
    std::vector<std::string> names;
    std::error_code failed;
    fs::directory_iterator entry(path, failed);
    if (failed == std::errc::no_such_file_or_directory) return names;
    for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed)) {
        std::error_code unseen;
        const bool is_folder = entry->is_directory(unseen);
        if (unseen && unseen != std::errc::no_such_file_or_directory)
            cannot_be_seen(entry->path(), "cannot be looked at", unseen);
        if (is_folder) names.push_back(entry->path().filename().string());
    }
    if (failed) cannot_be_seen(path, "cannot be listed", failed);
    std::sort(names.begin(), names.end());
    return names;
}

std::string earlier_folder(const std::string& path) {
    for (int number = 1;; ++number) {
        std::string folder = (fs::path(path) / fmt::format("earlier-{}", number)).string();
        std::error_code failed;  // a link counts, wherever it leads
        if (fs::symlink_status(folder, failed).type() == fs::file_type::not_found) return folder;
    }
}

std::string name_of(std::int64_t step) {
    return fmt::format("{}{:08}", kPrefix, step);
}

// Of a folder that is on its way in or out.
std::string passing_path(const CheckpointPlace& place, std::string_view way, std::int64_t step) {
    return (fs::path(place.path) / fmt::format("{}{}-{}", way, name_of(step), place.run_id))
        .string();
}

bool is_passing(std::string_view name) {
    for (const std::string_view way : {kWriting, kRemoving}) {
        if (!name.starts_with(way)) continue;
        name.remove_prefix(way.size());
        const std::size_t dash = name.rfind('-');
        if (dash == std::string_view::npos || step_of(name.substr(0, dash)) < 0) return false;
        name.remove_prefix(dash + 1);
        return name.size() == kRunIdDigits &&
               std::all_of(name.begin(), name.end(),
                           [](unsigned char c) { return std::isxdigit(c) != 0; });
    }
    return false;
}

// Whether there are files, and none of them is a shard.
bool holds_other_than_shards(const std::string& folder) {
    bool any = false;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with(kShardPrefix) && name.ends_with(kShardEnding)) return false;
        any = true;
    }
    return any;
}

// The oldest first, so that what is left of the other run when this is interrupted goes on.
void move_aside(Files& files, const std::string& path, std::int64_t after) {
    std::vector<FoundCheckpoint> found = named_checkpoints(path);
    std::erase_if(found, [&](const FoundCheckpoint& each) { return each.step <= after; });
    if (found.empty()) return;
    const std::string aside = earlier_folder(path);
    files.make_folder(aside);
    std::reverse(found.begin(), found.end());
    for (const FoundCheckpoint& each : found)
        files.rename(each.path, (fs::path(aside) / fs::path(each.path).filename()).string());
    files.sync_folder(aside);
    files.sync_folder(path);
}

void remove_checkpoint(const CheckpointPlace& place, const FoundCheckpoint& found) {
    const std::string going = passing_path(place, kRemoving, found.step);
    place.files.remove_folder(going);
    place.files.rename(found.path, going);
    place.files.remove_folder(going);
}

}  // namespace

std::string checkpoint_path(const std::string& path, std::int64_t step) {
    return (fs::path(path) / name_of(step)).string();
}

std::int64_t step_of_checkpoint(const std::string& path) {
    return step_of(fs::path(path).filename().string());
}

std::vector<FoundCheckpoint> named_checkpoints(const std::string& path) {
    std::vector<FoundCheckpoint> found;
    for (const std::string& name : folders_in(path)) {
        const std::int64_t step = step_of(name);
        if (step < 0) continue;
        const fs::path folder = fs::path(path) / name;
        found.push_back({step, folder.string(), is_there(folder / kManifestFile)});
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.step > b.step; });
    return found;
}

std::vector<FoundCheckpoint> checkpoints_in(const std::string& path) {
    std::vector<FoundCheckpoint> found = named_checkpoints(path);
    std::erase_if(found, [](const FoundCheckpoint& each) { return !each.has_manifest; });
    return found;
}

std::string shard_name(std::int64_t rank) {
    return fmt::format("{}{:05}{}", kShardPrefix, rank, kShardEnding);
}

std::string foreign_checkpoint_in(const std::string& path) {
    for (const FoundCheckpoint& each : named_checkpoints(path))
        if (!each.has_manifest && holds_other_than_shards(each.path))
            return fs::path(each.path).filename().string();
    return "";
}

void begin_checkpoint(const CheckpointPlace& place, std::int64_t step) {
    const std::string unfinished = passing_path(place, kWriting, step);
    place.files.make_folder(place.path);
    place.files.remove_folder(unfinished);
    place.files.make_folder(unfinished);
}

Shard write_shard(const CheckpointPlace& place, std::int64_t step, const std::string& name,
                  std::span<const PieceBytes> pieces) {
    Shard shard;
    shard.file = name;
    std::vector<StoredTensor> stored;
    std::int64_t at = 0;
    for (const PieceBytes& each : pieces) {
        const std::int64_t bytes = std::ssize(each.bytes);
        ORRERY_CHECK(bytes == each.piece.elements() * bytes_of_stored(each.piece.dtype),
                     "a piece has the bytes of its elements");
        stored.push_back(
            {each.piece.stored_name(), each.piece.dtype, {each.piece.elements()}, at, at + bytes});
        at += bytes;
    }
    const std::string head = safetensors_head(stored, {{"format", "orrery checkpoint"}});
    shard.head_hash = content_hash(head);
    shard.bytes = std::ssize(head) + at;
    const auto file =
        place.files.create((fs::path(passing_path(place, kWriting, step)) / name).string());
    file->write(std::as_bytes(std::span(head.data(), head.size())));
    for (std::size_t i = 0; i < pieces.size();) {  // what lies in a row is written at once
        std::span<const std::byte> row = pieces[i].bytes;
        for (++i; i < pieces.size() && row.data() + row.size() == pieces[i].bytes.data(); ++i)
            row = {row.data(), row.size() + pieces[i].bytes.size()};
        file->write(row);
    }
    for (const PieceBytes& each : pieces) {
        shard.pieces.push_back(each.piece);
        shard.pieces.back().hash = content_hash(each.bytes);
    }
    file->sync();
    return shard;
}

void publish_checkpoint(const CheckpointPlace& place, const Manifest& manifest,
                        const Others& others) {
    const auto& [files, path, run_id] = place;
    const std::int64_t step = manifest.progress.step;
    const std::string unfinished = passing_path(place, kWriting, step);
    const std::string complete = checkpoint_path(path, step);
    {
        const std::string text = manifest_text(manifest);
        const auto file = files.create((fs::path(unfinished) / kManifestFile).string());
        file->write(std::as_bytes(std::span(text.data(), text.size())));
        file->sync();
    }
    files.sync_folder(unfinished);
    if (others.aside) move_aside(files, path, others.after);
    if (is_there(complete)) remove_checkpoint(place, {step, complete});
    files.rename(unfinished, complete);
    files.sync_folder(path);
    if (others.keep == 0) return;
    std::int64_t kept = 0;
    for (const FoundCheckpoint& each : checkpoints_in(path))
        if (++kept > others.keep) remove_checkpoint(place, each);
}

void remove_unfinished(Files& files, const std::string& path) {
    for (const std::string& name : folders_in(path))
        if (is_passing(name)) files.remove_folder((fs::path(path) / name).string());
}

}  // namespace orrery::runtime
