#include "calib/fit/import_collectives.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/collectives.hpp"
#include "calib/fit/curve_json.hpp"
#include "calib/fit/datasheet.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/held_out.hpp"
#include "calib/fit/nccl_tests.hpp"
#include "calib/fit/write_profile.hpp"
#include "plan/scenario/files.hpp"
#include "sim/network/collective_table.hpp"

namespace orrery::fit {
namespace {

const std::string kProvenance = "Collectives imported from nccl-tests";

struct ImportedRun {
    std::string file;  // name and hash
    NcclRun run;
    std::string types() const {
        std::set<std::string> names;
        for (const NcclTiming& timing : run.timings)
            names.insert(timing.type);
        return fmt::format("{}", fmt::join(names, ", "));
    }
    bool checked() const {
        return std::all_of(run.timings.begin(), run.timings.end(),
                           [](const NcclTiming& timing) { return timing.wrong.has_value(); });
    }
    std::string text() const {
        return fmt::format(
            "{}: {} over {} ranks of one node, {}, NCCL {}{}{}", file, run.collective, run.ranks,
            types(), run.nccl_version.empty() ? "of unknown version" : run.nccl_version,
            run.device.empty() ? "" : ", " + run.device, checked() ? "" : ", results not checked");
    }
};

[[noreturn]] void refuse(const std::vector<std::string>& faults) {
    throw ImportError(fmt::format("{}\n{} error{}; nothing was written.", fmt::join(faults, "\n"),
                                  faults.size(), faults.size() == 1 ? "" : "s"));
}

// One section is of one machine with one version of the library.
void check_same(const std::vector<ImportedRun>& runs, const char* what,
                std::string NcclRun::*member, std::vector<std::string>& faults) {
    std::map<std::string, std::string> place_of;
    for (const ImportedRun& imported : runs)
        place_of.emplace(imported.run.*member, imported.run.place);
    if (place_of.size() < 2) return;
    std::string text =
        fmt::format("runs of several {}, whose times differ; import one of them:", what);
    for (const auto& [name, place] : place_of)
        text += fmt::format(" {} ({})", name.empty() ? "unknown" : name, place);
    faults.push_back(text);
}

std::vector<ImportedRun> read_runs(const ImportInputs& inputs) {
    std::vector<ImportedRun> runs;
    std::vector<std::string> faults;
    for (const std::string& path : inputs.paths) {
        std::string why;
        const auto text = plan::disk().read(path, why);
        if (!text) {
            faults.push_back(path + ": cannot be read: " + why);
            continue;
        }
        NcclTests tests = read_nccl_tests(*text, path, inputs.collective);
        faults.insert(faults.end(), tests.faults.begin(), tests.faults.end());
        const std::string name =
            fmt::format("{} (FNV-1a {:016x})", path.substr(path.rfind('/') + 1), fnv1a(*text));
        for (NcclRun& run : tests.runs)
            runs.push_back({name, std::move(run)});
    }
    check_same(runs, "versions of NCCL", &NcclRun::nccl_version, faults);
    check_same(runs, "devices", &NcclRun::device, faults);
    if (!faults.empty()) refuse(faults);
    return runs;
}

std::vector<CollectiveSample> samples_of(const std::vector<ImportedRun>& runs,
                                         const std::string& system) {
    std::map<std::pair<std::string, int>, std::set<std::string>> files;
    for (const ImportedRun& imported : runs)
        files[{imported.run.collective, imported.run.ranks}].insert(
            fmt::format("{}, {}", imported.file, imported.types()));
    std::vector<CollectiveSample> samples;
    for (const auto& [file, run] : runs) {
        const std::string source = fmt::format(
            "nccl-tests, {}", fmt::join(files.at({run.collective, run.ranks}), " and "));
        for (const NcclTiming& timing : run.timings)
            samples.push_back({system, run.nccl_version.empty() ? "unknown" : run.nccl_version,
                               run.collective, run.ranks, 1, timing.bytes, timing.seconds, source});
    }
    return samples;
}

// The link's line rate: that of the section there was, else the datasheet's.
double line_rate(const Json& profile, const std::string& path) {
    for (const char* pointer :
         {"/collectives/measured_on/intra_node_bandwidth_GBps", "/hardware/link_GBps"}) {
        const Json::json_pointer at(pointer);
        if (profile.contains(at)) return quantity_value(profile.at(at));
    }
    throw ImportError(fmt::format(
        "{}: /hardware/link_GBps: missing; bandwidths are told as a share of it. Add {{\"value\": "
        "GB/s out of a device, one direction, \"source\": \"…\"}}",
        path));
}

// Those that no run gives stay as they were, each with its own source.
void keep_other_curves(const Json& old, Json& section) {
    const auto key = [](const Json& curve) {
        return std::pair(curve.at("collective").get<std::string>(), curve.at("ranks").get<int>());
    };
    std::map<std::pair<std::string, int>, Json> curves;
    for (const Json& curve : section.at("curves"))
        curves.emplace(key(curve), curve);
    for (const Json& curve : old.value("curves", Json::array()))
        curves.emplace(key(curve), curve);
    section["curves"] = Json::array();
    for (auto& [name, curve] : curves)
        section["curves"].push_back(std::move(curve));
}

Json section_of(const std::vector<ImportedRun>& runs, const sim::Profile& before,
                const Json& profile, const ImportInputs& inputs) {
    const Json old = profile.value("collectives", Json::object());
    CollectiveFit fit;
    fit.system = runs.front().run.device.empty() ? profile.at("device").get<std::string>()
                                                 : runs.front().run.device;
    fit.intra_node_bandwidth_GBps = line_rate(profile, inputs.profile_path);
    if (!before.collectives_json.empty())  // logs do not say on what link they were made
        fit.link =
            sim::parse_collectives(before.collectives_json, inputs.profile_path).measured_link;
    Json section = Json(fit_collectives(samples_of(runs, fit.system), fit));
    for (const char* kept : {"algorithms", "inter_node"})
        if (old.contains(kept)) section[kept] = old.at(kept);
    keep_other_curves(old, section);
    return section;
}

void note_provenance(const std::vector<ImportedRun>& runs, const std::string& version,
                     Json& profile) {
    Json kept = Json::array();
    for (const Json& line : profile.at("provenance"))
        if (line.get<std::string>().rfind(kProvenance, 0) != 0) kept.push_back(line);
    for (const ImportedRun& imported : runs)
        kept.push_back(fmt::format("{} by orrery {}, {}.", kProvenance, version, imported.text()));
    profile["provenance"] = std::move(kept);
}

std::set<std::string> curve_names(const sim::Profile& profile) {
    std::set<std::string> names;
    for (const CollectiveReport& curve : collective_reports(profile))
        names.insert(fmt::format("{} {}", curve.collective, curve.ranks));
    return names;
}

}  // namespace

ImportReport import_collectives(const ImportInputs& inputs) {
    const std::vector<ImportedRun> runs = read_runs(inputs);
    std::string why;
    const auto old_text = plan::disk().read(inputs.profile_path, why);
    if (!old_text) throw ImportError(inputs.profile_path + ": cannot be read: " + why);
    const sim::Profile before = sim::parse_profile(*old_text, inputs.profile_path);
    Json profile = Json::parse(*old_text);
    profile["collectives"] = section_of(runs, before, profile, inputs);
    note_provenance(runs, inputs.version, profile);
    const sim::Profile after = write_profile(profile, inputs.output_path);

    ImportReport report;
    report.fit = {after.device, {}, collective_reports(after)};
    for (const ImportedRun& imported : runs)
        report.runs.push_back(imported.text());
    std::set<std::string> imported_curves;
    for (const ImportedRun& imported : runs)
        imported_curves.insert(fmt::format("{} {}", imported.run.collective, imported.run.ranks));
    const std::set<std::string> old_curves = curve_names(before);
    std::set_difference(old_curves.begin(), old_curves.end(), imported_curves.begin(),
                        imported_curves.end(), std::back_inserter(report.kept));
    return report;
}

}  // namespace orrery::fit
