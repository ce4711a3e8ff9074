#include "plan/scenario/jobs/read_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "plan/scenario/json_schema.hpp"
#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostJobs = 256;
constexpr std::int64_t kMostNodes = 1'000'000;

// Of a job's scenario, which may leave its cluster out.
std::vector<KeySpec> keys_of_scenario() {
    std::vector<KeySpec> keys = scenario_schema();
    for (KeySpec& key : keys)
        if (key.name == "cluster") key.required = false;
    return keys;
}

const Keys<SharedJob>& job_keys() {
    static const Keys<SharedJob> keys = {
        text<&SharedJob::name>("name", "What reports call the job; else \"job 1\", \"job 2\", …")
            .non_empty(),
        own<SharedJob>("scenario", KeyType::text,
                       "What it trains: a scenario's file, or its keys; its cluster is the shared "
                       "one",
                       keys_of_scenario())
            .required(),
        own<SharedJob>("set", KeyType::list, "Overrides of the scenario, as --set has them")
            .of_entries(KeyType::text),
        count<&SharedJob::nodes>("nodes", "That the job gets", {1, kMostNodes})
            .where("without \"on_nodes\"",
                   [](const SharedJob& job) { return job.on_nodes.empty(); })
            .required()
            .unset(),
        choice<&SharedJob::placement>("placement",
                                      "Which nodes: below few switches, from every "
                                      "leaf in turn, any, or whole stages below a leaf")
            .where("without \"on_nodes\"",
                   [](const SharedJob& job) { return job.on_nodes.empty(); }),
        count<&SharedJob::seed>("seed", "Of the nodes drawn", {0, kLargestSeed})
            .where("with \"placement\": \"random\"",
                   [](const SharedJob& job) {
                       return job.on_nodes.empty() && job.placement == PlacementPolicy::random;
                   }),
        own<SharedJob>("on_nodes", KeyType::list, "Numbers of the very nodes that it gets")
            .of_entries(KeyType::whole_number),
        number<&SharedJob::start_s>("start_s", "When it begins").in("s"),
    };
    return keys;
}

struct NoMembers {};

const Keys<NoMembers>& top_keys() {
    static const Keys<NoMembers> keys = {
        own<NoMembers>("description", KeyType::any, "Notes of yours"),
        own<NoMembers>("cluster", KeyType::text,
                       "What the jobs share: a cluster's file, or its keys", specs(cluster_keys()))
            .required(),
        own<NoMembers>("jobs", KeyType::list, "One or more", specs(job_keys())).required(),
    };
    return keys;
}

std::string job_pointer(std::size_t job) {
    return fmt::format("/jobs/{}", job);
}

// One reading of the file and of all that it names.
class JobsReading {
  public:
    JobsReading(ParsedJson parsed, const std::string& path, const std::string& library,
                const Files& files)
        : path_(path),
          library_(library),
          folders_{fs::path(path).parent_path().string(), library, files},
          reading_(Document(std::move(parsed.value), path, folders_.base)) {
        reading_.errors() = std::move(parsed.errors);
    }

    void read() {
        Section top(reading_, "", "");
        NoMembers none;
        read_keys(top, top_keys(), none);
        top.finish();
        follow_reference(reading_, "/cluster", "clusters", Source::Kind::file, folders_);
        read_cluster(reading_, folders_, shared_.cluster);
        check_cluster();
        const Json* jobs = top.find("jobs");
        if (jobs == nullptr) return;
        if (!jobs->is_array() || jobs->empty() || jobs->size() > kMostJobs) {
            top.wrong_type("jobs", "an array of 1 to 256 jobs");
            return;
        }
        shared_.jobs.resize(jobs->size());
        for (std::size_t i = 0; i < jobs->size(); ++i)
            read_job(i);
        check_names();
        check_nodes();
    }

