// The resolved scenario: what a user asked for, after references, presets, overrides and "auto" are
// settled and every rule across fields holds. Everything after this header trusts these values.
// Keys, units and defaults are those of the scenario file; a field's JSON key is its name here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/model.hpp"
#include "plan/schedule/csv.hpp"

namespace orrery::plan {

// fp64 is for tests and for finding faults. fp8: the products of the layers' linears are of
// eight-bit numbers (Fp8), everything else as in bf16.
enum class Precision : std::uint8_t { fp32, bf16, fp16, fp64, fp8 };
enum class Recompute : std::uint8_t {
    none,
    selective,
    selective_op,     // every second product of a layer, and what is no product (torchtitan)
    selective_layer,  // every k-th layer, whole
    full,
    every_k
};
// How ranks that share out a sequence see each other's keys: K and V travel round them (Liu 2023),
// are gathered (Llama team 2024, section 3.3.2), or heads are exchanged for tokens (Jacobs 2023).
// Whether data-parallel ranks wait for the step's update, or for that of an older one (bounded
// staleness: Ho et al. 2013; Li et al., OSDI 2014).
enum class DataParallelMode : std::uint8_t { synchronous, parameter_server };
// Whether pipeline ranks share out the words of the embedding and of the head, and how they compute
// with them. interlaced: every rank waits for the others within a micro-batch's loss (Lin et al.,
// OSDI 2024, nnScaler); vocab_1: ranks go on meanwhile, with two more micro-batches in flight
// (Algorithm 1 of Yeung et al. 2024, arXiv 2411.05288); vocab_2: with one more, since the product
// for the head's input is made before the sums of all parts are there (Algorithm 2).
enum class VocabularyParallel : std::uint8_t { none, interlaced, vocab_1, vocab_2 };
enum class ContextAlgorithm : std::uint8_t { ring, all_gather, all_to_all };
enum class AttentionKernel : std::uint8_t { flash, unfused };
// In what gradients are summed: in the type of the weights, or in a wider one.
enum class GradientType : std::uint8_t { same, bf16, fp16, fp32, fp64 };
enum class DropoutMasks : std::uint8_t { stored, recomputed };
// never: a rank computes nothing while it sends or receives; interleaved: only schedules with
// virtual stages overlap, as Megatron-LM does.
enum class TransferOverlap : std::uint8_t { always, interleaved, never };
// per_peer: transfers that overlap with computation go in a stream for each pipeline rank that they
// are from or to; one: all in one, as they are issued.
enum class TransferStreams : std::uint8_t { one, per_peer };
enum class LogitsType : std::uint8_t { same, fp32 };
// What the loss makes of the logits: their place is overwritten; log-probabilities and gradients
// have places of their own; as that, of the logits of all tensor ranks; their place is overwritten,
// and the maximum of a row is found in the same pass as the sum (Milakov and Gimelshein 2018, arXiv
// 1805.02867; the kernels of Liger and of Transformer Engine).
enum class LossLogits : std::uint8_t { in_place, copied, gathered, fused };
enum class LossKernel : std::uint8_t { fused, composed };
enum class NormKernel : std::uint8_t { fused, composed, fused_add };
enum class ActivationKernel : std::uint8_t { own, epilogue };
enum class ResidualKernel : std::uint8_t { own, epilogue };
enum class BiasGradientKernel : std::uint8_t { own, epilogue };
// Sequence parallelism: what was gathered for a product of forward is gathered again for its weight
// gradient (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2), or kept whole until then.
enum class GatheredInputs : std::uint8_t { again, kept };
// one_by_one: a product of its own for each expert of a rank, whose rows are tensors of their own.
enum class ExpertProducts : std::uint8_t { grouped, one_by_one };
enum class ExpertBiases : std::uint8_t { kernels, split };
enum class PermuteKernel : std::uint8_t { fused, indexed, masked };
// in_place: shards are gathered where they are used, and gradients summed where they are reduced.
// flat: the gradients of a part are joined before they are reduced. copied: what was gathered is
// copied out, too, before its use. bucketed: both, beside compute under ZeRO-3.
enum class ShardedBuffers : std::uint8_t { in_place, flat, copied, bucketed };
enum class CountReadings : std::uint8_t { none, each_pass, each_product, each_mask };
// alltoall: a token's row goes out once for each of its experts, and as many come back.
// deduplicated: once to each rank that has experts of the token, which sums what they make of it
// (DeepEP; Megatron Core's "flex"). allgather: every rank gets the rows of all, and takes what is
// for its experts.
enum class ExpertDispatcher : std::uint8_t { alltoall, deduplicated, allgather };
// nvswitch: any device reaches any other at its full rate; xgmi: one direct link for each pair, the
// rate divided among them; pcie and host: a shared root or memory, taken as a switch; torus: links
// to the two neighbours on each axis alone.
enum class IntraNodeKind : std::uint8_t { nvswitch, xgmi, pcie, host, hybrid_cube_mesh, torus };
// What joins nodes: ethernet is TCP sockets on it, roce RDMA on it; efa is Amazon's adapter.
enum class InterNodeKind : std::uint8_t {
    none,
    infiniband,
    ethernet,
    roce,
    efa,
    slingshot,
    omni_path
};
// How nodes hang on their switches: all alike on one fabric, so many nodes on one leaf, or the
// devices of one place in their nodes on one leaf.
enum class FabricKind : std::uint8_t { uniform, fat_tree, rail };
// Which way a message goes between devices on different rails: over NVLink to the device of its
// own node that is on the rail of the other end (NCCL's PXN), or over the spine.
enum class CrossRail : std::uint8_t { nvlink, spine };
// Where what a device need not hold all the time is kept; none: on the device.
enum class KeptOn : std::uint8_t { none, host, disk };
// In what a layer's activations wait for backward: as forward made them, or rounded.
enum class ActivationStash : std::uint8_t { same, bf16, fp8 };
// What the host launches at once where kernels are captured in CUDA graphs: each layer's forward
// and backward pass, or all of a step but its optimizer (Megatron-LM's full_iteration).
enum class CudaGraphs : std::uint8_t { none, per_layer, full_iteration };
// In what the optimizer keeps a state between steps. same: as it computes, in fp32 (fp64 in fp64);
// none: of main parameters, that the weights themselves are stepped.
enum class StateType : std::uint8_t { same, bf16, fp16, fp8, none };

struct TorusAxis {
    std::int64_t devices = 1;
    bool wraps = true;  // a link joins the last device to the first
    bool operator==(const TorusAxis&) const = default;
};

inline constexpr std::size_t kMostTorusAxes = 3;

struct IntraNode {
    IntraNodeKind kind = IntraNodeKind::nvswitch;
    double bandwidth_GBps = 0;  // per device, one direction, all its links together
    double latency_us = 0;      // of a torus: of each link on the way
    // Hybrid cube mesh: between the two halves of a node, of all devices together, one direction;
    // the way of those that no link joins.
    double host_GBps = 0;
    // Torus: the first axis is that on which devices of neighbouring numbers lie side by side.
    std::vector<TorusAxis> axes{};

