#include "cli/build_facts.hpp"

#include <fmt/format.h>

#include "plan/text/version.hpp"
#include "sim/cost/profile.hpp"
#include "trace/formats/trace_version.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

std::string& commit_of_build() {
    static std::string commit = "unknown";
    return commit;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : ", ") + word;
    return text;
}

}  // namespace

void built_from(std::string_view commit) {
    if (!commit.empty()) commit_of_build() = commit;
}

BuildFacts build_facts() {
    BuildFacts facts;
    facts.version = program_version();
    facts.commit = commit_of_build();
    facts.compiler = ORRERY_COMPILER;
    facts.build = ORRERY_BUILD;
    facts.cuda = ORRERY_HAS_CUDA;
    facts.mpi = ORRERY_HAS_MPI;
    facts.gui = ORRERY_HAS_GUI;
    facts.formats = {{"trace", static_cast<int>(trace::kTraceVersion)},
                     {"plan text", plan::kPlanTextVersion},
                     {"profile", sim::kProfileVersion}};
    return facts;
}

std::string build_facts_text(const BuildFacts& facts) {
    std::vector<std::string> with, without, formats;
    (facts.cuda ? with : without).emplace_back("CUDA");
    (facts.mpi ? with : without).emplace_back("MPI");
    (facts.gui ? with : without).emplace_back("the desktop application");
    for (const FormatVersion& one : facts.formats)
        formats.push_back(fmt::format("{} {}", one.format, one.version));
    std::string built = joined(with);
    if (!without.empty()) built += (built.empty() ? "without " : "; without ") + joined(without);
    return fmt::format(
        "orrery {}\n  commit      {}\n  compiler    {}, {}\n  built with  {}\n  formats     {}",
        facts.version, facts.commit, facts.compiler, facts.build, built, joined(formats));
}

}  // namespace orrery::cli
