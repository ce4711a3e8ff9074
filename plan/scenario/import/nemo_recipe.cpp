#include "plan/scenario/import/nemo_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "plan/scenario/import/nemo_recipe_rows.hpp"
#include "plan/scenario/import/nemo_recipe_table.hpp"
#include "plan/scenario/import/ranks.hpp"
#include "plan/scenario/import/sheet.hpp"

namespace orrery::plan::imports {
namespace {

using ObjectPointer = std::shared_ptr<PythonObject>;

constexpr const char* kTensorSize = "trainer.strategy.tensor_model_parallel_size";
constexpr const char* kPipelineSize = "trainer.strategy.pipeline_model_parallel_size";
constexpr const char* kChunkCount = "trainer.strategy.virtual_pipeline_model_parallel_size";
constexpr const char* kContextSize = "trainer.strategy.context_parallel_size";
constexpr const char* kSplitsTokens = "trainer.strategy.sequence_parallel";
constexpr const char* kClass = "model.config.class";
constexpr const char* kOverlap = "trainer.callbacks.MegatronCommOverlapCallback.";

constexpr Direct kRecipeShape[] = {
    {"model.config.num_layers", "model.num_layers", Direct::Kind::whole},
    {"model.config.hidden_size", "model.hidden_size", Direct::Kind::whole},
    {"model.config.ffn_hidden_size", "model.ffn_hidden_size", Direct::Kind::whole},
    {"model.config.num_attention_heads", "model.num_attention_heads", Direct::Kind::whole},
    {"model.config.num_query_groups", "model.num_query_groups", Direct::Kind::whole},
    {"model.config.kv_channels", "model.kv_channels", Direct::Kind::whole},
    {"model.config.init_method_std", "model.init_method_std", Direct::Kind::number, "0.02"},
    {"model.config.hidden_dropout", "model.hidden_dropout", Direct::Kind::number, "0.1"},
    {"model.config.attention_dropout", "model.attention_dropout", Direct::Kind::number, "0.1"},
    {"model.config.layernorm_epsilon", "model.norm_epsilon", Direct::Kind::number, "1e-5"},
    {"model.config.normalization", "model.normalization", Direct::Kind::text, "\"LayerNorm\""},
    {"model.config.gated_linear_unit", "model.swiglu", Direct::Kind::flag, "false"},
    {"model.config.add_bias_linear", "model.add_bias_linear", Direct::Kind::flag, "true"},
    {"model.config.position_embedding_type", "model.position_embedding_type", Direct::Kind::text,
     "\"learned_absolute\""},
    {"model.config.vocab_size", "model.vocab_size", Direct::Kind::whole},
};

constexpr Direct kRecipeTraining[] = {
    {"data.seq_length", "training.sequence_length", Direct::Kind::whole},
    {"trainer.max_steps", "run.steps", Direct::Kind::whole},
    {"optim.config.lr", "training.optimizer.learning_rate", Direct::Kind::number},
    {"optim.config.weight_decay", "training.optimizer.weight_decay", Direct::Kind::number},
    {"optim.config.adam_beta1", "training.optimizer.beta1", Direct::Kind::number},
    {"optim.config.adam_beta2", "training.optimizer.beta2", Direct::Kind::number},
    {"optim.config.adam_eps", "training.optimizer.epsilon", Direct::Kind::number},
    {"optim.config.clip_grad", "training.optimizer.clip_norm", Direct::Kind::number},
    {"optim.lr_scheduler.warmup_steps", "training.schedule.warmup_steps", Direct::Kind::whole},
    {"optim.lr_scheduler.min_lr", "training.schedule.min_learning_rate", Direct::Kind::number},
    {"model.config.make_vocab_size_divisible_by", "training.vocabulary_multiple",
     Direct::Kind::whole, "128"},
    {"trainer.strategy.ddp.overlap_grad_reduce", "training.overlap_gradient_reduce",
     Direct::Kind::flag, "false"},
    {"trainer.strategy.ddp.overlap_param_gather", "training.overlap_parameter_gather",
     Direct::Kind::flag, "false"},
};

bool is_made_by(const PythonObject& object, const char* what) {
    return last_part(object.of) == what;
}

bool is_training(const std::string& name) {
    const std::string function = last_part(name);
    return function == "pretrain" || function == "train" || function == "finetune";
}

// `run.Partial(llm.pretrain, …)`.
bool is_partial_training(const PythonObject& object) {
    const PythonValue* const called = is_made_by(object, "Partial") ? object.find("0") : nullptr;
    return called != nullptr && is_training(called->text);
}

// `llm.train(model=…, trainer=…)`, which starts by itself.
bool is_direct_training(const PythonObject& object) {
    return is_training(object.of) && object.find("trainer") != nullptr;
}

bool is_recipe(const PythonObject& object) {
    const std::string function = last_part(object.of);
    return function == "pretrain_recipe" || function == "pretrain_recipe_performance" ||
           function == "finetune_recipe" || is_partial_training(object) ||
           is_direct_training(object);
}

bool starts_recipes(const PythonObject& object) {
    return is_made_by(object, "run") || is_made_by(object, "add") || is_made_by(object, "main");
}

void reach(const ObjectPointer& object, std::set<const PythonObject*>& reached) {
    if (!reached.insert(object.get()).second) return;
    for (const auto& [name, value] : object->fields) {
        if (value.object != nullptr) reach(value.object, reached);
        if (value.kind == PythonValue::Kind::list)
            for (const PythonValue& one : *value.list)
                if (one.object != nullptr) reach(one.object, reached);
    }
}

// The recipe that the program starts, or the only one that it makes. Throws PythonError.
ObjectPointer chosen_recipe(const PythonScript& script) {
    std::vector<ObjectPointer> started, all;
    for (const ObjectPointer& object : script.made) {
        if (is_recipe(*object)) all.push_back(object);
        if (!starts_recipes(*object)) continue;
        for (const auto& [name, value] : object->fields)
            if (value.kind == PythonValue::Kind::object && is_recipe(*value.object) &&
                std::find(started.begin(), started.end(), value.object) == started.end())
                started.push_back(value.object);
    }
    const std::vector<ObjectPointer>& from = started.empty() ? all : started;
    if (from.empty())
        throw PythonError(1, 1,
                          "nothing here makes a recipe of NeMo (llm.….pretrain_recipe(…), or "
                          "run.Partial(llm.pretrain, …))");
    if (from.size() > 1)
        throw PythonError(from[1]->line, 1,
                          fmt::format("{} recipes are made, in lines {} and {}: leave one",
                                      from.size(), from[0]->line, from[1]->line));
    return from[0];
}

// Fields of a recipe as settings, "trainer.strategy.tensor_model_parallel_size".
class RecipeSettings {
  public:
    void add(const PythonObject& object, const std::string& path) {
        if (++objects_ > kMostFields || std::count(path.begin(), path.end(), '.') > kDeepest)
            return;
        const std::string of = class_of(object);
        if (!of.empty() && !path.empty() && object.find("class") == nullptr)
            push(path + ".class", of, object.line, false, false);
        if (!of.empty() && !path.empty() && !is_known(of))
            made_elsewhere.push_back({path, of, object.line, false});
        for (const auto& [name, value] : object.fields) {
            const bool by_place = name.find_first_not_of("0123456789") == std::string::npos;
            if (!by_place)
                add(value, path.empty() ? name : path + '.' + name);
            else if (path == "model" && value.kind == PythonValue::Kind::object)
                add(*value.object, "model.config");
        }
    }