    bool operator==(const IntraNode&) const = default;
};

// Switches of one level of a fabric, from the leaves up: so many nodes lie below one of them.
struct FabricLevel {
    std::int64_t nodes = 1;
    double oversubscription = 1;  // what comes from below ÷ what the links upwards carry

    bool operator==(const FabricLevel&) const = default;
};

inline constexpr std::int64_t kCubeMeshDevices = 8;
inline constexpr double kMostOversubscription = 1000;
inline constexpr std::size_t kMostFabricLevels = 3;

// Above its last level everything is joined.
struct Fabric {
    FabricKind kind = FabricKind::uniform;
    std::vector<FabricLevel> levels{};  // none where it is uniform; nodes grow by whole factors
    CrossRail cross_rail = CrossRail::nvlink;
    double switch_latency_us = 0;  // of each switch beyond the first

    bool operator==(const Fabric&) const = default;
};

struct InterNode {
    InterNodeKind kind = InterNodeKind::none;
    int nics_per_node = 0;
    double bandwidth_Gbps = 0;  // per NIC, one direction
    double latency_us = 0;
    double oversubscription = 1.0;  // of a uniform fabric above its leaves; 1 = full bisection
    Fabric fabric{};

    bool operator==(const InterNode&) const = default;
};

// Of a node, and the way from it to each of its devices; 0 where the cluster does not say.
struct HostMemory {
    double capacity_GB = 0;     // 1e9 bytes, per node
    double bandwidth_GBps = 0;  // per device, one direction (PCIe); both at once
    double latency_us = 0;      // of one copy

    bool operator==(const HostMemory&) const = default;
};

// Of a node: what its devices share.
struct Storage {
    double capacity_GB = 0;
    double read_GBps = 0;
    double write_GBps = 0;
    double latency_us = 0;  // of one read or write

    bool operator==(const Storage&) const = default;
};

// A device whose kernels take `factor` times as long as the profile says.
struct SlowDevice {
    std::int64_t device = 0;  // of the cluster, node by node; rank r runs on device r
    double factor = 1;

    bool operator==(const SlowDevice&) const = default;
};

// A node all of whose devices' kernels take `factor` times as long; of a device that is slow
// besides the factors are multiplied.
struct SlowNode {
    std::int64_t node = 0;
    double factor = 1;

    bool operator==(const SlowNode&) const = default;
};

enum class LinkOf : std::uint8_t { intra_node, inter_node };

// A link with 1/`factor` of its bandwidth: a device's to those of its node, or the network adapter
// that it sends through; of one device, or of all of a node.
struct SlowLink {
    std::int64_t device = -1;  // of the cluster; −1: all of …
    std::int64_t node = -1;
    LinkOf link = LinkOf::inter_node;
    double factor = 1;

    bool operator==(const SlowLink&) const = default;
};

// What is slow by chance: so large a share of all devices, nodes, links of devices, or adapters of
// nodes, each for itself.
enum class StragglerOf : std::uint8_t { device, node, intra_node, inter_node };
struct StragglerShare {
    StragglerOf of = StragglerOf::node;
    double share = 0;
    double factor = 1;

    bool operator==(const StragglerShare&) const = default;
};

// Which ones are slow is drawn from the seed (sim/engine/drawn_cluster.hpp).
struct Stragglers {
    std::string name;  // for reports
    std::vector<StragglerShare> slow;
    double common_sd = 0;  // of one factor on the kernels of all devices, of mean 1
    std::int64_t seed = 1;

    bool any() const { return !slow.empty() || common_sd > 0; }

    bool operator==(const Stragglers&) const = default;
};

enum class JitterDistribution : std::uint8_t { none, normal, lognormal };
enum class JitterPer : std::uint8_t { kernel, device };  // what draws a factor of its own

// Factors on the time of kernels, of mean 1.
struct Jitter {
    JitterDistribution distribution = JitterDistribution::none;
    JitterPer per = JitterPer::kernel;
    double relative_sd = 0;
    std::int64_t seed = 1;

    bool any() const { return distribution != JitterDistribution::none && relative_sd > 0; }

