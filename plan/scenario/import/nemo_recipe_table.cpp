// Numbers and names are those of NVIDIA/NeMo, nemo/collections/llm/recipes/*.py with optim/adam.py
// and precision/mixed_precision.py, at the commit that kNemoRelease names.
#include "plan/scenario/import/nemo_recipe_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace orrery::plan::imports {
namespace {

using Performance = NemoRecipe::Performance;

constexpr const char* kScaledPositions =
    "Llama 3.1 scales its positions; sizes and times are those of Llama 3";

// clang-format off
constexpr NemoRecipe kNemoRecipes[] = {
    {"llama2_7b", "Llama2Config7B", "models/llama2-7b.json", 32, "",
     2, 1, 0, 1, false, 8, 4096, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::without_tensor},
    {"llama3_8b", "Llama3Config8B", "models/llama3-8b.json", 32, "",
     1, 1, 0, 2, false, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::without_tensor},
    {"llama3_70b", "Llama3Config70B", "models/llama3-70b.json", 80, "",
     4, 4, 5, 2, true, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::with_tensor},
    {"llama31_8b", "Llama31Config8B", "models/llama3-8b.json", 32, kScaledPositions,
     1, 1, 0, 2, false, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::with_tensor},
    {"llama31_70b", "Llama31Config70B", "models/llama3-70b.json", 80, kScaledPositions,
     4, 4, 5, 2, true, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::with_tensor},
    {"llama31_405b", "Llama31Config405B", "models/llama3.1-405b.json", 126, "",
     8, 8, 2, 4, true, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::with_tensor},
    {"llama32_1b", "Llama32Config1B", "models/llama3.2-1b.json", 16, "",
     1, 1, 0, 1, false, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::none},
    {"gemma_2b", "GemmaConfig2B", "models/gemma-2b.json", 18, "",
     1, 1, 0, 2, false, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::none},
    {"gemma_7b", "GemmaConfig7B", "models/gemma-7b.json", 28, "",
     2, 1, 0, 2, false, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::none},
    {"gemma2_9b", "Gemma2Config9B", "models/gemma2-9b.json", 42, "",
     8, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 1168251, false, Performance::none},
    {"gpt3_175b", "GPTConfig175B", "models/gpt3-175b.json", 96, "",
     4, 8, 6, 1, true, 8, 2048, 2048, 2, 9e-5, 9e-6, 2000, 1168251, true, Performance::with_tensor},
    {"mistral_7b", "MistralConfig7B", "models/mistral-7b.json", 32, "",
     1, 1, 0, 2, false, 8, 4096, 512, 1, 3e-4, 3e-5, 2000, 100, true, Performance::none},
    {"mistral_nemo_12b", "MistralNeMoConfig12B", "models/mistral-nemo-12b.json", 40, "",
     2, 1, 0, 2, true, 8, 8192, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::none},
    {"phi3_mini_4k_instruct", "Phi3ConfigMini", "models/phi3-mini-4k.json", 32, "",
     1, 1, 0, 1, false, 1, 4096, 512, 1, 3e-4, 3e-5, 2000, 1168251, true, Performance::none},
    {"qwen25_500m", "Qwen25Config500M", "models/qwen2.5-0.5b.json", 24, "",
     1, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen25_1p5b", "Qwen25Config1P5B", "models/qwen2.5-1.5b.json", 28, "",
     1, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen25_7b", "Qwen25Config7B", "models/qwen2.5-7b.json", 28, "",
     2, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen25_14b", "Qwen25Config14B", "models/qwen2.5-14b.json", 48, "",
     4, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen25_32b", "Qwen25Config32B", "models/qwen2.5-32b.json", 64, "",
     8, 2, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen25_72b", "Qwen25Config72B", "models/qwen2.5-72b.json", 80, "",
     8, 4, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen3_600m", "Qwen3Config600M", "models/qwen3-0.6b.json", 28, "",
     1, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
    {"qwen3_8b", "Qwen3Config8B", "models/qwen3-8b.json", 36, "",
     4, 1, 0, 1, false, 8, 4096, 32, 2, 3e-4, 3e-5, 500, 300000, false, Performance::none},
};
// clang-format on

// Which attribute of a recipe each argument of its function becomes.
struct ArgumentPlace {
    const char *argument, *path;
};
constexpr ArgumentPlace kArguments[] = {
    {"num_nodes", "trainer.num_nodes"},
    {"num_gpus_per_node", "trainer.devices"},
    {"max_steps", "trainer.max_steps"},
    {"tensor_parallelism", "trainer.strategy.tensor_model_parallel_size"},
    {"pipeline_parallelism", "trainer.strategy.pipeline_model_parallel_size"},
    {"virtual_pipeline_parallelism", "trainer.strategy.virtual_pipeline_model_parallel_size"},
    {"context_parallelism", "trainer.strategy.context_parallel_size"},
    {"sequence_parallelism", "trainer.strategy.sequence_parallel"},
    {"seq_length", "data.seq_length"},
    {"global_batch_size", "data.global_batch_size"},
    {"micro_batch_size", "data.micro_batch_size"},
    {"max_lr", "optim.config.lr"},
    {"min_lr", "optim.lr_scheduler.min_lr"},
    {"warmup_steps", "optim.lr_scheduler.warmup_steps"},
    {"precision", "trainer.plugins.precision"},
    {"gradient_clip_val", "optim.config.clip_grad"},
};

// The field at a way of attributes, each made where there is none.
PythonValue& field_at(PythonObject& object, const std::string& path) {
    PythonObject* at = &object;
    std::size_t from = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos;
         from = dot + 1, dot = path.find('.', from)) {
        PythonValue& field = at->at(path.substr(from, dot - from));
        if (field.kind != PythonValue::Kind::object) {
            field = {};
            field.kind = PythonValue::Kind::object;
            field.object = std::make_shared<PythonObject>();
            field.usual = true;
        }
        at = field.object.get();
    }
    return at->at(path.substr(from));
}

void set_usual(PythonObject& object, const std::string& path, Json plain) {
    PythonValue& field = field_at(object, path);
    field = {};
    field.plain = std::move(plain);
    field.usual = true;
}

void set_symbol(PythonObject& object, const std::string& path, const std::string& name) {
    PythonValue& field = field_at(object, path);
    field = {};
    field.kind = PythonValue::Kind::symbol;
    field.text = name;
    field.usual = true;
}

using GivenArguments = std::vector<std::pair<std::string, PythonValue>>;

void place_arguments(const GivenArguments& given, std::span<const ArgumentPlace> places,
                     PythonObject& object) {
    for (const auto& argument : given) {
        const auto known =
            std::find_if(places.begin(), places.end(),
                         [&](const ArgumentPlace& one) { return argument.first == one.argument; });
        field_at(object, known == places.end() ? argument.first : known->path) = argument.second;
    }
}

// distributed_fused_adam_with_cosine_annealing; its rates stand in `at` or are given.
void make_adam(PythonObject& object, const std::string& at, double rate, double least, int warmup) {
    set_usual(object, at + "config.optimizer", "adam");
    set_usual(object, at + "config.lr", rate);
    set_usual(object, at + "config.weight_decay", 0.1);
    set_usual(object, at + "config.adam_beta1", 0.9);
    set_usual(object, at + "config.adam_beta2", 0.95);
    set_usual(object, at + "config.adam_eps", 1e-5);
    set_usual(object, at + "config.use_distributed_optimizer", true);
    set_usual(object, at + "config.clip_grad", 1.0);
    set_symbol(object, at + "lr_scheduler.class", "CosineAnnealingScheduler");
    set_usual(object, at + "lr_scheduler.warmup_steps", warmup);
    set_usual(object, at + "lr_scheduler.min_lr", least);
}

void make_recipe(PythonObject& object, const NemoRecipe& recipe) {
    GivenArguments given;
    given.swap(object.fields);
    set_symbol(object, "model.config.class", recipe.config);
    const std::string strategy = "trainer.strategy.";
    set_usual(object, strategy + "tensor_model_parallel_size", recipe.tensor);
    set_usual(object, strategy + "pipeline_model_parallel_size", recipe.pipeline);
    set_usual(object, strategy + "virtual_pipeline_model_parallel_size",
              recipe.chunks > 0 ? Json(recipe.chunks) : Json());
    set_usual(object, strategy + "context_parallel_size", recipe.context);
    set_usual(object, strategy + "sequence_parallel", recipe.sequence_parallel);
    set_usual(object, strategy + "ddp.overlap_grad_reduce", recipe.overlaps);
    set_usual(object, strategy + "ddp.overlap_param_gather", recipe.overlaps);
    if (std::string(recipe.name) == "llama31_405b") {
        set_usual(object, strategy + "account_for_embedding_in_pipeline_split", true);
        set_usual(object, strategy + "account_for_loss_in_pipeline_split", true);
    }
    set_symbol(object, "trainer.plugins.class", "bf16_mixed");
    set_usual(object, "trainer.plugins.grad_reduce_in_fp32", true);
    set_usual(object, "trainer.num_nodes", 1);
    set_usual(object, "trainer.devices", recipe.gpus_per_node);
    set_usual(object, "trainer.max_steps", recipe.max_steps);
    PythonValue& callbacks = field_at(object, "trainer.callbacks");
    callbacks.kind = PythonValue::Kind::list;
    callbacks.list = std::make_shared<std::vector<PythonValue>>();
    callbacks.usual = true;
    set_usual(object, "data.seq_length", recipe.sequence);
    set_usual(object, "data.global_batch_size", recipe.global_batch);
    set_usual(object, "data.micro_batch_size", recipe.micro_batch);
    make_adam(object, "optim.", recipe.learning_rate, recipe.least_rate, recipe.warmup_steps);
    place_arguments(given, kArguments, object);
}

// llm.llama3_8b.model(), llm.llama3_8b.trainer(num_nodes=2): a recipe's part alone.
bool make_part(PythonObject& object) {
    const std::string part = last_part(object.of);
    if ((part != "model" && part != "trainer") || part.size() == object.of.size()) return false;
    const std::string outer = object.of.substr(0, object.of.size() - part.size() - 1);
    const NemoRecipe* const recipe = find_nemo_recipe(last_part(outer));
    if (recipe == nullptr) return false;
    PythonObject whole = {object.of, object.line};
    whole.fields.swap(object.fields);
    make_recipe(whole, *recipe);
    object.fields = std::move(whole.at(part).object->fields);
    return true;
}

}  // namespace

