// The sections "reliability" and "storage": what a run of days meets beside its steps.
#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr double kMostHoursApart = 1e9;
constexpr NumberRange kHours = {0, kMostHoursApart, true, false};
constexpr NumberRange kSomeSeconds = {0, 1e7};

void read_causes(Reading& reading, Section& section, Reliability& reliability) {
    const Json* list = section.find("causes");
    if (list == nullptr) return;  // missed where it is required
    if (!list->is_array()) {
        section.wrong_type("causes", "an array of causes of failures");
        return;
    }
    for (std::size_t i = 0; i < list->size(); ++i)
        read_object(reading, fmt::format("/reliability/causes/{}", i),
                    fmt::format("reliability.causes[{}]", i), failure_cause_keys(),
                    reliability.causes.emplace_back());
}

}  // namespace

const Keys<FailureCause>& failure_cause_keys() {
    static const Keys<FailureCause> keys = {
        text<&FailureCause::cause>("cause", "What reports call it").required(),
        choice<&FailureCause::of>("of",
                                  "What it is counted by: each device, each node, or the run "
                                  "whatever its size"),
        number<&FailureCause::mean_hours>("mean_hours",
                                          "Between two failures of one device, node or run", kHours)
            .in("h")
            .required(),
        number<&FailureCause::detection_s>("detection_s",
                                           "Until it is noticed; reliability.detection_s unless "
                                           "given",
                                           kSomeSeconds)
            .in("s")
            .unset()
            .written_if([](const FailureCause& from) { return from.detection_s >= 0; }),
        flag<&FailureCause::replaces_node>("replaces_node", "Whether a spare takes its place"),
        flag<&FailureCause::silent>(
            "silent",
            "The run goes on until it is noticed, and that time has to be done again: silent data "
            "corruption"),
        source_note<FailureCause>(),
    };
    return keys;
}

const Keys<Reliability>& reliability_keys() {
    static const Keys<Reliability> keys = {
        text<&Reliability::name>("name", "What reports call it"),
        own<Reliability>("causes", KeyType::list, "Of failures, each with its rate",
                         specs(failure_cause_keys()))
            .required()
            .written_by([](const KeySpec&, const Reliability& from) {
                Json list = Json::array();
                for (const FailureCause& cause : from.causes)
                    list.push_back(written(failure_cause_keys(), cause));
                return list;
            }),
        number<&Reliability::rate_spread>("rate_spread",
                                          "How far clusters lie apart: standard deviation of the "
                                          "logarithm of all rates together",
                                          {0, 2}),
        number<&Reliability::detection_s>("detection_s", "Until a failure is noticed", kSomeSeconds)
            .in("s"),
        number<&Reliability::diagnosis_s>("diagnosis_s", "Until it is known where it was",
                                          kSomeSeconds)
            .in("s"),
        number<&Reliability::replacement_s>("replacement_s", "Until a spare has its place",
                                            kSomeSeconds)
            .in("s"),
        number<&Reliability::restart_s>("restart_s",
                                        "Until processes and communicators are there again, "
                                        "loading aside",
                                        kSomeSeconds)
            .in("s"),
        count<&Reliability::spare_nodes>("spare_nodes",
                                         "Nodes that wait for others to fail; \"auto\": as many "
                                         "as are rarely short",
                                         {1, 1'000'000})
            .or_word("auto"),
        number<&Reliability::repair_hours>("repair_hours", "Until a node is a spare again", kHours)
            .in("h"),
        choice<&Reliability::saving>("saving",
                                     "Whether training waits for a checkpoint to be written, or "
                                     "for its copy to host memory alone"),
        number<&Reliability::save_overhead_s>("save_overhead_s",
                                              "That training waits for each checkpoint beside "
                                              "moving bytes",
                                              kSomeSeconds)
            .in("s"),
        number<&Reliability::memory_checkpoint_s>(
            "memory_checkpoint_s",
            "Between copies of the states into other nodes' memory, from which a run goes on that "
            "lost a node; 0: none",
            kSomeSeconds)
            .in("s"),
        source_note<Reliability>(),
    };
    return keys;
}

