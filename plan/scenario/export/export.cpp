#include "plan/scenario/export/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "plan/scenario/export/differing_model.hpp"
#include "plan/scenario/export/tools.hpp"
#include "plan/scenario/export/wanted.hpp"
#include "plan/scenario/import/torchtitan.hpp"

namespace orrery::plan::exports {
namespace {

using imports::Format;
using imports::Imported;

constexpr int kMostRounds = 8;  // of answers to what the importer asks; two are the rule
constexpr const char* kFile = "the written file";

struct Tool {
    const char* name;
    const char* called;
    Format format;
    Settings (*settings)(const Wanted&);
    std::string (*text)(const Settings&, const Wanted&, const Heading&);
    std::string (*start)(const Wanted&);  // null: the text does it itself
};

constexpr Tool kTools[] = {
    {"megatron", "options of Megatron-LM", Format::megatron, megatron_settings, megatron_text,
     nullptr},
    {"deepspeed", "a DeepSpeed config", Format::deepspeed, deepspeed_settings, deepspeed_text,
     deepspeed_start},
    {"torchtitan", "a torchtitan config", Format::torchtitan, torchtitan_settings, torchtitan_text,
     torchtitan_start},
    {"nemo", "a config of NeMo 1.x", Format::nemo, nemo_settings, nemo_text, nemo_start},
};

// Keys that a tool without a counterpart does not run otherwise: they say what Orrery assumes, or
// how its own runtime does it.
constexpr struct {
    const char *key, *why;
} kOfOrrery[] = {
    {"layout.expert_row_bound", "a bound of Orrery's own on rows of experts"},
    {"layout.offload.prefetch", "how far ahead Orrery fetches"},
};
// What the simulation assumes, or what no step depends on: said nowhere, and nothing lost by it.
constexpr const char* kAssumed[] = {"training.routing.distribution", "training.routing.alpha",
                                    "training.routing.exponent", "training.routing.seed",
                                    "training.routing.counts"};
// Of DeepSpeed's program, as the model is.
constexpr const char* kOfItsProgram[] = {"layout.expert_", "layout.overlap_expert_",
                                         "training.routing."};
// Beside the layout: another precision, adapters or sequence is another step than was asked for.
constexpr const char* kMustHold[] = {"layout.", "training.precision", "training.fp8_recipe",
                                     "training.lora", "training.sequence_length"};

bool begins_with_any(const std::string& key, const auto& begins) {
    return std::any_of(std::begin(begins), std::end(begins),
                       [&](const char* begin) { return key.rfind(begin, 0) == 0; });
}

Json::json_pointer pointer_of(std::string key) {
    std::replace(key.begin(), key.end(), '.', '/');
    return Json::json_pointer('/' + key);
}

// Products and quotients of one number agree to a rounding.
bool is_same(const Json& a, const Json& b) {
    if (!a.is_number() || !b.is_number()) return a == b;
    const double x = a.get<double>(), y = b.get<double>();
    return std::abs(x - y) <= 1e-12 * std::max(std::abs(x), std::abs(y));
}

bool has_even_stages(const Layout& layout) {
    const auto& stages = layout.layers_per_stage;
    return std::adjacent_find(stages.begin(), stages.end(), std::not_equal_to<>()) == stages.end();
}

// A text as its importer and the scenario's reader take it.
struct ReadAgain {
    Imported imported;
    ReadResult result;
    std::vector<imports::Missing> said_elsewhere;
};

class Export {
  public:
    Export(const ReadResult& read, const Tool& tool, std::string file, std::string base_dir,
           std::string library)
        : read_(read),
          tool_(tool),
          file_(std::move(file)),
          base_dir_(std::move(base_dir)),
          library_(std::move(library)),
          wanted_(read),
          settings_(tool.settings(wanted_)) {
        if (tool.format == Format::torchtitan) name_flavor();
    }

