#include "plan/scenario/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace orrery::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile_bytes = 64u << 20;

class Disk : public Files {
  public:
    bool is_file(const std::string& path) const override {
        std::error_code ignored;
        return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
    }

    std::optional<std::string> read(const std::string& path, std::string& why) const override {
        std::error_code error;
        if (fs::is_directory(path, error)) {
            why = "it is a folder";
            return std::nullopt;
        }
        errno = 0;
        std::ifstream file(path, std::ios::binary);
        if (!file) {
            why = errno == 0 ? "it cannot be opened" : std::strerror(errno);
            return std::nullopt;
        }
        return read_whole(file, why);
    }

    std::vector<std::string> names(const std::string& folder) const override {
        std::vector<std::string> out;
        std::error_code error;
        for (fs::directory_iterator it(folder, error), end; !error && it != end;
             it.increment(error))
            out.push_back(it->path().filename().string());
        std::sort(out.begin(), out.end());
        return out;
    }

    std::string current_folder() const override {
        std::error_code ignored;
        return fs::current_path(ignored).string();
    }

    // As huggingface_hub/constants.py reads them.
    std::string hugging_face_hub() const override {
        const auto set = [](const char* name) {
            const char* value = std::getenv(name);
            return std::string(value == nullptr ? "" : value);
        };
        for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
            if (const std::string hub = set(name); !hub.empty()) return hub;
        if (const std::string home = set("HF_HOME"); !home.empty())
            return (fs::path(home) / "hub").string();
        if (const std::string cache = set("XDG_CACHE_HOME"); !cache.empty())
            return (fs::path(cache) / "huggingface" / "hub").string();
        const std::string home = set("HOME");
        if (home.empty()) return "";
        return (fs::path(home) / ".cache" / "huggingface" / "hub").string();
    }
};

}  // namespace

std::optional<std::string> read_whole(std::istream& stream, std::string& why) {
    std::string text;
    char block[1 << 16];
    while (stream.read(block, sizeof block) || stream.gcount() > 0) {
        text.append(block, static_cast<std::size_t>(stream.gcount()));
        if (text.size() > kLargestFile_bytes) {
            why = "it is larger than 64 MiB";
            return std::nullopt;
        }
    }
    if (stream.bad()) {
        why = "reading it failed";
        return std::nullopt;
    }
    return text;
}

std::string Files::machine_profile(std::int64_t /*ranks*/, std::int64_t /*threads_per_rank*/,
                                   std::string& why) const {
    why = "what reads the scenario knows of no machine";
    return "";
}

const Files& disk() {
    static const Disk all;
    return all;
}

}  // namespace orrery::plan
