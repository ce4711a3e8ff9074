// What a device is and how long its kernels take: the profile, a JSON file that people read and
// edit. Every number has a source: its own ({"value": 312, "source": "…"}) or that of the section
// around it. The reader is strict: a key it does not know, a number without a source, a missing
// number are errors. The fields are those of the structs below.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/ir/kinds.hpp"
#include "plan/ops/matrix.hpp"

namespace orrery::plan {
struct Cluster;
}

namespace orrery::sim {

inline constexpr const char* kProfileFormat = "orrery profile";
inline constexpr int kProfileVersion = 1;

// What is wrong with a profile: the message has the file, the JSON pointer and the fault.
class ProfileError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct Quantity {
    double value = 0;
    std::string source;
};

struct Span {
    double low = 0;
    double high = 0;
};

// Errors |predicted ÷ measured − 1| over rows that the fit has not seen.
struct HeldOut {
    std::int64_t rows = 0;
    double mean_abs_error = 0;
    double median_abs_error = 0;
    double p95_abs_error = 0;
};

struct Hardware {
    bool cpu = false;         // "kind": "cpu"; else a GPU
    Quantity capacity_bytes;  // as the driver reports it to a process
    Quantity memory_GBps;     // datasheet
    Quantity cache_bytes;     // last-level cache
    Quantity multiprocessors;
    Quantity power_w;  // thermal design power
    // Out of the device to those of its node, one direction, all links together; what a cluster's
    // intra_node.bandwidth_GBps is expected to say. Nothing where the sheet does not.
    std::optional<Quantity> link_GBps;
    // Dense, datasheet: "bf16", "fp16", "tf32", "fp32", "fp8"; in file order.
    std::vector<std::pair<std::string, Quantity>> peak_tflops;

    // Null if the sheet does not list the element type.
    const Quantity* peak(const std::string& dtype) const;
    // Of products of such elements: a sheet has one figure for all of eight bits.
    const Quantity* peak(plan::DType dtype) const;
};

// A measured place and what the curve missed there: ratio = (measured − t0) ÷ work by the curve.
struct NeighbourPoint {
    double log2_m = 0;
    double log2_n = 0;
    double log2_k = 0;
    double ratio = 1;
    std::optional<plan::GemmProduct> product = {};  // that was timed; none: any
};

// t = t0 + (2mnk ÷ (rate·sustained) + bytes ÷ bandwidth) × the ratio of near measured shapes.
// rate and bandwidth are effective, fitted on short bursts; sustained is what a long step keeps.
struct GemmCurve {
    bool measured = false;
    std::string source;
    double t0_us = 0;
    double rate_tflops = 0;
    double bandwidth_GBps = 0;
    double sustained = 1;
    double relative_sd = 0;
    std::optional<HeldOut> held_out;  // measured curves only, as are the spans and the points
    Span m, n, k;
    std::vector<NeighbourPoint> neighbours;
    // Of fp8: the rate with scales of rows, of blocks and of micro-blocks (MXFP8) over that with
    // one scale for a tensor, which the curve is of. Nothing where the device does not multiply
    // such.
    std::optional<Quantity> row_scales, block_scales, micro_block_scales;
};

// Causal forward of one head size:
// t = t0 + query_element_ps·(b·q·heads·d) + key_element_ps·(b·k·kv_heads·d) + FLOP ÷ rate,
// FLOP of the unmasked half only.
struct AttentionCurve {
    std::int64_t head_dim = 0;
    bool measured = false;
    std::string source;
    double t0_us = 0;
    double query_element_ps = 0;
    double key_element_ps = 0;
    double rate_tflops = 0;
    double relative_sd = 0;
    std::optional<HeldOut> held_out;
    Span sequence;
};

// The backward has curves of its own, over the forward's elements and FLOP, or backward_flop_ratio
// times the forward's FLOP at backward_rate_ratio of its rate.
struct AttentionProfile {
    plan::DType dtype = plan::DType::bf16;
    std::vector<AttentionCurve> forward;   // ascending head_dim, at least one
    std::vector<AttentionCurve> backward;  // likewise, or none: then the ratios
    Quantity backward_flop_ratio;
    Quantity backward_rate_ratio;
    double backward_relative_sd = 0;
    // What dropout of the probabilities adds, by pass: picoseconds for each query, key and head
    // that the mask leaves. Nothing where it was not measured.
    std::optional<Quantity> forward_dropout_ps, backward_dropout_ps;
};

// Unfused attention's products: rate_ratio of the GEMM rate, each operand once over memory.
struct BatchedGemmProfile {
    Quantity rate_ratio;
    double relative_sd = 0;
};

// A kernel that moves bytes but is not as fast as they could be moved (it computes on each element,
// as all do on a CPU): t = t0 + the longer of bytes ÷ rate and what memory or cache takes.
struct KernelCurve {
    std::string source;
    double t0_us = 0;
    double GBps = 0;  // 0: as fast as the bytes
    double relative_sd = 0;
    HeldOut held_out;
};

// t = t0 + bytes ÷ (efficiency × memory bandwidth); operands of at most resident_bytes travel at
// cache_GBps. Kernels that reduce over rows (gradients of norms, biases, embeddings; the gradient
// norm) have reduction_t0. Kernels that were timed one by one have curves of their own.
struct MemoryProfile {
    bool measured = false;
    Quantity t0_us;
    Quantity reduction_t0_us;
    Quantity efficiency;
    Quantity resident_bytes;
    Quantity cache_GBps;
    double relative_sd = 0;
    std::array<std::optional<KernelCurve>, plan::kOpKinds> kernels;  // by OpKind
};

// By how much a compute op stretches while its rank communicates. The reverse is not modelled.
struct OverlapProfile {
    bool measured = false;
    Quantity compute_slowdown;
};

// Kernels by how many ranks of a machine are busy beside each other, over their curves: processors,
// caches and clocks are shared, and who shares the work waits for the slowest.
struct SharingProfile {
    std::string source;
    std::vector<std::pair<std::int64_t, double>> stretch;  // ascending ranks; at least one
    double relative_sd = 0;

