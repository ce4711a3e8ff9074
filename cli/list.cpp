// orrery list: what the library has to build scenarios of.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/completed_values.hpp"
#include "cli/csv_output.hpp"
#include "cli/library.hpp"
#include "cli/quantity.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/checks/validate_plan.hpp"
#include "plan/exit_code.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Listed {
    std::vector<std::string> heads;
    std::vector<Align> aligns;
    std::vector<std::vector<std::string>> rows;
    Json json = Json::array();
};

// As training.framework names it.
std::string reference_name(const std::string& reference) {
    return file_name(reference).substr(0, file_name(reference).rfind(".json"));
}

void add_model(const std::string& reference, const plan::Scenario& scenario, Listed& out) {
    const plan::Model& model = scenario.model;
    const plan::Conserved conserved = plan::conserved_of(scenario);
    out.rows.push_back({reference, counted_text(static_cast<double>(conserved.parameters)),
                        std::to_string(model.layers), whole_text(model.hidden),
                        fmt::format("{}/{}", model.attention().heads, model.attention().kv_heads),
                        whole_text(model.vocabulary), model.family});
    out.json.push_back({{"name", reference},
                        {"parameters", conserved.parameters},
                        {"layers", model.layers},
                        {"hidden", model.hidden},
                        {"heads", model.attention().heads},
                        {"kv_heads", model.attention().kv_heads},
                        {"vocabulary", model.vocabulary},
                        {"family", model.family}});
}

void add_cluster(const std::string& reference, const plan::Scenario& scenario, Listed& out) {
    const plan::Cluster& cluster = scenario.cluster;
    const plan::InterNode& link = cluster.inter_node;
    const double node_GBps = link.nics_per_node * link.bandwidth_Gbps / 8;
    const double price = cluster.usd_per_device_hour();
    out.rows.push_back({reference, whole_text(cluster.devices()),
                        fmt::format("{} x {}", whole_text(cluster.nodes), cluster.devices_per_node),
                        cluster.device, digits_text(cluster.intra_node.bandwidth_GBps) + " GB/s",
                        node_GBps > 0 ? digits_text(node_GBps) + " GB/s" : "-",
                        price > 0 ? fmt::format("${:.2f}", price) : "-"});
    out.json.push_back({{"name", reference},
                        {"devices", cluster.devices()},
                        {"nodes", cluster.nodes},
                        {"devices_per_node", cluster.devices_per_node},
                        {"device", cluster.device},
                        {"device_GBps", cluster.intra_node.bandwidth_GBps},
                        {"node_GBps", node_GBps},
                        {"usd_per_device_hour", price > 0 ? Json(price) : Json(nullptr)}});
}

void add_profile(const std::string& reference, const sim::Profile& profile, Listed& out) {
    const sim::Quantity* peak = profile.hardware.peak("bf16");
    out.rows.push_back({reference, profile.device,
                        peak == nullptr ? "-" : digits_text(peak->value) + " TFLOP/s",
                        bytes_text(profile.hardware.capacity_bytes.value),
                        digits_text(profile.hardware.memory_GBps.value) + " GB/s"});
    out.json.push_back({{"name", reference},
                        {"device", profile.device},
                        {"bf16_tflops", peak == nullptr ? Json(nullptr) : Json(peak->value)},
                        {"capacity_bytes", profile.hardware.capacity_bytes.value},
                        {"memory_GBps", profile.hardware.memory_GBps.value}});
}

void add_framework(const std::string& reference, const plan::Scenario& scenario, Listed& out) {
    std::string devices;
    std::int64_t steps = 0;
    for (const plan::MeasuredOn& measured : scenario.training.framework.measured_on) {
        devices += (devices.empty() ? "" : ", ") + measured.device;
        steps += measured.step_times;
    }
    out.rows.push_back({reference_name(reference), whole_text(steps),
                        devices.empty() ? "never measured" : devices});
    out.json.push_back(
        {{"name", reference_name(reference)}, {"step_times", steps}, {"measured_on", devices}});
}

class List : public Subcommand {
  public:
    std::string name() const override { return "list"; }
    std::string summary() const override {
        return "List the library's models, clusters, profiles or frameworks";
    }
    std::vector<std::string> examples() const override {
        return {"list models llama", "list clusters h100", "list frameworks --json",
                "list models --csv models.csv"};
    }

    void declare(CLI::App& app) override {
        app.add_option("KIND", kind_, "models, clusters, profiles or frameworks")
            ->option_text("WORD")
            ->check(completed_by(kind_names()));
        app.add_option("WORD", word_, "Only those with this in their name")->option_text("WORD");
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(), {{"library", "/*", "kind,name"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const LibraryKind kind = chosen();
        Listed listed = empty(kind);
        const std::vector<std::string> references = library_names(kind, word_);
        if (references.empty())
            console.err << fmt::format(
                "orrery list: none of the {} has '{}' in its name; nearest: {}\n", kind_, word_,
                nearest_in_library(kind, word_));
        for (const std::string& reference : references) {
            if (kind == LibraryKind::profiles) {
                add_profile(reference, sim::load_profile(library_folder() + '/' + reference),
                            listed);
                continue;
            }
            std::string why;
            const std::optional<plan::Scenario> scenario = probe(kind, reference, why);
            if (!scenario) {
                console.err << "orrery list: " << reference << ": " << why << '\n';
                continue;
            }
            if (kind == LibraryKind::models) add_model(reference, *scenario, listed);
            if (kind == LibraryKind::clusters) add_cluster(reference, *scenario, listed);
            if (kind == LibraryKind::frameworks) add_framework(reference, *scenario, listed);
        }
        const std::string json = Json{{kind_, listed.json}}.dump(2) + '\n';
        csv_.write([&] { return json; });
        if (json_) {
            console.out << json;
            return kExitOk;
        }
        TextTable table(listed.aligns);
        table.add(listed.heads);
        for (auto& row : listed.rows)
            table.add(std::move(row));
        console.out << table.text();
        return kExitOk;
    }

  private:
    static std::string kind_names() {
        std::string words;
        for (std::size_t i = 0; i < kLibraryKinds; ++i)
            words += (i > 0 ? ", " : "") + std::string(cli::name(static_cast<LibraryKind>(i)));
        return words;
    }

    LibraryKind chosen() const {
        for (std::size_t i = 0; i < kLibraryKinds; ++i)
            if (const auto kind = static_cast<LibraryKind>(i); cli::name(kind) == kind_)
                return kind;
        throw UsageError(
            fmt::format("{}one of {}", kind_.empty() ? "of what? " : kind_ + ": ", kind_names()));
    }

    static Listed empty(LibraryKind kind) {
        Listed out;
        if (kind == LibraryKind::models)
            out.heads = {"model",    "parameters", "layers", "hidden",
                         "heads/kv", "vocabulary", "family"};
        if (kind == LibraryKind::clusters)
            out.heads = {"cluster",     "devices",   "nodes",   "device",
                         "of a device", "of a node", "per hour"};
        if (kind == LibraryKind::profiles)
            out.heads = {"profile", "device", "bf16 peak", "memory", "bandwidth"};
        if (kind == LibraryKind::frameworks)
            out.heads = {"framework", "measured steps", "measured on"};
        out.aligns.assign(out.heads.size(), Align::right);
        out.aligns.front() = Align::left;
        out.aligns.back() = kind == LibraryKind::frameworks ? Align::left : Align::right;
        return out;
    }

    std::string kind_, word_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> list_command() {
    return std::make_unique<List>();
}

}  // namespace orrery::cli
