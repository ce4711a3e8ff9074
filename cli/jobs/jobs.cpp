// orrery jobs: several jobs on one fabric, and where to place them.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <optional>

#include "cli/csv_output.hpp"
#include "cli/jobs/jobs_report.hpp"
#include "cli/machine_files.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "sim/engine/drawn_cluster.hpp"
#include "sim/jobs/job_on_nodes.hpp"
#include "sim/jobs/place_jobs.hpp"
#include "sim/prediction.hpp"

namespace orrery::cli {
namespace {

constexpr const char* kSearch = "search";

class JobsCommand : public Subcommand {
  public:
    std::string name() const override { return "jobs"; }
    std::string summary() const override {
        return "Several jobs on one fabric: what sharing costs each, better places";
    }
    std::vector<std::string> examples() const override {
        return {"jobs scenarios/jobs/four-1024-on-fat-tree.json", "jobs cluster-jobs.json --json",
                "jobs cluster-jobs.json --place scattered",
                "jobs cluster-jobs.json --place search --objective worst",
                "jobs cluster-jobs.json --shift search"};
    }

    void declare(CLI::App& app) override {
        CLI::Option* file = app.add_option("FILE", file_, "A cluster and its jobs, a JSON file")
                                ->required()
                                ->option_text(" ");
        files().reads(file, [this] { return content().files; });
        std::vector<std::string> words(plan::Spelling<plan::PlacementPolicy>::names.begin(),
                                       plan::Spelling<plan::PlacementPolicy>::names.end());
        words.emplace_back(kSearch);
        app.add_option("--place", place_,
                       "For all jobs: compact, scattered, random, rail_aligned, or search")
            ->type_name("WORD")
            ->check(CLI::IsMember(words).description(""));
        app.add_option("--shift", shift_,
                       "search: by how much jobs should start later, so that they take turns")
            ->type_name("WORD")
            ->check(CLI::IsMember({kSearch}).description(""));
        app.add_option("--objective", objective_,
                       "Of searches: the sum of slow-downs (unless given), or the worst")
            ->type_name("WORD")
            ->check(CLI::IsMember({"sum", "worst"}).description(""));
        app.add_option("--steps", options_.steps, "Of each job that are counted; 4 unless given")
            ->type_name("N")
            ->check(CLI::Range(1, 10'000).description(""));
        app.add_option("--seed", seed_, "Of what is drawn for --place; 1 unless given")
            ->type_name("N");
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "throughput.tokens_per_s,fairness", true},
                      {"jobs", "/jobs", "name,placed,ranks"},
                      {"links", "/links", "link,level"},
                      {"flows", "/links/*/jobs", "link,name,bytes"},
                      {"places", "/search/places", "how,score,estimate,slowdowns"},
                      {"starts", "/shifts/starts", "how,score,estimate,later_s"},
                      {"drifts", "/shifts/drifts", "slow,fast,drift_s"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (!objective_.empty() && place_ != kSearch && shift_.empty())
            throw UsageError("--objective: only with --place search or --shift search");
        const plan::JobsReadResult& read = content();
        if (!read.shared) {
            console.err << plan::format_text(read.errors);
            if (json_) console.out << plan::format_json(read.errors);
            return read.unreadable ? kExitUnreadable : kExitInvalidScenario;
        }
        const plan::SharedCluster& shared = *read.shared;
        const plan::Cluster cluster = sim::drawn_cluster(shared.cluster);
        const std::vector<sim::Job> jobs = planned(shared);
        std::vector<std::string> placed;
        std::vector<sim::NodeList> nodes = places(shared, jobs, placed);
        std::optional<sim::PlaceSearchResult> search;
        if (place_ == kSearch) {
            search = searched(shared, jobs, nodes);
            if (nodes != search->simulated.front().candidate.nodes)
                for (std::size_t j = 0; j < jobs.size(); ++j)
                    if (shared.jobs[j].on_nodes.empty()) placed[j] = "searched";
            nodes = search->simulated.front().candidate.nodes;
        }
        std::optional<sim::ShiftSearchResult> shifts;
        if (search)
            shifts = search->simulated.front().shifts;
        else if (!shift_.empty())
            shifts = shifted(shared, jobs, nodes);
        sim::JobsOutcome outcome;
        if (search)
            outcome = search->simulated.front().outcome;
        else if (shifts)
            outcome = shifts->simulated.front().outcome;
        else
            outcome = sim::run_jobs(cluster, jobs, nodes, options_);
        if (!outcome.stuck.empty()) {
            console.err << "orrery jobs: internal error: the plan of " << outcome.stuck
                        << " deadlocks\n";
            return kExitInternal;
        }
        const JobsReport report = {shared,
                                   jobs,
                                   nodes,
                                   placed,
                                   outcome,
                                   even_steps(cluster, jobs, nodes),
                                   search ? &*search : nullptr,
                                   shifts ? &*shifts : nullptr,
                                   objective()};
        console.out << (json_ ? jobs_json(report) : jobs_text(report, console));
        csv_.write([&] { return jobs_json(report); });
        return all_fit(cluster, jobs, nodes, console) ? kExitOk : kExitInfeasible;
    }

  private:
    const plan::JobsReadResult& content() {
        if (!content_) content_ = plan::read_jobs(file_, library_folder(), MachineFiles(nullptr));
        return *content_;
    }

    std::vector<sim::Job> planned(const plan::SharedCluster& shared) const {
        std::vector<sim::Job> jobs;
        const bool mixed = !shared.cluster.other_nodes.empty();
        for (const plan::SharedJob& job : shared.jobs)
            jobs.push_back({job.name, job.scenario, plan::build_plan(job.scenario),
                            sim::load_profiles(mixed ? shared.cluster : job.scenario.cluster),
                            job.start_s, job.kinds});
        if (mixed) keep_usable_kinds(shared, jobs);
        return jobs;
    }

    // Jobs get nodes that can run them: that compute what they ask for and, where there are enough,
    // have the memory.
    void keep_usable_kinds(const plan::SharedCluster& shared, std::vector<sim::Job>& jobs) const {
        std::vector<sim::NodeList> given;
        std::vector<sim::UsableKinds> usable;
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            given.push_back(shared.jobs[j].on_nodes);
            // Where its nodes are given they decide.
            usable.push_back(given[j].empty() ? sim::usable_kinds(shared.cluster, jobs[j])
                                              : sim::UsableKinds{});
        }
        for (std::size_t j = 0; j < jobs.size(); ++j)
            if (given[j].empty())
                jobs[j].kinds = usable[j].holding.empty() ? usable[j].computing : usable[j].holding;
        if (sim::jobs_without_nodes(shared.cluster, jobs, given).empty()) return;
        for (std::size_t j = 0; j < jobs.size(); ++j)
            if (given[j].empty()) jobs[j].kinds = usable[j].computing;
        const std::vector<std::size_t> without =
            sim::jobs_without_nodes(shared.cluster, jobs, given);
        if (!without.empty()) throw too_few_that_compute(shared, jobs, without);
    }

    plan::ScenarioError too_few_that_compute(const plan::SharedCluster& shared,
                                             const std::vector<sim::Job>& jobs,
                                             const std::vector<std::size_t>& without) const {
        plan::Diagnostic fault;
        fault.code = "J009";
        fault.file = file_;
        fault.pointer = "/jobs";
        fault.message = "more nodes of a device are needed than the cluster has";
        for (const std::size_t j : without) {
            fault.arithmetic +=
                fmt::format("{}{}, of {} nodes, can only be computed by",
                            fault.arithmetic.empty() ? "" : "; ", jobs[j].name, jobs[j].nodes());
            for (std::size_t k = 0; k < jobs[j].kinds.size(); ++k) {
                const plan::Cluster& kind = shared.cluster.node_kind(jobs[j].kinds[k]);
                fault.arithmetic += fmt::format("{} the {} of \"{}\"", k == 0 ? "" : " and",
                                                kind.nodes, kind.device);
            }
        }
        fault.help = {"fewer nodes for them, or a precision that other devices have, too"};
        return plan::ScenarioError(std::move(fault));
    }

    // Jobs with nodes of their own first, the others in the order of the file.
    std::vector<sim::NodeList> places(const plan::SharedCluster& shared,
                                      const std::vector<sim::Job>& jobs,
                                      std::vector<std::string>& placed) const {
        sim::JobPlacing placing(shared.cluster, jobs);
        for (std::size_t j = 0; j < jobs.size(); ++j)
            if (!shared.jobs[j].on_nodes.empty()) placing.take(j, shared.jobs[j].on_nodes);
        std::vector<sim::NodeList> nodes;
        for (std::size_t j = 0; j < shared.jobs.size(); ++j) {
            const plan::SharedJob& job = shared.jobs[j];
            if (!job.on_nodes.empty()) {
                nodes.push_back(job.on_nodes);
                placed.emplace_back("on its nodes");
                continue;
            }
            const bool given = place_.empty() || place_ == kSearch;
            const plan::PlacementPolicy policy =
                given ? job.placement : *plan::value_spelled<plan::PlacementPolicy>(place_);
            const auto seed = static_cast<std::uint64_t>(given ? job.seed : seed_) +
                              (given ? 0 : static_cast<std::uint64_t>(j));
            if (policy == plan::PlacementPolicy::rail_aligned &&
                shared.cluster.inter_node.fabric.kind != plan::FabricKind::rail)
                throw UsageError("--place rail_aligned: the cluster's fabric has no rails");
            nodes.push_back(placing.place(j, policy, seed));
            placed.emplace_back(plan::spelling(policy));
        }
        return nodes;
    }

    sim::JobsObjective objective() const {
        return objective_ == "worst" ? sim::JobsObjective::worst : sim::JobsObjective::sum;
    }

    sim::PlaceSearchResult searched(const plan::SharedCluster& shared,
                                    const std::vector<sim::Job>& jobs,
                                    const std::vector<sim::NodeList>& given) const {
        std::vector<bool> pinned;
        for (const plan::SharedJob& job : shared.jobs)
            pinned.push_back(!job.on_nodes.empty());
        sim::PlaceSearchOptions options;
        options.objective = objective();
        options.seed = static_cast<std::uint64_t>(seed_);
        options.shifts = !shift_.empty();
        options.run = options_;
        return sim::search_places(shared.cluster, jobs, given, pinned, options);
    }

    sim::ShiftSearchResult shifted(const plan::SharedCluster& shared,
                                   const std::vector<sim::Job>& jobs,
                                   const std::vector<sim::NodeList>& nodes) const {
        sim::ShiftSearchOptions options;
        options.objective = objective();
        options.run = options_;
        return sim::search_shifts(shared.cluster, jobs, nodes, options);
    }

    // Alone on the same nodes, if nothing of them were slow; nothing where nothing is.
    static std::vector<double> even_steps(const plan::Cluster& cluster,
                                          const std::vector<sim::Job>& jobs,
                                          const std::vector<sim::NodeList>& nodes) {
        std::vector<double> steps;
        for (std::size_t j = 0; !cluster.even() && j < jobs.size(); ++j)
            steps.push_back(sim::to_seconds(
                sim::run_alone(cluster.made_even(), jobs[j], nodes[j]).step.length));
        return steps;
    }

    static bool all_fit(const plan::Cluster& cluster, const std::vector<sim::Job>& jobs,
                        const std::vector<sim::NodeList>& nodes, Console& console) {
        bool fit = true;
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            const sim::JobOnNodes there(cluster, jobs[j], nodes[j]);
            const sim::MemoryPrediction memory =
                sim::predict_memory(jobs[j].plan, there.scenario(), there.profile());
            if (memory.verdict != sim::Verdict::exceeds) continue;
            console.err << fmt::format(
                "orrery jobs: the layout of {} does not fit into the device's memory\n",
                jobs[j].name);
            fit = false;
        }
        return fit;
    }

    std::string file_;
    std::string place_;
    std::string shift_;
    std::string objective_;
    std::int64_t seed_ = 1;
    sim::RunJobsOptions options_;
    CsvOutput csv_;
    bool json_ = false;
    std::optional<plan::JobsReadResult> content_;
};

}  // namespace

std::unique_ptr<Subcommand> jobs_command() {
    return std::make_unique<JobsCommand>();
}

}  // namespace orrery::cli
