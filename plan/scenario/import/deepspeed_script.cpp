#include "plan/scenario/import/deepspeed_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/scenario/import/deepspeed.hpp"
#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {
namespace {

// Keys that an engine decides whatever options the program has.
constexpr const char* kOfEngine[] = {"layout.zero_stage",
                                     "layout.zero_group_size",
                                     "layout.offload.optimizer",
                                     "layout.offload.parameters",
                                     "layout.offload.activations",
                                     "training.gradient_dtype",
                                     "training.gradient_bucket_mb",
                                     "training.overlap_gradient_reduce",
                                     "training.zero_prefetch",
                                     "training.optimizer.clip_norm",
                                     "training.loss_scale",
                                     "training.loss_scale.initial",
                                     "training.loss_scale.growth_interval",
                                     "training.loss_scale.hysteresis",
                                     "training.loss_scale.minimum"};
constexpr const char* kReadWithEngine = "Megatron-DeepSpeed reads it with --deepspeed";

bool begins_with(const std::string& text, const std::string& begin) {
    return text.rfind(begin, 0) == 0;
}

bool is_of_engine(const std::string& key) {
    return std::any_of(std::begin(kOfEngine), std::end(kOfEngine),
                       [&](const char* one) { return key == one; });
}

// What is open becomes a string where it stands for a value.
std::string with_open_values(const std::string& text) {
    std::string out;
    bool within = false, open = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const std::string_view rest = std::string_view(text).substr(at);
        if (rest.substr(0, kOpens.size()) == kOpens) {
            out += (within ? "" : "\"") + std::string(kOpens);
            at += kOpens.size() - 1;
            open = true;
        } else if (rest.substr(0, kCloses.size()) == kCloses) {
            out += std::string(kCloses) + (within ? "" : "\"");
            at += kCloses.size() - 1;
            open = false;
        } else if (open) {
            if (text[at] == '"' || text[at] == '\\') out += '\\';
            out += text[at];
        } else if (within && text[at] == '\\' && at + 1 < text.size()) {
            out += text.substr(at++, 2);
        } else {
            within = within != (text[at] == '"');
            out += text[at];
        }
    }
    return out;
}

std::string without_dot(const std::string& name) {
    return begins_with(name, "./") ? name.substr(2) : name;
}

// The config as the script writes it, or as it stands beside the script.
void read_config_file(EngineConfig& config, const ShellScript& script, const std::string& file,
                      const Wishes& wishes) {
    const auto written =
        std::find_if(script.files.rbegin(), script.files.rend(), [&](const WrittenFile& one) {
            return without_dot(one.name.text) == without_dot(config.name);
        });
    config.file = file;
    if (written != script.files.rend() && !written->certain) {
        config.fault = fmt::format("whether it is the text in line {} is not settled in this file",
                                   written->line);
    } else if (written != script.files.rend() && !written->fault.empty()) {
        config.fault = written->fault;
    } else if (written != script.files.rend()) {
        config.text = with_open_values(written->text);
    } else if (const auto beside = wishes.beside ? wishes.beside(config.name) : std::nullopt) {
        config.text = *beside;
        config.file = config.name;
    } else {
        config.fault = "the script does not write such a file, and none stands beside it";
    }
}

// An entry of the engine over what the program's options have made of the same key.
void take_mapped(const Mapped& said, Imported& out) {
    const bool own = is_of_engine(said.to);
    if (said.usual && !own) return;
    auto& mapped = out.mapped;
    const auto old = std::find_if(mapped.rbegin(), mapped.rend(),
                                  [&](const Mapped& one) { return one.to == said.to; });
    const bool explicitly = old != mapped.rend() && !old->usual;
    if (explicitly && old->value == said.value) return;
    if (explicitly && !own) {
        Diagnostic fault;
        fault.code = "I004";
        fault.message = fmt::format("{} and {} of DeepSpeed's config differ", old->from, said.from);
        fault.arithmetic = fmt::format("{} = {}, {} = {}", old->from, old->value.dump(), said.from,
                                       said.value.dump());
        fault.pointer = said.from;
        out.errors.push_back(std::move(fault));
        return;
    }
    if (explicitly)
        out.ignored.push_back({old->from, old->value,
                               fmt::format("DeepSpeed decides: {}{} there", said.from,
                                           said.usual ? " is not given" : "")});
    if (old != mapped.rend()) mapped.erase(std::next(old).base());
    std::string pointer = '/' + said.to;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    out.scenario[Json::json_pointer(pointer)] = said.value;
    mapped.push_back(said);
}

