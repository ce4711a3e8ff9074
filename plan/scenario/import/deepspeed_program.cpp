#include "plan/scenario/import/deepspeed_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "plan/scenario/import/deepspeed_rows.hpp"
#include "plan/scenario/import/reasons.hpp"

namespace orrery::plan::imports {
namespace {

// Which key of a config each option fills.
constexpr struct {
    const char *key, *option;
} kFilledBy[] = {
    {"train_micro_batch_size_per_gpu", "--per_device_train_batch_size"},
    {"gradient_accumulation_steps", "--gradient_accumulation_steps"},
    {"gradient_clipping", "--max_grad_norm"},
    {"bf16.enabled", "--bf16"},
    {"bfloat16.enabled", "--bf16"},
    {"fp16.enabled", "--fp16"},
    {"optimizer.params.lr", "--learning_rate"},
    {"optimizer.params.eps", "--adam_epsilon"},
    {"optimizer.params.weight_decay", "--weight_decay"},
    {"scheduler.params.warmup_num_steps", "--warmup_steps"},
    {"scheduler.params.total_num_steps", "--max_steps"},
};

constexpr const char* kModelOption = "--model_name_or_path";
constexpr const char* kRecomputeOption = "--gradient_checkpointing";
constexpr const char* kPart = "a part of the weights alone is trained: give training.lora";

constexpr Row kProgramIgnored[] = {
    {"--deepspeed", "its keys are taken one by one"},
    {"--deepspeed_config", "its keys are taken one by one"},
    {"--deepspeed-config", "its keys are taken one by one"},
    {"--local_rank", kStart},
    {"--output_dir", kCheckpoint},
    {"--overwrite_output_dir", kCheckpoint},
    {"--resume_from_checkpoint", kCheckpoint},
    {"--load_best_model_at_end", kCheckpoint},
    {"--num_train_epochs", kStart},
    {"--max_steps", kStart},
    {"--do_train", kStart},
    {"--do_eval", kEvaluation},
    {"--per_device_eval_batch_size", kEvaluation},
    {"--validation_*", kEvaluation},
    {"--report_to", kLog},
    {"--run_name", kLog},
    {"--disable_tqdm", kLog},
    {"--learning_rate", kRate},
    {"--weight_decay", "a factor of the same size"},
    {"--adam_epsilon", "a factor of the same size"},
    {"--lr_scheduler_type", kRate},
    {"--warmup_*", kRate},
    {"--train_file", kData},
    {"--data*", kData},
    {"--preprocessing_*", kData},
    {"--max_train_samples", kData},
    {"--remove_unused_columns", kData},
    {"--lazy_preprocess", kData},
    {"--cache_dir", kData},
    {"--use_fast_tokenizer", kData},
    {"--ddp_timeout", "a limit for hanging runs"},
    {"--trust_remote_code", "where the model's code stands"},
    {"--tf32", "products in fp32 are what training.precision says"},
};

constexpr Row kProgramUnsupported[] = {
    {"--use_lora", kPart, nullptr, Changes::model},
    {"--use_peft", kPart, nullptr, Changes::model},
    {"--lora*", kPart, nullptr, Changes::model},
    {"--load_in_*", "quantised weights are not modelled", nullptr, Changes::model},
    {"--torch_compile", "compiled kernels are not modelled", "false"},
    {"--attn_implementation", "give training.attention_kernel"},
    {"--optim", "only AdamW is modelled", "\"adamw_torch\""},
    {"--group_by_length", "sequences are of one length", "false"},
    {"--packing", "documents of a sequence are not modelled", "false"},
};

// "True" of a command line is true, "2" is 2.
Json as_value(const Json& word) {
    if (!word.is_string()) return word;
    const auto& text = word.get_ref<const std::string&>();
    if (text == "True" || text == "False") return text == "True";
    Json read = Json::parse(text, nullptr, false);
    return read.is_number() || read.is_boolean() ? read : word;
}

bool changes_a_step(const std::string& key) {
    return key == "train_micro_batch_size_per_gpu" || key == "gradient_accumulation_steps" ||
           key == "gradient_clipping";
}

const Setting* option_of(const std::vector<Setting>& options, const std::string& name) {
    const auto at = std::find_if(options.rbegin(), options.rend(),
                                 [&](const Setting& one) { return one.key == name; });
    return at == options.rend() ? nullptr : &*at;
}

bool is_on(Sheet& sheet, const char* option) {
    const Setting* const setting = sheet.find({option});
    return setting != nullptr && as_value(setting->value) == true;
}

}  // namespace

void fill_automatic(std::vector<Setting>& config, const std::vector<Setting>& options) {
    for (Setting& setting : config) {
        if (setting.value != "auto") continue;
        const Setting* const beta1 = option_of(options, "--adam_beta1");
        const Setting* const beta2 = option_of(options, "--adam_beta2");
        if (setting.key == "optimizer.params.betas" && beta1 != nullptr && beta2 != nullptr) {
            setting.value = Json::array({as_value(beta1->value), as_value(beta2->value)});
            setting.open = beta1->open || beta2->open;
        }
        for (const auto& filled : kFilledBy) {
            const Setting* const option = option_of(options, filled.option);
            if (setting.key != filled.key || option == nullptr) continue;
            setting.value = as_value(option->value);
            setting.open = option->open;
        }
    }
}

void map_program(Sheet& sheet, const Wishes& wishes) {
    const auto named = sheet.has(kModelOption) ? sheet.text({kModelOption}) : std::nullopt;
    if (!wishes.model.empty())
        sheet.put("model", wishes.model, "--model");
    else if (named)
        sheet.put("model", *named, kModelOption);
    else
        sheet.miss("model", "a DeepSpeed config does not say it; --model MODEL does");
    if (!wishes.model.empty()) sheet.ignore(kModelOption, "--model says it");
    constexpr const char* kSequence[] = {"--model_max_length", "--max_seq_length", "--block_size",
                                         "--max_length", "--cutoff_len"};
    const auto said = std::find_if(std::begin(kSequence), std::end(kSequence),
                                   [&](const char* option) { return sheet.has(option); });
    if (said == std::end(kSequence))
        sheet.miss("training.sequence_length", "a DeepSpeed config does not say it");
    else if (const auto length = sheet.whole({*said}))
        sheet.put("training.sequence_length", *length, *said, "the longest; all are as long here");
    if (!sheet.has(kRecomputeOption))
        sheet.miss("layout.recompute", "which layers are recomputed is in the program", "\"none\"");
    else if (is_on(sheet, kRecomputeOption))
        sheet.put("layout.recompute", "full", kRecomputeOption);
    else
        sheet.ignore(kRecomputeOption, "at this value it changes nothing");
}

void settle_program(Sheet& sheet) {
    for (const auto& filled : kFilledBy) {
        if (!sheet.has(filled.option) || !sheet.has(filled.key)) continue;
        const Json option = sheet.find({filled.option})->value;
        const Json config = sheet.find({filled.key})->value;
        if (as_value(option) == config)
            sheet.ignore(filled.option, fmt::format("{} of the config", filled.key));
        else
            sheet
                .report("I004", filled.option,
                        fmt::format("{} and {} of the config differ", filled.option, filled.key))
                .arithmetic = fmt::format("{} = {}, {} = {}", filled.option, option.dump(),
                                          filled.key, config.dump());
    }
    for (const auto& filled : kFilledBy)
        if (sheet.has(filled.option) && !sheet.used(filled.option) && changes_a_step(filled.key))
            sheet.refuse(
                filled.option,
                fmt::format("it stands for what the config has \"auto\", and that has no {}",
                            filled.key));
    for (const char* option : {"--adam_beta1", "--adam_beta2", "--bf16", "--fp16"})
        if (sheet.has(option) && !sheet.used(option))
            sheet.ignore(option, "what the config says stands");
    std::vector<Row> ignored(std::begin(kProgramIgnored), std::end(kProgramIgnored));
    std::vector<Row> unsupported(std::begin(kProgramUnsupported), std::end(kProgramUnsupported));
    ignored.insert(ignored.end(), deepspeed_ignored().begin(), deepspeed_ignored().end());
    unsupported.insert(unsupported.end(), deepspeed_unsupported().begin(),
                       deepspeed_unsupported().end());
    sheet.settle(ignored, unsupported);
}

}  // namespace orrery::plan::imports