    Exported run() {
        ReadAgain again = read_again();
        for (int round = 0; round < kMostRounds && answer(again); ++round)
            again = read_again();
        Exported out;
        if (again.result.scenario) {
            note_all(again, out.notes);
            out.read_again = again.result.resolved_json;
        } else {
            note_faults(again.imported.errors, out.notes);
            note_faults(again.result.errors, out.notes);
        }
        if (tool_.start != nullptr) out.start = tool_.start(wanted_);
        sort_as_read(again.imported);
        out.text = tool_.text(settings_, wanted_, heading(again, out));
        return out;
    }

  private:
    Json resolved() const { return Json::parse(read_.resolved_json); }

    // Its clusters' profiles as they were found, wherever the file that names them is.
    Json with_found_profiles() const {
        Json scenario = resolved();
        const Cluster& cluster = wanted_.scenario().cluster;
        const auto put = [](Json& part, const Cluster& of) {
            if (part["profile"].is_string()) part["profile"] = of.profile_path;
        };
        put(scenario["cluster"], cluster);
        for (std::size_t i = 0; i < cluster.other_nodes.size(); ++i)
            put(scenario["cluster"]["other_nodes"][i], cluster.other_nodes[i]);
        return scenario;
    }

    ReadResult read_scenario_of(const Json& scenario) const {
        return read_scenario_text(scenario.dump(), kFile, base_dir_, {}, library_);
    }

    // torchtitan names models.
    void name_flavor() {
        std::string name = "llama3", flavor = "to-be-registered";
        for (const imports::TorchtitanFlavor& known : imports::torchtitan_flavors()) {
            if (known.layers != wanted_.model().layers) continue;
            Json scenario = with_found_profiles();
            scenario["model"] = known.model;
            const ReadResult other = read_scenario_of(scenario);
            if (!other.scenario || !differing_parts(wanted_.model(), other.scenario->model).empty())
                continue;
            name = known.name;
            flavor = known.flavor;
            has_flavor_ = true;
            break;
        }
        settings_.insert(settings_.begin(), {{"model.name", name}, {"model.flavor", flavor}});
    }

    ReadAgain read_again() const {
        ReadAgain again;
        imports::Wishes wishes;
        const bool names_none = tool_.format == Format::deepspeed ||
                                (tool_.format == Format::torchtitan && !has_flavor_);
        if (names_none) {
            wishes.model = "the program's model";
            wishes.layers = wanted_.model().layers;
        }
        wishes.frameworks = {"megatron", "torchtitan", "nemo", "deepspeed"};
        const std::string text = tool_.text(settings_, wanted_, {});
        again.imported = imports::import_text(text, kFile, tool_.format, wishes);
        Imported& imported = again.imported;
        if (!imported.errors.empty()) return again;
        const Json original = with_found_profiles();
        imported.scenario.erase("imported");
        imported.scenario["cluster"] = original["cluster"];
        if (names_none) {
            imported.scenario["model"] = original["model"];
            again.said_elsewhere.push_back({"model", model_is_elsewhere(), ""});
        }
        if (tool_.format == Format::deepspeed)
            for (const auto& [key, value] : wanted_.values())
                if (is_of_its_layers(key))
                    set_elsewhere(key, "layers are in the program, not in its config", again);
        for (const imports::Missing& missing : imported.missing)
            say_elsewhere(missing, again);
        again.result = read_scenario_of(imported.scenario);
        return again;
    }

    const char* model_is_elsewhere() const {
        return tool_.format == Format::deepspeed
                   ? "the program makes it"
                   : "torchtitan has no flavor of these sizes: register one";
    }

    // What DeepSpeed's program says with the model.
    bool is_of_its_layers(const std::string& key) const {
        if (key == "layout.expert_row_bound") return false;
        if (key.rfind("training.lora.", 0) == 0) return wanted_.training().lora.on();
        return begins_with_any(key, kOfItsProgram) && wanted_.model().has_experts();
    }