    bool operator==(const Jitter&) const = default;
};

// What a device is rented for per hour, by public price lists of a day: for clusters that say
// nothing of their own price (scenarios/prices.json).
struct ListPrice {
    double usd = 0;  // on demand, the middle of the lists; all of them lie from low to high
    double low_usd = 0;
    double high_usd = 0;
    std::string date;  // "2026-09-20"
    std::string source;

    bool operator==(const ListPrice&) const = default;
};

inline constexpr std::size_t kMostNodeKinds = 32;

struct Cluster {
    std::int64_t nodes = 1;  // of its own; see other_nodes
    std::int64_t devices_per_node = 1;
    std::string device;        // name as in the profile
    std::string profile_path;  // absolute or relative to the scenario library; as resolved
    IntraNode intra_node;
    InterNode inter_node;
    HostMemory host_memory;
    Storage storage;
    double price_usd_per_gpu_hour = 0;     // 0: unknown, or that of the list
    std::optional<ListPrice> list_price;   // where the scenario has no price
    double power_w_per_gpu = 0;            // 0: unknown, energy is not reported
    double pue = 1.0;                      // power usage effectiveness of the site
    std::string name;                      // for reports; may be empty
    std::vector<SlowDevice> slow_devices;  // ascending, as are nodes
    std::vector<SlowNode> slow_nodes;
    std::vector<SlowLink> slow_links;
    Stragglers stragglers;
    double all_slow_factor = 1;  // on the kernels of all devices; no key, but drawn
    Jitter jitter;
    // Nodes of other kinds, with as many devices each, which come after its own in this order: each
    // a cluster with a nodes count, a device and links, and no further ones.
    std::vector<Cluster> other_nodes;

    // Those of other kinds are among them.
    std::int64_t all_nodes() const;
    // As large, of the nodes of one kind alone.
    Cluster all_of_kind(std::size_t kind) const;
    std::int64_t devices() const { return all_nodes() * devices_per_node; }
    // 0: its own nodes; k: those of other_nodes[k − 1].
    std::size_t node_kinds() const { return 1 + other_nodes.size(); }
    const Cluster& node_kind(std::size_t kind) const {
        return kind == 0 ? *this : other_nodes[kind - 1];
    }
    std::size_t kind_of_device(std::int64_t of_device) const;
    // The first `first` devices by the kinds of their nodes.
    std::vector<std::int64_t> devices_by_kind(std::int64_t first) const;

    // Of a device of its own nodes; 0: unknown, and cost is not reported.
    double usd_per_device_hour() const {
        return list_price ? list_price->usd : price_usd_per_gpu_hour;
    }
    // Of the first `first` devices together; 0: of one of them it is unknown.
    double usd_per_hour(std::int64_t first) const;
    double site_power_w(std::int64_t first) const;  // with the site's own needs (pue)
    // What the kernels of a device take, as a multiple of what the profile says.
    double slow_factor(std::int64_t of_device) const;
    // Whether all devices and links are as fast as their like, every time.
    bool even() const;
    // The same cluster, with all of them so.
    Cluster made_even() const;

    bool operator==(const Cluster&) const = default;
};

// What is kept off the device between its uses (Ren et al. 2021, ZeRO-Offload, arXiv 2101.06840;
// Rajbhandari et al. 2021, ZeRO-Infinity, arXiv 2104.07857).
struct Offload {
    KeptOn optimizer = KeptOn::none;
    KeptOn gradients = KeptOn::none;
    KeptOn parameters = KeptOn::none;
    KeptOn activations = KeptOn::none;
    // Fetched ahead of their use: buckets of states, actions of activations.
    std::int64_t prefetch = 1;

    bool uses(KeptOn tier) const {
        return optimizer == tier || gradients == tier || parameters == tier || activations == tier;
    }
    bool any() const { return uses(KeptOn::host) || uses(KeptOn::disk); }

    bool operator==(const Offload&) const = default;
};

// Modules of a layer that `selective` recomputation makes again, under Megatron-LM's names
// (--recompute-modules). The core of attention and the MLP run again whole; the others let their
// results go and make them again from what they read.
struct RecomputedModules {
    bool core_attention = true;
    bool norms = false;
    bool mlp = false;  // of layers that are no mixtures of experts
    bool activation = false;
    bool latent_up = false;  // what latents are multiplied to: heads before attention
    bool experts = false;    // the router, the experts and those that all tokens go through
    bool expert_activation = false;

    bool operator==(const RecomputedModules&) const = default;
};

// Degrees of parallelism; data_parallel is resolved.
struct Layout {
    std::int64_t tensor_parallel = 1;
    std::int64_t pipeline_parallel = 1;
    std::int64_t context_parallel = 1;
    ContextAlgorithm context_algorithm = ContextAlgorithm::ring;
    std::int64_t expert_parallel = 1;
    std::int64_t expert_tensor_parallel = 1;  // ranks that each expert's matrices are cut among
    // Rows for which there is room on a rank, as a multiple of those that come when all experts are
    // chosen alike often; a run to which more come stops.
    double expert_row_bound = 2;
    ExpertDispatcher expert_dispatcher = ExpertDispatcher::alltoall;
    bool overlap_expert_communication = false;  // a forward and a backward pass take turns, so that
                                                // one computes while the other's rows are exchanged
    // Gradients of experts are kept apart by the rank whose rows they come of, until they are
    // summed: the same bits whatever expert_parallel is.
    bool expert_gradients_by_source = false;
    std::int64_t data_parallel = 1;
    std::int64_t virtual_pipeline = 1;
    std::string schedule = "1f1b";  // name of a kind, or of what was imported
    ImportedGrid imported;          // rows: none, unless the schedule is a file of actions
    VocabularyParallel vocabulary_parallel = VocabularyParallel::none;
    std::vector<std::int64_t> layers_per_stage;  // resolved: pipeline × virtual counts, stage order
    bool sequence_parallel = false;
    int zero_stage = 0;
    std::int64_t zero_group_size = 0;   // ranks that share out states; 0: all of a data group
    bool reshard_after_forward = true;  // ZeRO-3: false keeps gathered parameters until backward
    Recompute recompute = Recompute::none;
    RecomputedModules recompute_modules;  // selective: which
    std::int64_t recompute_every = 0;  // every_k: layers per group; 0: √ of the stage's, rounded;
                                       // selective_layer: one of so many
    // The optimizer does not wait for the statistics of gradients of the other stages.
    bool optimizer_post_validation = false;
    DataParallelMode data_parallel_mode = DataParallelMode::synchronous;
    // Updates that a step's parameters may lack: step c is computed with those of the steps up to
    // c − 1 − staleness. 0: all of them.
    std::int64_t staleness = 0;
    Offload offload;
    ActivationStash activation_stash = ActivationStash::same;
    std::int64_t micro_batch_size = 1;
    std::int64_t global_batch_size = 1;

