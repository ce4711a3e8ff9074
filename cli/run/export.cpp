// orrery export: a checkpoint's weights as a folder of Hugging Face.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/run_subcommands.hpp"
#include "plan/exit_code.hpp"
#include "runtime/checkpoint/hugging_face.hpp"
#include "runtime/checkpoint/newest_checkpoint.hpp"

namespace orrery::cli {
namespace {

using ConfigJson = nlohmann::ordered_json;

// Names of safetensors by those of PyTorch, which config.json has.
const std::vector<std::pair<std::string, std::string>> kExportTypes = {
    {"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}};

std::int64_t number_at(const ConfigJson& model, const char* key) {
    return model.value(key, std::int64_t{0});
}

// What low-rank adapters add to the weights beside them: alpha/rank · B·A (training.lora).
class MergedAdapters {
  public:
    explicit MergedAdapters(const runtime::CheckpointReader& checkpoint) : checkpoint_(checkpoint) {
        const ConfigJson scenario = ConfigJson::parse(checkpoint.manifest().scenario);
        const ConfigJson::json_pointer lora("/training/lora");
        if (!scenario.contains(lora)) return;
        const ConfigJson& said = scenario.at(lora);
        if (!said.is_object() || !said.value("rank", ConfigJson()).is_number_unsigned() ||
            !said.value("alpha", ConfigJson()).is_number())
            throw runtime::DataError(checkpoint.path(),
                                     "the adapters in its manifest are not as a "
                                     "scenario resolves them");
        rank_ = said["rank"].get<std::int64_t>();
        factor_ = said["alpha"].get<double>() / static_cast<double>(rank_);
    }

    static bool is_one(const std::string& tensor) {
        return tensor.ends_with(kA) || tensor.ends_with(kB);
    }

    // Elements of a weight from number `first` on.
    void add_to(const std::string& weight, std::int64_t first, std::span<double> values) {
        const auto& tensors = checkpoint_.manifest().tensors;
        const std::string linear = weight.substr(0, weight.rfind(".weight"));
        const auto a = tensors.find(linear + kA);
        if (rank_ == 0 || a == tensors.end()) return;
        const std::int64_t width = a->second.at(1);
        if (linear != read_) {  // weights are written one after another
            low_ = whole(linear + kA);
            up_ = whole(linear + kB);
            read_ = linear;
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::int64_t at = first + static_cast<std::int64_t>(i);
            double sum = 0;
            for (std::int64_t r = 0; r < rank_; ++r)
                sum += up_[static_cast<std::size_t>(at / width * rank_ + r)] *
                       low_[static_cast<std::size_t>(r * width + at % width)];
            values[i] += factor_ * sum;
        }
    }

  private:
    static constexpr char kA[] = ".lora_A", kB[] = ".lora_B";

    std::vector<double> whole(const std::string& tensor) const {
        std::vector<double> values(static_cast<std::size_t>(
            runtime::elements_of(checkpoint_.manifest().tensors.at(tensor))));
        checkpoint_.read(tensor, runtime::Quantity::weight, 0, values);
        return values;
    }

    const runtime::CheckpointReader& checkpoint_;
    std::int64_t rank_ = 0;
    double factor_ = 0;
    std::string read_;  // the linear whose A and B are at hand
    std::vector<double> low_, up_;
};

class Export : public Subcommand {
  public:
    std::string name() const override { return kExport.name; }
    std::string summary() const override { return kExport.summary; }
    std::vector<std::string> examples() const override {
        return {kExport.example, "export saved/step-00000100 --hf my-model --dtype bfloat16"};
    }

    void declare(CLI::App& app) override {
        CLI::Option* checkpoint =
            app.add_option("CHECKPOINT", checkpoint_,
                           "A checkpoint, or the folder of a run's, of which the newest is taken")
                ->required();
        files().reads(checkpoint, [this] {
            return std::vector{checkpoint_, runtime::newest_checkpoint(checkpoint_).path()};
        });
        const auto foreign = [this](const std::string& folder) { return foreign_in(folder); };
        files()
            .writes(app, "--hf", folder_, {true, foreign}, "The folder of Hugging Face to write")
            ->type_name("DIR")
            ->required();
        std::vector<std::string> types;
        for (const auto& [type, stored] : kExportTypes)
            types.push_back(type);
        app.add_option("--dtype", type_, "Type of the weights: float32, bfloat16, float16")
            ->type_name("NAME")
            ->check(CLI::IsMember(types));
    }

    int run(Console& console) override {
        const runtime::CheckpointReader checkpoint = runtime::newest_checkpoint(checkpoint_);
        for (std::size_t shard = 0; shard < checkpoint.manifest().shards.size(); ++shard)
            checkpoint.verify_shard(shard);
        const ConfigJson model = model_in(checkpoint);
        runtime::HuggingFaceModel named = named_model(model, checkpoint.path());
        MergedAdapters adapters(checkpoint);
        std::vector<runtime::NamedShape> parameters;
        for (const auto& [tensor, shape] : checkpoint.manifest().tensors)
            if (!MergedAdapters::is_one(tensor)) parameters.push_back({tensor, shape});
        named.experts = runtime::experts_of(parameters);
        runtime::write_hugging_face(
            runtime::disk_files(), folder_.path(), config_of(model, named.family), named,
            parameters, stored_type(),
            [&](const std::string& parameter, std::int64_t first, std::span<double> values) {
                checkpoint.read(parameter, runtime::Quantity::weight, first, values);
                adapters.add_to(parameter, first, values);
            });
        console.out << fmt::format("{}: {} of step {} as {}\n", folder_.typed(), named.family,
                                   checkpoint.manifest().progress.step, type_);
        return kExitOk;
    }

  private:
    // What a folder has that an export of this checkpoint's model would not write there.
    std::string foreign_in(const std::string& folder) const {
        const runtime::CheckpointReader checkpoint = runtime::newest_checkpoint(checkpoint_);
        const ConfigJson model = model_in(checkpoint);
        return runtime::foreign_to_export(
            folder, config_of(model, named_model(model, checkpoint.path()).family));
    }

    static ConfigJson model_in(const runtime::CheckpointReader& checkpoint) {
        const ConfigJson scenario = ConfigJson::parse(checkpoint.manifest().scenario);
        const ConfigJson model = scenario.value("model", ConfigJson());
        const auto is_of = [&](const char* key, auto right) {
            return !model.contains(key) || right(model[key]);
        };
        const auto natural = [](const ConfigJson& value) { return value.is_number_unsigned(); };
        if (!model.is_object() ||
            !is_of("model_type", [](const ConfigJson& value) { return value.is_string(); }) ||
            !is_of("num_attention_heads", natural) || !is_of("num_key_value_heads", natural) ||
            !is_of("head_dim", natural))
            throw runtime::DataError(checkpoint.path(),
                                     "the model in its manifest is not as a scenario resolves one");
        return model;
    }

    static runtime::HuggingFaceModel named_model(const ConfigJson& model, const std::string& path) {
        runtime::HuggingFaceModel named;
        named.family = model.value("model_type", std::string());
        const std::vector<std::string> families = runtime::hugging_face_families();
        if (std::find(families.begin(), families.end(), named.family) == families.end())
            throw runtime::DataError(
                path, fmt::format("a model of family {} cannot be exported; of {} one can",
                                  named.family, fmt::join(families, ", ")));
        named.q_rows = number_at(model, "num_attention_heads") * number_at(model, "head_dim");
        named.kv_rows = number_at(model, "num_key_value_heads") * number_at(model, "head_dim");
        return named;
    }

    std::string stored_type() const {
        for (const auto& [type, stored] : kExportTypes)
            if (type == type_) return stored;
        return "F32";
    }

    // What the scenario resolved the model to, whose keys are Hugging Face's.
    std::string config_of(const ConfigJson& model, const std::string& family) const {
        ConfigJson config = {{"architectures", {runtime::hugging_face_architecture(family)}}};
        for (const auto& [key, value] : model.items())
            if (key != "name" && key != "source" && key != "architectures") config[key] = value;
        config[runtime::kHuggingFaceType] = type_;
        return config.dump(2, ' ', false, ConfigJson::error_handler_t::replace) + "\n";
    }

    std::string checkpoint_;
    OutputPath folder_;
    std::string type_ = "float32";
};

}  // namespace

std::unique_ptr<Subcommand> export_command() {
    return std::make_unique<Export>();
}

}  // namespace orrery::cli
