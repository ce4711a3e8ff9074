#include <algorithm>
#include <optional>

#include "plan/passes/passes.hpp"

namespace orrery::plan {
namespace {

std::ptrdiff_t count_in(const std::vector<TensorId>& ids, TensorId id) {
    return std::count(ids.begin(), ids.end(), id);
}

bool speaks_of(const Op& op, TensorId id) {
    return count_in(op.reads, id) + count_in(op.writes, id) > 0;
}

// A whole product of 16 or 32 bits that makes something new, whose kernel can do more.
bool takes_along(const Block& block, const Op& op, GemmProduct product) {
    if (!op.is<Gemm>() || op.parts > 1 || op.writes.size() != 1) return false;
    const Gemm& gemm = op.as<Gemm>();
    const Tensor& input = block.tensors[static_cast<std::size_t>(op.reads[0])];
    return gemm.product == product && !gemm.transposed && !is_eight_bit(input.dtype) &&
           count_in(op.reads, op.writes[0]) == 0;
}

ActivatedGemm activated(const Gemm& gemm, ActivationFunction function) {
    return {gemm.m, gemm.n, gemm.k, gemm.product, gemm.factor, function};
}

bool is_of_shape(const Gemm& product, std::int64_t rows, std::int64_t width) {
    return product.m == rows && product.n == width;
}

// The op behind `at` that does the function of what it makes: what comes between leaves that alone,
// or copies it (a stash that waits in fewer bits).
std::optional<std::size_t> function_of(const Block& block, std::size_t at) {
    const Op& made = block.ops[at];
    const auto is_first = [&](const Op& op) {
        return speaks_of(op, made.writes[0]) &&
               !(op.is<Cast>() && op.reads.front() == made.writes[0]);
    };
    std::size_t next = at + 1;
    while (next < block.ops.size() && !is_first(block.ops[next]))
        ++next;
    if (next == block.ops.size() || !block.ops[next].is<Activate>()) return {};
    const Op& op = block.ops[next];
    const auto& function = op.as<Activate>();
    // Not gate and up, of which a result has half the width.
    const bool fits = is_taken_along(function.function) && op.phase == made.phase &&
                      is_of_shape(made.as<Gemm>(), function.rows, function.width);
    return fits ? std::optional(next) : std::nullopt;
}

// The op that takes the slope of what the product at `at` makes, which nobody else asks for.
std::optional<std::size_t> slope_of(const Block& block, std::size_t at) {
    const Op& made = block.ops[at];
    const TensorId gradient = made.writes[0];
    std::optional<std::size_t> found;
    for (std::size_t i = at + 1; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (!speaks_of(op, gradient)) continue;
        if (found || !op.is<ActivateBackward>() || op.reads[0] != gradient) return {};
        found = i;
    }
    if (!found || gradient == block.output) return {};
    const Op& op = block.ops[*found];
    const auto& slope = op.as<ActivateBackward>();
    if (!is_taken_along(slope.function) || op.phase != made.phase ||
        !is_of_shape(made.as<Gemm>(), slope.rows, slope.width))
        return {};
    // What tells the slope may be made again between the two.
    for (std::size_t i = at; i < *found; ++i)
        if (count_in(block.ops[i].writes, op.reads[1]) > 0) return {};
    return found;
}

// Whether anybody but the function reads the product at `at`.
bool is_kept(const Block& block, std::size_t at) {
    const TensorId product = block.ops[at].writes.back();
    if (block.tensors[static_cast<std::size_t>(product)].role != Role::scratch) return true;
    if (product == block.output) return true;
    return std::any_of(block.ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, block.ops.end(),
                       [&](const Op& op) { return speaks_of(op, product); });
}

// In place of both, where the product was.
void put_in_place(Block& block, std::size_t product, std::size_t function, OpSpec spec) {
    block.ops[product].spec = std::move(spec);
    merge_ops(block, product, function);
}

}  // namespace

void fuse_epilogues(Block& block) {
    std::vector<bool> kept(block.tensors.size(), true);
    for (std::size_t at = 0; at < block.ops.size(); ++at) {
        Op& op = block.ops[at];
        if (takes_along(block, op, GemmProduct::forward)) {
            const std::optional<std::size_t> next = function_of(block, at);
            if (!next) continue;
            const Op& function = block.ops[*next];
            op.writes.insert(op.writes.begin(), function.writes[0]);
            put_in_place(block, at, *next,
                         activated(op.as<Gemm>(), function.as<Activate>().function));
            if (is_kept(block, at)) continue;
            kept[static_cast<std::size_t>(block.ops[at].writes.back())] = false;
            block.ops[at].writes.pop_back();
        } else if (takes_along(block, op, GemmProduct::input_gradient)) {
            const std::optional<std::size_t> next = slope_of(block, at);
            if (!next) continue;
            const Op& slope = block.ops[*next];
            kept[static_cast<std::size_t>(op.writes[0])] = false;
            op.reads.push_back(slope.reads[1]);
            op.writes = {slope.writes[0]};
            put_in_place(block, at, *next,
                         activated(op.as<Gemm>(), slope.as<ActivateBackward>().function));
        }
    }
    keep_tensors(block, kept);
}

}  // namespace orrery::plan
