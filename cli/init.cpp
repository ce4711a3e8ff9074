// orrery init: a first scenario of a model, a kind of GPU and how many of them: the cluster is one
// of the library's, the layout is searched, and what nobody said is said to be assumed.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "cli/completed_values.hpp"
#include "cli/layout_search.hpp"
#include "cli/library.hpp"
#include "cli/library_clusters.hpp"
#include "cli/output_kinds.hpp"
#include "cli/progress.hpp"
#include "cli/quantity.hpp"
#include "cli/subcommand.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/files.hpp"
#include "plan/schedule/schedule.hpp"
#include "trace/atomic_file.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// What large runs of 2020 to 2025 are near: GPT-3 3.2 million tokens a step (Brown et al. 2020,
// table 2.1), Llama 2 and OLMo 2 4 million (Touvron et al. 2023), Llama 3 8 million, later 16
// (Llama team 2024, 3.4.1).
constexpr double kTokensOfAStep = 4'194'304;
constexpr std::int64_t kUsualSequence = 4096;
constexpr double kSurely = 0.9;        // as `simulate` says "fits"
constexpr std::size_t kLookedAt = 10;  // of the fastest layouts
constexpr double kAsGood = 0.01;       // by how much longer a step may take than the fastest

// The devices of the library that a word means: the one of this name, or with this and "-sxm", else
// all that have it in theirs.
std::set<std::string> devices_meant(const std::vector<LibraryCluster>& clusters, std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::set<std::string> all, having;
    for (const LibraryCluster& one : clusters) {
        all.insert(one.cluster.device);
        if (one.cluster.device.find(word) != std::string::npos) having.insert(one.cluster.device);
    }
    for (const std::string& exact : {word, word + "-sxm"})
        if (all.contains(exact)) return {exact};
    return having.empty() ? all : having;
}

std::string listed(const std::set<std::string>& words) {
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : ", ") + word;
    return text;
}

// Sequences of a step that are near kTokensOfAStep and that powers of two times the odd part of
// `gpus` divide, so that layouts have whole micro-batches.
std::int64_t usual_batch(std::int64_t sequence_length, std::int64_t gpus) {
    std::int64_t odd = gpus;
    while (odd % 2 == 0)
        odd /= 2;
    const double wanted = kTokensOfAStep / static_cast<double>(sequence_length);
    const double doublings =
        std::round(std::log2(std::max(1.0, wanted / static_cast<double>(odd))));
    return odd << static_cast<int>(doublings);
}

class Init : public Subcommand {
  public:
    std::string name() const override { return "init"; }
    std::string summary() const override {
        return "Write a first scenario of a model, a GPU type and a number of GPUs";
    }
    std::vector<std::string> examples() const override {
        return {"init llama3-70b --gpu h100 --gpus 256 -o run.json",
                "init path/to/config.json --gpu a100-80gb-sxm --gpus 64 --sequence-length 8192",
                "init gpt3-175b --cluster clusters/selene-a100-3072.json --gpus 1024"};
    }

    void declare(CLI::App& app) override {
        files().reads(app.add_option("MODEL", model_,
                                     "A model of the library (orrery list models), a config.json "
                                     "of Hugging Face, its folder, or org/name of the local cache")
                          ->required()
                          ->option_text(" ")
                          ->check(completed_by(WordSource::models)));
        CLI::Option* gpu =
            app.add_option("--gpu", gpu_, "Type of the GPUs: h100, a100-80gb-sxm, mi300x, …")
                ->type_name("WORD")
                ->check(completed_by(WordSource::devices));
        CLI::Option* cluster =
            app.add_option("--cluster", cluster_,
                           "A cluster of the library, or a file, instead of --gpu")
                ->type_name("NAME")
                ->check(completed_by(WordSource::clusters));
        files().reads(cluster);
        gpu->excludes(cluster);
        app.add_option("--gpus", gpus_, "How many; else those of the cluster")
            ->type_name("N")
            ->check(CLI::PositiveNumber);
        app.add_option("--sequence-length", sequence_length_, "Tokens of a sequence")
            ->type_name("N")
            ->check(CLI::PositiveNumber);
        app.add_option("--global-batch", batch_, "Sequences of a step, of all ranks")
            ->type_name("N")
            ->check(CLI::PositiveNumber);
        app.add_option("--tokens", tokens_, "Of the whole run, for its days and cost")
            ->type_name("N")
            ->check(CLI::PositiveNumber);
        app.add_option("--framework", framework_,
                       "The training stack (orrery list frameworks); else the device's usual one")
            ->type_name("NAME")
            ->check(completed_by(WordSource::frameworks));
        files()
            .writes(app, "-o,--output", output_, scenario_output(),
                    "Write the scenario there, not to standard output")
            ->type_name("OUT");
    }

