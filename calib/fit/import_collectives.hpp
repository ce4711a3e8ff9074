// A profile with the collectives of somebody's own cluster: its "collectives" section made anew
// from outputs of nccl-tests (nccl_tests.hpp), everything else as it was. The new curves replace
// all of the old ones, since one section is about one machine; what no run says (the algorithms'
// constants, links between nodes) stays.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "calib/fit/fit_profile.hpp"

namespace orrery::fit {

// What is wrong with a file of an import: all faults, a line each.
class ImportError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct ImportInputs {
    std::vector<std::string> paths;  // outputs of nccl-tests
    std::string collective;          // of those that do not say theirs; may be empty
    std::string profile_path;
    std::string output_path;  // may be profile_path
    std::string version;      // of this program
};

struct ImportReport {
    FitReport fit;
    std::vector<std::string> runs;  // "all_reduce.txt: all_reduce over 8 ranks, float, NCCL 2.28.5"
    std::vector<std::string> kept;  // curves that the profile had and no run gives: "all_gather 8"
};

// Throws ImportError where a file or the profile is at fault, sim::ProfileError where the profile
// is none, FitStorageError where it cannot be written. Then nothing is written.
ImportReport import_collectives(const ImportInputs& inputs);

}  // namespace orrery::fit