// The program's scale of the loss is not the engine's, be it a number or an object.
void drop_loss_scale(const Imported& engine, Imported& out) {
    const auto scales = [](const Mapped& one) {
        return begins_with(one.to, "training.loss_scale");
    };
    if (std::none_of(engine.mapped.begin(), engine.mapped.end(), scales)) return;
    if (out.scenario.contains("training")) out.scenario["training"].erase("loss_scale");
    for (const Mapped& one : out.mapped)
        if (scales(one) && !one.usual)
            out.ignored.push_back({one.from, one.value, "DeepSpeed's config decides"});
    out.mapped.erase(std::remove_if(out.mapped.begin(), out.mapped.end(), scales),
                     out.mapped.end());
}

void merge(Imported engine, const EngineConfig& config, Imported& out) {
    drop_loss_scale(engine, out);
    const std::size_t errors = out.errors.size();
    for (const Mapped& said : engine.mapped)
        take_mapped(said, out);
    for (std::size_t i = errors; i < out.errors.size(); ++i)
        out.errors[i].file = config.file;
    for (const Missing& missing : engine.missing)
        if (!out.scenario.contains(Json::json_pointer('/' + [&] {
                std::string pointer = missing.to;
                std::replace(pointer.begin(), pointer.end(), '.', '/');
                return pointer;
            }())))
            out.missing.push_back(missing);
    const auto append = [](auto& list, auto& more) {
        list.insert(list.end(), more.begin(), more.end());
    };
    append(out.ignored, engine.ignored);
    append(out.unsupported, engine.unsupported);
    append(out.errors, engine.errors);
    out.unreadable = out.unreadable || engine.unreadable;
}

EngineSurroundings surroundings(const Imported& out) {
    EngineSurroundings known;
    const Json data = out.scenario.value("/layout/data_parallel"_json_pointer, Json());
    if (data.is_number_integer()) known.data = data.get<std::int64_t>();
    const Json precision = out.scenario.value("/training/precision"_json_pointer, Json());
    if (precision.is_string()) known.precision = precision.get<std::string>();
    return known;
}

}  // namespace

std::optional<EngineConfig> find_engine_config(const Launch& launch, const ShellScript& script,
                                               const std::string& file, const Wishes& wishes) {
    const auto named =
        std::find_if(launch.options.rbegin(), launch.options.rend(), [](const Setting& option) {
            return (option.key == "--deepspeed_config" || option.key == "--deepspeed-config" ||
                    option.key == "--deepspeed") &&
                   option.value.is_string();
        });
    const bool engine =
        std::any_of(launch.options.begin(), launch.options.end(),
                    [](const Setting& option) { return option.key == "--deepspeed"; });
    if (!engine || named == launch.options.rend()) return std::nullopt;
    EngineConfig config;
    config.option = named->key;
    config.name = named->value.get<std::string>();
    read_config_file(config, script, file, wishes);
    return config;
}

void map_engine(Sheet& sheet, const std::optional<EngineConfig>& config, Imported& out) {
    const bool engine = sheet.has("--deepspeed");
    for (const char* option :
         {"--deepspeed", "--deepspeed_config", "--deepspeed-config", "--zero-stage"}) {
        if (!sheet.has(option)) continue;
        if (!engine)
            sheet.ignore(option, kReadWithEngine);
        else if (config && !config->fault.empty() && option == config->option)
            sheet.refuse(option, config->fault);
        else if (!config && std::string(option) == "--deepspeed")
            sheet.refuse(option, "--deepspeed_config names no config of its engine");
        else if (config && config->fault.empty())
            sheet.ignore(option, "the config's keys are taken one by one");
    }
    if (!engine) return;
    const auto stage =
        config && config->fault.empty() ? std::nullopt : sheet.whole({"--zero-stage"});
    if (stage && (*stage < 0 || *stage > 3))
        sheet.report("I002", "--zero-stage", "--zero-stage takes 0 to 3");
    else if (stage)
        take_mapped({"--zero-stage", "layout.zero_stage", *stage, false, ""}, out);
    sheet.ignore("--no-pipeline-parallel", "Megatron-DeepSpeed allows it at pipeline parallel 1");
    sheet.ignore("--deepspeed-activation-checkpointing",
                 "which function recomputes; --checkpoint-activations says whether");
    if (config && config->fault.empty())
        merge(import_engine(config->text, config->file, surroundings(out)), *config, out);
}

}  // namespace orrery::plan::imports
