// Configs of DeepSpeed that a script writes itself, beside the options of its program.
#include <gtest/gtest.h>

#include "plan/scenario/import/shell_script.hpp"
#include "tests/plan/import/imports.hpp"

namespace orrery::plan::imports {
namespace ORRERY_TEST_FILE {

constexpr const char* kSizes =
    " --num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128"
    " --max-position-embeddings 128 --vocab-size 1000 --micro-batch-size 2"
    " --global-batch-size 64 --bf16";

// A script that writes `config` and starts Megatron's program with it on 8 ranks.
Imported with_config(const std::string& config, const std::string& options = "",
                     const std::string& before = "") {
    const std::string script = before + "cat <<EOT > ds.json\n" + config +
                               "\nEOT\ndeepspeed --num_gpus 8 pretrain_gpt.py" + kSizes +
                               " --deepspeed --deepspeed_config ds.json " + options + '\n';
    return import_text(script, "run.sh", Format::megatron, wishes());
}

std::string errors(const Imported& imported) {
    return format_text(imported.errors);
}

TEST(DeepSpeedScript, ReadsTheConfigThatItWrites) {
    const Imported imported = with_config(
        R"({"train_batch_size": $GB, "train_micro_batch_size_per_gpu": ${MB:-2},
            "zero_optimization": {"stage": $((ZERO + 1)), "reduce_bucket_size": 2e8},
            "bf16": {"enabled": true}, "gradient_clipping": 1.0, "steps_per_print": 10})",
        "--clip-grad 0.5 --zero-stage 2", "GB=64\nZERO=1\n");
    EXPECT_EQ(errors(imported), "");
    EXPECT_EQ(at(imported, "layout.zero_stage"), "2");
    EXPECT_EQ(at(imported, "layout.global_batch_size"), "64");
    EXPECT_EQ(at(imported, "layout.micro_batch_size"), "2");
    EXPECT_EQ(at(imported, "layout.data_parallel"), "8");
    EXPECT_EQ(at(imported, "training.gradient_bucket_mb"), "400");  // 2e8 · 2 bytes
    EXPECT_EQ(at(imported, "training.precision"), "\"bf16\"");
    EXPECT_EQ(at(imported, "training.framework"), "-");  // no preset of the test's library
    // DeepSpeed clips by its config, whatever the program's option says.
    EXPECT_EQ(at(imported, "training.optimizer.clip_norm"), "1");
    ASSERT_NE(left(imported.ignored, "--clip-grad"), nullptr);
    EXPECT_NE(left(imported.ignored, "--clip-grad")->why.find("gradient_clipping"),
              std::string::npos);
    EXPECT_EQ(imported.unsupported.size(), 0u);
}

TEST(DeepSpeedScript, IsOneWithTheOptionsOrSaysWhereNot) {
    const Imported differs = with_config(R"({"train_micro_batch_size_per_gpu": 4})");
    EXPECT_NE(errors(differs).find("--micro-batch-size and train_micro_batch_size_per_gpu"),
              std::string::npos)
        << errors(differs);
    EXPECT_NE(errors(differs).find("--micro-batch-size = 2, train_micro_batch_size_per_gpu = 4"),
              std::string::npos);
    const Imported batches = with_config(
        R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})", "", "X=1\n");
    EXPECT_EQ(errors(batches), "");
}

TEST(DeepSpeedScript, NamesWhatTheTextDoesNotSettle) {
    const Imported open = with_config(R"({"zero_optimization": {"stage": $STAGE}})");
    EXPECT_NE(errors(open).find("I003"), std::string::npos);
    EXPECT_NE(errors(open).find("zero_optimization.stage"), std::string::npos);
    EXPECT_NE(errors(open).find("$STAGE"), std::string::npos);
    // In what changes no step an open value harms nothing.
    const Imported harmless =
        with_config(R"({"tensorboard": {"job_name": "run-$JOB"}, "steps_per_print": $N})");
    EXPECT_EQ(errors(harmless), "");
    EXPECT_EQ(left(harmless.ignored, "tensorboard.job_name")->value, "run-$JOB");
    const Imported unsure = import_text(
        "if [ \"$BIG\" ]; then\ncat > ds.json <<E\n{}\nE\nfi\n"
        "deepspeed --num_gpus 8 pretrain_gpt.py" +
            std::string(kSizes) + " --deepspeed --deepspeed_config ds.json\n",
        "run.sh", Format::megatron, wishes());
    ASSERT_NE(left(unsure.unsupported, "--deepspeed_config"), nullptr);
    EXPECT_NE(left(unsure.unsupported, "--deepspeed_config")->why.find("line 3"),
              std::string::npos);
}

