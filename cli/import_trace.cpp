// orrery import-trace: what traces that other programs recorded say of a step, alone or beside the
// plan of a scenario.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "calib/compare/inferred_scenario.hpp"
#include "calib/compare/recorded_match.hpp"
#include "calib/compare/recorded_timeline.hpp"
#include "cli/csv_output.hpp"
#include "cli/import_trace_inferred.hpp"
#include "cli/json_values.hpp"
#include "cli/output_kinds.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "sim/prediction.hpp"
#include "trace/atomic_file.hpp"
#include "trace/formats/recorded_file.hpp"
#include "trace/formats/trace_file.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using compare::RankMatch;
using compare::RecordedRank;
using compare::WorkKind;

constexpr std::size_t kMostNames = 12;

// A step beside its plan.
struct Beside {
    plan::ReadResult read;
    plan::Plan plan;
    sim::Profile profile;
    sim::Prediction prediction;
    std::vector<const trace::Track*> tracks;  // by file
    std::vector<RankMatch> matches;
};

class ImportTrace : public Subcommand {
  public:
    std::string name() const override { return "import-trace"; }
    std::string summary() const override {
        return "Read a step's traces of PyTorch's profiler, Nsight Systems or Chakra";
    }
    std::vector<std::string> examples() const override {
        return {"import-trace rank0.pt.trace.json.gz",
                "import-trace report.sqlite --step-range iteration",
                "import-trace trace-*.json --scenario run.json",
                "import-trace trace-*.json --scenario run.json --output measured.orrery --json",
                "import-trace trace-*.json --infer-scenario run.json"};
    }

    void declare(CLI::App& app) override {
        files().reads(app.add_option("FILES", traces_,
                                     "Traces: of PyTorch's profiler (*.json, *.json.gz), of Nsight "
                                     "Systems (nsys export --type sqlite), of Chakra (*.et)")
                          ->required()
                          ->option_text(" "));
        input_.declare(app, files(), "--scenario", "--set");
        CLI::Option* scenario =
            app.get_option("--scenario")
                ->required(false)
                ->option_text("FILE")
                ->description("What was run: its plan is held against the traces");
        files()
            .writes(
                app, "--infer-scenario", inferred_path_, scenario_output(),
                "Infer what was run from the traces, write it there, say what is uncertain, and "
                "hold its plan against them")
            ->type_name("OUT")
            ->excludes(scenario);
        app.add_option("--step-range", step_range_,
                       "A step is what a range of the host marks whose name begins so (NVTX, "
                       "record_function)")
            ->type_name("NAME");
        files()
            .writes(app, "-o,--output", output_, trace_output(),
                    "Write the plan's ops as they were measured: simulate --costs prices by them")
            ->type_name("FILE");
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "step.time_s,matched,unmatched", true},
                      {"ranks", "/ranks", "file,rank,device"},
                      {"kinds", "/ranks/*/kinds", "rank,kind,count"},
                      {"beside", "/ranks/*/beside", "rank,kind,recorded"},
                      {"unmatched", "/ranks/*/unmatched_names", "rank,name,kind"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        const bool has_scenario = !input_.file.empty() || infers();
        if (!has_scenario && !input_.sets.empty())
            throw UsageError("--set changes a scenario: --scenario FILE names it");
        if (!has_scenario && !output_.empty())
            throw UsageError("--output writes ops of a plan: --scenario FILE says of which");
        for (const std::string& file : traces_)
            for (const trace::RecordedTrace& trace : trace::read_recorded(file)) {
                ranks_.push_back(compare::recorded_rank(
                    trace, trace.part.empty() ? file : file + ": " + trace.part, step_range_));
                if (infers()) facts_.push_back(compare::step_facts(trace, ranks_.back()));
            }
        require_sense();
        number_ranks();
        if (infers() && !infer(console)) return kExitUnreadable;
        std::optional<Beside> beside;
        if (!input_.file.empty()) {
            beside.emplace();
            beside->read = input_.read(console, json_);
            if (!beside->read.scenario) return exit_code_of(beside->read);
            hold_against(*beside);
        }
        console.out << (json_ ? json_of(beside) : text_of(beside, console));
        if (infers())
            trace::write_file(
                inferred_path_.path(),
                (input_.sets.empty() ? choice_.best().scenario : Json::parse(input_.assembled()))
                        .dump(2) +
                    '\n');
        csv_.write([&] { return json_of(beside); });
        if (beside && !output_.empty()) {
            std::vector<const RecordedRank*> ranks;
            for (const RecordedRank& rank : ranks_)
                ranks.push_back(&rank);
            const trace::Trace& predicted = beside->prediction.trace;
            trace::write_trace(
                compare::laid_out(
                    compare::matched_trace(ranks, beside->matches, predicted, beside->tracks),
                    ranks, beside->matches, predicted, beside->tracks, beside->plan,
                    *beside->read.scenario, beside->profile),
                output_.path());
        }
        return kExitOk;
    }