    JobsReadResult result() {
        JobsReadResult out;
        out.unreadable = reading_.unreadable || unreadable_;
        out.errors = std::move(reading_.errors());
        std::move(of_scenarios_.begin(), of_scenarios_.end(), std::back_inserter(out.errors));
        files_.insert(path_);
        out.files.assign(files_.begin(), files_.end());
        if (out.errors.empty()) out.shared = std::move(shared_);
        return out;
    }

  private:
    void check_cluster() {
        if (!reading_.good({"cluster"})) return;
        if (shared_.cluster.other_nodes.empty() && shared_.cluster.even()) return;
        const char* key = shared_.cluster.other_nodes.empty() ? "/cluster" : "/cluster/other_nodes";
        reading_
            .report("J006", key,
                    "the nodes of a shared cluster must be of one kind and equally fast")
            .help.push_back(
                "leave other_nodes, slow devices, stragglers and jitter out: which job they fall "
                "to would be chance");
    }

    void read_job(std::size_t i) {
        SharedJob& job = shared_.jobs[i];
        job.name = fmt::format("job {}", i + 1);
        Section section(reading_, job_pointer(i), fmt::format("jobs[{}]", i));
        if (!section.exists()) return;
        read_on_nodes(section, job);
        read_keys(section, job_keys(), job);
        if (!job.on_nodes.empty()) job.nodes = static_cast<std::int64_t>(job.on_nodes.size());
        std::vector<std::string> sets;
        read_sets(section, sets);
        section.finish();
        if (job.placement == PlacementPolicy::rail_aligned &&
            reading_.good({"cluster.inter_node.fabric.kind"}) &&
            shared_.cluster.inter_node.fabric.kind != FabricKind::rail)
            reading_
                .report("J004", job_pointer(i) + "/placement", "the cluster's fabric has no rails")
                .help.push_back("\"compact\", or \"kind\": \"rail\" for cluster.inter_node.fabric");
        const std::string nodes = job_pointer(i) + (job.on_nodes.empty() ? "/nodes" : "/on_nodes");
        if (section.has("scenario")) read_scenario_of(i, sets, reading_.good_at(nodes));
    }

    void read_on_nodes(Section& section, SharedJob& job) {
        const Json* list = section.find("on_nodes");
        if (list == nullptr) return;
        const bool sound = list->is_array() && !list->empty() &&
                           std::all_of(list->begin(), list->end(), [](const Json& node) {
                               return node.is_number_integer() && node >= 0 && node < kMostNodes;
                           });
        if (!sound) {
            section.wrong_type("on_nodes", "an array of numbers of nodes, from 0");
            return;
        }
        job.on_nodes = list->get<std::vector<std::int64_t>>();
        std::sort(job.on_nodes.begin(), job.on_nodes.end());
    }

    void read_sets(Section& section, std::vector<std::string>& sets) {
        const Json* list = section.find("set");
        if (list == nullptr) return;
        const bool sound =
            list->is_array() && std::all_of(list->begin(), list->end(), [](const Json& set) {
                return set.is_string() && valid_override(set.get<std::string>());
            });
        if (sound)
            sets = list->get<std::vector<std::string>>();
        else
            section.wrong_type("set", "an array of texts like \"layout.zero_stage=1\"");
    }

    // The scenario's own text: that of its file, or what stands here. Null: reported.
    std::optional<Json> text_of(std::size_t i, std::string& name, std::string& folder) {
        const std::string pointer = job_pointer(i) + "/scenario";
        const Json& value = *reading_.document().find(pointer);
        if (value.is_object()) {
            name = path_;
            folder = folders_.base;
            return value;
        }
        if (!value.is_string()) {
            reading_.report("S006", pointer,
                            "jobs: key \"scenario\" must be the name of a file, or an object");
            return std::nullopt;
        }
        const std::string reference = value.get<std::string>();
        const std::string found =
            find_file(reference, reading_.document().source(pointer), folders_);
        if (found.empty()) {
            report_missing_file(reading_, pointer, reference, "runs", folders_);
            return std::nullopt;
        }
        files_.insert(found);
        std::optional<ParsedJson> parsed =
            parse_file(reading_, pointer, reference, found, folders_.files);
        if (!parsed) return std::nullopt;
        if (parsed->incomplete || !parsed->value.is_object()) {
            reading_.unreadable = true;
            if (parsed->errors.empty())
                reading_.report("S026", pointer, reference + " is not a scenario");
            return std::nullopt;
        }
        name = reference;
        folder = fs::path(found).parent_path().string();
        return std::move(parsed->value);
    }