    std::int64_t ranks() const {
        return tensor_parallel * pipeline_parallel * context_parallel * data_parallel;
    }
    std::int64_t gradient_sources() const {
        return expert_gradients_by_source ? expert_parallel * expert_tensor_parallel : 1;
    }
    // Ranks that hold the same parameters, and those of them that share out states between them.
    std::int64_t data_ranks() const { return data_parallel * context_parallel; }
    std::int64_t zero_ranks() const {
        if (zero_stage == 0) return 1;
        return zero_group_size > 0 ? zero_group_size : data_ranks();
    }
    // Whether the share of a context rank is two chunks, one from either end of the sequence, so
    // that causal attention is the same work on all of them.
    bool balances_context() const {
        return context_parallel > 1 && context_algorithm != ContextAlgorithm::all_to_all;
    }
    std::int64_t stages() const { return pipeline_parallel * virtual_pipeline; }
    bool shares_vocabulary() const { return vocabulary_parallel != VocabularyParallel::none; }
    // Ranks that share out the words of the embedding, and those of the head.
    std::int64_t vocabulary_ranks() const {
        return tensor_parallel * (shares_vocabulary() ? pipeline_parallel : 1);
    }
    std::int64_t micro_batches() const {
        return global_batch_size / (data_parallel * micro_batch_size);
    }

    bool operator==(const Layout&) const = default;
};

// How the operands of eight-bit products are scaled: as Transformer Engine's DelayedScaling,
// Float8CurrentScaling (torchao's "tensorwise"), torchao's "rowwise", Transformer Engine's
// Float8BlockScaling and MXFP8BlockScaling.
enum class Fp8Recipe : std::uint8_t { none, delayed, tensorwise, rowwise, blockwise, mxfp8 };

// What stacks do differently within a recipe. The defaults are those of the recipe's stack and are
// settled when a scenario is read.
struct Fp8 {
    Fp8Recipe recipe = Fp8Recipe::none;
    bool weights_per_step = false;  // copies of weights are made once per step and kept, not for
                                    // each use
    bool packed_stash = false;      // backward finds eight-bit copies of inputs, not the inputs
    bool transposes = false;        // products read rows alone, so that columns are made rows of
    bool parameters = false;        // the layers' matrices are held in eight bits, beside masters

    bool on() const { return recipe != Fp8Recipe::none; }
    // One scale for a tensor, so that a copy by columns is the transpose of that by rows.
    bool whole_tensors() const {
        return recipe == Fp8Recipe::delayed || recipe == Fp8Recipe::tensorwise;
    }
    // Under sequence parallelism eight-bit copies are gathered, not what they are made of.
    bool gathers_copies() const { return packed_stash && recipe != Fp8Recipe::rowwise; }
    // What lies in eight bits by rows does not tell its copy by columns, so that parameters are
    // gathered in 16 bits and cast for both (Megatron Core's reuse_grad_buf_for_mxfp8_param_ag).
    bool casts_gathered() const { return parameters && recipe == Fp8Recipe::mxfp8; }

    bool operator==(const Fp8&) const = default;
};

struct Optimizer {
    std::string kind = "adamw";
    double learning_rate = 3e-4;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1;
    double clip_norm = 1.0;  // 0: no clipping, no global norm
    // Types of what is kept between steps; a step computes in fp32 and rounds to nearest.
    StateType first_moment = StateType::same;
    StateType second_moment = StateType::same;
    StateType main_parameters = StateType::same;

    bool operator==(const Optimizer&) const = default;
};

// How a stack of its time runs what moves memory: eager: an operation of PyTorch each, attention
// unfused (to 2022); fused: attention and norms in a kernel each; compiled: what can be is fused.
// other: of none that is known, as Orrery's own.
enum class StackGeneration : std::uint8_t { other, eager, fused, compiled };

// Runs of a stack on one kind of device that its predictions were held against.
struct MeasuredOn {
    std::string device;           // as profiles name it; kAnyCpu: whatever a CPU is called
    std::int64_t step_times = 0;  // how many were measured
    std::int64_t peaks = 0;       // of memory, outcomes (ran, or ran out) counted too
    std::string source;

