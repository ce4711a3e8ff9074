#include "plan/scenario/reader.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "plan/check.hpp"
#include "plan/scenario/elastic_layouts.hpp"
#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/overrides.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/references.hpp"
#include "plan/scenario/resolved.hpp"
#include "plan/scenario/rules.hpp"
#include "plan/scenario/schedule_file.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::plan {
namespace {

namespace fs = std::filesystem;

// Where a model stands in the place of a scenario: one answer says what to do, instead of each of
// its keys as unknown.
std::vector<std::string> help_with_model(const std::string& model) {
    return {"a scenario names it: {\"model\": \"" + model +
                "\", \"cluster\": \"clusters/h100-sxm-8.json\", \"layout\": "
                "{\"global_batch_size\": 64}, \"training\": {\"sequence_length\": 4096}}",
            "orrery import " + model + " begins one"};
}

// Notes what is found.
class NotedFiles : public Files {
  public:
    explicit NotedFiles(const Files& files) : files_(files) {}

    bool is_file(const std::string& path) const override {
        const bool found = files_.is_file(path);
        if (found) found_.insert(path);
        return found;
    }
    std::optional<std::string> read(const std::string& path, std::string& why) const override {
        return files_.read(path, why);  // of what was found before
    }
    std::vector<std::string> names(const std::string& folder) const override {
        return files_.names(folder);
    }
    std::string current_folder() const override { return files_.current_folder(); }
    std::string hugging_face_hub() const override { return files_.hugging_face_hub(); }
    std::string machine_profile(std::int64_t ranks, std::int64_t threads_per_rank,
                                std::string& why) const override {
        std::string path = files_.machine_profile(ranks, threads_per_rank, why);
        if (!path.empty()) found_.insert(path);
        return path;
    }

    std::vector<std::string> found() const { return {found_.begin(), found_.end()}; }

  private:
    const Files& files_;
    mutable std::set<std::string> found_;
};

ReadResult unreadable(Diagnostic fault) {
    ReadResult result;
    result.unreadable = true;
    result.errors.push_back(std::move(fault));
    return result;
}

// A model's config.json, and nothing of a scenario.
bool is_model_config(const Json& value) {
    return value.is_object() && (value.contains("model_type") || value.contains("architectures")) &&
           !value.contains("model") && !value.contains("layout") && !value.contains("training");
}

ReadResult no_scenario(const std::string& name) {
    Diagnostic fault;
    fault.code = "S026";
    fault.file = name;
    fault.origin = "file " + name;
    fault.message = "this is the config of a model, not a scenario";
    fault.help = help_with_model(name);
    return unreadable(std::move(fault));
}

// Everything that can be said before values are looked at: overrides, references, presets.
void assemble(Reading& reading, const std::vector<std::string>& sets, const Folders& folders) {
    apply_part_overrides(reading, sets);
    follow_reference(reading, "/model", "models", Source::Kind::file, folders);
    follow_reference(reading, "/cluster", "clusters", Source::Kind::file, folders);
    const Json* training = reading.document().find("/training");
    if (training != nullptr && training->is_object()) {
        const bool assumed = !training->contains("framework");
        Json& framework = reading.document().root()["training"]["framework"];
        // Nobody named a framework: the default is a reference like any other, in the library.
        if (assumed) framework = Framework{}.name;
        follow_reference(reading, "/training/framework", "frameworks", Source::Kind::preset,
                         folders);
        if (assumed && framework.is_object()) framework["assumed"] = true;
    }
    follow_other_nodes(reading, folders);
    follow_stragglers(reading, folders);
    follow_reference(reading, "/reliability", "reliability", Source::Kind::preset, folders);
    follow_reference(reading, "/storage", "storage", Source::Kind::preset, folders);
    // One may name a file whose keys the next changes.
    apply_key_overrides(reading, sets, [&] {
        follow_other_nodes(reading, folders);
        follow_stragglers(reading, folders);
    });
    follow_price_lists(reading, folders);
    follow_schedule_file(reading, folders);
}

void read_parts(Reading& reading, const Folders& folders, Scenario& scenario,
                LayoutChoices& choices, Verbatim& verbatim) {
    Section top(reading, "", "");
    if (!top.exists()) return;
    read_keys(top, scenario_keys(), scenario);
    top.finish();
    read_imported(reading);
    read_model(reading, scenario.model);
    read_cluster(reading, folders, scenario.cluster);
    read_layout(reading, scenario.layout, choices);
    read_training(reading, scenario.training, scenario.model, verbatim);
    read_run(reading, folders, scenario.run);
    read_fleet(reading, scenario);
}

}  // namespace