    Folders beside(const std::string& folder) const { return {folder, library_, folders_.files}; }

    // A scenario that names another device was meant for another cluster.
    void check_device(std::size_t i, const Json& scenario, const std::string& name,
                      const std::string& folder) {
        if (!scenario.contains("cluster") || !reading_.good({"cluster.device"})) return;
        Reading own(Document(scenario, name, folder));
        follow_reference(own, "/cluster", "clusters", Source::Kind::file, beside(folder));
        const Json* device = own.document().find("/cluster/device");
        if (device == nullptr || !device->is_string() || *device == shared_.cluster.device) return;
        Diagnostic& fault =
            reading_.report("J005", job_pointer(i) + "/scenario",
                            "the scenario is for another device than the shared cluster's");
        fault.arithmetic = fmt::format("its cluster has \"{}\", the shared one \"{}\"",
                                       device->get<std::string>(), shared_.cluster.device);
        fault.help.push_back(
            "leave \"cluster\" out of the scenario, if it is to run here all the "
            "same");
    }

    // The shared cluster, as large as the job.
    Json cluster_of(const SharedJob& job) {
        Json cluster = *reading_.document().find("/cluster");
        cluster["nodes"] = job.nodes;
        if (!shared_.cluster.profile_path.empty())
            cluster["profile"] = shared_.cluster.profile_path;
        return cluster;
    }

    void read_scenario_of(std::size_t i, const std::vector<std::string>& sets, bool counted) {
        SharedJob& job = shared_.jobs[i];
        std::string name, folder;
        std::optional<Json> text = text_of(i, name, folder);
        if (!text) return;
        check_device(i, *text, name, folder);
        // Of a cluster that is in error, or so many nodes as nobody knows, nothing follows.
        if (!counted || !cluster_is_sound()) return;
        (*text)["cluster"] = cluster_of(job);
        const bool here = name == path_;
        ReadResult read =
            read_scenario_text(text->dump(-1, ' ', false, Json::error_handler_t::replace), name,
                               folder, sets, library_, folders_.files);
        files_.insert(read.files.begin(), read.files.end());
        unreadable_ = unreadable_ || read.unreadable;
        for (Diagnostic& fault : read.errors) {
            const bool of_cluster = fault.pointer.rfind("/cluster", 0) == 0;
            if (of_cluster) fault.file = path_;
            if (here && !of_cluster) fault.pointer = job_pointer(i) + "/scenario" + fault.pointer;
            fault.note += fmt::format("{}in {}", fault.note.empty() ? "" : "; ", job.name);
            of_scenarios_.push_back(std::move(fault));
        }
        if (read.scenario) job.scenario = std::move(*read.scenario);
    }

    bool cluster_is_sound() {
        const auto& errors = reading_.errors();
        return reading_.document().find("/cluster") != nullptr &&
               reading_.document().find("/cluster")->is_object() &&
               std::none_of(errors.begin(), errors.end(), [](const Diagnostic& fault) {
                   return fault.pointer.rfind("/cluster", 0) == 0;
               });
    }

    void check_names() {
        std::map<std::string, std::size_t> first;
        for (std::size_t i = 0; i < shared_.jobs.size(); ++i) {
            const auto [place, fresh] = first.emplace(shared_.jobs[i].name, i);
            if (!fresh)
                reading_.report(
                    "J008", job_pointer(i) + "/name",
                    fmt::format("jobs {} and {} have one name", place->second + 1, i + 1));
        }
    }