  private:
    bool infers() const { return !inferred_path_.empty(); }

    // The scenario of these traces, as what is read from now on; false: they do not say enough.
    bool infer(Console& console) {
        for (std::size_t i = 0; i < facts_.size(); ++i)
            facts_[i].rank = ranks_[i].rank;
        const compare::Inference inference = compare::infer_scenario(facts_);
        if (!inference.missing.empty()) {
            if (json_)
                console.out << Json{{"inferred", known_json(inference)}}.dump(2) + '\n';
            else
                console.out << known_text(inference, console);
            for (const std::string& missing : inference.missing)
                console.err << "orrery import-trace: no scenario is inferred: " << missing << '\n';
            return false;
        }
        choice_ = choose_inferred(inference, slowest().device,
                                  [&](const Json& scenario) { return share_of(scenario); });
        take(choice_.best().scenario);
        return true;
    }

    void take(const Json& scenario) {
        ScenarioInput input;
        input.file = inferred_path_.typed();
        input.sets = input_.sets;
        input.given = scenario.dump();
        input_ = std::move(input);
    }

    // Of all files together.
    std::optional<MatchedShare> share_of(const Json& scenario) {
        take(scenario);
        Beside beside;
        beside.read = input_.content();
        if (!beside.read.scenario) return std::nullopt;
        for (const RecordedRank& rank : ranks_)
            if (rank.rank >= beside.read.scenario->layout.ranks()) return std::nullopt;
        hold_against(beside);
        MatchedShare share;
        double all = 0;
        for (const RankMatch& match : beside.matches) {
            share.one_by_one += match.by_op_s;
            share.by_kind += match.by_kind_s;
            all += match.by_op_s + match.by_kind_s + match.unmatched_s;
        }
        if (all <= 0) return std::nullopt;
        share.one_by_one /= all;
        share.by_kind /= all;
        return share;
    }

    void require_sense() const {
        std::map<std::int64_t, std::string> file_of;
        for (const RecordedRank& rank : ranks_) {
            if (!step_range_.empty() && !rank.steps_named)
                throw trace::TraceFileError(
                    trace::TraceFault::unreadable, rank.file,
                    fmt::format("no range of the host begins with \"{}\" (--step-range)",
                                step_range_));
            if (rank.work.empty())
                throw trace::TraceFileError(
                    trace::TraceFault::unreadable, rank.file,
                    "no step: neither kernels of a device nor operators of the host are in it");
            if (rank.rank < 0) continue;
            const auto [other, is_new] = file_of.emplace(rank.rank, rank.file);
            if (!is_new)
                throw UsageError(fmt::format("{} and {} are both of rank {}", other->second,
                                             rank.file, rank.rank));
        }
    }

    // Where a file does not say whose it is, in the order in which they were given.
    void number_ranks() {
        std::set<std::int64_t> taken;
        const bool told = std::all_of(ranks_.begin(), ranks_.end(), [&](const RecordedRank& rank) {
            return rank.rank >= 0 && taken.insert(rank.rank).second;
        });
        numbered_ = !told;
        for (std::size_t i = 0; numbered_ && i < ranks_.size(); ++i)
            ranks_[i].rank = static_cast<std::int64_t>(i);
    }

