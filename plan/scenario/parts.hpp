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
    std::string gradient_dtype;                  // "same" or a type
    std::map<std::string, std::string> sources;  // of each framework constant, by key
};

void read_imported(Reading& reading);
void read_model(Reading& reading, Model& model);
// The keys that the model settles, as its family spells them.
void write_model(const Model& model, Json& out);
void read_cluster(Reading& reading, const Folders& folders, Cluster& cluster);
// Of a cluster whose profile is kThisMachine: which one that is depends on the layout's ranks,
// which share the machine.
void find_own_profile(Reading& reading, const Folders& folders, Scenario& scenario);

// `automatic` says whether data_parallel and layers_per_stage were left to be settled by the rules.
struct LayoutChoices {
    bool data_parallel_auto = true;
    bool layers_even = true;
};
// Its keys recompute, recompute_every and recompute_modules.
void read_recompute(Reading& reading, Section& keys, Layout& layout);
// As layout.recompute_modules spells them.
Json modules_json(const RecomputedModules& modules);
void read_lora(Reading& reading, Section& training, Lora& lora);
Json lora_json(const Lora& lora);
void read_offload(Reading& reading, Offload& offload);
void read_host_memory(Reading& reading, Cluster& cluster);  // and storage
// After the link between nodes, and the key that it stands in.
void read_fabric(Reading& reading, const Cluster& cluster, InterNode& link);
// Puts the library's price of the cluster's device beside it, where it has none.
void follow_price_list(Reading& reading, const Folders& folders);
// Its own price, or that of the list; counts both keys as known.
void read_price(Reading& reading, Section& keys, Cluster& cluster);
// What is not alike among the devices; counts its keys as known.
void read_uneven(Reading& reading, Section& keys, Cluster& cluster);
void read_layout(Reading& reading, Layout& layout, LayoutChoices& choices);

void read_training(Reading& reading, Training& training, Model& model, Verbatim& verbatim);
void read_framework(Reading& reading, Section& keys, Precision precision, Framework& framework,
                    Verbatim& verbatim);
void read_run(Reading& reading, const Folders& folders, Run& run);
// Its keys run.checkpoint, run.health and run.verify_replicas_every_steps.
void read_reliability(Reading& reading, Section& keys, Run& run);

}  // namespace orrery::plan
