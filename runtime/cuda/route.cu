// route and route_backward, a warp per row; choose_ranks, drop_rows; what balances experts.
#include <cmath>

#include "runtime/cuda/choice_order.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/cuda/reduce.cuh"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

constexpr unsigned kRouteWarps = 4;  // of a block, a row each
constexpr unsigned kRouteThreads = kRouteWarps * kWarp;

__device__ unsigned lane_of() {
    return threadIdx.x % kWarp;
}
__device__ std::int64_t first_row_of_warp() {
    return std::int64_t{blockIdx.x} * kRouteWarps + threadIdx.x / kWarp;
}
__device__ std::int64_t warps_of_grid() {
    return std::int64_t{gridDim.x} * kRouteWarps;
}
unsigned blocks_for_rows(std::int64_t rows) {
    return blocks_for((rows + kRouteWarps - 1) / kRouteWarps);
}

__device__ bool is_none(float x) {
    return x != x;
}

// What is best so far: the larger, a number before none, ties to the lower number.
struct Best {
    float value = 0;
    int index = -1;

    __device__ void look_at(float other, int at) {
        if (at < 0) return;
        const bool better = index < 0 || other > value || (is_none(value) && !is_none(other)) ||
                            (at < index && (other == value || (is_none(value) && is_none(other))));
        if (!better) return;
        value = other;
        index = at;
    }
};

// Of candidates that are not marked, by the whole warp; marks it with `mark`.
__device__ int take_best(const float* values, int n, std::uint8_t* marks, std::uint8_t mark) {
    Best best;
    for (int i = static_cast<int>(lane_of()); i < n; i += kWarp)
        if (marks[i] == 0) best.look_at(values[i], i);
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        const float value = __shfl_xor_sync(kAllLanes, best.value, distance);
        const int index = __shfl_xor_sync(kAllLanes, best.index, distance);
        best.look_at(value, index);
    }
    if (lane_of() == 0) marks[best.index] = mark;
    __syncwarp();
    return best.index;
}

constexpr std::uint8_t kClosed = 1, kChosen = 2;

// What a warp works in: [experts] values, [groups] sums, marks of both.
struct RouteSpace {
    float *values, *sums;
    std::uint8_t *marks, *group_marks;

    static std::size_t bytes(const RoutingRule& rule) {
        const auto floats = static_cast<std::size_t>(rule.experts + rule.groups);
        return (floats * (sizeof(float) + 1) + 15) / 16 * 16;
    }
    __device__ explicit RouteSpace(const RoutingRule& rule, std::size_t bytes) {
        auto* const own = reinterpret_cast<std::byte*>(shared_memory) + threadIdx.x / kWarp * bytes;
        values = reinterpret_cast<float*>(own);
        sums = values + rule.experts;
        marks = reinterpret_cast<std::uint8_t*>(sums + rule.groups);
        group_marks = marks + rule.experts;
    }
};

__device__ void score_row(const Route& op, std::int64_t row, float* values) {
    const std::int64_t n = op.rule.experts;
    const std::int64_t first = row * n;
    if (op.rule.sigmoid) {
        for (std::int64_t i = lane_of(); i < n; i += kWarp)
            values[i] = 1 / (1 + std::exp(-load(op.logits, first + i)));
    } else {
        float most = -INFINITY, sum = 0;
        for (std::int64_t i = lane_of(); i < n; i += kWarp)
            most = Largest{}(most, load(op.logits, first + i));
        most = over_lanes(most, kWarp, Largest{});
        for (std::int64_t i = lane_of(); i < n; i += kWarp)
            sum += values[i] = std::exp(load(op.logits, first + i) - most);
        sum = over_lanes(sum, kWarp, Sum{});
        for (std::int64_t i = lane_of(); i < n; i += kWarp)
            values[i] /= sum;
    }
    for (std::int64_t i = lane_of(); i < n; i += kWarp) {
        store(op.scores, first + i, values[i]);
        if (op.bias.data != nullptr) values[i] += load(op.bias, i);
    }
    __syncwarp();
}

// Marks the experts of all groups but the kept ones. A lane sums up a group's best.
__device__ void close_groups(const RoutingRule& rule, const RouteSpace& space) {
    const std::int64_t each = rule.experts / rule.groups;
    for (std::int64_t group = lane_of(); group < rule.groups; group += kWarp) {
        std::uint8_t* const marks = space.marks + group * each;
        float sum = 0;
        for (std::int64_t taken = 0; taken < rule.group_best; ++taken) {
            Best best;
            for (std::int64_t i = 0; i < each; ++i)
                if (marks[i] == 0)
                    best.look_at(space.values[group * each + i], static_cast<int>(i));
            marks[best.index] = kClosed;
            sum += best.value;
        }
        space.sums[group] = sum;
        space.group_marks[group] = 0;
    }
    __syncwarp();
    for (std::int64_t i = lane_of(); i < rule.experts; i += kWarp)
        space.marks[i] = kClosed;
    for (std::int64_t kept = 0; kept < rule.kept_groups; ++kept) {
        const int group =
            take_best(space.sums, static_cast<int>(rule.groups), space.group_marks, kChosen);
        for (std::int64_t i = lane_of(); i < each; i += kWarp)
            space.marks[group * each + i] = 0;
    }
    __syncwarp();
}

