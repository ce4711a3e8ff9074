#include "runtime/checkpoint/checkpoint_folder.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "plan/ir/check.hpp"
#include "runtime/checkpoint/content_hash.hpp"
#include "runtime/checkpoint/safetensors.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kUnfinished = ".tmp", kGoing = ".old";

// The number in "step-00000012"; −1: another name.
std::int64_t step_of(std::string_view name) {
    if (!name.starts_with(kPrefix)) return -1;
    name.remove_prefix(kPrefix.size());
    std::int64_t step = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

std::vector<std::string> folders_in(const std::string& path) {
    std::vector<std::string> names;
    std::error_code failed;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end;
         entry.increment(failed))
        if (std::error_code ignored; entry->is_directory(ignored))
            names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

// All with such a name, whatever is in them, newest first.
std::vector<FoundCheckpoint> named_in(const std::string& path) {
    std::vector<FoundCheckpoint> found;
    for (const std::string& name : folders_in(path))
        if (const std::int64_t step = step_of(name); step >= 0)
            found.push_back({step, (fs::path(path) / name).string()});
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.step > b.step; });
    return found;
}

std::string earlier_folder(const std::string& path) {
    std::error_code ignored;
    for (int number = 1;; ++number) {
        std::string folder = (fs::path(path) / fmt::format("earlier-{}", number)).string();
        if (!fs::exists(folder, ignored)) return folder;
    }
}

// The oldest first, so that what is left of the other run when this is interrupted goes on.
void move_aside(Files& files, const std::string& path, std::int64_t after) {
    std::vector<FoundCheckpoint> found = named_in(path);
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

void remove_checkpoint(Files& files, const std::string& path) {
    const std::string going = path + std::string(kGoing);
    files.remove_folder(going);
    files.rename(path, going);
    files.remove_folder(going);
}

}  // namespace

std::string checkpoint_path(const std::string& path, std::int64_t step) {
    return (fs::path(path) / fmt::format("{}{:08}", kPrefix, step)).string();
}

std::int64_t step_of_checkpoint(const std::string& path) {
    return step_of(fs::path(path).filename().string());
}

std::string unfinished_path(const std::string& path, std::int64_t step) {
    return checkpoint_path(path, step) + std::string(kUnfinished);
}

std::vector<FoundCheckpoint> checkpoints_in(const std::string& path) {
    std::vector<FoundCheckpoint> found = named_in(path);
    std::erase_if(found, [](const FoundCheckpoint& each) {
        std::error_code ignored;
        return !fs::exists(fs::path(each.path) / kManifestFile, ignored);
    });
    return found;
}

void begin_checkpoint(Files& files, const std::string& path, std::int64_t step) {
    files.make_folder(path);
    files.remove_folder(unfinished_path(path, step));
    files.make_folder(unfinished_path(path, step));
}

Shard write_shard(Files& files, const std::string& path, std::int64_t step, const std::string& name,
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
    const auto file = files.create((fs::path(unfinished_path(path, step)) / name).string());
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

void publish_checkpoint(Files& files, const std::string& path, const Manifest& manifest,
                        const Others& others) {
    const std::int64_t step = manifest.progress.step;
    const std::string unfinished = unfinished_path(path, step);
    const std::string complete = checkpoint_path(path, step);
    {
        const std::string text = manifest_text(manifest);
        const auto file = files.create((fs::path(unfinished) / kManifestFile).string());
        file->write(std::as_bytes(std::span(text.data(), text.size())));
        file->sync();
    }
    files.sync_folder(unfinished);
    if (others.aside) move_aside(files, path, others.after);
    if (std::error_code ignored; fs::exists(complete, ignored)) remove_checkpoint(files, complete);
    files.rename(unfinished, complete);
    files.sync_folder(path);
    if (others.keep == 0) return;
    std::int64_t kept = 0;
    for (const FoundCheckpoint& each : checkpoints_in(path))
        if (++kept > others.keep) remove_checkpoint(files, each.path);
}

void remove_unfinished(Files& files, const std::string& path) {
    for (const std::string& name : folders_in(path))
        for (const std::string_view ending : {kUnfinished, kGoing})
            if (name.ends_with(ending) &&
                step_of(std::string_view(name).substr(0, name.size() - ending.size())) >= 0)
                files.remove_folder((fs::path(path) / name).string());
}

}  // namespace orrery::runtime
