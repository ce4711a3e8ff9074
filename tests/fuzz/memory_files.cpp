#include "tests/fuzz/memory_files.hpp"

#include <filesystem>
#include <set>

#include "plan/check.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::fuzz {
namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> everything() {
    const fs::path from = fs::path(ORRERY_SOURCE_DIR) / "scenarios";
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
        if (entry.path().extension() != ".json") continue;
        std::string why;
        const auto text = plan::disk().read(entry.path().string(), why);
        ORRERY_CHECK(text.has_value(), entry.path().string() + ": " + why);
        files[(fs::path(kShippedFolder) / fs::relative(entry.path(), from)).string()] = *text;
    }
    return files;
}

}  // namespace

std::optional<std::string> MemoryFiles::read(const std::string& path, std::string& why) const {
    const auto found = files_.find(path);
    if (found != files_.end()) return found->second;
    why = "No such file or directory";
    return std::nullopt;
}

std::vector<std::string> MemoryFiles::names(const std::string& folder) const {
    std::set<std::string> names;
    const std::string prefix = (fs::path(folder) / "").string();
    for (auto it = files_.lower_bound(prefix);
         it != files_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it)
        names.insert(
            it->first.substr(prefix.size(), it->first.find('/', prefix.size()) - prefix.size()));
    return {names.begin(), names.end()};
}

const MemoryFiles& shipped_files() {
    static const MemoryFiles files = [] {
        std::map<std::string, std::string> texts = everything();
        for (const auto& [path, text] : shipped_profile_texts())
            texts[path] = R"({"device": ")" + shipped_profile(path).device + "\"}";
        return MemoryFiles(std::move(texts));
    }();
    return files;
}

const std::map<std::string, std::string>& shipped_profile_texts() {
    static const std::map<std::string, std::string> texts = [] {
        std::map<std::string, std::string> found;
        for (const auto& [path, text] : everything())
            if (fs::path(path).parent_path() == fs::path(kShippedFolder) / "profiles")
                found[path] = text;
        return found;
    }();
    return texts;
}

const sim::Profile& shipped_profile(const std::string& path) {
    static std::map<std::string, sim::Profile> read;
    const auto found = read.find(path);
    if (found != read.end()) return found->second;
    return read[path] = sim::parse_profile(shipped_profile_texts().at(path), path);
}

const sim::Profile& shipped_profiles(const plan::Cluster& cluster) {
    if (cluster.other_nodes.empty()) return shipped_profile(cluster.profile_path);
    static sim::Profile mixed;  // of the last one asked for
    mixed = shipped_profile(cluster.profile_path);
    for (const plan::Cluster& others : cluster.other_nodes)
        mixed.others.push_back(shipped_profile(others.profile_path));
    return mixed;
}

}  // namespace orrery::fuzz