// Chosen experts in ascending order, with what they are weighed by.
__device__ void weigh_row(const Route& op, std::int64_t row, const std::uint8_t* marks) {
    const RoutingRule& rule = op.rule;
    const unsigned lane = lane_of();
    std::int64_t next = row * rule.chosen;
    float sum = 0;
    for (std::int64_t from = 0; from < rule.experts; from += kWarp) {
        const std::int64_t expert = from + lane;
        const bool own = expert < rule.experts && marks[expert] == kChosen;
        const unsigned lanes = __ballot_sync(kAllLanes, own);
        if (own) {
            const std::int64_t at = next + __popc(lanes & ((1U << lane) - 1));
            const float score = load(op.scores, row * rule.experts + expert);
            op.choice[at] = static_cast<std::int32_t>(expert);
            store(op.weights, at, score);
            sum += score;
            atomicAdd(op.counts + expert, 1);
        }
        next += __popc(lanes);
    }
    sum = over_lanes(sum, kWarp, Sum{});
    __syncwarp();
    const float divisor = rule.sigmoid ? sum + static_cast<float>(kLeastSum) : sum;
    for (std::int64_t i = lane; i < rule.chosen; i += kWarp) {
        const std::int64_t at = row * rule.chosen + i;
        const float weight = load(op.weights, at);
        store(op.weights, at,
              (rule.normalizes ? weight / divisor : weight) * static_cast<float>(rule.factor));
    }
}

__global__ void __launch_bounds__(kRouteThreads) route_kernel(Route op, std::size_t space_bytes) {
    const RouteSpace space(op.rule, space_bytes);
    for (std::int64_t row = first_row_of_warp(); row < op.rows; row += warps_of_grid()) {
        for (std::int64_t i = lane_of(); i < op.rule.experts; i += kWarp)
            space.marks[i] = 0;
        score_row(op, row, space.values);
        if (op.rule.groups > 0) close_groups(op.rule, space);
        for (std::int64_t i = 0; i < op.rule.chosen; ++i)
            take_best(space.values, static_cast<int>(op.rule.experts), space.marks, kChosen);
        weigh_row(op, row, space.marks);
        __syncwarp();
    }
}

// With w = factor·s, or factor·s/Σ: ds = factor·dw, or factor·(dw − Σ dw·s/Σ)/Σ, of the chosen;
// then through the softmax over all, or each sigmoid.
__global__ void __launch_bounds__(kRouteThreads) route_backward_kernel(RouteBackward op) {
    const RoutingRule& rule = op.rule;
    const auto factor = static_cast<float>(rule.factor);
    for (std::int64_t row = first_row_of_warp(); row < op.rows; row += warps_of_grid()) {
        const std::int64_t first = row * rule.experts, chosen = row * rule.chosen;
        float sum = 0, along = 0;
        for (std::int64_t i = lane_of(); i < rule.chosen; i += kWarp) {
            const float score = load(op.scores, first + op.choice[chosen + i]);
            sum += score;
            along += load(op.dweights, chosen + i) * score;
        }
        sum = over_lanes(sum, kWarp, Sum{}) + (rule.sigmoid ? static_cast<float>(kLeastSum) : 0.0F);
        along = over_lanes(along, kWarp, Sum{});
        const auto dscore_at = [&](std::int64_t i) {
            const float dweight = load(op.dweights, chosen + i);
            return factor * (rule.normalizes ? (dweight - along / sum) / sum : dweight);
        };
        float mean = 0;
        for (std::int64_t i = lane_of(); i < rule.chosen; i += kWarp)
            mean += dscore_at(i) * load(op.scores, first + op.choice[chosen + i]);
        mean = over_lanes(mean, kWarp, Sum{});
        for (std::int64_t expert = lane_of(); expert < rule.experts; expert += kWarp) {
            const float score = load(op.scores, first + expert);
            float dscore = 0;
            for (std::int64_t i = 0; i < rule.chosen; ++i)
                if (op.choice[chosen + i] == expert) dscore = dscore_at(i);
            store(op.dlogits, first + expert,
                  score * (rule.sigmoid ? dscore * (1 - score) : dscore - mean));
        }
    }
}