    bool operator==(const MeasuredOn&) const = default;
};

inline constexpr const char* kAnyCpu = "cpu";

// What a training stack does that a layout does not say. Defaults come from the preset file
// scenarios/frameworks/<name>.json, where each carries its source; training.* keys override.
struct Framework {
    std::string name = "orrery";
    bool assumed = false;  // nobody named it
    StackGeneration generation = StackGeneration::other;
    std::string released;  // of what the constants are: "2023", "24.11"; may be empty
    std::vector<MeasuredOn> measured_on;  // none: nothing is known but what it says of itself
    AttentionKernel attention_kernel = AttentionKernel::flash;
    GradientType gradient_dtype = GradientType::same;
    int gradient_bytes = 2;  // bytes per element of the accumulated gradient: what that comes to
    // stored: a byte per element kept for backward; recomputed: backward draws the same
    // counter-based random numbers again.
    DropoutMasks dropout_masks = DropoutMasks::recomputed;
    // fp32: the loss works on a copy of the logits in fp32, which is kept for backward.
    LogitsType logits_dtype = LogitsType::same;
    LossLogits loss_logits = LossLogits::in_place;
    // composed: the maximum is taken off, exponentials made and divided by their sum in passes of
    // their own over the logits.
    LossKernel loss_kernel = LossKernel::fused;
    // composed: of single operations, which keep a copy of the input in fp32 and one of the result
    // before it is weighted. fused_add: one that follows a layer's residual addition makes the sum,
    // too, which is a read of the sum less.
    NormKernel norm_kernel = NormKernel::fused;
    // epilogue: the function between an MLP's products is done by their kernels, where these can
    // (plan/ops/epilogues.hpp).
    ActivationKernel activation_kernel = ActivationKernel::own;
    // epilogue: the product at the end of a layer's branch adds the residual, where nothing comes
    // between; a norm of fused_add has those sums that are left.
    ResidualKernel residual_kernel = ResidualKernel::own;
    // epilogue: the product that makes a linear's weight gradient sums its bias's, too, where it
    // reads the same rows.
    BiasGradientKernel bias_gradient_kernel = BiasGradientKernel::own;
    GatheredInputs gathered_inputs = GatheredInputs::again;
    // grouped: one product of all experts of a rank; one_by_one: one after another, of each its
    // own, whose results, and gradients of rows, are then joined.
    ExpertProducts expert_products = ExpertProducts::grouped;
    // kernels: all that a rank's experts do takes one kernel each. split: the host launches each
    // expert's products and casts; biases of the first product are added in it, those of the second
    // expert by expert by single operations, so are gate and up clamped, and activations without a
    // gate weighed, for which they are kept.
    ExpertBiases expert_biases = ExpertBiases::kernels;
    // indexed: what copies tokens' rows by expert, and sums them, are PyTorch's indexing
    // operations, whose scatters add by atomics. masked: where experts have a capacity, products of
    // each sequence's tokens by masks that say whose row goes where.
    PermuteKernel permute_kernel = PermuteKernel::fused;
    // What is copied between the buffers that ranks gather into, or reduce from, and the tensors of
    // parts, where parameters or gradients are sharded.
    ShardedBuffers sharded_buffers = ShardedBuffers::in_place;
    // When the host waits for the device to read how many rows came to experts, which sizes what it
    // launches next: never (kernels read it themselves), once a forward pass, or before each
    // exchange and product, of which it then launches one for each expert. each_mask: once a
    // forward pass, also where rows are filled up, as PyTorch's masked_select waits for its size.
    CountReadings count_readings = CountReadings::none;
    bool recompute_stops_early = false;     // full: not beyond the last op that backward reads of
    bool overlap_gradient_reduce = true;    // bucket reductions run behind the last backward
    bool overlap_parameter_gather = false;  // ZeRO-1 and 2: parameters are gathered before their
                                            // first use in the next step, not after this one's
    TransferOverlap overlap_pipeline_transfers = TransferOverlap::always;
    TransferStreams transfer_streams = TransferStreams::one;
    // Where a rank does not compute while it sends or receives: nor does its host launch anything
    // until the device has done all that it has been given.
    bool host_waits_for_transfers = false;
    std::int64_t tensor_overlap_parts = 1;  // sequence parallelism: tokens are gathered and summed
                                            // in so many parts beside each other's products
    bool overlap_tensor_backward =
        true;  // backward tensor all-reduce runs behind the weight gradient
    bool defer_embedding_gradient = false;  // the head's weight gradient waits for the last stage's
                                            // other work
    bool scatter_gather_transfers = true;   // pipeline transfers without sequence parallelism: each
                                            // tensor rank sends 1/t, the receivers gather
    std::int64_t zero_prefetch = 1;         // ZeRO-3: parts that are gathered ahead of their use
    double gradient_bucket_mb = 100;        // 1e6 bytes of gradient per bucket, at least …
    double gradient_bucket_mb_per_rank = 0;  // … this × data-parallel ranks
    std::int64_t vocabulary_multiple = 128;  // vocabulary is padded to a multiple of this × tensor
    double launch_us = 5.0;                  // host time to issue one kernel or collective,
    double backward_launch_factor = 1;       // times this in backward,
    double collective_launch_factor = 1;     // times this a collective,
    double transfer_launch_factor = 1;       // times this a transfer of the pipeline
    std::int64_t launch_queue = 1024;        // ops that the host may run ahead
    // How this stack's kernels and overlap differ from what a profile measured alone.
    double kernel_factor = 1;         // time of every kernel of a step over the profile's
    double straggler_share = 0;       // what each doubling of the nodes adds to it: a step waits
                                      // for the slowest of them
    double attention_factor = 1;      // time of fused attention over the profile's
    double memory_kernel_factor = 1;  // time of memory-bound kernels over the profile's
    double column_cast_factor = 1;    // time to cast by columns what has a scale per row or block,
                                      // over that of moving its bytes
    double overlap_factor = 1;        // what compute takes longer while the rank communicates, over
                                      // the profile's
    double deviation_factor = 1;      // of the profile's deviations, what runs of this stack show
    double residual_sd = 0;           // relative deviation of its steps that no kernel explains
    double workspace_mb = 32;         // GEMM workspace in the arena
    double context_mb = 0;            // driver context, libraries, NCCL base: outside the arena
    double communicator_mb = 0;       // per process group of more than one rank
    double fragmentation = 0;         // share of the arena that the allocator loses

