#include "plan/scenario/jobs/read_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "plan/scenario/jobs/share_nodes.hpp"
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
        follow_other_nodes(reading_, folders_);
        follow_stragglers(reading_, folders_);
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
        const Json* profile = reading_.document().find("/cluster/profile");
        if (shared_.cluster.other_nodes.empty() || profile == nullptr || *profile != kThisMachine)
            return;
        reading_
            .report("J006", "/cluster/profile",
                    "the profile of this machine hangs on how many ranks share it, which beside "
                    "nodes of other kinds is not known before jobs are placed")
            .help.push_back("the file of a profile, or no other_nodes");
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
        check_sets(i, sets);
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

    void check_sets(std::size_t i, const std::vector<std::string>& sets) {
        const auto of_cluster = std::find_if(sets.begin(), sets.end(), [](const std::string& set) {
            return set.rfind("cluster.", 0) == 0 || set.rfind("cluster=", 0) == 0;
        });
        if (of_cluster == sets.end()) return;
        Diagnostic& fault = reading_.report("J010", job_pointer(i) + "/set",
                                            "a job has no cluster of its own: it runs on the "
                                            "shared one");
        fault.arithmetic = *of_cluster;
        fault.help.push_back("set it in \"cluster\", for all jobs");
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

    // Of the cluster that a scenario names, and of its nodes of other kinds.
    std::vector<std::string> devices_named(const Json& scenario, const std::string& name,
                                           const std::string& folder) {
        std::vector<std::string> devices;
        if (!scenario.contains("cluster")) return devices;
        Reading own(Document(scenario, name, folder));
        follow_reference(own, "/cluster", "clusters", Source::Kind::file, beside(folder));
        follow_other_nodes(own, beside(folder));
        for (const ClusterPlace& place : places_of_nodes(own.document())) {
            const Json* device = own.document().find(place.at("device"));
            if (device != nullptr && device->is_string() &&
                std::find(devices.begin(), devices.end(), *device) == devices.end())
                devices.push_back(device->get<std::string>());
        }
        return devices;
    }

    static std::string quoted(const std::vector<std::string>& names) {
        std::string text;
        for (const std::string& name : names)
            text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
        return text;
    }

    std::vector<std::string> shared_devices() const {
        std::vector<std::string> devices;
        for (std::size_t kind = 0; kind < shared_.cluster.node_kinds(); ++kind) {
            const std::string& device = shared_.cluster.node_kind(kind).device;
            if (std::find(devices.begin(), devices.end(), device) == devices.end())
                devices.push_back(device);
        }
        return devices;
    }

    // A scenario that names a device fits nodes of that one; where there are none, it was meant for
    // another cluster.
    void find_kinds(std::size_t i, const std::vector<std::string>& devices) {
        if (devices.empty() || !cluster_is_sound()) return;
        SharedJob& job = shared_.jobs[i];
        for (std::size_t kind = 0; kind < shared_.cluster.node_kinds(); ++kind)
            if (is_among(devices, shared_.cluster.node_kind(kind).device))
                job.kinds.push_back(kind);
        if (job.kinds.empty()) {
            Diagnostic& fault =
                reading_.report("J005", job_pointer(i) + "/scenario",
                                "the scenario is for another device than the shared cluster's");
            fault.arithmetic = fmt::format("its cluster has {}, the shared one {}", quoted(devices),
                                           quoted(shared_devices()));
            fault.help.push_back(
                "leave \"cluster\" out of the scenario, if it is to run here all the same");
        }
        if (job.kinds.size() == shared_.cluster.node_kinds()) job.kinds.clear();
        check_kinds_of_nodes(i, devices);
    }

    void check_kinds_of_nodes(std::size_t i, const std::vector<std::string>& devices) {
        const SharedJob& job = shared_.jobs[i];
        if (job.kinds.empty()) return;
        for (const std::int64_t node : job.on_nodes) {
            if (node >= shared_.cluster.all_nodes()) return;  // said by check_on_nodes
            const std::size_t kind =
                shared_.cluster.kind_of_device(node * shared_.cluster.devices_per_node);
            if (std::find(job.kinds.begin(), job.kinds.end(), kind) != job.kinds.end()) continue;
            Diagnostic& fault = reading_.report("J005", job_pointer(i) + "/on_nodes",
                                                "the scenario is for another device than a node's");
            fault.arithmetic =
                fmt::format("its cluster has {}, node {} has \"{}\"", quoted(devices), node,
                            shared_.cluster.node_kind(kind).device);
            fault.help.push_back(
                "leave \"cluster\" out of the scenario, if it is to run there all the same");
            return;
        }
    }

    static bool is_among(const std::vector<std::string>& names, const std::string& name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    }

    // Where the nodes stand that the job's scenario is read with: the first kind that it fits, of
    // those that it gets where that is known.
    ClusterPlace place_of_nodes(const SharedJob& job) const {
        std::size_t kind = job.kinds.empty() ? 0 : job.kinds.front();
        if (!job.on_nodes.empty() && job.on_nodes.front() < shared_.cluster.all_nodes())
            kind = shared_.cluster.kind_of_device(job.on_nodes.front() *
                                                  shared_.cluster.devices_per_node);
        return kind == 0 ? ClusterPlace() : place_of_others(kind - 1);
    }

    // As large as the job, of nodes of one kind, none of them slow.
    Json cluster_of(const SharedJob& job, const ClusterPlace& place) {
        Json cluster = *reading_.document().find(place.pointer);
        for (const char* key :
             {"other_nodes", "slow_devices", "slow_nodes", "slow_links", "stragglers", "jitter"})
            cluster.erase(key);
        cluster["nodes"] = job.nodes;
        const std::vector<ClusterPlace> places = places_of_nodes(reading_.document());
        for (std::size_t kind = 0; kind < shared_.cluster.node_kinds(); ++kind)
            if (const std::string& path = shared_.cluster.node_kind(kind).profile_path;
                places[kind].pointer == place.pointer && !path.empty())
                cluster["profile"] = path;
        return cluster;
    }

    void read_scenario_of(std::size_t i, const std::vector<std::string>& sets, bool counted) {
        SharedJob& job = shared_.jobs[i];
        std::string name, folder;
        std::optional<Json> text = text_of(i, name, folder);
        if (!text) return;
        find_kinds(i, devices_named(*text, name, folder));
        // Of a cluster that is in error, or so many nodes as nobody knows, nothing follows.
        if (!counted || !cluster_is_sound()) return;
        const ClusterPlace place = place_of_nodes(job);
        (*text)["cluster"] = cluster_of(job, place);
        const bool here = name == path_;
        ReadResult read =
            read_scenario_text(text->dump(-1, ' ', false, Json::error_handler_t::replace), name,
                               folder, sets, library_, folders_.files);
        files_.insert(read.files.begin(), read.files.end());
        unreadable_ = unreadable_ || read.unreadable;
        for (Diagnostic& fault : read.errors) {
            const bool of_cluster = fault.pointer.rfind("/cluster", 0) == 0;
            if (of_cluster) fault.file = path_;
            if (of_cluster) fault.pointer.replace(0, ClusterPlace().pointer.size(), place.pointer);
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
        if (!counted) return;
        const std::int64_t there = shared_.cluster.all_nodes();
        if (all <= there) return check_fitting_nodes(taken);
        Diagnostic& fault =
            reading_.report("J002", "/jobs", "the jobs need more nodes than the cluster has");
        fault.arithmetic = fmt::format("{} = {} > {} nodes", sum, all, there);
        fault.help.push_back(fmt::format("{} nodes fewer in all, or cluster.nodes: {}", all - there,
                                         shared_.cluster.nodes + all - there));
    }

    // Of nodes that are told apart by their device; `taken`: by on_nodes.
    void check_fitting_nodes(const std::map<std::int64_t, std::size_t>& taken) {
        const Cluster& cluster = shared_.cluster;
        if (cluster.other_nodes.empty() || !cluster_is_sound()) return;
        std::vector<std::int64_t> free;
        for (std::size_t kind = 0; kind < cluster.node_kinds(); ++kind)
            free.push_back(cluster.node_kind(kind).nodes);
        for (const auto& [node, job] : taken)
            --free[cluster.kind_of_device(node * cluster.devices_per_node)];
        std::vector<std::size_t> placed;  // of jobs
        std::vector<NodeDemand> demands;
        for (std::size_t i = 0; i < shared_.jobs.size(); ++i) {
            if (!shared_.jobs[i].on_nodes.empty()) continue;
            placed.push_back(i);
            demands.push_back({shared_.jobs[i].nodes, shared_.jobs[i].kinds});
        }
        const NodeShares shares = share_nodes(demands, free);
        if (shares.too_many.empty()) return;
        std::string sum;
        std::int64_t needed = 0, there = 0;
        std::set<std::size_t> kinds;
        for (const std::size_t d : shares.too_many) {
            sum += fmt::format("{}{} {}", sum.empty() ? "" : " + ", shared_.jobs[placed[d]].name,
                               demands[d].nodes);
            needed += demands[d].nodes;
            kinds.insert(demands[d].kinds.begin(), demands[d].kinds.end());
            if (demands[d].kinds.empty())
                for (std::size_t kind = 0; kind < free.size(); ++kind)
                    kinds.insert(kind);
        }
        std::vector<std::string> devices;
        for (const std::size_t kind : kinds) {
            there += free[kind];
            if (!is_among(devices, cluster.node_kind(kind).device))
                devices.push_back(cluster.node_kind(kind).device);
        }
        Diagnostic& fault = reading_.report(
            "J009",
            shares.too_many.size() == 1 ? job_pointer(placed[shares.too_many.front()]) + "/nodes"
                                        : "/jobs",
            "more nodes of a device are needed than the cluster has");
        if (shares.too_many.size() > 1) sum += fmt::format(" = {}", needed);
        fault.arithmetic = fmt::format("{} > {} nodes of {}{}", sum, there, quoted(devices),
                                       taken.empty() ? "" : " that no job has by on_nodes");
        fault.help.push_back("a scenario without \"cluster\" fits any node");
    }

    void check_on_nodes(std::size_t i, std::map<std::int64_t, std::size_t>& taken) {
        for (const std::int64_t node : shared_.jobs[i].on_nodes) {
            const std::string pointer = job_pointer(i) + "/on_nodes";
            if (node >= shared_.cluster.all_nodes()) {
                reading_.report("J003", pointer, fmt::format("the cluster has no node {}", node))
                    .arithmetic = fmt::format("nodes 0 to {}", shared_.cluster.all_nodes() - 1);
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