    void hold_against(Beside& beside) const {
        const plan::Scenario& scenario = *beside.read.scenario;
        beside.plan = plan::build_plan(scenario);
        sim::SimulateOptions how;
        how.part_waiting = false;
        how.plan = &beside.plan;
        beside.profile = sim::load_profiles(scenario.cluster);
        beside.prediction = sim::simulate(scenario, beside.profile, how, beside.read.resolved_json);
        const trace::Trace& predicted = beside.prediction.trace;
        for (const RecordedRank& rank : ranks_) {
            if (rank.rank >= scenario.layout.ranks())
                throw UsageError(fmt::format("{}: rank {}, and the scenario has {}", rank.file,
                                             rank.rank, scenario.layout.ranks()));
            const auto track = std::find_if(
                predicted.tracks.begin(), predicted.tracks.end(), [&](const trace::Track& one) {
                    return one.rank == rank.rank ||
                           std::any_of(one.alike.begin(), one.alike.end(),
                                       [&](const trace::RankRange& range) {
                                           return rank.rank >= range.first &&
                                                  rank.rank < range.first + range.count;
                                       });
                });
            beside.tracks.push_back(&*track);
            beside.matches.push_back(compare::match_rank(rank, beside.plan, predicted, *track));
        }
    }

    // Of all ranks, the one whose typical step is longest.
    const RecordedRank& slowest() const {
        return *std::max_element(
            ranks_.begin(), ranks_.end(),
            [](const RecordedRank& a, const RecordedRank& b) { return a.step_s() < b.step_s(); });
    }

    static std::int64_t known_of(const RecordedRank& rank) {
        return std::count_if(rank.work.begin(), rank.work.end(),
                             [](const auto& item) { return item.kind != WorkKind::other; });
    }

    // --- text

    std::string text_of(const std::optional<Beside>& beside, const Console& console) const {
        const RecordedRank& rank = slowest();
        std::string text =
            console.bold(fmt::format("{} rank{}, a step of {}\n", ranks_.size(),
                                     ranks_.size() == 1 ? "" : "s", seconds_text(rank.step_s())));
        text += labelled("device", rank.device.empty()
                                       ? "none in the trace: operators of the host are the work"
                                       : rank.device);
        text +=
            labelled("steps", rank.steps_named ? fmt::format("{} that are named; of median length "
                                                             "(the first left out)",
                                                             rank.steps.size())
                                               : "none is named: the whole trace is taken for one");
        if (rank.world_size > 0)
            text += labelled("ranks", fmt::format("{} in the job", rank.world_size));
        if (numbered_ && ranks_.size() > 1)
            text += labelled(
                "",
                "files do not say their ranks: taken in the order given, and of a file by device");
        text += kinds_text(rank, console) + products_text(rank, console);
        if (infers()) text += inferred_text(choice_, inferred_path_.typed(), console);
        return text + (beside ? beside_text(*beside, console) : unknown_text(rank, console));
    }