    bool operator==(const Framework&) const = default;
};

// What the device takes between two kernels of a graph beyond what it takes between two of a
// stream, and what a kernel of a graph takes of its memory. Kernels' timings are made on streams,
// where NVIDIA measured 3.8 µs for each kernel that runs for 2.9, and 3.4 in a graph (Gray 2019,
// developer.nvidia.com/blog/cuda-graphs): no more. The memory is what a graph of empty kernels was
// seen to take for each more, 63 MiB for a thousand (forums.developer.nvidia.com, topic 244901).
struct GraphCapture {
    CudaGraphs scope = CudaGraphs::none;
    double node_us = 0;
    double node_kb = 64;  // 1e3 bytes

    bool operator==(const GraphCapture&) const = default;
};

// Low-rank adaptation (Hu et al. 2021, arXiv 2106.09685): the model's own parameters stay as they
// are, and beside each chosen linear y = x·Wᵀ are trained A, [rank, in], and B, [out, rank]:
// y += alpha/rank · (x·Aᵀ)·Bᵀ. Linears are called as in Megatron Bridge (peft/lora.py).
struct Lora {
    std::int64_t rank = 0;  // 0: all parameters are trained, and there are no others
    double alpha = 32;
    bool qkv = true;         // linear_qkv
    bool projection = true;  // linear_proj
    bool fc1 = true;         // linear_fc1, gate and up together
    bool fc2 = true;         // linear_fc2

    bool on() const { return rank > 0; }
    double factor() const { return alpha / static_cast<double>(rank); }
    // By the name that a linear's parameters begin with.
    bool adapts(std::string_view linear) const;

    bool operator==(const Lora&) const = default;
};

enum class Decay : std::uint8_t { constant, cosine };

// Linear warm-up from 0 over warmup_steps, then constant or a cosine down to min_learning_rate at
// the last step of the run.
struct LearningRateSchedule {
    std::int64_t warmup_steps = 0;
    Decay decay = Decay::constant;
    double min_learning_rate = 0;

    bool operator==(const LearningRateSchedule&) const = default;
};

// How a dynamic loss scale moves (fp16; Micikevicius et al. 2018, arXiv 1710.03740): halved, not
// below the minimum, once `hysteresis` steps have overflowed since it last grew; doubled after
// growth_interval steps in a row that have not. Rule, minimum and hysteresis are Megatron-LM's
// (megatron/core/optimizer/grad_scaler.py), its --loss-scale-window 1000; it starts at 2^32 and
// skips its way down, this one where PyTorch's GradScaler does.
struct DynamicLossScale {
    double initial = 65536;
    std::int64_t growth_interval = 1000;
    std::int64_t hysteresis = 2;
    double minimum = 1;

    bool operator==(const DynamicLossScale&) const = default;
};

// A step whose loss is more than skip_above × the mean loss of the last `window` accepted steps is
// not taken. Nothing is skipped before `window` steps have been accepted.
struct LossSpike {
    double skip_above = 0;  // 0: every step is taken
    std::int64_t window = 0;

    bool skips() const { return skip_above > 0; }

    bool operator==(const LossSpike&) const = default;
};

// Megatron-LM's --rampup-batch-size: the global batch grows from start_batch_size to
// layout.global_batch_size by equal increments, each of which lasts for an equal share of
// over_samples; see global_batch_at(). A simulated step is one of the whole batch.
struct BatchRamp {
    std::int64_t start_batch_size = 0;  // 0: the whole batch from the first step on
    std::int64_t increment = 0;
    std::int64_t over_samples = 0;

    bool operator==(const BatchRamp&) const = default;
};

// How often experts are chosen, which a plan does not say and a price depends on: all alike often;
// each token's at random, as routers do that balance; by shares of a Dirichlet distribution, or of
// Zipf's law, which expert has which share drawn anew for each layer; or as was counted.
enum class ExpertLoad : std::uint8_t { uniform, random, dirichlet, zipf, counts };

// Of which tokens experts are balanced, and have their capacity: of a sequence, which is the same
// in every layout; of a micro-batch, on all ranks that share it out; of what one rank has of it.
enum class BalanceUnit : std::uint8_t { sequence, micro_batch };
enum class CapacityUnit : std::uint8_t { sequence, rank };

struct ExpertRouting {
    ExpertLoad distribution = ExpertLoad::random;
    double alpha = 10;      // of the Dirichlet distribution: the smaller, the less alike
    double exponent = 0.5;  // of Zipf's law
    std::int64_t seed = 1;
    std::vector<std::vector<std::int64_t>> counts;  // rows of experts: how often each was chosen
    double balance_loss = 0;  // what the balance within units counts for in the loss
    BalanceUnit balance_of = BalanceUnit::sequence;
    // Rows that an expert takes of a unit's, as a multiple of those that are its when all are
    // chosen alike often; 0: all that come. Which ones, and whether fewer are filled up.
    double capacity_factor = 0;
    CapacityUnit capacity_of = CapacityUnit::sequence;
    DropPolicy drop_policy = DropPolicy::probs;
    bool pads_to_capacity = false;
    double z_loss = 0;  // what the squares of the router's logarithms of sums count for in it
    double bias_rate =
        0.001;  // what a step adds to or takes from a router's bias, where it has one

    bool drops() const { return capacity_factor > 0; }

