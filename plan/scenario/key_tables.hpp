// The tables of a scenario's keys, one of each object; each stands beside the reader of its part.
// Internal to plan/scenario.
#pragma once

#include "plan/scenario/key.hpp"

namespace orrery::plan {

// Of the top level.
const Keys<Scenario>& scenario_keys();

const Keys<Layout>& layout_keys();
Keys<Layout> recompute_keys();
std::vector<KeySpec> schedule_keys();
const Keys<Offload>& offload_keys();

const Keys<Cluster>& cluster_keys();
const Keys<IntraNode>& intra_node_keys();
const Keys<InterNode>& inter_node_keys();
const Keys<Fabric>& fabric_keys();
const Keys<FabricLevel>& fabric_level_keys();
const Keys<HostMemory>& host_memory_keys();
const Keys<Storage>& storage_keys();
const Keys<ListPrice>& list_price_keys();
const Keys<SlowDevice>& slow_device_keys();
const Keys<SlowNode>& slow_node_keys();
const Keys<SlowLink>& slow_link_keys();
const Keys<StragglerShare>& straggler_share_keys();
const Keys<Stragglers>& straggler_keys();
const Keys<Jitter>& jitter_keys();

const Keys<Training>& training_keys();
const Keys<Lora>& lora_keys();
const Keys<ExpertRouting>& routing_keys();
// Each of them, of a preset or of training itself.
const Keys<Framework>& framework_constants();
// Of an object that stands in the place of a preset's name.
std::vector<KeySpec> framework_keys();

const Keys<Reliability>& reliability_keys();
const Keys<FailureCause>& failure_cause_keys();
const Keys<SharedStorage>& shared_storage_keys();

const Keys<Run>& run_keys();
const Keys<Run>& checkpoint_keys();
const Keys<Health>& health_keys();
const Keys<CtaBounds>& cta_keys();
const Keys<NcclGroups>& nccl_group_keys();
const Keys<NcclSettings>& nccl_keys();

std::vector<KeySpec> imported_keys();

}  // namespace orrery::plan
