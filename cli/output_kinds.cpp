#include "cli/output_kinds.hpp"

#include <optional>

#include <fmt/format.h>

#include "calib/fit/write_profile.hpp"
#include "cli/launch_script.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/reader.hpp"
#include "plan/text/plan_file.hpp"
#include "trace/formats/memory_snapshot.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kHeadBytes = 400;  // in which a file of many kinds is known

// Of files that are small where they are of the kind.
std::function<std::string(const std::string&)> unless(bool (*is)(std::string_view text),
                                                      const char* foreign) {
    return [is, foreign](const std::string& path) -> std::string {
        std::string why;
        const std::optional<std::string> text = plan::disk().read(path, why);
        return text && is(*text) ? "" : foreign;
    };
}

std::function<std::string(const std::string&)> must_end_in(const char* ending) {
    return [ending](const std::string& path) -> std::string {
        return path.ends_with(ending) ? "" : fmt::format("the name must end in {}", ending);
    };
}

}  // namespace

OutputKind trace_output() {
    OutputKind kind;
    kind.foreign = [](const std::string& path) -> std::string {
        return trace::begins_as_trace(path, *trace::format_of_name(path))
                   ? ""
                   : "exists, and is no trace of orrery in this format";
    };
    kind.misnamed = [](const std::string& path) -> std::string {
        return trace::format_of_name(path)
                   ? ""
                   : fmt::format("the name must end in {}", trace::kTraceEndings);
    };
    return kind;
}

OutputKind snapshot_output() {
    OutputKind kind{
        false, unless(trace::is_memory_snapshot, "exists, and is no memory snapshot of orrery")};
    kind.misnamed = must_end_in(".pickle");
    return kind;
}

OutputKind profile_output() {
    return {false, unless(fit::is_profile_text, "exists, and is no profile of orrery")};
}

OutputKind plan_output() {
    return {false, unless(plan::is_plan_text, "exists, and is no plan of orrery")};
}

OutputKind scenario_output() {
    return {false, unless(plan::is_scenario_text, "exists, and is no scenario")};
}

OutputKind launch_output() {
    return {false, unless(
                       [](std::string_view text) {
                           return is_slurm_script(std::string(text.substr(0, kHeadBytes))) ||
                                  text.substr(0, kHeadBytes).find("orrery launch") !=
                                      std::string_view::npos;
                       },
                       "exists, and is no file that orrery launch wrote")};
}

OutputKind svg_output() {
    OutputKind kind{false, unless([](std::string_view text) { return text.starts_with("<svg"); },
                                  "exists, and is no chart of orrery")};
    kind.misnamed = must_end_in(".svg");
    return kind;
}

OutputKind nccl_table_output() {
    return {false, unless([](std::string_view text) { return text.starts_with("# nccl-tests"); },
                          "exists, and is no table of nccl-tests")};
}

OutputKind metrics_output() {
    return {false, unless([](std::string_view text) { return text.starts_with(kMetricsBegin); },
                          "exists, and is no file of metrics of orrery watch")};
}

OutputKind page_output() {
    OutputKind kind{false,
                    unless([](std::string_view text) { return text.starts_with(kPageBegins); },
                           "exists, and is no report of orrery")};
    kind.misnamed = must_end_in(".html");
    return kind;
}

}  // namespace orrery::cli