namespace {

// A file beside the one that is missing, or in the library's runs, whose name is nearly the same
// but for a forgotten ending; else empty.
std::string meant_scenario(const std::string& path, const std::string& library_dir) {
    const fs::path wanted(path);
    std::string name = wanted.filename().string();
    if (wanted.extension() != ".json") name += ".json";
    for (const fs::path& folder : {wanted.parent_path(), fs::path(library_dir) / "runs"}) {
        const std::string found =
            nearest(name, disk().names(folder.empty() ? "." : folder.string()));
        // The very file, when it is there but cannot be read, is no help.
        if (!found.empty()) return folder / found == wanted ? "" : (folder / found).string();
    }
    return "";
}

}  // namespace

bool valid_override(std::string_view text) {
    const std::size_t equals = text.find('=');
    return equals != std::string_view::npos && equals > 0;
}

bool is_scenario_text(std::string_view text) {
    const ParsedJson parsed = parse_json(text, "");
    if (parsed.incomplete || !parsed.value.is_object() || !parsed.value.contains("layout"))
        return false;
    const Keys<Scenario>& known = scenario_keys();
    const auto items = parsed.value.items();
    return std::all_of(items.begin(), items.end(), [&](const auto& item) {
        return std::any_of(known.begin(), known.end(),
                           [&](const Key<Scenario>& key) { return key.spec.name == item.key(); });
    });
}

ReadResult read_scenario_text(std::string_view text, const std::string& name,
                              const std::string& base_dir, const std::vector<std::string>& sets,
                              const std::string& library_dir, const Files& files) {
    ParsedJson parsed = parse_json(text, name);
    for (Diagnostic& fault : parsed.errors)
        fault.origin = "file " + name;
    if (parsed.incomplete) {
        ReadResult result;
        result.unreadable = parsed.not_json;
        result.errors = std::move(parsed.errors);
        return result;
    }
    for (const std::string& set : sets)
        ORRERY_CHECK(valid_override(set), set);
    if (is_model_config(parsed.value)) return no_scenario(name);
    const NotedFiles noted(files);
    const Folders folders = {base_dir, library_dir, noted};
    Reading reading(Document(std::move(parsed.value), name, base_dir));
    reading.errors() = std::move(parsed.errors);
    Scenario scenario;
    scenario.source_path = name;
    LayoutChoices choices;
    Verbatim verbatim;
    assemble(reading, sets, folders);
    read_parts(reading, folders, scenario, choices, verbatim);
    check_rules(reading, choices, scenario);
    if (reading.errors().empty()) find_own_profile(reading, folders, scenario);
    if (reading.errors().empty())
        read_elastic_layouts(
            reading,
            [&](Reading& changed, Scenario& as_changed) {
                follow_schedule_file(changed, folders);
                LayoutChoices its_choices;
                Verbatim its_verbatim;
                read_parts(changed, folders, as_changed, its_choices, its_verbatim);
                check_rules(changed, its_choices, as_changed);
            },
            scenario);

    ReadResult result;
    result.files = noted.found();
    result.unreadable = reading.unreadable;
    result.errors = std::move(reading.errors());
    if (!result.errors.empty()) return result;
    result.resolved_json = resolved_text(resolved(scenario, reading.document(), verbatim));
    result.given = reading.document().given();
    result.unread = std::move(reading.unread);
    result.scenario = std::move(scenario);
    return result;
}