    std::vector<Setting> settings;
    std::vector<Setting> made_elsewhere;  // parts of a recipe that functions of other files make
    std::set<std::string> usual;

  private:
    // A class, or a function that is known here.
    static bool is_known(const std::string& name) {
        constexpr const char* kFunctions[] = {"dict",
                                              "bf16_mixed",
                                              "fp16_mixed",
                                              "bf16_with_fp8_mixed",
                                              "bf16_with_mxfp8_mixed",
                                              "bf16_with_fp8_current_scaling_mixed",
                                              "distributed_fused_adam_with_cosine_annealing",
                                              "default_log",
                                              "default_resume",
                                              "tensorboard_logger",
                                              "trainer",
                                              "model"};
        return (name[0] >= 'A' && name[0] <= 'Z') ||
               std::any_of(std::begin(kFunctions), std::end(kFunctions),
                           [&](const char* one) { return name == one; });
    }

    // Whether what is there has parts that count.
    static bool is_part(const std::string& path) {
        constexpr const char* kParts[] = {"trainer", "data", "optim", "model", "peft"};
        constexpr const char* kInner[] = {
            "trainer.strategy", "trainer.strategy.ddp", "trainer.plugins", "trainer.callbacks",
            "optim.config",     "optim.lr_scheduler",   "model.config",    "model.optim",
            "model.tokenizer",  "trainer.logger"};
        const auto is_it = [&](const char* part) { return path == part; };
        return std::any_of(std::begin(kParts), std::end(kParts), is_it) ||
               std::any_of(std::begin(kInner), std::end(kInner), is_it) ||
               path.rfind("trainer.callbacks.", 0) == 0;
    }

