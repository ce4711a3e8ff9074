#include "plan/scenario/import/megatron.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/scenario/import/deepspeed.hpp"
#include "plan/scenario/import/deepspeed_script.hpp"
#include "plan/scenario/import/launch.hpp"
#include "plan/scenario/import/megatron_parts.hpp"
#include "plan/scenario/import/megatron_rows.hpp"

namespace orrery::plan::imports {
namespace {

// Options that Megatron Core's arguments know no more, or only to refuse them.
constexpr const char* kOf2021[] = {"--checkpoint-activations",
                                   "--checkpoint-num-layers",
                                   "--activations-checkpoint-method",
                                   "--activations-checkpoint-num-layers",
                                   "--distribute-checkpointed-activations",
                                   "--DDP-impl",
                                   "--use-contiguous-buffers-in-local-ddp",
                                   "--no-contiguous-buffers-in-local-ddp",
                                   "--no-scaled-masked-softmax-fusion",
                                   "--scaled-upper-triang-masked-softmax-fusion",
                                   "--data-impl",
                                   "--mmap-warmup"};

void map_framework(Sheet& sheet, MegatronFacts& facts) {
    const auto old = std::find_if(std::begin(kOf2021), std::end(kOf2021),
                                  [&](const char* option) { return sheet.has(option); });
    const bool engine = sheet.has("--deepspeed");
    facts.of_2021 = engine || old != std::end(kOf2021);
    if (engine)
        sheet.put_usual("training.framework", "megatron-deepspeed", "--deepspeed");
    else if (facts.of_2021)
        sheet.put("training.framework", "megatron-2021", *old,
                  "an option of Megatron-LM before Megatron Core");
    else
        sheet.put_usual("training.framework", "megatron", "Megatron-LM",
                        "no option of before Megatron Core");
}

// Of Megatron-LM's own programs those that train something else than a decoder of text.
constexpr struct {
    const char *program, *why;
} kOtherPrograms[] = {
    {"pretrain_bert.py", "it trains an encoder: BERT"},
    {"pretrain_t5.py", "it trains an encoder and a decoder with cross attention: T5"},
    {"pretrain_ict.py", "it trains two encoders"},
    {"pretrain_retro.py", "it trains a model with retrieval and cross attention"},
    {"pretrain_mamba.py", "it trains a state-space model"},
    {"pretrain_vlm.py", "it trains a model of images and text"},
    {"pretrain_vision_classify.py", "it trains a model of images"},
    {"pretrain_vision_dino.py", "it trains a model of images"},
    {"pretrain_vision_inpaint.py", "it trains a model of images"},
};

void check_program(const ShellWord& program, Imported& out) {
    const std::string name = program.text.substr(program.text.rfind('/') + 1);
    for (const auto& other : kOtherPrograms)
        if (name == other.program)
            out.unsupported.push_back({name, nullptr, other.why, Changes::model});
}

// What shapes experts or latent attention shapes nothing where the model has none.
void leave_unread(Sheet& sheet, const std::vector<Setting>& options) {
    constexpr struct {
        const char *begin, *with;
    } kReadWith[] = {{"--moe-", "--num-experts"},
                     {"--q-lora-rank", "--multi-latent-attention"},
                     {"--kv-lora-rank", "--multi-latent-attention"},
                     {"--qk-head-dim", "--multi-latent-attention"},
                     {"--qk-pos-emb-head-dim", "--multi-latent-attention"},
                     {"--v-head-dim", "--multi-latent-attention"},
                     {"--rotary-scaling-factor", "--multi-latent-attention"},
                     {"--mscale", "--multi-latent-attention"}};
    for (const Setting& option : options)
        for (const auto& read : kReadWith)
            if (option.key.rfind(read.begin, 0) == 0 && !sheet.has(read.with) &&
                !sheet.used(option.key))
                sheet.ignore(option.key, fmt::format("Megatron-LM reads it with {}", read.with));
}

void leave_launchers(Sheet& sheet, const std::vector<Setting>& launchers) {
    for (const Setting& setting : launchers)
        if (!sheet.used(setting.key)) sheet.ignore(setting.key, "how ranks are started");
}

void note_surroundings(const ShellScript& script, Imported& out) {
    for (const ShellWord& word : script.environment) {
        const std::size_t equals = word.text.find('=');
        out.ignored.push_back({word.text.substr(0, equals), word.text.substr(equals + 1),
                               "a variable of the environment"});
    }
}

void note_undecided(const ShellScript& script, Sheet& sheet) {
    for (const Undecided& added : script.undecided)
        for (const Setting& setting : split_options(added.words))
            sheet.settle_undecided(
                setting, fmt::format("added under a condition in line {}", setting.line),
                megatron_ignored(), megatron_unsupported(),
                is_of_megatron_model(setting.key) ? Changes::model : Changes::cost);
}

// Whether the options are those of Megatron's programs, which spell words apart with "-".
bool is_megatron(const Launch& launch) {
    return std::any_of(launch.options.begin(), launch.options.end(), [](const Setting& option) {
        return is_of_megatron_model(option.key) || option.key == "--micro-batch-size" ||
               option.key == "--seq-length" || option.key == "--tensor-model-parallel-size";
    });
}

void map_all(Sheet& sheet, const Wishes& wishes) {
    MegatronFacts facts;
    map_megatron_model(sheet, wishes, facts);
    map_megatron_degrees(sheet, wishes, facts);
    map_megatron_experts(sheet, wishes, facts);
    map_megatron_stages(sheet, facts);
    map_megatron_sharding(sheet, facts);
    map_megatron_recompute(sheet, facts);
    map_megatron_batch(sheet, facts);
    map_megatron_precision(sheet, facts);
    map_framework(sheet, facts);
    map_megatron_optimizer(sheet, facts);
    map_megatron_kernels(sheet, facts);
}

Diagnostic fault_of(const ShellError& error, const std::string& file) {
    Diagnostic fault;
    fault.code = "I001";
    fault.file = file;
    fault.line = error.line;
    fault.column = error.column;
    fault.message = error.what();
    return fault;
}

}  // namespace

Imported import_megatron(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    try {
        if (!is_utf8(text)) throw ShellError(1, 1, "not text in UTF-8");
        const ShellScript script = read_shell(text);
        Launch launch = find_launch(script);
        const auto engine = find_engine_config(launch, script, file, wishes);
        if (engine && engine->fault.empty() && !is_megatron(launch)) {
            out = import_deepspeed_run(engine->text, engine->file, launch, wishes);
            note_surroundings(script, out);
            return out;
        }
        check_program(launch.program, out);
        std::vector<Setting> all = launch.launchers;
        all.insert(all.end(), launch.options.begin(), launch.options.end());
        Sheet sheet(file, std::move(all), out);
        map_all(sheet, wishes);
        map_engine(sheet, engine, out);
        leave_launchers(sheet, launch.launchers);
        leave_unread(sheet, launch.options);
        sheet.settle(megatron_ignored(), megatron_unsupported());
        note_surroundings(script, out);
        note_undecided(script, sheet);
    } catch (const ShellError& error) {
        out.unreadable = true;
        out.errors.push_back(fault_of(error, file));
    }
    return out;
}

}  // namespace orrery::plan::imports