bool keeps_data(const SharedStorage& storage) {
    return storage.cache != DataCache::none;
}

const Keys<SharedStorage>& shared_storage_keys() {
    static const Keys<SharedStorage> keys = {
        text<&SharedStorage::name>("name", "What reports call it"),
        number<&SharedStorage::node_GBps>("node_GBps", "Of one node, reading or writing", kPositive)
            .in("GB/s"),
        number<&SharedStorage::write_GBps>("write_GBps",
                                           "Writing, of all nodes together; 0: what the nodes can")
            .in("GB/s"),
        number<&SharedStorage::read_GBps>("read_GBps",
                                          "Reading, of all nodes together; 0: what the nodes can")
            .in("GB/s"),
        number<&SharedStorage::bytes_per_token>("bytes_per_token", "Of the data as it is stored",
                                                kPositive),
        number<&SharedStorage::cached_share>(
            "cached_share",
            "Of the data, what nodes read from their own disks, where no cache is said", {0, 1}),
        number<&SharedStorage::dataset_tokens>(
            "dataset_tokens", "Of one epoch; 0: those of the run, each read once", {0, 1e18}),
        number<&SharedStorage::tokens_per_read>("tokens_per_read",
                                                "Of one read; 0: of a whole sequence", {0, 1e12}),
        number<&SharedStorage::reads_per_s>(
            "reads_per_s", "That storage answers, of all nodes together; 0: as many as come",
            {0, 1e12}),
        number<&SharedStorage::read_latency_ms>(
            "read_latency_ms", "Until a read is answered, its bytes aside", {0, 1e6})
            .in("ms"),
        count<&SharedStorage::reads_in_flight>("reads_in_flight",
                                               "Of one node: its loaders' workers × what each asks "
                                               "for ahead",
                                               {1, 1'000'000}),
        number<&SharedStorage::read_jitter>(
            "read_jitter",
            "Standard deviation of the time that a step's data take, relative to its mean; "
            "lognormal",
            {0, 10}),
        count<&SharedStorage::prefetch_steps>(
            "prefetch_steps", "Steps whose data loaders hold ready", {1, 1'000'000}),
        choice<&SharedStorage::cache>("cache",
                                      "Whose disks (cluster.storage) keep what was read: a node's "
                                      "own, or those of all nodes together"),
        choice<&SharedStorage::eviction>("eviction",
                                         "What a full cache throws out: what was used longest ago, "
                                         "or nothing")
            .where("with a cache", keeps_data),
        flag<&SharedStorage::reshuffled>(
            "reshuffled", "Each epoch deals samples out anew between nodes, not within them alone")
            .where("with a cache", keeps_data),
        choice<&SharedStorage::warming>("warming",
                                        "How the cache is filled: by the first epoch, or before "
                                        "training, by each node or from node to node"),
        number<&SharedStorage::chunk_MB>("chunk_MB", "That a node of the chain passes on",
                                         kPositive)
            .in("MB")
            .where("with a cache", keeps_data),
        source_note<SharedStorage>(),
    };
    return keys;
}

void read_fleet(Reading& reading, Scenario& scenario) {
    Section reliability(reading, "/reliability", "reliability");
    if (reliability.exists()) {
        scenario.reliability.emplace();
        read_keys(reliability, reliability_keys(), *scenario.reliability);
        read_causes(reading, reliability, *scenario.reliability);
        reliability.finish();
    }
    SharedStorage storage;
    if (read_object(reading, "/storage", "storage", shared_storage_keys(), storage))
        scenario.storage = storage;
}

void write_fleet(const Scenario& scenario, Json& out) {
    if (scenario.reliability)
        out["reliability"] = written(reliability_keys(), *scenario.reliability);
    if (scenario.storage) out["storage"] = written(shared_storage_keys(), *scenario.storage);
}

}  // namespace orrery::plan
