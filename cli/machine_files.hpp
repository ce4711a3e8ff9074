// The files of a scenario, and among them the profile `this-machine`: that of the computer at hand,
// timed when it is first asked for and kept in the user's cache folder.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "calib/fit/this_machine.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

// Makes the profile of ranks of so many threads at `path`: nothing, or why it could not. The
// program's own way is to start `orrery-run calibrate --this-machine`, which measures.
using MakeProfile = std::optional<std::string> (*)(const std::string& path,
                                                   std::int64_t threads_per_rank);
std::optional<std::string> start_calibration(const std::string& path,
                                             std::int64_t threads_per_rank);

class MachineFiles : public plan::Files {
  public:
    // `told`, on which waiting is announced, must outlive the object; null: what is not there is
    // not made either.
    explicit MachineFiles(std::ostream* told, MakeProfile make = start_calibration)
        : told_(told), make_(make) {}

    bool is_file(const std::string& path) const override { return disk_.is_file(path); }
    std::optional<std::string> read(const std::string& path, std::string& why) const override {
        return disk_.read(path, why);
    }
    std::vector<std::string> names(const std::string& folder) const override {
        return disk_.names(folder);
    }
    std::string current_folder() const override { return disk_.current_folder(); }
    std::string hugging_face_hub() const override { return disk_.hugging_face_hub(); }
    // One process of a computer makes it, others wait for that.
    std::string machine_profile(std::int64_t ranks, std::int64_t threads_per_rank,
                                std::string& why) const override;

  private:
    const plan::Files& disk_ = plan::disk();
    std::ostream* told_;
    MakeProfile make_;
};

// Whether ranks are cores of some computer, by a profile that was measured on none.
bool is_guess_of_cores(const plan::Scenario& scenario, const sim::Profile& profile);

// Where the profile of this computer's ranks of so many threads is kept; nothing where the user has
// no folder for such.
std::optional<std::string> own_profile_path(std::int64_t threads_per_rank);

}  // namespace orrery::cli