    int run(Console& console) override {
        if (gpu_.empty() && cluster_.empty())
            throw UsageError("--gpu WORD or --cluster NAME is needed: " +
                             listed(devices_meant(library_clusters(), "")));
        const Json draft = drafted();
        ScenarioInput input;
        input.file = output_.empty() ? "scenario.json" : output_.typed();
        input.given = draft.dump(1);
        const LayoutSearch search = layout_search(input, {});
        if (!search.errors.empty()) {
            console.err << plan::format_text(search.errors);
            return search.unreadable ? kExitUnreadable : kExitInvalidScenario;
        }
        Progress progress(console, name(), "pricing layouts");
        sim::SearchOptions how;
        how.top = kLookedAt;
        how.progress = [&](double done) { progress.at(done); };
        // What surely fits; where nothing does, what may.
        how.least_fit_probability = kSurely;
        sim::SearchResult found = sim::search(search.bases, how);
        if (found.layouts.empty()) {
            how.least_fit_probability = sim::SearchOptions{}.least_fit_probability;
            found = sim::search(search.bases, how);
        }
        if (found.layouts.empty()) return refuse(found, console);
        write(draft, chosen(found.layouts), console);
        return kExitOk;
    }

  private:
    // As a scenario names it: with its folder and ending where it is of the library.
    std::string model_reference() const {
        if (plan::disk().is_file(model_) ||
            plan::disk().is_file((fs::path(model_) / "config.json").string()))
            return placed(model_);
        const std::vector<std::string> names = library_names(LibraryKind::models, "");
        for (const std::string& reference : names)
            if (reference == model_ || file_name(reference) == model_ ||
                file_name(reference) == model_ + ".json")
                return reference;
        if (model_.find('/') != std::string::npos) return model_;  // the reader says what it is
        throw UsageError(fmt::format(
            "{}: no model of the library, and no file; nearest: {}; orrery list models has all",
            model_, nearest_in_library(LibraryKind::models, model_)));
    }

    // A file is referred to from where the scenario will stand.
    std::string placed(const std::string& path) const {
        if (fs::path(path).is_absolute() || output_.empty()) return path;
        const fs::path folder = fs::absolute(output_.path()).parent_path();
        return fs::absolute(path).lexically_relative(folder).string();
    }

    LibraryCluster chosen_cluster() const {
        if (!cluster_.empty()) {
            std::string why;
            const auto scenario = probe(LibraryKind::clusters, cluster_, why);
            if (!scenario) throw UsageError(fmt::format("--cluster {}: {}", cluster_, why));
            return {plan::disk().is_file(cluster_) ? placed(cluster_) : cluster_,
                    scenario->cluster};
        }
        const std::vector<LibraryCluster> all = library_clusters();
        const std::set<std::string> devices = devices_meant(all, gpu_);
        if (devices.size() > 1)
            throw UsageError(fmt::format("--gpu {}: which of {}?", gpu_, listed(devices)));
        const LibraryCluster* best = nearest_cluster(all, devices, gpus_);
        if (best == nullptr)
            throw UsageError(fmt::format(
                "--gpus {}: the library has no network between nodes of {}; --cluster FILE says "
                "one",
                *gpus_, *devices.begin()));
        return *best;
    }

    // The chosen one with as many devices as were asked for.
    Json sized(const LibraryCluster& chosen) const {
        if (!gpus_) return chosen.reference;
        const std::string here =
            fs::path(chosen.reference).is_absolute() || plan::disk().is_file(cluster_)
                ? cluster_
                : library_folder() + '/' + chosen.reference;
        Json cluster = cluster_of_size(chosen, here, *gpus_);
        if (!cluster.is_null()) return cluster;
        const auto [fewer, more] = nearest_sizes(chosen.cluster, *gpus_);
        throw UsageError(fmt::format("--gpus {}: nodes of {} have {} GPUs; nearest: {} and {}",
                                     *gpus_, chosen.reference, chosen.cluster.devices_per_node,
                                     fewer, more));
    }