    // What no rule knows, by time.
    static std::string unknown_text(const RecordedRank& rank, const Console& console) {
        std::map<std::string, compare::UnmatchedName> unknown;
        for (const auto& item : rank.work) {
            if (item.kind != WorkKind::other) continue;
            compare::UnmatchedName& one = unknown[rank.names[item.name]];
            one.name = rank.names[item.name];
            ++one.count;
            one.seconds += static_cast<double>(item.duration()) / trace::kPsPerSecond;
        }
        std::vector<compare::UnmatchedName> names;
        for (auto& [name, one] : unknown)
            names.push_back(std::move(one));
        std::stable_sort(names.begin(), names.end(),
                         [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
        return names.empty() ? "" : names_text("names that no rule knows", names, console);
    }

    static std::string names_text(const std::string& title,
                                  const std::vector<compare::UnmatchedName>& all,
                                  const Console& console) {
        TextTable names({Align::right, Align::right, Align::left, Align::left});
        names.add({"count", "time", "kind", "name"});
        for (std::size_t i = 0; i < std::min(all.size(), kMostNames); ++i)
            names.add({whole_text(all[i].count), seconds_text(all[i].seconds),
                       std::string(compare::name(all[i].kind)), all[i].name.substr(0, 60)});
        return heading(title + ", longest first", console) + names.text();
    }

    std::string kinds_text(const RecordedRank& rank, const Console& console) const {
        TextTable table({Align::left, Align::right, Align::right, Align::right, Align::left});
        table.add({"kind", "count", "busy", "of the step", ""});
        for (std::size_t k = 0; k < compare::kWorkKinds; ++k) {
            const auto kind = static_cast<WorkKind>(k);
            const auto count = std::count_if(rank.work.begin(), rank.work.end(),
                                             [&](const auto& item) { return item.kind == kind; });
            if (count == 0) continue;
            const double share = rank.busy_s[k] / rank.step_s();
            table.add({std::string(compare::name(kind)), whole_text(count),
                       seconds_text(rank.busy_s[k]), percent_text(share), bar_text(share, 30)});
        }
        table.add({"communication alone", "", seconds_text(rank.exposed_s),
                   percent_text(rank.exposed_s / rank.step_s())});
        table.add({"nothing runs", "", seconds_text(rank.idle_s),
                   percent_text(rank.idle_s / rank.step_s())});
        return heading(fmt::format("what rank {} does in the step", rank.rank), console) +
               table.text();
    }

    // The products whose shapes the trace says, by time.
    std::string products_text(const RecordedRank& rank, const Console& console) const {
        struct Product {
            std::int64_t m, n, k, batch, count = 0;
            double seconds = 0;
        };
        std::map<std::array<std::int64_t, 4>, Product> products;
        for (const auto& item : rank.work) {
            if (!item.product) continue;
            const auto& shape = *item.product;
            Product& product = products
                                   .try_emplace({shape.m, shape.n, shape.k, shape.batch},
                                                Product{shape.m, shape.n, shape.k, shape.batch})
                                   .first->second;
            ++product.count;
            product.seconds += static_cast<double>(item.duration()) / trace::kPsPerSecond;
        }
        if (products.empty()) return "";
        std::vector<Product> sorted;
        for (const auto& [shape, product] : products)
            sorted.push_back(product);
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const Product& a, const Product& b) { return a.seconds > b.seconds; });
        TextTable table(
            {Align::right, Align::right, Align::right, Align::right, Align::right, Align::right});
        table.add({"m", "n", "k", "count", "time", "FLOP/s"});
        for (std::size_t i = 0; i < std::min(sorted.size(), kMostNames); ++i) {
            const Product& p = sorted[i];
            const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) *
                                 static_cast<double>(p.k) * static_cast<double>(p.batch) *
                                 static_cast<double>(p.count);
            table.add({whole_text(p.m) + (p.batch > 1 ? fmt::format(" x {}", p.batch) : ""),
                       whole_text(p.n), whole_text(p.k), whole_text(p.count),
                       seconds_text(p.seconds), scaled_text(flops / p.seconds, "FLOP/s")});
        }
        return heading("products by shape, longest first", console) + table.text();
    }

    std::string beside_text(const Beside& beside, const Console& console) const {
        const auto slow = static_cast<std::size_t>(&slowest() - ranks_.data());
        const RankMatch& match = beside.matches[slow];
        const double predicted = beside.prediction.step.time_s;
        const double measured = ranks_[slow].step_s();
        TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right,
                         Align::right, Align::right});
        table.add({"kind", "recorded", "planned", "by op", "measured", "predicted", "error"});
        for (const compare::KindMatch& kind : match.kinds)
            table.add(
                {std::string(compare::name(kind.kind)), whole_text(kind.recorded),
                 whole_text(kind.planned), whole_text(kind.by_op), seconds_text(kind.measured_s),
                 seconds_text(kind.predicted_s),
                 kind.measured_s > 0 && kind.predicted_s > 0
                     ? fmt::format("{:+.1f} %", 100 * (kind.predicted_s / kind.measured_s - 1))
                     : "-"});
        table.add({"step", "", "", "", seconds_text(measured), seconds_text(predicted),
                   fmt::format("{:+.1f} %", 100 * (predicted / measured - 1))});
        const double all = match.by_op_s + match.by_kind_s + match.unmatched_s;
        std::string text = heading("beside the plan of " + input_.file, console) + table.text();
        text += labelled(
            "matched",
            fmt::format("{} of {} one by one ({} of the time), {} by kind ({})",
                        whole_text(match.by_op),
                        whole_text(match.by_op + match.by_kind + match.unmatched),
                        percent_text(all > 0 ? match.by_op_s / all : 0), whole_text(match.by_kind),
                        percent_text(all > 0 ? match.by_kind_s / all : 0)));
        text +=
            labelled("unmatched", fmt::format("{} ({})", whole_text(match.unmatched),
                                              percent_text(all > 0 ? match.unmatched_s / all : 0)));
        if (match.names.empty()) return text;
        return text + names_text("what fits nothing in the plan", match.names, console);
    }

    // --- JSON

    Json rank_json(const RecordedRank& rank, const RankMatch* match) const {
        Json kinds = Json::object();
        for (std::size_t k = 0; k < compare::kWorkKinds; ++k) {
            const auto kind = static_cast<WorkKind>(k);
            const auto count = std::count_if(rank.work.begin(), rank.work.end(),
                                             [&](const auto& item) { return item.kind == kind; });
            if (count > 0)
                kinds[std::string(compare::name(kind))] = {{"count", count},
                                                           {"busy_s", rank.busy_s[k]}};
        }
        Json json = {{"file", rank.file},
                     {"rank", rank.rank},
                     {"device", rank.device.empty() ? Json(nullptr) : Json(rank.device)},
                     {"steps", rank.steps.size()},
                     {"steps_named", rank.steps_named},
                     {"step_time_s", rank.step_s()},
                     {"compute_s", rank.compute_s},
                     {"exposed_communication_s", rank.exposed_s},
                     {"idle_s", rank.idle_s},
                     {"kinds", std::move(kinds)}};
        if (match == nullptr) return json;
        json["matched_by_op"] = match->by_op;
        json["matched_by_kind"] = match->by_kind;
        json["unmatched"] = match->unmatched;
        json["matched_by_op_s"] = match->by_op_s;
        json["matched_by_kind_s"] = match->by_kind_s;
        json["unmatched_s"] = match->unmatched_s;
        Json beside = Json::array();
        for (const compare::KindMatch& kind : match->kinds)
            beside.push_back({{"kind", compare::name(kind.kind)},
                              {"recorded", kind.recorded},
                              {"planned", kind.planned},
                              {"by_op", kind.by_op},
                              {"measured_s", kind.measured_s},
                              {"predicted_s", kind.predicted_s}});
        json["beside"] = std::move(beside);
        Json names = Json::array();
        for (const compare::UnmatchedName& one : match->names)
            names.push_back({{"name", one.name},
                             {"kind", compare::name(one.kind)},
                             {"count", one.count},
                             {"seconds", one.seconds}});
        json["unmatched_names"] = std::move(names);
        return json;
    }

    std::string json_of(const std::optional<Beside>& beside) const {
        const RecordedRank& slow = slowest();
        // With a plan what fits it; without, whose kind is known.
        std::int64_t matched = 0, all = 0;
        for (std::size_t r = 0; r < ranks_.size(); ++r) {
            all += static_cast<std::int64_t>(ranks_[r].work.size());
            matched += beside ? beside->matches[r].by_op + beside->matches[r].by_kind
                              : known_of(ranks_[r]);
        }
        Json step = {{"time_s", slow.step_s()}};
        if (beside) step["predicted_s"] = beside->prediction.step.time_s;
        Json json = {{"step", std::move(step)},
                     {"matched", matched},
                     {"unmatched", all - matched},
                     {"matched_to", beside ? "plan" : "kinds"},
                     {"world_size", slow.world_size}};
        if (infers()) json["inferred"] = inferred_json(choice_);
        json["ranks"] = Json::array();
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            json["ranks"].push_back(rank_json(ranks_[r], beside ? &beside->matches[r] : nullptr));
        return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    }

    std::vector<std::string> traces_;
    std::string step_range_;
    ScenarioInput input_;
    OutputPath output_, inferred_path_;
    std::vector<RecordedRank> ranks_;
    std::vector<compare::StepFacts> facts_;  // of the same, where a scenario is inferred
    InferredChoice choice_;
    bool numbered_ = false;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> import_trace_command() {
    return std::make_unique<ImportTrace>();
}

}  // namespace orrery::cli