    void check_nodes() {
        if (!reading_.good({"cluster", "cluster.nodes"})) return;
        std::map<std::int64_t, std::size_t> taken;
        std::int64_t all = 0;
        std::string sum;
        bool counted = true;
        for (std::size_t i = 0; i < shared_.jobs.size(); ++i) {
            const SharedJob& job = shared_.jobs[i];
            counted = counted && job.nodes > 0;
            all += job.nodes;
            sum += fmt::format("{}{}", i == 0 ? "" : " + ", job.nodes);
            check_on_nodes(i, taken);
        }
        if (!counted || all <= shared_.cluster.nodes) return;
        Diagnostic& fault =
            reading_.report("J002", "/jobs", "the jobs need more nodes than the cluster has");
        fault.arithmetic = fmt::format("{} = {} > {} nodes", sum, all, shared_.cluster.nodes);
        fault.help.push_back(fmt::format("{} nodes fewer in all, or cluster.nodes: {}",
                                         all - shared_.cluster.nodes, all));
    }

    void check_on_nodes(std::size_t i, std::map<std::int64_t, std::size_t>& taken) {
        for (const std::int64_t node : shared_.jobs[i].on_nodes) {
            const std::string pointer = job_pointer(i) + "/on_nodes";
            if (node >= shared_.cluster.nodes) {
                reading_.report("J003", pointer, fmt::format("the cluster has no node {}", node))
                    .arithmetic = fmt::format("nodes 0 to {}", shared_.cluster.nodes - 1);
                return;
            }
            const auto [place, fresh] = taken.emplace(node, i);
            if (fresh) continue;
            reading_.report("J001", pointer,
                            place->second == i ? fmt::format("node {} stands twice", node)
                                               : fmt::format("node {} is {}'s already", node,
                                                             shared_.jobs[place->second].name));
            return;
        }
    }

    std::string path_;
    std::string library_;
    Folders folders_;
    Reading reading_;
    SharedCluster shared_;
    std::vector<Diagnostic> of_scenarios_;
    std::set<std::string> files_;
    bool unreadable_ = false;
};

JobsReadResult unreadable_jobs(Diagnostic fault) {
    JobsReadResult out;
    out.unreadable = true;
    out.errors.push_back(std::move(fault));
    return out;
}

}  // namespace

std::int64_t stage_nodes(const Scenario& scenario) {
    const std::int64_t ranks = scenario.layout.ranks() / scenario.layout.pipeline_parallel;
    return ranks % scenario.cluster.devices_per_node == 0
               ? ranks / scenario.cluster.devices_per_node
               : 0;
}

JobsReadResult read_jobs(const std::string& path, const std::string& library_dir,
                         const Files& files) {
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    if (!text) return unreadable_jobs(cannot_be_read(path, "the jobs", why));
    ParsedJson parsed = parse_json(*text, path);
    for (Diagnostic& fault : parsed.errors)
        fault.origin = "file " + path;
    if (parsed.incomplete) {
        JobsReadResult out;
        out.unreadable = parsed.not_json;
        out.errors = std::move(parsed.errors);
        return out;
    }
    if (parsed.value.is_object() && !parsed.value.contains("jobs") &&
        parsed.value.contains("layout")) {
        Diagnostic fault;
        fault.code = "J007";
        fault.file = path;
        fault.origin = "file " + path;
        fault.message = "this is a scenario, not a file of jobs";
        fault.help = {fmt::format("{{\"cluster\": …, \"jobs\": [{{\"scenario\": \"{}\", \"nodes\": "
                                  "…}}]}}",
                                  path),
                      "orrery schema --jobs says what stands in one"};
        return unreadable_jobs(std::move(fault));
    }
    JobsReading reading(std::move(parsed), path, library_dir, files);
    reading.read();
    return reading.result();
}

const std::vector<KeySpec>& jobs_schema() {
    static const std::vector<KeySpec> keys = specs(top_keys());
    return keys;
}

std::string jobs_json_schema() {
    return json_schema_of(jobs_schema(), "Orrery jobs", "A cluster, and the jobs that share it.");
}

}  // namespace orrery::plan