    static constexpr int kMostFields = 1 << 14;
    static constexpr int kDeepest = 12;  // attributes of attributes; a recipe may hold itself

    // Of a Config or Partial what it stands for, else who was called.
    static std::string class_of(const PythonObject& object) {
        const bool stands = is_made_by(object, "Config") || is_made_by(object, "Partial");
        const PythonValue* const of = stands ? object.find("0") : nullptr;
        return of != nullptr ? last_part(of->text) : last_part(object.of);
    }

    void add(const PythonValue& value, const std::string& path) {
        switch (value.kind) {
            case PythonValue::Kind::plain:
                if (!value.plain.is_null()) push(path, value.plain, value);
                break;
            case PythonValue::Kind::symbol:
                push(path, last_part(value.text), value);
                break;
            case PythonValue::Kind::open:
            case PythonValue::Kind::function:
                push(path, value.text, value.line, true, value.usual);
                break;
            case PythonValue::Kind::object:
                // What a call gives where a value is expected is for a run to tell.
                if (is_part(path) || value.object->of.empty() ||
                    path.find('.') == std::string::npos || is_known(class_of(*value.object)))
                    add(*value.object, path);
                else
                    push(path, last_part(value.object->of) + "(…)", value.line, true, value.usual);
                break;
            case PythonValue::Kind::list:
                add_list(value, path);
                break;
        }
    }

    void add_list(const PythonValue& value, const std::string& path) {
        Json all = Json::array();
        bool open = false;
        for (const PythonValue& one : *value.list) {
            if (one.kind == PythonValue::Kind::object) {
                add(*one.object, path + '.' + class_of(*one.object));
            } else {
                open = open || one.is_open();
                all.push_back(one.kind == PythonValue::Kind::plain ? one.plain : Json(one.text));
            }
        }
        if (!all.empty()) push(path, all, value.line, open, value.usual);
    }

    void push(const std::string& path, Json plain, const PythonValue& value) {
        push(path, std::move(plain), value.line, false, value.usual);
    }
    void push(const std::string& path, Json plain, int line, bool open, bool is_usual) {
        if (is_usual) usual.insert(path);
        settings.push_back({path, std::move(plain), is_usual ? 0 : line, open});
    }

