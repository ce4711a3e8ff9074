// Where a scenario's references are looked up: the disk, or a tree in memory, so that a reader can
// be given any text at all without a file of the machine being opened.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace orrery::plan {

class Files {
  public:
    virtual ~Files() = default;

    // Something that is not a folder stands at `path`.
    virtual bool is_file(const std::string& path) const = 0;
    // Whole content of a file, at most 64 MiB; or nothing, with the cause in `why`.
    virtual std::optional<std::string> read(const std::string& path, std::string& why) const = 0;
    // Names of what stands in `folder`, sorted; none if it is no folder.
    virtual std::vector<std::string> names(const std::string& folder) const = 0;
    // What relative paths are relative to.
    virtual std::string current_folder() const = 0;
    // The folder in which Hugging Face keeps what it has downloaded, by the variables of its own
    // tools; empty where there is none.
    virtual std::string hugging_face_hub() const { return ""; }
    // The profile of the machine at hand, which a cluster calls kThisMachine, for so many ranks on
    // it; threads of each, 0: its share of the cores. Empty where there is none, with the cause in
    // `why`.
    virtual std::string machine_profile(std::int64_t ranks, std::int64_t threads_per_rank,
                                        std::string& why) const;
};

inline constexpr const char* kThisMachine = "this-machine";

const Files& disk();

// What a stream has up to its end, at most 64 MiB; or nothing, with the cause in `why`.
std::optional<std::string> read_whole(std::istream& stream, std::string& why);

}  // namespace orrery::plan
