// Recipes of NeMo 2: what their own functions say, and what a program assigns over it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/scenario/import/nemo_recipe_table.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

constexpr const char* kImports =
    "import nemo_run as run\nimport torch\nfrom nemo import lightning as nl\n"
    "from nemo.collections import llm\n";

Imported program(const std::string& text, const std::string& model = "") {
    Wishes with_preset = wishes();
    with_preset.frameworks.insert("nemo");
    with_preset.model = model;
    const std::string whole = kImports + text;
    EXPECT_EQ(guess_format(whole, "recipe.py"), Format::nemo_recipe);
    return import_text(whole, "recipe.py", Format::nemo_recipe, with_preset);
}

// Lines behind a recipe of Llama 3 8B on one node.
Imported recipe(const std::string& lines) {
    return program("recipe = llm.llama3_8b.pretrain_recipe(num_nodes=1)\n" + lines +
                   "\nrun.run(recipe)\n");
}

std::string errors(const Imported& imported) {
    return format_text(imported.errors);
}

TEST(NemoRecipe, EachAttributeBecomesItsKey) {
    const Expectation all[] = {
        {"", "model", "\"models/llama3-8b.json\""},
        {"", "layout.data_parallel", "4"},  // 8 ranks, two of a context
        {"", "layout.context_algorithm", "\"ring\""},
        {"", "layout.zero_stage", "1"},
        {"", "layout.schedule", "\"1f1b\""},
        {"", "training.precision", "\"bf16\""},
        {"", "training.gradient_dtype", "\"fp32\""},
        {"", "training.framework", "\"nemo\""},
        {"recipe.trainer.strategy.tensor_model_parallel_size = 4", "layout.tensor_parallel", "4"},
        {"recipe.trainer.strategy.context_parallel_size = 1", "layout.data_parallel", "8"},
        {"recipe.trainer.strategy.sequence_parallel = True", "layout.sequence_parallel", "-"},
        {"s = recipe.trainer.strategy\ns.tensor_model_parallel_size = 2\ns.sequence_parallel = "
         "True",
         "layout.sequence_parallel", "true"},
        {"recipe.trainer.num_nodes = 2 * 4", "layout.data_parallel", "32"},
        {"recipe.data.global_batch_size = recipe.data.global_batch_size // 2",
         "layout.global_batch_size", "256"},
        {"recipe.data.global_batch_size += 8", "layout.global_batch_size", "520"},
        {"recipe.trainer.max_steps = 10", "training.tokens", "41943040"},  // 10 · 512 · 8192
        {"recipe.optim.config.use_distributed_optimizer = False", "layout.zero_stage", "0"},
        {"recipe.model.config.recompute_granularity = 'full'", "layout.recompute", "\"full\""},
        {"c = recipe.model.config\nc.recompute_granularity = \"full\"\nc.recompute_num_layers = 2",
         "layout.recompute_every", "2"},
        {"recipe.trainer.plugins.grad_reduce_in_fp32 = False", "training.gradient_dtype",
         "\"same\""},
        {"recipe.trainer.plugins.fp8 = 'hybrid'", "training.precision", "\"fp8\""},
        {"from nemo.x import bf16_with_fp8_mixed\nrecipe.trainer.plugins = bf16_with_fp8_mixed()",
         "training.fp8_recipe", "\"delayed\""},
        {"from nemo.x import bf16_with_fp8_mixed\nrecipe.trainer.plugins = bf16_with_fp8_mixed()",
         "training.fp8_param_gather", "true"},
        {"recipe.trainer.plugins.fp8 = 'hybrid'", "training.fp8_param_gather", "-"},
        {"recipe.trainer.strategy.pipeline_model_parallel_size = 2\n"
         "recipe.trainer.strategy.virtual_pipeline_model_parallel_size = 4",
         "layout.schedule", "\"interleaved\""},
        {"recipe.peft = run.Config(llm.peft.LoRA, dim=8)", "training.lora.rank", "8"},
        {"recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, "
         "tp_comm_overlap=True))\nrecipe.trainer.strategy.tensor_model_parallel_size = 2",
         "training.tensor_overlap_parts", "2"},
        {"recipe.trainer.val_check_interval = 100", "ignored", "evaluation"},
        {"recipe.log.ckpt.save_top_k = 1", "ignored", "logging"},
        {"recipe.trainer.strategy.fsdp = 'pytorch'", "unsupported", "zero_stage 3"},
        {"recipe.model.config.num_layers = 8", "unsupported", "--model"},
        {"recipe.trainer.strategy.expert_model_parallel_size = 4", "unsupported", "experts"},
        {"recipe.trainer.strategy.wrong_attribute = 4", "unsupported", "not known"},
    };
    for (const Expectation& row : all) {
        std::string name = row.text;
        name = name.substr(0, name.find(' '));
        if (name.rfind("recipe.", 0) == 0) name = name.substr(7);
        expect(recipe(row.text), row, name);
    }
}