    void set_elsewhere(const std::string& key, const std::string& why, ReadAgain& again) const {
        const Json value = wanted_.at(key);
        if (value.is_null()) return;
        again.imported.scenario[pointer_of(key)] = value;
        again.said_elsewhere.push_back({key, why, ""});
    }

    // What such a file cannot say is as the scenario has it, since its user will say so elsewhere.
    void say_elsewhere(const imports::Missing& missing, ReadAgain& again) const {
        const Layout& layout = wanted_.layout();
        const bool of_program = is_of_program(missing.to);
        if (missing.to == "training.framework" ||
            missing.otherwise == wanted_.at(missing.to).dump() ||
            (!of_program && is_asked(missing.to, again)))
            return;
        set_elsewhere(missing.to, missing.why, again);
        if (of_program && layout.sequence_parallel)
            set_elsewhere("layout.sequence_parallel", missing.why, again);
        // Its engine has one schedule, of stages as its program parts them.
        if (missing.to == "layout.pipeline_parallel" && layout.virtual_pipeline == 1 &&
            !has_even_stages(layout))
            set_elsewhere("layout.layers_per_stage", missing.why, again);
        if (missing.to == "layout.recompute")
            for (const char* with : {"layout.recompute_every", "layout.recompute_modules"})
                set_elsewhere(with, missing.why, again);
    }

    static bool is_asked(const std::string& key, const ReadAgain& again) {
        const auto& asked = again.imported.asked;
        return std::any_of(asked.begin(), asked.end(),
                           [&](const imports::Asked& one) { return one.to == key; });
    }

    // Cutting layers is left to DeepSpeed's program where that parts the tokens or has a pipeline.
    bool is_of_program(const std::string& key) const {
        return tool_.format == Format::deepspeed && key == "layout.tensor_parallel" &&
               (wanted_.layout().sequence_parallel || wanted_.layout().pipeline_parallel > 1);
    }

    // Gives settings that are keys of a scenario as they are the values that are wanted. Whether
    // there was one to give.
    bool answer(const ReadAgain& again) {
        const bool sound = again.result.scenario.has_value();
        const Values stand = sound ? standing(again.result) : Values{};
        bool answered = false;
        for (const imports::Asked& asked : again.imported.asked) {
            const Json value = wanted_.at(asked.to);
            if (value.is_null() || value.is_array() || is_of_program(asked.to)) continue;
            const Json::json_pointer place = pointer_of(asked.to);
            const auto& scenario = again.imported.scenario;
            const auto stands = stand.find(asked.to);
            const Json now = stands != stand.end()      ? stands->second
                             : scenario.contains(place) ? scenario.at(place)
                                                        : Json();
            if (now == value && !asked.has_usual) continue;
            const auto has = [&](const Written& one) { return one.key == asked.key; };
            if (std::any_of(settings_.begin(), settings_.end(), has)) continue;
            if (value == false && tool_.format == Format::megatron) continue;  // no flag is that
            settings_.push_back({asked.key, value});
            answered = true;
        }
        return answered;
    }

    static Values standing(const ReadResult& result) { return Wanted(result).values(); }

    void note_all(const ReadAgain& again, std::vector<Note>& notes) const {
        for (const imports::Missing& missing : again.said_elsewhere)
            notes.push_back(
                {Fate::elsewhere, missing.to,
                 missing.to == "model" ? Json(wanted_.model().name) : wanted_.at(missing.to),
                 nullptr, missing.why});
        for (const imports::Left& left : again.imported.unsupported)
            notes.push_back({Fate::refused, left.key, left.value, nullptr, left.why});
        for (const std::string& part :
             differing_parts(wanted_.model(), again.result.scenario->model))
            notes.push_back({Fate::refused, "model", wanted_.model().name, nullptr,
                             "it has no model with such " + part});
        note_framework(again, notes);
        note_differences(again, notes);
        note_run(notes);
    }

