// The shipped scenarios as a tree in memory, the only files that a fuzzed scenario can name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/scenario/files.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fuzz {

class MemoryFiles : public plan::Files {
  public:
    explicit MemoryFiles(std::map<std::string, std::string> files) : files_(std::move(files)) {}

    const std::map<std::string, std::string>& all() const { return files_; }
    bool is_file(const std::string& path) const override { return files_.count(path) != 0; }
    std::optional<std::string> read(const std::string& path, std::string& why) const override;
    std::vector<std::string> names(const std::string& folder) const override;
    std::string current_folder() const override { return "/"; }

  private:
    std::map<std::string, std::string> files_;  // by absolute path
};

inline constexpr const char* kShippedFolder = "/scenarios";

// The .json files below the tree's scenarios/, under kShippedFolder; profiles hold nothing but the
// device, which is all that a scenario's reader looks at.
const MemoryFiles& shipped_files();

// Whole profiles by path under kShippedFolder, as text and as what the text reads to.
const std::map<std::string, std::string>& shipped_profile_texts();
const sim::Profile& shipped_profile(const std::string& path);
// With those of other nodes.
const sim::Profile& shipped_profiles(const plan::Cluster& cluster);

}  // namespace orrery::fuzz