    Json drafted() {
        const LibraryCluster chosen = chosen_cluster();
        const std::int64_t gpus = gpus_.value_or(chosen.cluster.devices());
        Json draft = {{"model", model_reference()}, {"cluster", sized(chosen)}};
        if (!sequence_length_) {
            sequence_length_ = kUsualSequence;
            std::string why;
            const auto scenario = probe(LibraryKind::models, draft["model"], why);
            if (scenario && scenario->model.learned_positions)
                sequence_length_ = std::min(*sequence_length_, scenario->model.max_positions);
            assumed_.push_back(fmt::format("training.sequence_length {}", *sequence_length_));
        }
        if (!batch_) {
            batch_ = usual_batch(*sequence_length_, gpus);
            assumed_.push_back(
                fmt::format("layout.global_batch_size {} ({} tokens a step)", *batch_,
                            counted_text(static_cast<double>(*batch_ * *sequence_length_))));
        }
        draft["layout"] = {{"global_batch_size", *batch_}};
        draft["training"] = {{"sequence_length", *sequence_length_}};
        if (tokens_) draft["training"]["tokens"] = *tokens_;
        std::string framework = framework_;
        if (framework.empty()) {
            framework = usual_framework(chosen.cluster.device);
            assumed_.push_back("training.framework " + framework);
        }
        if (!framework_.empty() || framework != plan::Framework{}.name)
            draft["training"]["framework"] = framework;
        return draft;
    }

    int refuse(const sim::SearchResult& found, Console& console) const {
        console.err << "orrery init: no layout fits";
        if (!found.nearest.empty())
            console.err << fmt::format("; the one that needs least takes {} of each GPU",
                                       bytes_text(found.nearest.front().peak_bytes));
        console.err << "; more GPUs, a smaller --global-batch or --sequence-length may\n";
        return kExitInfeasible;
    }

    // As good as the fastest, one that every stack can run and a person can change: stages alike,
    // and dealt to the ranks in turn.
    static const sim::FoundLayout& chosen(const std::vector<sim::FoundLayout>& found) {
        const double most = (1 + kAsGood) * found.front().prediction.step.time_s;
        const auto usual =
            std::find_if(found.begin(), found.end(), [&](const sim::FoundLayout& one) {
                const plan::Layout& layout = one.scenario.layout;
                const auto& layers = layout.layers_per_stage;
                return one.prediction.step.time_s <= most &&
                       plan::find_schedule(layout.schedule)->placement == plan::Placement::wrap &&
                       std::count(layers.begin(), layers.end(), layers.front()) ==
                           static_cast<std::ptrdiff_t>(layers.size());
            });
        return usual == found.end() ? found.front() : *usual;
    }

    // The draft with the layout's keys that are not their defaults.
    void write(const Json& draft, const sim::FoundLayout& best, Console& console) const {
        Json scenario = {{"description",
                          fmt::format("{} on {} x {}: the layout is the fastest that orrery search "
                                      "found, or within {:.0f} % of it",
                                      best.scenario.model.name, best.scenario.cluster.devices(),
                                      best.scenario.cluster.device, 100 * kAsGood)}};
        scenario.update(draft);
        for (const std::string& set : best.sets) {
            const std::size_t equals = set.find('=');
            const std::string key =
                set.substr(std::string("layout.").size(), equals - std::string("layout.").size());
            const Json value = Json::parse(set.substr(equals + 1), nullptr, false);
            scenario["layout"][key] = value.is_discarded() ? Json(set.substr(equals + 1)) : value;
        }
        const std::string text = scenario.dump(2) + '\n';
        if (output_.empty())
            console.out << text;
        else
            trace::write_file(output_.path(), text);
        const sim::Prediction& prediction = best.prediction;
        console.err << fmt::format(
            "{}: {} a step, {} MFU, {} of {} of each GPU\n",
            scenario["description"].get<std::string>(), seconds_text(prediction.step.time_s),
            percent_text(prediction.throughput.mfu),
            bytes_text(static_cast<double>(prediction.memory.worst().peak_bytes)),
            bytes_text(static_cast<double>(prediction.memory.capacity_bytes)));
        for (const std::string& one : assumed_)
            console.err << "assumed: " << one << '\n';
    }

    std::string model_, gpu_, cluster_, framework_;
    std::optional<std::int64_t> gpus_, sequence_length_, batch_;
    std::optional<double> tokens_;
    OutputPath output_;
    std::vector<std::string> assumed_;
};

}  // namespace

std::unique_ptr<Subcommand> init_command() {
    return std::make_unique<Init>();
}

}  // namespace orrery::cli
