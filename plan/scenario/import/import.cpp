#include "plan/scenario/import/import.hpp"

#include <algorithm>
#include <filesystem>

#include "plan/scenario/import/deepspeed.hpp"
#include "plan/scenario/import/huggingface.hpp"
#include "plan/scenario/import/megatron.hpp"
#include "plan/scenario/import/nanotron.hpp"
#include "plan/scenario/import/nemo.hpp"
#include "plan/scenario/import/nemo_recipe.hpp"
#include "plan/scenario/import/torchtitan.hpp"
#include "plan/scenario/schema.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::plan::imports {
namespace {

struct Reader {
    const char* name;
    Format format;
    const char* called;
    const char* ending;
    Imported (*read)(std::string_view, const std::string&, const Wishes&);
};

constexpr Reader kReaders[] = {
    {"megatron", Format::megatron, "Megatron-LM command line", ".sh", import_megatron},
    {"deepspeed", Format::deepspeed, "DeepSpeed config", ".json", import_deepspeed},
    {"torchtitan", Format::torchtitan, "torchtitan config", ".toml", import_torchtitan},
    {"nanotron", Format::nanotron, "nanotron config", ".yaml", import_nanotron},
    {"nemo", Format::nemo, "NeMo config", ".yaml", import_nemo},
    {"nemo-recipe", Format::nemo_recipe, "NeMo recipe", ".py", import_nemo_recipe},
    {"huggingface", Format::huggingface, "Hugging Face model", ".json", import_huggingface},
};

const Reader& reader_of(Format format) {
    return *std::find_if(std::begin(kReaders), std::end(kReaders),
                         [&](const Reader& reader) { return reader.format == format; });
}

// The parts in the order in which scenarios are written.
Json in_order(const Json& scenario) {
    Json out = Json::object();
    for (const KeySpec& part : scenario_schema())
        if (const auto found = scenario.find(part.name); found != scenario.end())
            out[std::string(part.name)] = *found;
    return out;
}

// The scenario says what it lacks of the run that it came from, and so does every report of it.
void note_approximations(Imported& imported, const std::string& from) {
    if (imported.unsupported.empty()) return;
    Json list = Json::array();
    for (const Left& left : imported.unsupported)
        list.push_back({{"key", left.key}, {"value", left.value}, {"why", left.why}});
    imported.scenario["imported"] = {{"from", from}, {"approximations", std::move(list)}};
}

// A preset that the library does not have is not left to the default, which is another stack's.
void check_framework(Imported& imported, const Wishes& wishes) {
    const Json name = imported.scenario.value("/training/framework"_json_pointer, Json());
    if (!name.is_string() || wishes.frameworks.count(name.get<std::string>()) > 0) return;
    imported.scenario["training"].erase("framework");
    auto& mapped = imported.mapped;
    mapped.erase(std::remove_if(mapped.begin(), mapped.end(),
                                [](const Mapped& one) { return one.to == "training.framework"; }),
                 mapped.end());
    imported.missing.push_back({"training.framework",
                                "there is no preset " + name.get<std::string>() +
                                    " in the library; give the one that comes nearest",
                                ""});
}

// A model described in place is called by the file that does, as one in a file of its own is.
void name_model(Imported& imported, const std::string& file) {
    const auto model = imported.scenario.find("model");
    if (file.empty() || model == imported.scenario.end() || !model->is_object()) return;
    if (model->contains("name") || model->contains("_name_or_path")) return;
    const std::string stem = std::filesystem::path(file).stem().string();
    (*model)["name"] = stem;
    imported.mapped.push_back({"the file's name", "model.name", stem, false, ""});
}

// Whether a line begins so.
bool has_line(std::string_view text, const std::string& begin) {
    return text.rfind(begin, 0) == 0 || text.find('\n' + begin) != std::string_view::npos;
}

}  // namespace

std::optional<Format> format_of_name(std::string_view name) {
    for (const Reader& reader : kReaders)
        if (name == reader.name) return reader.format;
    return std::nullopt;
}

std::string format_names() {
    std::string names;
    for (const Reader& reader : kReaders)
        names += (names.empty() ? "" : ", ") + std::string(reader.name);
    return names;
}

Format guess_format(std::string_view text, const std::string& file) {
    if (is_model_config_text(text)) return Format::huggingface;
    if (has_line(text, "trainer:") && has_line(text, "model:")) return Format::nemo;
    for (const Reader& reader : kReaders)
        if (file.size() > std::string_view(reader.ending).size() &&
            std::string_view(file).substr(file.size() - std::string_view(reader.ending).size()) ==
                reader.ending)
            return reader.format;
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && text[first] == '{') return Format::deepspeed;
    for (const char* section : {"\n[model]", "\n[training]", "\n[parallelism]"})
        if (('\n' + std::string(text)).find(section) != std::string::npos)
            return Format::torchtitan;
    if (is_nemo_recipe(text)) return Format::nemo_recipe;
    if (has_line(text, "parallelism:") && has_line(text, "tokens:")) return Format::nanotron;
    return Format::megatron;
}

Imported import_text(std::string_view text, const std::string& file, Format format,
                     const Wishes& wishes) {
    const Reader& reader = reader_of(format);
    Imported imported = reader.read(text, file, wishes);
    if (imported.unreadable) return imported;
    const std::string from = std::string(reader.called) + " " + file;
    imported.scenario["description"] = from;
    note_approximations(imported, from);
    name_model(imported, wishes.file);
    if (wishes.cluster.empty()) {
        imported.missing.push_back(
            {"cluster", "no training tool's settings describe one; --cluster CLUSTER says it", ""});
    } else {
        imported.scenario["cluster"] = wishes.cluster;
        imported.mapped.push_back({"--cluster", "cluster", wishes.cluster, false, ""});
    }
    check_framework(imported, wishes);
    imported.scenario = in_order(imported.scenario);
    return imported;
}

bool set_key(Imported& imported, const std::string& set) {
    const std::size_t equals = set.find('=');
    const std::string key = set.substr(0, equals);
    ParsedJson parsed = parse_json(std::string_view(set).substr(equals + 1), "");
    const Json value = parsed.errors.empty() ? parsed.value : Json(set.substr(equals + 1));
    Json* at = &imported.scenario;
    for (std::size_t from = 0; from <= key.size();) {
        const std::size_t dot = std::min(key.find('.', from), key.size());
        if (!at->is_object() && !at->is_null()) return false;
        at = &(*at)[key.substr(from, dot - from)];
        from = dot + 1;
    }
    *at = value;
    auto& missing = imported.missing;
    missing.erase(std::remove_if(missing.begin(), missing.end(),
                                 [&](const Missing& one) {
                                     return one.to == key || one.to.rfind(key + '.', 0) == 0;
                                 }),
                  missing.end());
    imported.mapped.push_back({"--set", key, value, false, ""});
    return true;
}

}  // namespace orrery::plan::imports