    // What comes nearest is no layout at all: rules that the tool's own value of a key breaks.
    void note_faults(const std::vector<Diagnostic>& faults, std::vector<Note>& notes) const {
        for (const Diagnostic& fault : faults) {
            std::string key = fault.pointer.empty() ? "" : fault.pointer.substr(1);
            std::replace(key.begin(), key.end(), '/', '.');
            notes.push_back({Fate::refused, key.empty() ? "its settings" : key, wanted_.at(key),
                             nullptr, fault.message});
        }
    }

    void note_framework(const ReadAgain& again, std::vector<Note>& notes) const {
        const std::string ours = wanted_.training().framework.name;
        const std::string theirs = again.result.scenario->training.framework.name;
        if (ours != theirs)
            notes.push_back({Fate::other, "training.framework", ours, theirs,
                             "constants of a stack are those of the stack that runs it"});
    }

    // Constants of the stack that neither the scenario nor the file says are the stack's own.
    bool is_compared(const std::string& key, const Imported& imported, bool same_framework) const {
        if (key.rfind("run.", 0) == 0 || key.rfind("model.", 0) == 0) return false;
        if (key == "training.framework" || key == "training.dropout") return false;
        if (begins_with_any(key, kAssumed)) return false;
        const bool constant =
            resolved().contains(pointer_of("training.framework.flags" + key.substr(key.find('.'))));
        if (!constant || same_framework || wanted_.given(key)) return true;
        return std::any_of(imported.mapped.begin(), imported.mapped.end(),
                           [&](const imports::Mapped& one) { return one.to == key; });
    }

    // Of a run in tokens, which tools count in whole steps or samples, or which its program says.
    bool is_same_length(const ReadAgain& again) const {
        const double wanted = wanted_.training().tokens;
        const double stands = again.result.scenario->training.tokens;
        const double step = static_cast<double>(wanted_.layout().global_batch_size) *
                            static_cast<double>(wanted_.training().sequence_length);
        return wanted <= 0 || std::abs(wanted - stands) < step ||
               again.result.scenario->run.steps == wanted_.steps();
    }

    // What makes no difference to this scenario's step.
    bool is_immaterial(const std::string& key, const ReadAgain& again) const {
        const Layout& layout = wanted_.layout();
        if (key == "training.overlap_parameter_gather") return layout.zero_ranks() == 1;
        if (key == "training.overlap_gradient_reduce") return layout.data_ranks() == 1;
        if (key == "training.tokens") return is_same_length(again);
        if (key == "layout.reshard_after_forward") return layout.zero_stage < 3;
        if (key == "layout.zero_stage") return layout.data_ranks() == 1;
        return false;
    }

    void note_differences(const ReadAgain& again, std::vector<Note>& notes) const {
        const Values stand = standing(again.result);
        const bool same =
            wanted_.training().framework.name == again.result.scenario->training.framework.name;
        Values keys = wanted_.values();
        keys.insert(stand.begin(), stand.end());
        for (const auto& [key, unused] : keys) {
            const auto theirs = stand.find(key);
            const Json stands = theirs == stand.end() ? Json() : theirs->second;
            const Json wanted = wanted_.at(key);
            if (is_same(stands, wanted) || is_immaterial(key, again) ||
                !is_compared(key, again.imported, same))
                continue;
            const auto own =
                std::find_if(std::begin(kOfOrrery), std::end(kOfOrrery),
                             [&, &key = key](const auto& one) { return key == one.key; });
            const bool holds = own == std::end(kOfOrrery) && begins_with_any(key, kMustHold);
            if (key == "training.tokens" && (stands.is_null() || stands == 0)) {
                notes.push_back(
                    {Fate::elsewhere, key, wanted, nullptr, "the program counts steps"});
                continue;
            }
            notes.push_back({holds ? Fate::refused : Fate::other, key, wanted, stands,
                             own == std::end(kOfOrrery) ? "" : own->why});
        }
    }

