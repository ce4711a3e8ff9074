// What a program was built from and with, for --version and for reports of faults.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::cli {

struct FormatVersion {
    std::string_view format;
    int version = 0;
};

struct BuildFacts {
    std::string version;   // "0.1.0"
    std::string commit;    // "60f0036f1c2d", "-dirty" behind it where files differed; or "unknown"
    std::string compiler;  // "GNU 12.2.0"
    std::string build;     // "Release"
    bool cuda = false;
    bool mpi = false;
    bool gui = false;
    std::vector<FormatVersion> formats;  // that it writes and reads
};

// A commit is known to the programs' main functions alone, which say it here before all else: so
// that a new one links two programs again, and no test. "unknown" where nobody did.
void built_from(std::string_view commit);

BuildFacts build_facts();

// orrery 0.1.0
//   commit      60f0036f1c2d
//   compiler    GNU 12.2.0, Release
//   built with  MPI; without CUDA, the desktop application
//   formats     trace 2, plan text 3, profile 1
std::string build_facts_text(const BuildFacts& facts);

}  // namespace orrery::cli