    bool operator==(const ExpertRouting&) const = default;
};

struct Training {
    std::int64_t sequence_length = 0;
    Precision precision = Precision::bf16;
    Fp8 fp8;
    double loss_scale = 0;  // fp16: constant; 0: dynamic
    DynamicLossScale dynamic_loss_scale;
    LossSpike loss_spike;
    BatchRamp batch_ramp;
    std::int64_t seed = 1234;  // of first weights, dropout and the order of samples
    double tokens = 0;         // of the whole run; 0: unknown, the run is not reported
    // What the loss of multi-token prediction counts for beside the model's own (Megatron-LM's
    // default; DeepSeek-AI 2024, section 4.2: 0.3, later 0.1).
    double mtp_loss_scaling_factor = 0.1;
    // The head's products, the loss and its gradient go over the tokens in so many parts, one after
    // another, so that the logits of one part are all that is ever held. 1: whole.
    std::int64_t loss_chunks = 1;
    // The same run has the same bits. Else gradients may be summed in an order that differs from
    // run to run, where a faster kernel does that: attention's on GPUs.
    bool deterministic = true;
    Lora lora;
    ExpertRouting routing;
    Optimizer optimizer;
    Framework framework;
    GraphCapture cuda_graphs;
    LearningRateSchedule schedule;

    bool operator==(const Training&) const = default;
};

// automatic: by the file's ending and first bytes.
enum class DataFormat : std::uint8_t { automatic, text, nanogpt, llmc, megatron };
// To which cores a rank is bound. automatic: those of its GPU's NUMA node, or a share of the NUMA
// nodes, where nothing else has bound the process; numa: in any case, or the run does not begin.
enum class BindTo : std::uint8_t { automatic, numa, none };

// SMs that one communicator's kernels take, a block on each; 0: silent.
struct CtaBounds {
    std::int64_t min = 0, max = 0;

    bool operator==(const CtaBounds&) const = default;
};

// Of communicators by what travels on them; silent ones are bound as all are.
struct NcclGroups {
    CtaBounds tensor, context, expert;
    CtaBounds data;      // ranks that sum gradients and share out states, experts' too
    CtaBounds pipeline;  // neighbours, and the ends that sum a tied embedding

    bool operator==(const NcclGroups&) const = default;
};

// Settings of NCCL that a run is launched with; empty, 0 or −1 where the scenario leaves one to the
// environment, or to NCCL.
struct NcclSettings {
    std::int64_t ib_timeout = 0;     // a lost packet is missed after 4.096 µs × 2^this, from 1
    std::int64_t ib_retry_cnt = -1;  // … and sent again so many times
    std::string ib_hca;              // adapters, in NCCL's syntax: "mlx5_0:1,mlx5_1:1"
    std::string socket_interface;    // "eth0", "^docker"
    std::string algorithm;           // "Ring"
    std::string protocol;            // "Simple"
    std::string debug;               // "WARN"
    // −1: silent, as above.
    std::int64_t ib_gid_index = -1;    // of adapters over Ethernet (RoCE)
    std::int64_t ib_tc = -1;           // traffic class, which switches keep apart
    std::int64_t ib_sl = -1;           // service level
    std::string net_gdr_level;         // "PHB": how far from its GPU an adapter reads its memory
    std::int64_t cross_nic = -1;       // whether rings and trees change rails
    std::int64_t nvls_enable = -1;     // whether NVSwitches reduce
    std::int64_t collnet_enable = -1;  // whether switches of the network reduce (SHARP)
    std::int64_t min_ctas = 0;         // of one communicator's kernels, on as many SMs; 0: silent
    std::int64_t max_ctas = 0;
    NcclGroups groups;
    bool registered_buffers = false;  // each communicator knows the arena before it is used

    bool operator==(const NcclSettings&) const = default;
};

// What `orrery train` needs beyond the step itself; empty or 0 where the scenario says nothing.
// When a run is said to be ill. The defaults are argued in docs/train.md.
struct Health {
    // Steps whose mean loss is more than so many times the least mean of as many steps before.
    double diverging_above = 1.25;
    std::int64_t diverging_window = 20;
    double stalled_after_s = 180;  // the least time without a step that counts as a stall …
    double starts_within_s = 600;  // … and to the first one

    bool operator==(const Health&) const = default;
};

// What a run goes on in when it has lost ranks: keys of the layout that are other than its own.
struct ElasticLayout {
    std::vector<std::string> sets;  // "layout.data_parallel=2"
    std::int64_t ranks = 0;

    bool operator==(const ElasticLayout&) const = default;
};

struct Run {
    std::string data;       // token file or text file, as the scenario calls it
    std::string data_path;  // where it was found, as references are; empty: nowhere, and only who
                            // trains needs it
    DataFormat format = DataFormat::automatic;
    std::int64_t steps = 0;                        // number of the last step
    std::int64_t threads_per_rank = 0;             // 0: cores ÷ ranks of the machine, at least 1
    std::string checkpoint_path;                   // no checkpoints without a path
    std::int64_t checkpoint_every_steps = 0;       // 0: "auto", by what is measured
    std::int64_t checkpoint_keep = 0;              // newest ones that stay; 0: all
    double mean_time_between_failures_h = 0;       // of the run; 0: by the number of its ranks
    std::int64_t verify_replicas_every_steps = 0;  // 0: never
    Health health;
    std::vector<ElasticLayout> elastic_layouts;  // in the order in which they are tried
    std::string init_from;        // folder of Hugging Face that the first weights are from …
    std::string init_path;        // … and where it was found, as data is
    std::string offload_path;     // folder for what is kept on disk; empty: the working one
    std::string product_choices;  // file of algorithms that were timed; empty: none are
    bool cudnn = true;            // attention on GPUs is cuDNN's where it has a kernel for it
    BindTo bind = BindTo::automatic;
    NcclSettings nccl;

