// The readers of a scenario's parts: each reads its keys with their types and ranges into its
// struct and reports what is wrong within the part. Rules across parts are in rules.hpp. Internal.
#pragma once

#include <map>
#include <string>

#include "plan/scenario/reading.hpp"
#include "plan/scenario/references.hpp"
#include "plan/scenario/scenario.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {

// What a Scenario does not hold but its resolved text must.
struct Verbatim {
    std::map<std::string, std::string> sources;  // of each framework constant, by key
};

// Of `path`, that is to be `what`: "the scenario".
Diagnostic cannot_be_read(const std::string& path, const std::string& what, const std::string& why);

void read_imported(Reading& reading);
inline constexpr IntegerRange kVocabularySizes = {1, 100'000'000};
void read_model(Reading& reading, Model& model);
std::vector<std::string_view> family_names();  // model_type of each
// The keys that the model settles, as its family spells them.
void write_model(const Model& model, Json& out);
void read_cluster(Reading& reading, const Folders& folders, Cluster& cluster);
// Where a cluster, or the nodes of another kind within it, stand: "/cluster" and "cluster", or
// "/cluster/other_nodes/0" and "cluster.other_nodes[0]".
struct ClusterPlace {
    std::string pointer = "/cluster";
    std::string field = "cluster";

    std::string at(const char* key) const { return pointer + '/' + key; }
    std::string named(const char* key) const { return field + '.' + key; }
};
// Of the cluster and of its nodes of other kinds, as far as they are objects.
std::vector<ClusterPlace> places_of_nodes(const Document& document);
ClusterPlace place_of_others(std::size_t index);
// The files that stand for them.
void follow_other_nodes(Reading& reading, const Folders& folders);
// The preset that stands for what is slow by chance.
void follow_stragglers(Reading& reading, const Folders& folders);
// Of a cluster whose profile is kThisMachine: which one that is depends on the layout's ranks,
// which share the machine.
void find_own_profile(Reading& reading, const Folders& folders, Scenario& scenario);

// `automatic` says whether data_parallel and layers_per_stage were left to be settled by the rules.
struct LayoutChoices {
    bool data_parallel_auto = true;
    bool layers_even = true;
};
// The key recompute_modules, and the words it takes.
std::vector<std::string_view> recomputed_module_names();
void read_recompute(Reading& reading, Section& keys, Layout& layout);
void read_lora(Reading& reading, Section& training, Lora& lora);
void read_routing(Reading& reading, ExpertRouting& routing);
void read_offload(Reading& reading, Offload& offload);
void read_host_memory(Reading& reading, const ClusterPlace& place,
                      Cluster& cluster);  // and storage
// After the link between nodes, and the key that it stands in.
void read_fabric(Reading& reading, const ClusterPlace& place, const Cluster& cluster,
                 InterNode& link);
Json written_fabric(const Fabric& fabric);
// Puts the library's prices of the cluster's devices beside them, where they have none.
void follow_price_lists(Reading& reading, const Folders& folders);
// That of the list, where it has none of its own.
void read_price(Reading& reading, const ClusterPlace& place, Section& keys, Cluster& cluster);
// What is not alike among the devices.
void read_uneven(Reading& reading, Section& keys, Cluster& cluster);
void read_layout(Reading& reading, Layout& layout, LayoutChoices& choices);

// Parts of the resolved scenario.
Json written_cluster(const Cluster& cluster, const Document& document);
Json written_layout(const Layout& layout);
Json written_training(const Training& training, const Document& document, const Verbatim& verbatim);
Json written_framework(const Framework& framework, const Verbatim& verbatim);
Json written_run(const Run& run, const Document& document);

void read_training(Reading& reading, Training& training, Model& model, Verbatim& verbatim);
void read_framework(Reading& reading, Section& keys, Precision precision, Framework& framework,
                    Verbatim& verbatim);
void read_run(Reading& reading, const Folders& folders, Run& run);
// The sections reliability and storage, of runs as a whole.
void read_fleet(Reading& reading, Scenario& scenario);
void write_fleet(const Scenario& scenario, Json& out);
// Its keys run.checkpoint and run.health.
void read_reliability(Reading& reading, Run& run);

}  // namespace orrery::plan