std::string last_part(const std::string& name) {
    return name.substr(name.rfind('.') + 1);
}

std::string recipe_of_call(const std::string& of) {
    const std::string function = last_part(of);
    if (function != "pretrain_recipe" && function != "pretrain_recipe_performance") return "";
    return function.size() + 1 < of.size()
               ? last_part(of.substr(0, of.size() - function.size() - 1))
               : "";
}

const NemoRecipe* find_nemo_recipe(const std::string& name) {
    const auto at = std::find_if(std::begin(kNemoRecipes), std::end(kNemoRecipes),
                                 [&](const NemoRecipe& one) { return name == one.name; });
    return at == std::end(kNemoRecipes) ? nullptr : at;
}

const NemoRecipe* find_nemo_config(const std::string& name) {
    const auto at = std::find_if(std::begin(kNemoRecipes), std::end(kNemoRecipes),
                                 [&](const NemoRecipe& one) { return name == one.config; });
    return at == std::end(kNemoRecipes) ? nullptr : at;
}

void make_nemo_object(PythonObject& object) {
    const NemoRecipe* const recipe = find_nemo_recipe(recipe_of_call(object.of));
    if (make_part(object)) return;
    if (recipe != nullptr) {
        make_recipe(object, *recipe);
        if (last_part(object.of) == "pretrain_recipe_performance")
            set_usual(object, "performance_mode", true);
        return;
    }
    if (last_part(object.of) != "distributed_fused_adam_with_cosine_annealing") return;
    GivenArguments given;
    given.swap(object.fields);
    const auto rate = std::find_if(given.begin(), given.end(),
                                   [](const auto& field) { return field.first == "max_lr"; });
    const double most = rate != given.end() && rate->second.plain.is_number()
                            ? rate->second.plain.get<double>()
                            : 1e-4;
    const double least = Json::parse(fmt::format("{:.12g}", 0.1 * most)).get<double>();
    make_adam(object, "", most, least, 2000);
    constexpr ArgumentPlace kOfAdam[] = {{"max_lr", "config.lr"},
                                         {"min_lr", "lr_scheduler.min_lr"},
                                         {"warmup_steps", "lr_scheduler.warmup_steps"},
                                         {"adam_beta1", "config.adam_beta1"},
                                         {"adam_beta2", "config.adam_beta2"},
                                         {"clip_grad", "config.clip_grad"},
                                         {"precision", "config.precision"}};
    place_arguments(given, kOfAdam, object);
}

}  // namespace orrery::plan::imports