TEST(NemoRecipe, SaysWhatTheRecipeItselfSays) {
    const Imported imported = recipe("recipe.data.micro_batch_size = 2");
    for (const Mapped& one : imported.mapped) {
        if (one.to == "layout.micro_batch_size") {
            EXPECT_FALSE(one.usual);
        }
        if (one.to != "training.sequence_length") continue;
        EXPECT_TRUE(one.usual);
        EXPECT_EQ(one.note, std::string("llama3_8b of ") + kNemoRelease);
    }
}

// The table's degrees and batches fit together on as many nodes as they need.
TEST(NemoRecipe, OfTheTableAreWhole) {
    for (const char* name :
         {"llama2_7b",    "llama3_8b",  "llama3_70b",       "llama31_8b",  "llama31_70b",
          "llama31_405b", "llama32_1b", "gemma_2b",         "gemma_7b",    "gemma2_9b",
          "gpt3_175b",    "mistral_7b", "mistral_nemo_12b", "qwen25_500m", "qwen25_1p5b",
          "qwen25_7b",    "qwen25_14b", "qwen25_32b",       "qwen25_72b",  "qwen3_600m",
          "qwen3_8b"}) {
        const NemoRecipe* const known = find_nemo_recipe(name);
        ASSERT_NE(known, nullptr) << name;
        const int nodes = (known->tensor * known->pipeline * known->context + 7) / 8;
        const Imported imported =
            program(fmt::format("r = llm.{}.pretrain_recipe(num_nodes={})\n", name, nodes));
        EXPECT_EQ(errors(imported), "") << name;
        EXPECT_EQ(imported.unsupported.size(), 0u) << name;
        EXPECT_EQ(at(imported, "model"), fmt::format("\"{}\"", known->model));
        EXPECT_EQ(at(imported, "layout.data_parallel"),
                  std::to_string(8 * nodes / (known->tensor * known->pipeline * known->context)));
    }
    // 126 layers, an embedding and a loss over 16 stages of 8.
    const Imported large = program("r = llm.llama31_405b.pretrain_recipe(num_nodes=32)\n");
    EXPECT_EQ(at(large, "layout.layers_per_stage"), "[7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7]");
}

TEST(NemoRecipe, FollowsFunctionsAndSettledConditions) {
    const Imported imported = program(
        "LARGE = True\n"
        "def configure(nodes: int = 1, gpus: int = 8, **more):\n"
        "    recipe = llm.llama3_70b.pretrain_recipe(num_nodes=nodes, num_gpus_per_node=gpus)\n"
        "    if LARGE and nodes > 2:\n"
        "        recipe.data.global_batch_size = 64 * nodes\n"
        "    else:\n"
        "        recipe.data.global_batch_size = 1\n"
        "    return recipe\n"
        "def main():\n"
        "    recipe = configure(nodes=8)\n"
        "    recipe.trainer.strategy.context_parallel_size = 1 if LARGE else 2\n"
        "    with run.Experiment('x') as exp:\n"
        "        exp.add(recipe, executor=run.LocalExecutor(), name='y')\n"
        "if __name__ == '__main__':\n"
        "    main()\n");
    EXPECT_EQ(errors(imported), "");
    EXPECT_EQ(at(imported, "layout.global_batch_size"), "512");
    EXPECT_EQ(at(imported, "layout.data_parallel"), "4");  // 64 / (4 · 4 · 1)
    EXPECT_EQ(imported.unsupported.size(), 0u);
}

TEST(NemoRecipe, ReadsOnesOfOnesOwn) {
    const char* const own =
        "recipe = run.Partial(llm.pretrain,\n"
        "    model=run.Config(llm.LlamaModel, config=run.Config(llm.Llama3Config70B)),\n"
        "    trainer=run.Config(nl.Trainer, devices=8, num_nodes=4, max_steps=10,\n"
        "        strategy=run.Config(nl.MegatronStrategy, tensor_model_parallel_size=4,\n"
        "            pipeline_model_parallel_size=2, pipeline_dtype=torch.bfloat16),\n"
        "        plugins=nl.MegatronMixedPrecision(precision='bf16-mixed')),\n"
        "    data=run.Config(llm.MockDataModule, seq_length=4096, global_batch_size=64,\n"
        "        micro_batch_size=1))\n";
    const Imported imported = program(own);
    EXPECT_EQ(errors(imported), "");
    EXPECT_EQ(at(imported, "model"), "\"models/llama3-70b.json\"");
    EXPECT_EQ(at(imported, "layout.data_parallel"), "4");
    EXPECT_EQ(at(imported, "training.precision"), "\"bf16\"");
    EXPECT_EQ(at(imported, "layout.zero_stage"), "0");
    EXPECT_EQ(imported.unsupported.size(), 0u);
    EXPECT_TRUE(missing(imported, "cluster"));
    const Imported shape = program(
        "config = llm.GPTConfig(num_layers=4, hidden_size=256, num_attention_heads=4,\n"
        "    seq_length=128)\n"
        "llm.train(model=llm.GPTModel(config), data=llm.MockDataModule(seq_length=128,\n"
        "    global_batch_size=8, micro_batch_size=1), trainer=nl.Trainer(devices=8,\n"
        "    strategy=nl.MegatronStrategy()))\n");
    EXPECT_EQ(errors(shape), "");
    EXPECT_EQ(at(shape, "model.num_layers"), "4");
    EXPECT_TRUE(missing(shape, "model.vocab_size"));
}

