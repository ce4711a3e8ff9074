// The disk, on which a call fails, or at which the process is killed, or the power goes.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/checkpoint/files.hpp"

namespace orrery::runtime {

// Tests do not wait for the disk.
class UnsynchronisedFiles : public Files {
  public:
    void make_folder(const std::string& path) override {
        std::filesystem::create_directories(path);
    }
    std::unique_ptr<OutputFile> create(const std::string& path) override {
        return std::make_unique<File>(disk_files().create(path));
    }
    void rename(const std::string& from, const std::string& to) override {
        disk_files().rename(from, to);
    }
    void sync_folder(const std::string&) override {}
    void remove_folder(const std::string& path) override { disk_files().remove_folder(path); }

  private:
    class File final : public OutputFile {
      public:
        explicit File(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
        void write(std::span<const std::byte> bytes) override { file_->write(bytes); }
        void sync() override {}

      private:
        std::unique_ptr<OutputFile> file_;
    };
};

enum class Fault {
    fails,           // the call fails, later ones do not; of a write half has been written
    kills,           // nothing happens from that call on
    power_goes,      // and what was not synchronised is gone: bytes, names, renames
    power_goes_late  // the same, but names and renames are there: without their bytes
};

class FaultyFiles final : public Files {
  public:
    // At call number `at`, from 0; −1: never.
    FaultyFiles(Fault fault, int at) : fault_(fault), at_(at) {}

    int calls() const { return calls_; }
    bool has_struck() const { return calls_ > at_; }

    // What a disk has after its power was gone.
    void lose() {
        if (fault_ == Fault::fails || fault_ == Fault::kills || !has_struck()) return;
        for (const auto& [path, bytes] : unsynchronised_)
            if (std::filesystem::exists(path)) std::filesystem::resize_file(path, bytes);
        if (fault_ == Fault::power_goes_late) return;
        for (; !pending_.empty(); pending_.pop_back()) {
            const auto& [from, to] = pending_.back();
            if (from.empty())
                std::filesystem::remove_all(to);
            else
                std::filesystem::rename(to, from);
        }
    }

    void make_folder(const std::string& path) override {
        const std::lock_guard lock(mutex_);
        if (strikes()) throw StorageError(path + ": no folder");
        std::filesystem::create_directories(path);
    }
    std::unique_ptr<OutputFile> create(const std::string& path) override {
        const std::lock_guard lock(mutex_);
        if (strikes()) throw StorageError(path + ": not created");
        pending_.push_back({"", path});
        unsynchronised_[path] = 0;
        return std::make_unique<File>(*this, path);
    }
    void rename(const std::string& from, const std::string& to) override {
        const std::lock_guard lock(mutex_);
        if (strikes()) throw StorageError(from + ": not renamed");
        disk_files().rename(from, to);
        const auto moved = [&](const std::string& path) {
            return path.starts_with(from + "/") ? to + path.substr(from.size()) : path;
        };
        for (auto& change : pending_)
            if (change.first.empty()) change.second = moved(change.second);
        std::map<std::string, std::uintmax_t> unsynchronised;
        for (const auto& [path, bytes] : unsynchronised_)
            unsynchronised[moved(path)] = bytes;
        unsynchronised_ = std::move(unsynchronised);
        pending_.push_back({from, to});
    }
    void sync_folder(const std::string& path) override {
        const std::lock_guard lock(mutex_);
        if (strikes()) throw StorageError(path + ": not synchronised");
        std::erase_if(pending_, [&](const auto& change) {
            return std::filesystem::path(change.second).parent_path() == path;
        });
    }
    void remove_folder(const std::string& path) override {
        const std::lock_guard lock(mutex_);
        if (strikes()) throw StorageError(path + ": not removed");
        std::filesystem::remove_all(path);
        // Who is gone is not brought back.
        std::erase_if(pending_, [&](const auto& change) {
            return change.second == path || change.second.starts_with(path + "/");
        });
    }

  private:
    class File final : public OutputFile {
      public:
        File(FaultyFiles& files, std::string path)
            : files_(files), path_(std::move(path)), file_(disk_files().create(path_)) {}
        void write(std::span<const std::byte> bytes) override {
            const std::lock_guard lock(files_.mutex_);
            const bool struck = files_.has_struck();
            if (files_.strikes()) {
                if (!struck) file_->write(bytes.first(bytes.size() / 2));
                throw StorageError(path_ + ": no space left");
            }
            file_->write(bytes);
        }
        void sync() override {
            const std::lock_guard lock(files_.mutex_);
            if (files_.strikes()) throw StorageError(path_ + ": not synchronised");
            files_.unsynchronised_.erase(path_);
        }

      private:
        FaultyFiles& files_;
        std::string path_;
        std::unique_ptr<OutputFile> file_;
    };

    bool strikes() {
        const int call = calls_++;
        return at_ >= 0 && (fault_ == Fault::fails ? call == at_ : call >= at_);
    }

    Fault fault_;
    int at_;
    int calls_ = 0;
    std::mutex mutex_;
    std::map<std::string, std::uintmax_t> unsynchronised_;      // bytes that are on the disk
    std::vector<std::pair<std::string, std::string>> pending_;  // renames; "": created
};

}  // namespace orrery::runtime