    // Beside its steps, the section run says how Orrery's own runtime goes about it.
    void note_run(std::vector<Note>& notes) const {
        for (const auto& [key, value] : wanted_.values())
            if (key.rfind("run.", 0) == 0 && key != "run.steps" && wanted_.given(key))
                notes.push_back({Fate::elsewhere, key, value, nullptr,
                                 "the tool's own options for data, weights and checkpoints"});
    }

    // In the order in which the importer takes them up: a model's sizes first.
    void sort_as_read(const Imported& imported) {
        const auto place = [&](const Written& setting) {
            const auto& mapped = imported.mapped;
            return std::find_if(
                       mapped.begin(), mapped.end(),
                       [&](const imports::Mapped& one) { return names(one.from, setting.key); }) -
                   mapped.begin();
        };
        std::stable_sort(settings_.begin(), settings_.end(),
                         [&](const Written& a, const Written& b) { return place(a) < place(b); });
    }

    // Whether a report's "--a, --b" names a key.
    static bool names(const std::string& from, const std::string& key) {
        const std::size_t at = from.find(key);
        if (at == std::string::npos) return false;
        const std::size_t end = at + key.size();
        return end == from.size() || from[end] == ',' || from[end] == ' ';
    }

    Heading heading(const ReadAgain& again, const Exported& out) const {
        Heading heading;
        heading.lines.push_back(
            fmt::format("Written by orrery launch: {} as {}.", file_, tool_.called));
        if (!out.start.empty()) heading.lines.push_back("Started by: " + out.start);
        for (const Note& note : out.notes)
            heading.lines.push_back(note_text(note));
        for (const imports::Mapped& mapped : again.imported.mapped)
            for (const Written& setting : settings_)
                if (names(mapped.from, setting.key))
                    heading.parts.emplace(setting.key, mapped.to.substr(0, mapped.to.find('.')));
        return heading;
    }

    const ReadResult& read_;
    const Tool& tool_;
    std::string file_, base_dir_, library_;
    Wanted wanted_;
    Settings settings_;
    bool has_flavor_ = false;
};

// Of a long list the beginning.
std::string shown(const Json& value) {
    constexpr std::size_t kMost = 60;
    const std::string text = value.dump();
    return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
}

const Tool& tool_of(Format format) {
    return *std::find_if(std::begin(kTools), std::end(kTools),
                         [&](const Tool& tool) { return tool.format == format; });
}

}  // namespace

bool Exported::is_refused() const {
    return std::any_of(notes.begin(), notes.end(),
                       [](const Note& note) { return note.fate == Fate::refused; });
}

std::string note_text(const Note& note) {
    std::string text =
        fmt::format("{} {}", note.key, note.wanted.is_null() ? "not said" : shown(note.wanted));
    switch (note.fate) {
        case Fate::elsewhere:
            text = "not in this file: " + text;
            break;
        case Fate::other:
            text = fmt::format("no counterpart: {}; here {}", text,
                               note.stands.is_null() ? "nothing" : shown(note.stands));
            break;
        case Fate::refused:
            text = fmt::format("cannot be run: {}", text);
            if (!note.stands.is_null()) text += "; this is " + shown(note.stands);
            break;
    }
    return note.why.empty() ? text : fmt::format("{} ({})", text, note.why);
}

std::string as_comments(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += "# " + line + '\n';
    return text;
}

std::vector<std::string> tool_names() {
    std::vector<std::string> names;
    for (const Tool& tool : kTools)
        names.emplace_back(tool.name);
    return names;
}

std::optional<Format> tool_of_name(std::string_view name) {
    for (const Tool& tool : kTools)
        if (name == tool.name) return tool.format;
    return std::nullopt;
}

Exported export_scenario(const ReadResult& read, Format tool, const std::string& file,
                         const std::string& base_dir, const std::string& library_dir) {
    return Export(read, tool_of(tool), file, base_dir, library_dir).run();
}

}  // namespace orrery::plan::exports
