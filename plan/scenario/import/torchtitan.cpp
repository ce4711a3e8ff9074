#include "plan/scenario/import/torchtitan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/scenario/arithmetic.hpp"
#include "plan/scenario/import/ranks.hpp"
#include "plan/scenario/import/toml_text.hpp"
#include "plan/scenario/import/torchtitan_pipeline.hpp"
#include "plan/scenario/import/torchtitan_rows.hpp"

namespace orrery::plan::imports {
namespace {

using Count = std::optional<std::int64_t>;
using Kind = Direct::Kind;

using Flavor = TorchtitanFlavor;

constexpr Flavor kFlavors[] = {
    {"llama3", "8B", "models/llama3-8b.json", 32},
    {"llama3", "70B", "models/llama3-70b.json", 80},
    {"llama3", "405B", "models/llama3.1-405b.json", 126},
    {"llama2", "7B", "models/llama2-7b.json", 32},
    {"llama2", "13B", "models/llama2-13b.json", 40},
    {"llama2", "70B", "models/llama2-70b.json", 80},
};

constexpr Direct kTraining[] = {
    {"optimizer.lr", "training.optimizer.learning_rate", Kind::number, "8e-4"},
    {"optimizer.beta1", "training.optimizer.beta1", Kind::number, "0.9"},
    {"optimizer.beta2", "training.optimizer.beta2", Kind::number, "0.95"},
    {"optimizer.eps", "training.optimizer.epsilon", Kind::number, "1e-8"},
    {"optimizer.weight_decay", "training.optimizer.weight_decay", Kind::number, "0.1"},
    {"training.max_norm", "training.optimizer.clip_norm", Kind::number, "1.0"},
    {"training.seed", "training.seed", Kind::whole},
    {"training.steps", "run.steps", Kind::whole, "10000"},
};

struct TorchtitanFacts {
    Count layers;
    std::int64_t tensor = 1, pipeline = 1, context = 1, replicas = 1;
    std::int64_t shards = -1;  // −1: what is left
    Count data;
    Count sequence, global;
};

void map_model(Sheet& sheet, const Wishes& wishes, TorchtitanFacts& facts) {
    const std::string name = sheet.text({"model.name"}).value_or("llama3");
    const std::string flavor = sheet.text({"model.flavor"}).value_or("debugmodel");
    const auto known =
        std::find_if(std::begin(kFlavors), std::end(kFlavors),
                     [&](const Flavor& one) { return name == one.name && flavor == one.flavor; });
    if (!wishes.model.empty()) {
        sheet.put("model", wishes.model, "--model");
        facts.layers = wishes.layers;
        sheet.ignore("model.name", "the model is " + wishes.model);
        sheet.ignore("model.flavor", "the model is " + wishes.model);
        return;
    }
    if (known == std::end(kFlavors)) {
        sheet.refuse("model.name", "no model of the library is known by it");
        sheet.refuse("model.flavor", "no model of the library is known by it");
        sheet.miss("model",
                   fmt::format("no model is known as {} {}; --model MODEL says it", name, flavor));
        return;
    }
    facts.layers = known->layers;
    sheet.put("model", known->model, "model.name, model.flavor");
}

std::int64_t degree(Sheet& sheet, Sheet::Keys keys, const char* to) {
    const Count read = sheet.whole(keys);
    if (read && (*read < 1 || *read > (1 << 20))) {
        sheet.report("I002", sheet.find(keys)->key,
                     fmt::format("{} takes a degree from 1 on", sheet.find(keys)->key));
        return 1;
    }
    if (read)
        sheet.put(to, *read, sheet.find(keys)->key);
    else
        sheet.put_usual(to, 1, *keys.begin());
    return read.value_or(1);
}

void map_context(Sheet& sheet, const TorchtitanFacts& facts) {
    const Sheet::Keys keys = {"parallelism.context_parallel_rotate_method",
                              "experimental.context_parallel_rotate_method"};
    const auto method = sheet.word(keys, {"allgather", "alltoall"});
    if (facts.context == 1) {
        for (const char* key : keys)
            sheet.ignore(key, "without context parallelism it changes nothing");
        return;
    }
    // "alltoall" hands K and V on round by round; heads are not exchanged.
    sheet.put("layout.context_algorithm",
              method.value_or("allgather") == "allgather" ? "all_gather" : "ring", *keys.begin());
}

void map_degrees(Sheet& sheet, const Wishes& wishes, TorchtitanFacts& facts) {
    facts.tensor =
        degree(sheet, {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"},
               "layout.tensor_parallel");
    facts.pipeline = degree(
        sheet, {"parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree"},
        "layout.pipeline_parallel");
    facts.context = degree(
        sheet, {"parallelism.context_parallel_degree", "experimental.context_parallel_degree"},
        "layout.context_parallel");
    facts.replicas = sheet
                         .whole({"parallelism.data_parallel_replicate_degree",
                                 "training.data_parallel_replicate_degree"})
                         .value_or(1);
    facts.shards =
        sheet
            .whole({"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree",
                    "training.data_parallel_degree"})
            .value_or(-1);
    map_context(sheet, facts);
    sheet.put_usual("layout.sequence_parallel", facts.tensor > 1,
                    "parallelism.tensor_parallel_degree",
                    "torchtitan's tensor parallelism shares out sequences");
    Ranks ranks = {wishes.gpus, "--gpus", "a torchtitan config does not say the ranks"};
    if (!ranks.count && facts.shards > 0 && facts.replicas > 0 && facts.shards < (1 << 20) &&
        facts.replicas < (1 << 20))
        ranks = {facts.replicas * facts.shards * facts.tensor * facts.pipeline * facts.context,
                 "parallelism.data_parallel_shard_degree", ""};
    facts.data = settle_data_parallel(sheet, ranks, facts.tensor, facts.pipeline, facts.context);
}

// Parameters are sharded over shards × context ranks (FSDP), and replicated beyond them.
void map_sharding(Sheet& sheet, TorchtitanFacts& facts) {
    const char* key = "parallelism.data_parallel_shard_degree";
    if (facts.replicas < 1 || facts.shards == 0 || facts.shards < -1) {
        sheet.report("I002", key, "degrees of data parallelism are 1 or more, or -1 for the rest");
        return;
    }
    if (facts.shards == -1 && facts.data) {
        if (*facts.data % facts.replicas != 0) {
            sheet
                .report("I004", "parallelism.data_parallel_replicate_degree",
                        "the replicas do not divide the data-parallel ranks")
                .arithmetic = fmt::format("{} / {} = {}", *facts.data, facts.replicas,
                                          quotient(*facts.data, facts.replicas));
            return;
        }
        facts.shards = *facts.data / facts.replicas;
    }
    if (facts.data && *facts.data != facts.shards * facts.replicas) {
        sheet.report("I004", key, "the degrees of parallelism do not make the ranks").arithmetic =
            fmt::format("data-parallel ranks = {}, replicas × shards = {} × {} = {}", *facts.data,
                        facts.replicas, facts.shards, facts.replicas * facts.shards);
        return;
    }
    const bool sharded = facts.shards * facts.context != 1;
    sheet.put("layout.zero_stage", sharded ? 3 : 0, key, sharded ? "FSDP" : "replicas alone");
    if (!sharded) return;
    if (facts.replicas > 1 && facts.shards > 0)
        sheet.put("layout.zero_group_size", facts.shards * facts.context, key);
    else if (facts.replicas > 1)
        sheet.miss("layout.zero_group_size", "the ranks are not known; --gpus N says them",
                   "\"all\"");
    const auto policy =
        sheet.word({"parallelism.fsdp_reshard_after_forward"}, {"default", "always", "never"});
    const bool reshards = policy == "always" || (policy != "never" && facts.pipeline == 1);
    if (policy && policy != "default")
        sheet.put("layout.reshard_after_forward", reshards,
                  "parallelism.fsdp_reshard_after_forward");
    else
        sheet.put_usual("layout.reshard_after_forward", reshards,
                        "parallelism.fsdp_reshard_after_forward",
                        facts.pipeline > 1 ? "not with a pipeline" : "");
    if (sheet.flag({"training.enable_cpu_offload", "experimental.enable_cpu_offload"}))
        for (const char* part : {"optimizer", "gradients", "parameters"})
            sheet.put(std::string("layout.offload.") + part, "host", "training.enable_cpu_offload");
}

void map_batch(Sheet& sheet, TorchtitanFacts& facts) {
    const Sheet::Keys local_keys = {"training.local_batch_size", "training.batch_size"};
    const Count said = sheet.whole(local_keys);
    const std::int64_t local = said.value_or(8);
    const Count micro = map_torchtitan_pipeline(sheet, facts.pipeline, facts.layers, local);
    if (micro && said)
        sheet.put("layout.micro_batch_size", *micro,
                  facts.pipeline > 1 ? "parallelism.pipeline_parallel_microbatch_size"
                                     : sheet.find(local_keys)->key);
    else if (micro)
        sheet.put_usual("layout.micro_batch_size", *micro, "training.local_batch_size");
    const Count global = sheet.whole({"training.global_batch_size"});
    if (global && *global > 0) {
        facts.global = global;
        sheet.put("layout.global_batch_size", *global, "training.global_batch_size");
        // A pipeline is drained for each local batch, which only one schedule of all cannot say.
        if (facts.pipeline > 1 && facts.data && *global != local * *facts.data)
            sheet.refuse("training.global_batch_size",
                         "pipelines that are drained several times in a step are not modelled");
    } else if (facts.data) {
        facts.global = local * *facts.data;
        sheet.put_usual("layout.global_batch_size", *facts.global, "training.global_batch_size",
                        fmt::format("{} × {} data-parallel ranks", local, *facts.data));
    } else {
        sheet.miss("layout.global_batch_size",
                   fmt::format("it is {} × the data-parallel ranks, which are not known", local));
    }
    if (facts.global && micro && facts.data)
        check_batch(sheet, "training.global_batch_size", *facts.global, *micro, *facts.data);
}

void map_recompute(Sheet& sheet) {
    const auto mode = sheet.word({"activation_checkpoint.mode"}, {"none", "selective", "full"});
    const auto option = sheet.find({"activation_checkpoint.selective_ac_option"});
    const char* const key = "activation_checkpoint.mode";
    if (mode && *mode != "selective") {
        sheet.put("layout.recompute", *mode, key);
        sheet.ignore("activation_checkpoint.selective_ac_option", "read in the mode selective");
        return;
    }
    const Json how = option == nullptr ? Json("2") : option->value;
    if (how == "1" || how == 1) {
        sheet.put("layout.recompute", "full", key, "every layer");
        return;
    }
    const char* const choice = "activation_checkpoint.selective_ac_option";
    if (how == "op") {
        sheet.put("layout.recompute", "selective_op",
                  mode ? fmt::format("{}, {}", key, choice) : choice, "every second product");
        return;
    }
    // "2", or 2: one layer in so many.
    const std::string text = how.is_string() ? how.get<std::string>() : how.dump();
    const bool number = !text.empty() && text.size() < 5 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (!number || text.front() == '0') {
        sheet.put_usual("layout.recompute", "none", key);
        sheet.refuse(choice, "neither \"op\" nor a number of layers");
        return;
    }
    const char* const said = option == nullptr ? key : choice;
    if (mode)
        sheet.put("layout.recompute", "selective_layer", key);
    else
        sheet.put_usual("layout.recompute", "selective_layer", key);
    if (option == nullptr)
        sheet.put_usual("layout.recompute_every", std::stoll(text), said);
    else
        sheet.put("layout.recompute_every", std::stoll(text), said, "one layer in so many");
}

// The converter float8: torchao's eight-bit linear layers.
void map_eight_bits(Sheet& sheet) {
    const Sheet::Keys recipes = {"quantize.linear.float8.recipe_name", "float8.recipe_name"};
    const auto recipe = sheet.word(recipes, {"tensorwise", "rowwise"});
    sheet.put("training.precision", "fp8", "model.converters", "the rest in bf16");
    if (recipe)
        sheet.put("training.fp8_recipe", *recipe, sheet.find(recipes)->key);
    else if (sheet.find(recipes) == nullptr)
        sheet.put_usual("training.fp8_recipe", "tensorwise", *recipes.begin());
    const Sheet::Keys gathers = {"quantize.linear.float8.enable_fsdp_float8_all_gather",
                                 "float8.enable_fsdp_float8_all_gather"};
    if (sheet.flag(gathers))
        sheet.refuse(sheet.find(gathers)->key, "parameters are gathered in 16 bits");
}

void map_precision(Sheet& sheet, const TorchtitanFacts& facts) {
    const auto type = sheet.word({"training.mixed_precision_param"}, {"bfloat16", "float32"});
    const char* precision = type == "float32" ? "fp32" : "bf16";
    if (type)
        sheet.put("training.precision", precision, "training.mixed_precision_param");
    else
        sheet.put_usual("training.precision", precision, "training.mixed_precision_param");
    sheet.put_usual("training.gradient_dtype", type == "float32" ? "same" : "fp32",
                    "training.mixed_precision_reduce");
    if (sheet.flag({"float8.enable_float8_linear"}))
        sheet.refuse("float8.enable_float8_linear", "FP8 is imported from model.converters");
    const Setting* converters = sheet.find({"model.converters"});
    if (converters == nullptr || converters->value.empty() || converters->value == "")
        sheet.ignore("model.converters", "none");
    else if (converters->value != Json::array({"float8"}) &&
             converters->value != Json::array({"quantize.linear.float8"}))
        sheet.refuse("model.converters", "converters other than float8 are not modelled");
    else if (type != "float32")
        map_eight_bits(sheet);
    else
        sheet.refuse("model.converters", "FP8 is modelled beside bf16");
    const Sheet::Keys overlap = {"parallelism.enable_async_tensor_parallel",
                                 "experimental.enable_async_tensor_parallel"};
    if (sheet.flag(overlap) && facts.tensor > 1) {
        sheet.put("training.tensor_overlap_parts", facts.tensor, *overlap.begin(),
                  "a ring exchange has as many parts as ranks");
        sheet.put("training.gathered_inputs", "again", *overlap.begin(),
                  "what is gathered in parts is not kept whole here");
    }
}

// The preset of torchtitan's runs is of compiled kernels.
void map_compilation(Sheet& sheet) {
    const Sheet::Keys keys = {"training.compile", "compile.enable"};
    const auto compiled = sheet.boolean(keys);
    const char* const why = "the preset torchtitan stands for compiled kernels";
    for (const char* key : keys) {
        if (compiled.value_or(false))
            sheet.ignore(key, why);
        else
            sheet.refuse(key, why);
    }
    if (!compiled)
        sheet.miss("training.framework",
                   "without training.compile kernels are not compiled; those of the preset are",
                   "\"torchtitan\"");
}

void map_training(Sheet& sheet, TorchtitanFacts& facts) {
    sheet.put_usual("training.framework", "torchtitan", "torchtitan");
    sheet.put_usual("training.vocabulary_multiple", 1, "torchtitan", "it pads no vocabulary");
    map_compilation(sheet);
    const Json sequence =
        sheet.copy({"training.seq_len", "training.sequence_length", Kind::whole, "2048"});
    if (!sequence.is_null()) facts.sequence = sequence.get<std::int64_t>();
    const auto optimizer = sheet.text({"optimizer.name"});
    if (optimizer && *optimizer != "AdamW" && *optimizer != "Adam")
        sheet.refuse("optimizer.name", "only AdamW is modelled");
    else
        sheet.put_usual("training.optimizer.kind", "adamw", "optimizer.name");
    sheet.copy(kTraining);
    const Count warmup = sheet.whole({"lr_scheduler.warmup_steps", "training.warmup_steps"});
    if (warmup)
        sheet.put("training.schedule.warmup_steps", *warmup, "lr_scheduler.warmup_steps");
    else
        sheet.put_usual("training.schedule.warmup_steps", 200, "lr_scheduler.warmup_steps");
    const auto decay = sheet.text({"lr_scheduler.decay_type"});
    if (decay == "cosine")
        sheet.put("training.schedule.decay", "cosine", "lr_scheduler.decay_type");
    else
        sheet.put_usual("training.schedule.decay", "constant", "lr_scheduler.decay_type",
                        "Orrery decays by a cosine or not at all; no step's work depends on it");
    if (decay && *decay != "cosine")
        sheet.ignore("lr_scheduler.decay_type", "decays by a cosine or not at all");
    const auto floor = sheet.number({"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"});
    if (floor)
        sheet.put("training.schedule.min_learning_rate",
                  plain(*floor * sheet.number({"optimizer.lr"}).value_or(8e-4)),
                  "lr_scheduler.min_lr_factor", "× optimizer.lr");
    const Count steps = sheet.whole({"training.steps"});
    if (facts.global && facts.sequence && steps)
        sheet.put("training.tokens",
                  plain(static_cast<double>(*steps) * static_cast<double>(*facts.global) *
                        static_cast<double>(*facts.sequence)),
                  "training.steps", "steps × global batch × sequence length");
}

}  // namespace

std::span<const TorchtitanFlavor> torchtitan_flavors() {
    return kFlavors;
}

Imported import_torchtitan(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    std::vector<Setting> settings = read_toml(text, file, out.errors);
    out.unreadable = !out.errors.empty();
    if (out.unreadable) return out;
    Sheet sheet(file, std::move(settings), out);
    TorchtitanFacts facts;
    map_model(sheet, wishes, facts);
    map_degrees(sheet, wishes, facts);
    map_sharding(sheet, facts);
    map_batch(sheet, facts);
    map_recompute(sheet);
    map_precision(sheet, facts);
    map_training(sheet, facts);
    sheet.settle(torchtitan_ignored(), torchtitan_unsupported());
    return out;
}

}  // namespace orrery::plan::imports