__global__ void choose_ranks_kernel(ChooseRanks op) {
    const std::int64_t most = op.chosen < op.sets ? op.chosen : op.sets;
    for (std::int64_t row = first_of_thread(); row < op.rows; row += threads_of_grid()) {
        std::int64_t last = -1;
        for (std::int64_t place = 0; place < most; ++place) {
            std::int64_t next = op.sets;
            for (std::int64_t i = row * op.chosen; i < (row + 1) * op.chosen; ++i) {
                const std::int64_t set = op.choice[i] < 0 ? op.sets : op.choice[i] / op.local;
                if (set > last && set < next) next = set;
            }
            const bool found = next < op.sets;
            op.of_token[row * most + place] = found ? static_cast<std::int32_t>(next) : -1;
            if (!found) continue;
            last = next;
            atomicAdd(op.counts + next, 1);
        }
    }
}

// One that wants a place with an expert, in the order of experts.
struct Candidate {
    float rank;  // by its weight, the larger the earlier; then by its position
    std::int32_t unit, position, choice;
};

__global__ void candidates_kernel(DropRows op, ChoiceOrder order, Candidate* candidates) {
    const std::int64_t context_rows = op.tensor_ranks * op.rows;
    for (std::int64_t i = first_of_thread(); i < op.part.ranks * context_rows * op.chosen;
         i += threads_of_grid()) {
        const std::int64_t place = order.place(i);
        if (place < 0) continue;
        const std::int64_t row = i / op.chosen, held = row % context_rows;
        SequencePart part = op.part;
        part.rank = row / context_rows;
        float rank = op.by_position ? 0.0F : load(op.weights, i);
        if (!(rank >= 0)) rank = -INFINITY;  // of no number, the last
        candidates[place] = {rank, static_cast<std::int32_t>(held / op.run),
                             static_cast<std::int32_t>(part.position_of(held % op.run, op.run)),
                             static_cast<std::int32_t>(i)};
    }
}

// A thread counts who comes before one of this rank's.
__global__ void drop_rows_kernel(DropRows op, ChoiceOrder order, const Candidate* candidates) {
    const std::int64_t own =
        (op.part.rank * op.tensor_ranks + op.tensor_rank) * op.rows * op.chosen;
    for (std::int64_t expert = blockIdx.x; expert < op.experts; expert += gridDim.x) {
        int count = 0;
        const std::int64_t begin = order.starts[expert], end = order.starts[expert + 1];
        for (std::int64_t at = begin + threadIdx.x; at < end; at += blockDim.x) {
            const Candidate mine = candidates[at];
            const std::int64_t choice = mine.choice - own;
            if (choice < 0 || choice >= op.rows * op.chosen) continue;
            std::int64_t before = 0;
            for (std::int64_t i = begin; i < end; ++i) {
                const Candidate& other = candidates[i];
                if (other.unit == mine.unit &&
                    (other.rank > mine.rank ||
                     (other.rank == mine.rank && other.position < mine.position)))
                    ++before;
            }
            op.kept[choice] = before < op.capacity ? static_cast<std::int32_t>(expert) : -1;
            if (before < op.capacity) ++count;
        }
        count = sum_over_block(count);
        if (threadIdx.x == 0)
            op.counts[expert] = static_cast<std::int32_t>(op.pads ? op.capacity : count);
    }
}

// Sums of ones are exact in any order.
__global__ void count_choices_kernel(CountChoices op) {
    auto* const choices = static_cast<float*>(op.choices.data);
    for (std::int64_t i = first_of_thread(); i < op.rows * op.chosen; i += threads_of_grid())
        atomicAdd(choices + (op.first + i / op.chosen) / op.run * op.experts + op.choice[i], 1.0F);
}

// With p = s/Σs: ds = (f − Σ f·p)/Σs. A softmax's scores add up to 1, and ds goes on through it;
// or through each sigmoid.
__global__ void __launch_bounds__(kRouteThreads) balance_gradient_kernel(BalanceGradient op) {
    const float scale = op.scale != nullptr ? *op.scale : 1.0F;
    const float factor = static_cast<float>(op.factor) * scale;
    for (std::int64_t row = first_row_of_warp(); row < op.rows; row += warps_of_grid()) {
        const std::int64_t first = row * op.experts;
        const std::int64_t chosen = (op.first + row) / op.run * op.experts;
        float sum = 0, mean = 0;
        for (std::int64_t i = lane_of(); i < op.experts; i += kWarp) {
            const float score = load(op.scores, first + i);
            sum += score;
            mean += load(op.choices, chosen + i) * score;
        }
        sum = over_lanes(sum, kWarp, Sum{});
        mean = over_lanes(mean, kWarp, Sum{}) / sum;
        for (std::int64_t i = lane_of(); i < op.experts; i += kWarp) {
            const float score = load(op.scores, first + i);
            const float slope = op.sigmoid ? (1 - score) / sum : 1.0F;
            store(op.dlogits, first + i,
                  load(op.dlogits, first + i) +
                      factor * (load(op.choices, chosen + i) - mean) * score * slope);
        }
    }
}