TEST(NemoRecipe, GuessesNothing) {
    // Of the program's arguments, of a loop, of a condition that only a run settles.
    for (const char* line :
         {"recipe.data.global_batch_size = args.batch", "recipe.data.global_batch_size = int(x)",
          "for b in batches:\n    recipe.data.global_batch_size = b",
          "if args.large:\n    recipe.data.global_batch_size = 1024"}) {
        const Imported imported = recipe(line);
        EXPECT_NE(errors(imported).find("I003"), std::string::npos) << line;
        EXPECT_NE(errors(imported).find("data.global_batch_size"), std::string::npos) << line;
    }
    // A function of another file may change anything.
    const Imported handed = recipe("apply_site_defaults(recipe)");
    ASSERT_EQ(handed.unsupported.size(), 1u);
    EXPECT_EQ(handed.unsupported[0].key, "line 6");
    EXPECT_EQ(handed.unsupported[0].value, "apply_site_defaults(recipe)");
    const Imported elsewhere = recipe("recipe.trainer = make_trainer()");
    ASSERT_NE(left(elsewhere.unsupported, "trainer"), nullptr);
    // Recipes that are not known, and what trains a part of the weights.
    for (const char* call :
         {"llm.some_model.pretrain_recipe()", "llm.llama3_8b.finetune_recipe()"}) {
        const Imported unknown = program(std::string("r = ") + call + "\nrun.run(r)\n");
        ASSERT_NE(left(unknown.unsupported, "recipe"), nullptr) << call;
        EXPECT_EQ(left(unknown.unsupported, "recipe")->changes, Changes::model);
    }
    EXPECT_NE(errors(program("x = 1\n")).find("nothing here makes a recipe"), std::string::npos);
    EXPECT_NE(errors(program("run.run(llm.llama3_8b.pretrain_recipe())\n"
                             "run.run(llm.llama3_70b.pretrain_recipe())\n"))
                  .find("2 recipes are made, in lines 5 and 6"),
              std::string::npos);
}

TEST(Python, FaultsAreSaidWithTheirPlace) {
    const struct {
        const char* text;
        int line;
        const char* what;
    } all[] = {
        {"x = (1,\n", 1, "( is not closed"},
        {"x = 'a\n", 1, "string is not closed"},
        {"if x:\ny = 1\n", 1, "block is missing"},
        {"if x\n    y = 1\n", 1, ": is missing"},
        {"x = 1\n  y = 2\n", 2, "unexpected indent"},
        {"x = ]\n", 1, "closes nothing"},
        {"x = $y\n", 1, "begins nothing"},
    };
    for (const auto& one : all) {
        try {
            read_python(one.text);
            ADD_FAILURE() << one.text;
        } catch (const PythonError& error) {
            EXPECT_NE(std::string(error.what()).find(one.what), std::string::npos)
                << one.text << ": " << error.what();
            EXPECT_LE(error.line, one.line + 1) << one.text;
        }
    }
}

// Deep or long texts end in an error, not in the stack's end.
TEST(Python, TextsOfAnyShapeEnd) {
    const auto ends = [](const std::string& text) {
        try {
            run_python(text, nullptr, [](const PythonObject&) { return false; });
        } catch (const PythonError&) {
        }
    };
    ends(std::string(100'000, '('));
    ends("x = " + std::string(90, '(') + "1" + std::string(90, ')') + "\n");
    ends("x = " + std::string(10'000, '-') + "1\n");
    ends("x = " + std::string(10'000, '~') + "1\n");
    std::string nots = "x = ";
    for (int i = 0; i < 10'000; ++i)
        nots += "not ";
    ends(nots + "y\n");
    ends("def f():\n    f()\nf()\n");
    ends("def f():\n    f()\n    f()\nf()\n");
    std::string indent, blocks;
    for (int i = 0; i < 200; ++i, indent += ' ')
        blocks += indent + "if x:\n";
    ends(blocks + indent + "y = 1\n");
    std::string attributes = "x = a";
    for (int i = 0; i < 5'000; ++i)
        attributes += ".b";
    ends(attributes + " = 1\n");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