    int objects_ = 0;
};

// --- what the settings become

void put_default(Sheet& sheet, const char* key, const char* to, Json value) {
    if (sheet.has(key))
        sheet.put(to, std::move(value), key);
    else
        sheet.put_usual(to, std::move(value), key);
}

void map_own_shape(Sheet& sheet) {
    sheet.put_usual("model.model_type", "megatron", "NeMo");
    for (const char* key : {"num_layers", "hidden_size", "num_attention_heads"})
        if (!sheet.has(std::string("model.config.") + key))
            sheet.miss(std::string("model.") + key,
                       fmt::format("model.config.{} is not given", key));
    sheet.copy(kRecipeShape);
    if (!sheet.has("model.config.vocab_size"))
        sheet.miss("model.vocab_size", "the tokenizer reads it from its files");
    const bool tied =
        sheet.boolean({"model.config.share_embeddings_and_output_weights"}).value_or(true);
    put_default(sheet, "model.config.share_embeddings_and_output_weights",
                "model.untie_embeddings_and_output_weights", !tied);
    const bool biases = sheet.boolean({"model.config.add_bias_linear"}).value_or(true);
    put_default(sheet, "model.config.add_qkv_bias", "model.add_qkv_bias",
                biases || sheet.flag({"model.config.add_qkv_bias"}));
    if (sheet.text({"model.config.position_embedding_type"}) == "rope") {
        sheet.copy(
            {"model.config.rotary_percent", "model.rotary_percent", Direct::Kind::number, "1"});
        sheet.copy(
            {"model.config.rotary_base", "model.rotary_base", Direct::Kind::number, "10000"});
    } else {
        sheet.copy(
            {"model.config.seq_length", "model.max_position_embeddings", Direct::Kind::whole});
    }
}

const NemoRecipe* map_recipe_model(Sheet& sheet, const Wishes& wishes) {
    const std::string name = sheet.has(kClass) ? sheet.text({kClass}).value_or("") : std::string();
    const NemoRecipe* const known = find_nemo_config(name);
    if (!wishes.model.empty()) {
        sheet.put("model", wishes.model, "--model");
        const std::pair<const char*, const char*> stated[] = {
            {"model.config.num_layers", "layers"},
            {"model.config.hidden_size", "hidden"},
            {"model.config.num_attention_heads", "heads"},
            {"model.config.ffn_hidden_size", "ffn_hidden"}};
        for (const auto& [key, what] : stated)
            sheet.state(key, what);
        for (const Direct& direct : kRecipeShape)
            sheet.ignore(direct.key, "the model is " + wishes.model);
        sheet.ignore(kClass, "the model is " + wishes.model);
    } else if (known != nullptr) {
        sheet.put("model", known->model, kClass, known->note);
        for (const Direct& direct : kRecipeShape)
            sheet.refuse(direct.key,
                         fmt::format("it changes {}: give the model by --model", known->model),
                         Changes::model);
    } else if (name == "GPTConfig" || (name.empty() && sheet.has("model.config.num_layers"))) {
        map_own_shape(sheet);
        sheet.ignore(kClass, "its sizes are taken one by one");
    } else if (name.empty()) {
        sheet.miss("model", "the recipe's model is not known here; --model MODEL says it");
    } else {
        sheet.refuse(kClass, "its sizes stand in NeMo's source: give the model by --model",
                     Changes::model);
        sheet.miss("model", "the recipe's model is not known here; --model MODEL says it");
    }
    if (sheet.has("model.config.seq_length") && sheet.has("data.seq_length") &&
        !sheet.used("model.config.seq_length"))
        sheet.ignore("model.config.seq_length", "data.seq_length says how long sequences are");
    return known;
}

// Embedding and loss each count as a layer.
void map_counted_stages(Sheet& sheet, std::int64_t stages, const NemoRecipe* recipe,
                        const Wishes& wishes) {
    constexpr const char* kEmbedding = "trainer.strategy.account_for_embedding_in_pipeline_split";
    constexpr const char* kLoss = "trainer.strategy.account_for_loss_in_pipeline_split";
    const bool embedding = sheet.flag({kEmbedding}), loss = sheet.flag({kLoss});
    const auto said = sheet.whole({"model.config.num_layers"});
    const std::int64_t layers = said                ? *said
                                : wishes.layers     ? *wishes.layers
                                : recipe != nullptr ? recipe->layers
                                                    : 0;
    if ((!embedding && !loss) || stages == 1) {
        for (const char* key : {kEmbedding, kLoss})
            sheet.ignore(key, "at this value it changes nothing");
        return;
    }
    const std::int64_t counted = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
    if (layers == 0 || counted % stages != 0 || counted / stages < 2) {
        sheet.refuse(embedding ? kEmbedding : kLoss, "give layout.layers_per_stage");
        return;
    }
    std::vector<std::int64_t> all(static_cast<std::size_t>(stages), counted / stages);
    all.front() -= embedding ? 1 : 0;
    all.back() -= loss ? 1 : 0;
    sheet.put("layout.layers_per_stage", all, embedding ? kEmbedding : kLoss,
              "embedding and loss count as a layer each");
}

void map_recipe_recompute(Sheet& sheet) {
    constexpr const char* kRecomputes = "model.config.recompute_granularity";
    const auto granularity = sheet.word({kRecomputes}, {"selective", "full"});
    const auto method = sheet.word({"model.config.recompute_method"}, {"uniform", "block"});
    const auto group = sheet.whole({"model.config.recompute_num_layers"}).value_or(1);
    if (!granularity)
        sheet.put_usual("layout.recompute", "none", kRecomputes);
    else if (*granularity == "selective")
        sheet.put("layout.recompute", "selective", kRecomputes);
    else if (method == "block")
        sheet.refuse("model.config.recompute_method", "only uniform groups are recomputed");
    else if (group == 1)
        sheet.put("layout.recompute", "full", kRecomputes);
    else {
        sheet.put("layout.recompute", "every_k", kRecomputes);
        sheet.put("layout.recompute_every", group, "model.config.recompute_num_layers");
    }
}

struct RecipeDegrees {
    std::int64_t tensor = 1, pipeline = 1, context = 1;
    std::optional<std::int64_t> data = {};
};

RecipeDegrees map_recipe_degrees(Sheet& sheet, const Wishes& wishes) {
    RecipeDegrees degrees;
    degrees.tensor = copied_degree(sheet, kTensorSize, "layout.tensor_parallel");
    degrees.pipeline = copied_degree(sheet, kPipelineSize, "layout.pipeline_parallel");
    degrees.context = copied_degree(sheet, kContextSize, "layout.context_parallel");
    if (degrees.context > 1) sheet.put("layout.context_algorithm", "ring", kContextSize);
    const auto devices = sheet.whole({"trainer.devices"});
    const auto nodes = sheet.whole({"trainer.num_nodes"});
    constexpr std::int64_t kMost = 1 << 20;
    Ranks ranks = {wishes.gpus, "--gpus", "trainer.devices is not given"};
    if (!wishes.gpus && devices && *devices > 0 && *devices < kMost && nodes.value_or(1) < kMost)
        ranks = {*devices * nodes.value_or(1),
                 nodes ? "trainer.devices × trainer.num_nodes" : "trainer.devices", ""};
    for (const char* key : {"trainer.devices", "trainer.num_nodes"})
        if (wishes.gpus) sheet.ignore(key, "--gpus says the ranks");
    degrees.data =
        settle_data_parallel(sheet, ranks, degrees.tensor, degrees.pipeline, degrees.context);
    const bool split = sheet.flag({kSplitsTokens});
    if (split && degrees.tensor == 1)
        sheet.ignore(kSplitsTokens, "without tensor-parallel ranks there is nothing to split");
    else
        put_default(sheet, kSplitsTokens, "layout.sequence_parallel", split);
    return degrees;
}

void map_recipe_layout(Sheet& sheet, const Wishes& wishes, const NemoRecipe* recipe,
                       const RecipeDegrees& degrees) {
    const std::int64_t chunks =
        std::clamp<std::int64_t>(sheet.whole({kChunkCount}).value_or(1), 1, 10'000);
    if (chunks > 1) sheet.put("layout.virtual_pipeline", chunks, kChunkCount);
    sheet.put_usual("layout.schedule", chunks > 1 ? "interleaved" : "1f1b", kChunkCount);
    map_counted_stages(sheet, degrees.pipeline * chunks, recipe, wishes);
    map_recipe_recompute(sheet);
    const auto micro = sheet.whole({"data.micro_batch_size"});
    const auto global = sheet.whole({"data.global_batch_size"});
    if (micro)
        sheet.put("layout.micro_batch_size", *micro, "data.micro_batch_size");
    else
        sheet.miss("layout.micro_batch_size", "data.micro_batch_size is not given", "1");
    if (global)
        sheet.put("layout.global_batch_size", *global, "data.global_batch_size");
    else
        sheet.miss("layout.global_batch_size", "data.global_batch_size is not given");
    if (micro && global && degrees.data)
        check_batch(sheet, "data.global_batch_size", *global, *micro, *degrees.data);
    const auto steps = sheet.whole({"trainer.max_steps"});
    const auto sequence = sheet.whole({"data.seq_length"});
    if (!sequence) sheet.miss("training.sequence_length", "data.seq_length is not given");
    if (steps && sequence && global && *steps > 0)
        sheet.put("training.tokens",
                  plain(static_cast<double>(*steps) * static_cast<double>(*global) *
                        static_cast<double>(*sequence)),
                  "trainer.max_steps", "steps × global batch × sequence length");
}

// A function of NeMo's precision/mixed_precision.py, or MegatronMixedPrecision with its fields.
void map_recipe_precision(Sheet& sheet) {
    constexpr const char* kPlugin = "trainer.plugins.class";
    constexpr const char* kFp8 = "trainer.plugins.fp8";
    const std::string name = sheet.has(kPlugin) ? sheet.text({kPlugin}).value_or("") : "";
    const std::string said = sheet.has("trainer.plugins.precision")
                                 ? sheet.text({"trainer.plugins.precision"}).value_or("")
                                 : name;
    const char* const from =
        sheet.has("trainer.plugins.precision") ? "trainer.plugins.precision" : kPlugin;
    const bool asked = sheet.has(kFp8) && sheet.text({kFp8}).has_value();
    const bool narrow = name.find("fp8") != std::string::npos || asked;
    const bool half = said.rfind("bf16", 0) == 0 || name.find("bf16_") != std::string::npos;
    const bool fp16 = !half && (said.rfind("16", 0) == 0 || said.rfind("fp16", 0) == 0);
    if (!half && !fp16 && !said.empty() && said != "32" && said.rfind("32", 0) != 0)
        sheet.refuse(from, "its precision stands in NeMo's source: give training.precision");
    else if (narrow && half)
        sheet.put("training.precision", "fp8", asked ? kFp8 : kPlugin, "the rest in bf16");
    else
        put_default(sheet, from, "training.precision", half ? "bf16" : fp16 ? "fp16" : "fp32");
    if (narrow && !half) sheet.refuse(kFp8, "FP8 is modelled beside bf16");
    if (narrow && half) {
        constexpr const char* kScaling = "trainer.plugins.fp8_recipe";
        const std::string usual = name.find("mxfp8") != std::string::npos             ? "mxfp8"
                                  : name.find("current_scaling") != std::string::npos ? "tensorwise"
                                                                                      : "delayed";
        const auto scaling =
            sheet.word({kScaling}, {"delayed", "tensorwise", "blockwise", "mxfp8"});
        put_default(sheet, kScaling, "training.fp8_recipe", scaling.value_or(usual));
        if (usual == "tensorwise" && !scaling)
            sheet.refuse(kPlugin, "it keeps the first and the last layer in bf16");
        // NeMo's functions set it, and Megatron Core reads it with shared optimizer states.
        constexpr const char* kGathers = "trainer.plugins.fp8_param_gather";
        const bool gathers =
            sheet.boolean({kGathers}).value_or(name.find("fp8") != std::string::npos);
        if (gathers && sheet.flag({"optim.config.use_distributed_optimizer"}))
            put_default(sheet, kGathers, "training.fp8_param_gather", true);
        else
            sheet.ignore(kGathers, "without shared optimizer states nothing is gathered");
    }
    constexpr const char* kWide = "trainer.plugins.grad_reduce_in_fp32";
    constexpr const char* kWideToo = "trainer.strategy.ddp.grad_reduce_in_fp32";
    const bool wide = sheet.boolean({kWideToo})
                          .value_or(sheet.boolean({kWide}).value_or(name.rfind("bf16_", 0) == 0));
    put_default(sheet, sheet.has(kWideToo) ? kWideToo : kWide, "training.gradient_dtype",
                wide && (half || fp16) ? "fp32" : "same");
}

void map_recipe_optimizer(Sheet& sheet) {
    const auto name = sheet.text({"optim.config.optimizer"});
    if (name && *name != "adam")
        sheet.refuse("optim.config.optimizer", "only AdamW is modelled");
    else
        put_default(sheet, "optim.config.optimizer", "training.optimizer.kind", "adamw");
    constexpr const char* kShares = "optim.config.use_distributed_optimizer";
    put_default(sheet, kShares, "layout.zero_stage", sheet.flag({kShares}) ? 1 : 0);
    if (!sheet.has("optim.lr_scheduler.class")) return;
    const auto course = sheet.text({"optim.lr_scheduler.class"});
    sheet.put("training.schedule.decay",
              course == "CosineAnnealingScheduler" ? "cosine" : "constant",
              "optim.lr_scheduler.class");
}

void map_recipe_overlap(Sheet& sheet, const NemoRecipe* recipe, const RecipeDegrees& degrees) {
    const std::string tensor = std::string(kOverlap) + "tp_comm_overlap";
    const std::string deferred = std::string(kOverlap) + "defer_embedding_wgrad_compute";
    bool overlaps = sheet.flag({tensor.c_str()});
    bool defers = sheet.flag({deferred.c_str()});
    std::string from = tensor;
    if (sheet.flag({"performance_mode"})) {
        using Performance = NemoRecipe::Performance;
        const auto performance = recipe != nullptr ? recipe->performance : Performance::none;
        if (performance == Performance::none)
            sheet.refuse("performance_mode", "what it turns on stands in NeMo's source");
        else if (performance == Performance::without_tensor)
            sheet.ignore("performance_mode", "this recipe overlaps the same without it");
        else if (performance == Performance::with_tensor)
            overlaps = defers = true;
        from = "performance_mode";
    }
    if (overlaps && degrees.tensor > 1)
        sheet.put("training.tensor_overlap_parts", degrees.tensor, from,
                  "as many parts as tensor-parallel ranks");
    if (defers && degrees.pipeline > 1) sheet.put("training.defer_embedding_gradient", true, from);
    for (const auto& [key, to] :
         {std::pair("overlap_grad_reduce", "training.overlap_gradient_reduce"),
          std::pair("overlap_param_gather", "training.overlap_parameter_gather")}) {
        const std::string name = std::string(kOverlap) + key;
        if (const auto said = sheet.boolean({name.c_str()})) sheet.put(to, *said, name);
    }
}

// run.Config(llm.peft.LoRA, …), nemo/collections/llm/peft/lora.py.
void map_recipe_adapters(Sheet& sheet) {
    if (!sheet.has("peft.class")) return;
    if (sheet.text({"peft.class"}) != "LoRA")
        return sheet.refuse("peft.class",
                            "of schemes that train a part of the weights, LoRA is modelled",
                            Changes::model);
    sheet.copy({"peft.dim", "training.lora.rank", Direct::Kind::whole, "32"});
    sheet.copy({"peft.alpha", "training.lora.alpha", Direct::Kind::number, "32"});
    const Setting* const targets = sheet.find({"peft.target_modules"});
    const Json all = {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};
    put_default(sheet, "peft.target_modules", "training.lora.target_modules",
                targets != nullptr ? targets->value : all);
    if (sheet.number({"peft.dropout"}).value_or(0) > 0)
        sheet.refuse("peft.dropout", "dropout before adapters is not modelled");
}

// What the recipe's own function says is no line of the file.
void mark_usual(const std::set<std::string>& usual, const std::string& recipe, Imported& out) {
    for (Mapped& one : out.mapped) {
        if (usual.count(one.from) == 0) continue;
        one.usual = true;
        if (one.note.empty())
            one.note = recipe.empty() ? kNemoRelease : recipe + " of " + kNemoRelease;
    }
    auto& ignored = out.ignored;
    ignored.erase(std::remove_if(ignored.begin(), ignored.end(),
                                 [&](const Left& left) { return usual.count(left.key) > 0; }),
                  ignored.end());
}

// Statements that may change the recipe, though what they do does not stand in this file.
void note_unread(const PythonScript& script, const ObjectPointer& recipe, Imported& out) {
    std::set<const PythonObject*> parts;
    reach(recipe, parts);
    for (const PythonUnread& unread : script.unread) {
        if (unread.call != nullptr &&
            (parts.count(unread.call.get()) > 0 || starts_recipes(*unread.call) ||
             is_made_by(*unread.call, "print") || is_made_by(*unread.call, "pprint")))
            continue;
        const bool touches =
            std::any_of(unread.objects.begin(), unread.objects.end(),
                        [&](const ObjectPointer& object) { return parts.count(object.get()) > 0; });
        if (touches)
            out.unsupported.push_back({fmt::format("line {}", unread.line), unread.text,
                                       "what it changes is not settled in this file"});
    }
}

void map_recipe(Sheet& sheet, const Wishes& wishes, const PythonObject& recipe) {
    const std::string name = recipe_of_call(recipe.of);
    const bool tunes = last_part(recipe.of) == "finetune_recipe";
    if (tunes || (!name.empty() && !find_nemo_recipe(name)))
        sheet.refuse("recipe", "what this recipe says stands in NeMo's source, not in this file",
                     tunes || wishes.model.empty() ? Changes::model : Changes::cost);
    const NemoRecipe* const known = map_recipe_model(sheet, wishes);
    const NemoRecipe* const by_name = find_nemo_recipe(name);
    const RecipeDegrees degrees = map_recipe_degrees(sheet, wishes);
    map_recipe_layout(sheet, wishes, known, degrees);
    sheet.copy(kRecipeTraining);
    map_recipe_precision(sheet);
    map_recipe_optimizer(sheet);
    map_recipe_overlap(sheet, by_name, degrees);
    map_recipe_adapters(sheet);
    sheet.put_usual("training.framework", "nemo", "NeMo");
    sheet.settle(nemo_recipe_ignored(), nemo_recipe_unsupported());
}

}  // namespace

bool is_nemo_recipe(std::string_view text) {
    const auto has = [&](const char* word) { return text.find(word) != std::string_view::npos; };
    return has("nemo_run") || has("nemo.collections") || (has("import") && has("pretrain_recipe"));
}

Imported import_nemo_recipe(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    try {
        if (!is_utf8(text)) throw PythonError(1, 1, "not text in UTF-8");
        const PythonScript script = run_python(text, make_nemo_object, is_recipe);
        const ObjectPointer recipe = chosen_recipe(script);
        RecipeSettings read;
        read.add(*recipe, "");
        read.settings.push_back({"recipe", recipe->of, recipe->line, false});
        Sheet sheet(file, read.settings, out);
        map_recipe(sheet, wishes, *recipe);
        mark_usual(read.usual, recipe_of_call(recipe->of), out);
        for (const Setting& part : read.made_elsewhere)
            out.unsupported.push_back({part.key, part.value, "what makes it stands in another file",
                                       part.key.rfind("model", 0) == 0 && wishes.model.empty()
                                           ? Changes::model
                                           : Changes::cost});
        note_unread(script, recipe, out);
    } catch (const PythonError& error) {
        Diagnostic fault;
        fault.code = "I001";
        fault.file = file;
        fault.line = error.line;
        fault.column = error.column;
        fault.message = error.what();
        out.errors.push_back(std::move(fault));
        out.unreadable = true;
    }
    return out;
}

}  // namespace orrery::plan::imports