// 2·factor·log Σ exp · softmax.
__global__ void __launch_bounds__(kRouteThreads) router_z_gradient_kernel(RouterZGradient op) {
    const float scale = op.scale != nullptr ? *op.scale : 1.0F;
    const float factor = static_cast<float>(op.factor) * scale;
    for (std::int64_t row = first_row_of_warp(); row < op.rows; row += warps_of_grid()) {
        const std::int64_t first = row * op.experts;
        float most = -INFINITY, sum = 0;
        for (std::int64_t i = lane_of(); i < op.experts; i += kWarp)
            most = Largest{}(most, load(op.logits, first + i));
        most = over_lanes(most, kWarp, Largest{});
        for (std::int64_t i = lane_of(); i < op.experts; i += kWarp)
            sum += std::exp(load(op.logits, first + i) - most);
        sum = over_lanes(sum, kWarp, Sum{});
        const float along = 2 * factor * (most + std::log(sum)) / sum;
        for (std::int64_t i = lane_of(); i < op.experts; i += kWarp)
            store(
                op.dlogits, first + i,
                load(op.dlogits, first + i) + along * std::exp(load(op.logits, first + i) - most));
    }
}

__global__ void load_gradient_kernel(LoadGradient op) {
    for (std::int64_t i = first_of_thread(); i < op.experts; i += threads_of_grid()) {
        const float over = static_cast<float>(op.counts[i]) - static_cast<float>(op.mean);
        store(op.dbias, i, op.accumulate ? load(op.dbias, i) + over : over);
    }
}

void clear(void* numbers, std::int64_t count, const char* what, cudaStream_t stream) {
    check(cudaMemsetAsync(numbers, 0, static_cast<std::size_t>(count) * 4, stream), what);
}

}  // namespace

void route(const Route& op, cudaStream_t stream) {
    check_types({op.logits, op.bias, op.scores, op.weights});
    clear(op.counts, op.rule.experts, "counts of route", stream);
    const std::size_t space = RouteSpace::bytes(op.rule);
    launch("route", route_kernel, {blocks_for_rows(op.rows), kRouteThreads, kRouteWarps * space},
           stream, op, space);
}

void route_backward(const RouteBackward& op, cudaStream_t stream) {
    check_types({op.dweights, op.scores, op.dlogits});
    launch("route_backward", route_backward_kernel, {blocks_for_rows(op.rows), kRouteThreads},
           stream, op);
}

void choose_ranks(const ChooseRanks& op, cudaStream_t stream) {
    clear(op.counts, op.sets, "counts of choose_ranks", stream);
    launch("choose_ranks", choose_ranks_kernel, {blocks_of_threads(op.rows)}, stream, op);
}

void drop_rows(const DropRows& op, ScratchMemory& memory, cudaStream_t stream) {
    check_types({op.weights});
    const std::int64_t choices = op.part.ranks * op.tensor_ranks * op.rows * op.chosen;
    const OrderedChoices ordered =
        order_choices(op.choice, choices, 0, op.experts, 0,
                      choices * static_cast<std::int64_t>(sizeof(Candidate) / 4), memory, stream);
    auto* const candidates = reinterpret_cast<Candidate*>(ordered.more);
    launch("drop_rows: who wants a place", candidates_kernel, {blocks_of_threads(choices)}, stream,
           op, ordered.order, candidates);
    launch("drop_rows", drop_rows_kernel, {blocks_for(op.experts)}, stream, op, ordered.order,
           candidates);
}

void count_choices(const CountChoices& op, cudaStream_t stream) {
    ORRERY_CHECK(op.choices.dtype == plan::DType::fp32, "choices are counted in fp32");
    clear(op.choices.data, op.units * op.experts, "choices of units", stream);
    launch("count_choices", count_choices_kernel, {blocks_of_threads(op.rows * op.chosen)}, stream,
           op);
}

void balance_gradient(const BalanceGradient& op, cudaStream_t stream) {
    check_types({op.scores, op.choices, op.dlogits});
    launch("balance_gradient", balance_gradient_kernel, {blocks_for_rows(op.rows), kRouteThreads},
           stream, op);
}

void router_z_gradient(const RouterZGradient& op, cudaStream_t stream) {
    check_types({op.logits, op.dlogits});
    launch("router_z_gradient", router_z_gradient_kernel, {blocks_for_rows(op.rows), kRouteThreads},
           stream, op);
}

void load_gradient(const LoadGradient& op, cudaStream_t stream) {
    check_types({op.dbias});
    launch("load_gradient", load_gradient_kernel, {blocks_of_threads(op.experts)}, stream, op);
}

}  // namespace orrery::runtime::cuda
