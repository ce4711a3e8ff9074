// What ranks do before a run to show whether machine and links are well: the run's largest matrix
// product, copies within the device's memory and to and from the host's, messages between ranks in
// pairs, a sum over all. It is a plan like any other: every backend performs it, and the simulator
// prices it, so that what is measured and what is expected are of the same ops. As MegaScale's
// self-check (Jiang et al. 2024, arXiv 2402.15627, §4.3) and nccl-tests' sendrecv and all_reduce.
//
// Its mesh is a pipeline of all ranks, whatever the run's layout is: each then has a program of its
// own, in which it names whom it sends to.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/ir/plan.hpp"
#include "plan/ops/matrix.hpp"

namespace orrery::preflight {

enum class Check : std::uint8_t {
    product,    // of matrices
    memory,     // copied within the device's memory
    to_host,    // … to the host's
    from_host,  // … and back
    pair,       // a message each way between two ranks, at once
    sum         // all-reduce over all ranks
};
inline constexpr std::size_t kChecks = 6;

struct Sizes {
    plan::Gemm product;  // forward
    plan::DType dtype = plan::DType::bf16;
    std::int64_t workspace_bytes = 0;  // of the product
    std::int64_t copy_bytes = 0;
    std::int64_t message_bytes = 0;
    std::int64_t sum_bytes = 0;
    bool host_is_apart = false;  // the device has memory of its own
    int repeats = 1;             // of the product and of each copy
};

// Those of the run's largest product of at least 16 bits, of more rows where that takes no time,
// and of as many bytes as no cache holds: of a device with memory of its own more.
Sizes sizes_of(const plan::Plan& run, bool host_is_apart);

// A pair of ranks, the lower one first.
using Pair = std::pair<plan::Rank, plan::Rank>;

// Rounds in each of which every rank is in at most one pair, by the circle method: all pairs of up
// to kMostRounds + 1 ranks, each in one round; of more ranks as many rounds, spread evenly.
inline constexpr std::int64_t kMostRounds = 63;
std::vector<std::vector<Pair>> rounds_of(std::int64_t ranks);

struct PreflightPlan {
    plan::Plan plan;
    Sizes sizes;
    std::vector<std::vector<Pair>> rounds;
    // By number of a rank's op in its program. Exchanges stand in the order of the rounds that the
    // rank has a pair in.
    struct Step {
        Check check = Check::product;
        std::int64_t round = -1;  // of a pair
    };
    std::vector<std::vector<Step>> steps;  // by rank
    // By program: what is to be filled with numbers, lest a product of zeros takes less power.
    std::vector<std::int32_t> factors;  // residents, of every rank the same
};

PreflightPlan preflight_plan(std::int64_t ranks, const Sizes& sizes);

// Bytes of a copy, a message or a sum; 0 of a product.
std::int64_t size_of(Check check, const Sizes& sizes);

// Bytes that count in a rate: those of a copy, read and written, of a message one way, of a sum
// times 2(n − 1)/n (nccl-tests, doc/PERFORMANCE.md: bus bandwidth).
double bytes_of(Check check, const Sizes& sizes, std::int64_t ranks);

}  // namespace orrery::preflight
