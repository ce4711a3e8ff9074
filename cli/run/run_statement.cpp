#include "cli/run/run_statement.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/assemble/build_plan.hpp"
#include "plan/text/text.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/data/mapped_file.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

using StatementJson = nlohmann::ordered_json;

// Paths, which mean something to one machine.
constexpr std::array<std::string_view, 3> kOfAMachine = {"/run/data", "/cluster/profile",
                                                         "/cluster/source"};

bool is_of_a_machine(const std::string& pointer) {
    for (const std::string_view each : kOfAMachine)
        if (pointer == each) return true;
    return false;
}

}  // namespace

runtime::RunStatement run_statement(const TrainRun& run, const Resumption& resumption) {
    runtime::RunStatement statement;
    statement.emplace_back("the version", std::string(program_version()));
    const StatementJson settings = StatementJson::parse(run.resolved_json).flatten();
    for (const auto& [pointer, value] : settings.items())
        if (!is_of_a_machine(pointer)) statement.emplace_back(pointer, value.dump());
    statement.emplace_back("the content of run.data", run.data_content);
    statement.emplace_back("the number of tokens in run.data", std::to_string(run.data_tokens));
    statement.emplace_back("--steps", std::to_string(run.steps));
    statement.emplace_back("--resume", resumption.asked ? "given" : "not given");
    statement.emplace_back("--resume-step", std::to_string(resumption.step));
    statement.emplace_back("--backend", run.placement.backend);
    statement.emplace_back("the plan",
                           runtime::content_hash(plan::to_text(plan::build_plan(run.scenario))));
    const runtime::MappedFile program("/proc/self/exe");
    statement.emplace_back("the program's own file", runtime::content_hash(program.bytes()));
    return statement;
}

}  // namespace orrery::cli