    bool operator==(const Run&) const = default;
};

// What a cause of failures is counted by: each device, each node, or the run whatever its size.
enum class FailureOf : std::uint8_t { device, node, run };

// Why a run is interrupted, and how it is noticed.
struct FailureCause {
    std::string cause;
    FailureOf of = FailureOf::node;
    double mean_hours = 0;    // between two of one device, node or run
    double detection_s = -1;  // below 0: as Reliability has it
    bool replaces_node = true;
    bool silent = false;  // the run goes on until it is noticed, and has to be done again

    bool operator==(const FailureCause&) const = default;
};

enum class Saving : std::uint8_t { blocking, asynchronous };

// How often a run fails and what it then takes to go on (sim/fleet). Seconds and hours of wall
// clock.
struct Reliability {
    std::string name;  // for reports
    std::vector<FailureCause> causes;
    // Of the logarithm of all rates together: how far clusters and months lie apart.
    double rate_spread = 0.5;
    double detection_s = 600;      // PyTorch's default timeout of NCCL's process group
    double diagnosis_s = 300;      // which node it was
    double replacement_s = 60;     // a spare takes its place
    double restart_s = 300;        // processes and communicators
    std::int64_t spare_nodes = 0;  // 0: as many as are rarely short
    double repair_hours = 24;      // until a node is a spare again
    Saving saving = Saving::blocking;
    // Of each checkpoint beside moving bytes: planning, metadata, ranks that wait for each other.
    // Fully asynchronous saves of PyTorch's torch.distributed.checkpoint held a 7B model up for 6.3
    // s (pytorch.org/blog/reducing-checkpointing-times, 2024).
    double save_overhead_s = 5;
    double memory_checkpoint_s = 0;  // between copies into other nodes' memory; 0: none

    bool operator==(const Reliability&) const = default;
};

// Whose disks keep data that were read once: a node's own, or those of all nodes together, which
// read them from each other over the network.
enum class DataCache : std::uint8_t { none, local, neighbours };

// What a full cache does: throws out what was used longest ago, or keeps what it has.
enum class CacheEviction : std::uint8_t { lru, none };

// How the disks come by the data: as training reads them, or before it begins: each node from the
// store, or along a chain in which each node passes on what it has.
enum class Warming : std::uint8_t { as_read, from_store, chain };

// What all nodes share, for checkpoints and data: a file system or an object store.
struct SharedStorage {
    std::string name;       // for reports
    double node_GBps = 1;   // of one node, either way
    double write_GBps = 0;  // of all together; 0: as their nodes can
    double read_GBps = 0;
    // Tokens as they are stored; what of the data a node keeps on its disk after it was read once.
    double bytes_per_token = 4;
    double cached_share = 0;

    double dataset_tokens = 0;  // of one epoch; 0: those of the run, read once
    // One read, and how many the store answers: 0: a sequence; as many as come; at once.
    double tokens_per_read = 0;
    double reads_per_s = 0;
    double read_latency_ms = 0;
    // Of a node: eight devices' loaders with the two batches that PyTorch's DataLoader has in
    // flight for each worker (prefetch_factor).
    std::int64_t reads_in_flight = 16;
    // Of the time that the data of a step take, relative; and how many steps' data wait ready.
    double read_jitter = 0;
    std::int64_t prefetch_steps = 2;

    DataCache cache = DataCache::none;
    CacheEviction eviction = CacheEviction::lru;
    bool reshuffled = false;  // each epoch deals samples out anew, also between nodes
    Warming warming = Warming::as_read;
    double chunk_MB = 64;  // that a node of the chain passes on

    bool operator==(const SharedStorage&) const = default;
};

struct Scenario {
    std::string source_path;
    Model model;
    Cluster cluster;
    Layout layout;
    Training training;
    Run run;
    std::optional<Reliability> reliability;
    std::optional<SharedStorage> storage;

    bool operator==(const Scenario&) const = default;
};

// Layers of a group that keeps only its first one's input (full: 1), in a stage of so many layers.
// The default is the root of the layers, which makes groups and layers per group alike, both
// O(√L) (Chen et al. 2016, arXiv 1604.06174).
std::int64_t layers_per_group(const Layout& layout, std::int64_t layers);

std::string_view name(ContextAlgorithm algorithm);
std::string_view name(Precision precision);  // "bf16"
std::string_view name(Fp8Recipe recipe);

// The type of weights and activations: of fp8, whose products alone have narrower operands, bf16.
Precision held_precision(Precision precision);

// Model::embedding_scale rounded to the precision of the training, as PyTorch rounds a factor that
// it makes a tensor of: √3072 = 55.43 is 55.5 in bf16.
double embedding_scale(const Scenario& scenario);

// Keys that the last token of a sequence attends to: all, or a sliding window of them.
std::int64_t attention_span(const Scenario& scenario, const SoftmaxAttention& attention);
// Whether the sequence is longer than the chunk that a query sees.
bool attends_in_chunks(const Scenario& scenario, const SoftmaxAttention& attention);

// Sequences of the step that begins after so many samples.
std::int64_t global_batch_at(const Scenario& scenario, std::int64_t consumed_samples);

// Vocabulary rows after padding to framework.vocabulary_multiple × the ranks that share them out.
std::int64_t padded_vocabulary(const Scenario& scenario);

// Whether what a step has changed of the parameters is gathered in the next one, so that between
// steps a rank has its own share alone.
bool gathers_parameters_ahead(const Scenario& scenario);

}  // namespace orrery::plan