namespace {

// Takes the keys of the layout that are "auto" out, lest their readers refuse the word.
std::vector<std::string> take_automatic(Reading& reading) {
    std::vector<std::string> taken;
    const Json* layout = reading.document().find("/layout");
    if (layout == nullptr || !layout->is_object()) return taken;
    for (const auto& [key, value] : layout->items())
        if (value == "auto" && key != "data_parallel") taken.push_back(key);
    Json& root = reading.document().root();
    for (std::string& key : taken) {
        root["layout"].erase(key);
        key = "layout." + key;
    }
    return taken;
}

}  // namespace

std::string layout_text(const Layout& layout) {
    return written_layout(layout).dump();
}

UnsettledScenario read_unsettled(const std::string& path, const std::vector<std::string>& sets,
                                 const std::string& library_dir, const Files& files) {
    UnsettledScenario out;
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    const ParsedJson parsed = text ? parse_json(*text, path) : ParsedJson{};
    if (!text || parsed.incomplete || is_model_config(parsed.value)) {
        // What is wrong with the file itself is said as for every other reader.
        ReadResult whole = read_scenario(path, sets, library_dir, files);
        out.unreadable = whole.unreadable;
        out.errors = std::move(whole.errors);
        return out;
    }
    const std::string folder = fs::path(path).parent_path().string();
    const Folders folders = {folder, library_dir, files};
    Reading reading(Document(parsed.value, path, folder));
    reading.errors() = parsed.errors;
    Scenario scenario;
    scenario.source_path = path;
    LayoutChoices choices;
    Verbatim verbatim;
    assemble(reading, sets, folders);
    out.automatic = take_automatic(reading);
    read_parts(reading, folders, scenario, choices, verbatim);
    if (reading.errors().empty()) find_own_profile(reading, folders, scenario);
    out.unreadable = reading.unreadable;
    out.errors = std::move(reading.errors());
    if (!out.errors.empty()) return out;
    out.left = {choices.data_parallel_auto, choices.layers_even};
    out.given = reading.document().given();
    out.scenario = std::move(scenario);
    return out;
}

std::string assembled_scenario(const std::string& path, const std::vector<std::string>& sets,
                               const std::string& library_dir, const Files& files) {
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    ORRERY_CHECK(text.has_value(), path + " was read before");
    ParsedJson parsed = parse_json(*text, path);
    const std::string folder = fs::path(path).parent_path().string();
    const Folders folders = {folder, library_dir, files};
    Reading reading(Document(std::move(parsed.value), path, folder));
    assemble(reading, sets, folders);
    return reading.document().root().dump(1, ' ', false, Json::error_handler_t::replace);
}

Diagnostic cannot_be_read(const std::string& path, const std::string& what,
                          const std::string& why) {
    Diagnostic fault;
    fault.code = "S001";
    fault.file = path;
    fault.origin = "file " + path;
    fault.message = what + " cannot be read: " + why;
    return fault;
}

ReadResult read_scenario(const std::string& path, const std::vector<std::string>& sets,
                         const std::string& library_dir, const Files& files) {
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    if (!text) {
        Diagnostic fault = cannot_be_read(path, "the scenario", why);
        const std::string config = (fs::path(path) / kModelConfig).string();
        if (files.is_file(config)) {
            fault.help = help_with_model(path);
            return unreadable(std::move(fault));
        }
        const std::string meant = meant_scenario(path, library_dir);
        if (!meant.empty()) fault.help.push_back("did you mean " + meant + "?");
        return unreadable(std::move(fault));
    }
    const std::string folder = std::filesystem::path(path).parent_path().string();
    ReadResult result = read_scenario_text(*text, path, folder, sets, library_dir, files);
    result.files.push_back(path);
    std::sort(result.files.begin(), result.files.end());
    return result;
}

}  // namespace orrery::plan