TEST(DeepSpeedScript, ReadsTheConfigBesideIt) {
    Wishes beside = wishes();
    beside.beside = [](const std::string& name) {
        return name == "conf/ds.json"
                   ? std::optional<std::string>(R"({"zero_optimization": {"stage": 1}})")
                   : std::nullopt;
    };
    const std::string program = "deepspeed --num_gpus 8 pretrain_gpt.py" + std::string(kSizes);
    const Imported read = import_text(program + " --deepspeed --deepspeed_config conf/ds.json",
                                      "run.sh", Format::megatron, beside);
    EXPECT_EQ(errors(read), "");
    EXPECT_EQ(at(read, "layout.zero_stage"), "1");
    const Imported none =
        import_text(program + " --deepspeed --deepspeed_config other.json --zero-stage 3", "run.sh",
                    Format::megatron, beside);
    EXPECT_EQ(at(none, "layout.zero_stage"), "3");  // as the program's own option has it
    EXPECT_NE(left(none.unsupported, "--deepspeed_config"), nullptr);
    // Without the switch its engine is not there.
    const Imported off = import_text(program + " --deepspeed_config conf/ds.json", "run.sh",
                                     Format::megatron, beside);
    EXPECT_EQ(at(off, "layout.zero_stage"), "0");
    EXPECT_NE(left(off.ignored, "--deepspeed_config"), nullptr);
}

// transformers/integrations/deepspeed.py: what is "auto" is the program's.
TEST(DeepSpeedScript, FillsWhatIsAutomaticFromTheProgram) {
    const auto import = [](const std::string& options) {
        return import_text(
            "cat > ds.json <<'E'\n"
            R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"},
                "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4})"
            "\nE\ntorchrun --nproc_per_node 4 --nnodes 2 train.py --deepspeed ds.json " +
                options,
            "run.sh", Format::megatron, wishes());
    };
    const Imported imported = import(
        "--per_device_train_batch_size 2 --bf16 True --model_name_or_path org/Model "
        "--max_seq_length 4096 --gradient_checkpointing --output_dir out");
    EXPECT_EQ(errors(imported), "");
    EXPECT_EQ(at(imported, "model"), "\"org/Model\"");
    EXPECT_EQ(at(imported, "layout.micro_batch_size"), "2");
    EXPECT_EQ(at(imported, "layout.global_batch_size"), "64");  // 2 · 4 · 8 ranks
    EXPECT_EQ(at(imported, "layout.data_parallel"), "8");
    EXPECT_EQ(at(imported, "layout.recompute"), "\"full\"");
    EXPECT_EQ(at(imported, "training.precision"), "\"bf16\"");
    EXPECT_EQ(at(imported, "training.sequence_length"), "4096");
    EXPECT_EQ(imported.unsupported.size(), 0u);
    const Imported differs = import("--gradient_accumulation_steps 8");
    EXPECT_NE(errors(differs).find("--gradient_accumulation_steps = \"8\", "
                                   "gradient_accumulation_steps = 4"),
              std::string::npos)
        << errors(differs);
    const Imported unfilled = import("--max_grad_norm 1.0");  // no gradient_clipping is "auto"
    ASSERT_NE(left(unfilled.unsupported, "--max_grad_norm"), nullptr);
    EXPECT_NE(left(unfilled.unsupported, "--max_grad_norm")->why.find("gradient_clipping"),
              std::string::npos);
    const Imported lora = import("--lora_r 8");
    ASSERT_NE(left(lora.unsupported, "--lora_r"), nullptr);
    EXPECT_EQ(left(lora.unsupported, "--lora_r")->changes, Changes::model);
}

// --- the files of a script

const WrittenFile* file_of(const ShellScript& script, const std::string& name) {
    for (const WrittenFile& file : script.files)
        if (file.name.text == name) return &file;
    return nullptr;
}

TEST(WrittenFiles, HoldWhatAShellWouldWrite) {
    const ShellScript script = read_shell(
        "A=1\ncat <<EOF > one\n$A \"$A\" '${A}' \\$A \\\\ `date`\nEOF\n"
        "cat > two <<'EOF'\n$A\nEOF\ntee -a two <<-EOF\n\tmore $A\n\tEOF\n"
        "echo '{\"a\": 1}' > three\necho more >> three\necho not >&2\ncat one > four\n");
    ASSERT_NE(file_of(script, "one"), nullptr);
    EXPECT_EQ(file_of(script, "one")->text,
              "1 \"1\" '1' $A \\ " + std::string(kOpens) + "`date`" + std::string(kCloses) + "\n");
    EXPECT_EQ(file_of(script, "two")->text, "$A\nmore 1\n");
    EXPECT_EQ(file_of(script, "three")->text, "{\"a\": 1}\nmore\n");
    EXPECT_EQ(file_of(script, "four"), nullptr);
    EXPECT_EQ(script.files.size(), 3u);
}

TEST(WrittenFiles, OfBranchesAreCertainWhereTheBranchIs) {
    const ShellScript script = read_shell(
        "S=3\nif [ $S -eq 3 ]; then\ncat > a <<E\nthree\nE\nelse\ncat > a <<E\nother\nE\nfi\n"
        "for x in 1 2; do\ncat > b <<E\n$x\nE\ndone\n");
    EXPECT_EQ(file_of(script, "a")->text, "three\n");
    EXPECT_TRUE(file_of(script, "a")->certain);
    EXPECT_FALSE(file_of(script, "b")->certain);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan::imports