    // Between two numbers of ranks linear in the logarithm, outside the nearest.
    double of(std::int64_t ranks) const;
};

// Of a process that holds all ranks of a machine, beside their arenas: what they share, what each
// rank adds, what each op of a rank's program adds.
struct ProcessProfile {
    Quantity shared_bytes;
    Quantity rank_bytes;
    Quantity op_bytes;
    double relative_sd = 0;
};

// The computer that a profile was measured on, where its program looks whether it still is that
// computer.
struct ProfiledMachine {
    std::string processor;   // as the system names it
    std::int64_t cores = 0;  // that the process could use
    std::string kernels;     // digest of the sources that were timed
    std::string date;
    std::string version;  // of the program
};

// What a profile calls products of an element type, their curve and their peak; E4M3 stands for all
// of eight bits.
std::string_view product_key(plan::DType dtype);

struct Profile {
    std::string path;
    std::string device;
    std::vector<std::string> provenance;
    std::optional<ProfiledMachine> machine;
    Hardware hardware;
    // By DType, as the file has them; "fp8" is of E4M3 and of E4M3 by E5M2.
    std::array<std::optional<GemmCurve>, plan::kDTypes> gemm;
    // Products of experts are kernels of their own, one after the other; else one kernel for all.
    bool expert_by_expert = false;
    AttentionProfile attention;
    BatchedGemmProfile batched_gemm;
    MemoryProfile memory;
    OverlapProfile overlap;
    std::optional<SharingProfile> sharing;
    std::optional<ProcessProfile> process;  // else the framework's preset says
    std::string collectives_json;           // the object of sim/network, or empty
    // Of a cluster's nodes of other kinds, in their order; where load_profiles read them.
    std::vector<Profile> others;
    const Profile& of_kind(std::size_t kind) const {
        return kind == 0 ? *this : others.at(kind - 1);
    }

    // By what kernels take longer where so many ranks of a machine are busy: `sharing`, and where
    // they have more threads than the machine cores, as many times as that.
    double stretch_of(std::int64_t ranks) const;

    // What products of an element type cost; fp16 without a curve of its own costs what bf16 does:
    // tensor cores run both at one rate, operands are as wide. Null: nothing known.
    const GemmCurve* gemm_curve(plan::DType dtype) const;
};

// Throws ProfileError when the file is missing, is not JSON or is not a profile.
Profile load_profile(const std::string& path);

// That of a cluster's own nodes, with those of its others.
Profile load_profiles(const plan::Cluster& cluster);

// The same from text; `path` names the origin in messages.
Profile parse_profile(const std::string& text, const std::string& path);

}  // namespace orrery::sim
