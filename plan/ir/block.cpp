#include "plan/ir/block.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::plan {
namespace {
constexpr std::array<std::string_view, kRoles> kRoleNames = {
    "parameter",      "gradient", "source_gradient", "optimizer", "parameter_shard",
    "gradient_shard", "input",    "output",          "stash",     "recomputed",
    "kept",           "deferred", "scratch",         "scalar",    "quantized",
    "source",         "target"};
}  // namespace

std::int64_t Tensor::elements() const {
    std::int64_t product = 1;
    for (std::int64_t d : dims)
        product *= d;
    return product;
}

std::int64_t Tensor::bytes() const {
    return elements() * size_bytes(dtype);
}

std::string_view name(Role role) {
    return kRoleNames[static_cast<std::size_t>(role)];
}

std::optional<Role> role_from_name(std::string_view text) {
    for (std::size_t i = 0; i < kRoles; ++i)
        if (kRoleNames[i] == text) return static_cast<Role>(i);
    return std::nullopt;
}

double flops(const Op& op) {
    return flops(op.spec);
}

bool touches_part(const Block& block, const Op& op, TensorId id) {
    if (op.parts == 1) return false;
    if (op.kind() == OpKind::all_gather) return id == op.reads[0];
    if (op.kind() == OpKind::reduce_scatter) return id == op.writes[0];
    const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
    if (tensor.role == Role::parameter || is_accumulator(tensor.role)) return false;
    const std::int64_t rows = op.is<Gemm>() ? op.as<Gemm>().rows() : op.size(0);
    return tensor.dims[0] == rows * op.parts;
}

namespace {

// Of the rows for which an op of experts has room, the share that comes when all are chosen alike
// often; 1 of other ops.
double rows_in_use(const OpSpec& spec, const Tensor& tensor) {
    return std::visit(
        [&](const auto& op) {
            if constexpr (requires { op.copy_room(); })
                if (op.copies > 0 && tensor.dims[0] == op.copy_room())
                    return static_cast<double>(op.copies) / static_cast<double>(op.copy_room());
            if constexpr (requires { op.expected; }) {
                const std::int64_t rows = [&] {
                    if constexpr (requires { op.rows(); })
                        return op.rows();
                    else
                        return op.rows;
                }();
                // A transposed copy has them in its columns.
                const bool turned = is_eight_bit(tensor.dtype) && tensor.dims.back() == rows;
                if ((tensor.dims[0] == rows || turned) && rows > 0)
                    return static_cast<double>(op.expected) / static_cast<double>(rows);
            }
            return 1.0;
        },
        spec);
}

}  // namespace

double bytes_moved(const Block& block, const Op& op) {
    // A table is touched at most once per row of the op: an embedding reads its rows, not all.
    const bool by_row = goes_by_rows(op.spec);
    auto operand_bytes = [&](TensorId id) {
        const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        const bool table = tensor.role == Role::parameter || is_accumulator(tensor.role);
        if (touches_part(block, op, id)) return tensor.bytes() / op.parts;
        if (!by_row || !table) return tensor.bytes();
        return std::min(tensor.bytes(), op.size(0) * op.size(1) * size_bytes(tensor.dtype));
    };
    double total = 0;
    for (const auto* ids : {&op.reads, &op.writes})
        for (const TensorId id : *ids)
            total += static_cast<double>(operand_bytes(id)) *
                     rows_in_use(op.spec, block.tensors[static_cast<std::size_t>(id)]);
    return total;
}

std::int64_t message_bytes(const Op& op) {
    return op.size(0) * size_bytes(op.dtype);
}

double bytes_sent_per_rank(OpKind kind, double bytes, int ranks) {
    if (ranks <= 1) return 0;
    const double others = static_cast<double>(ranks - 1) / ranks;
    switch (kind) {
        case OpKind::all_reduce:
            return 2 * others * bytes;
        case OpKind::all_gather:
        case OpKind::reduce_scatter:
        case OpKind::broadcast:  // all but the last on the ring hand it on
        case OpKind::all_to_all:
        case OpKind::all_to_all_v:
            return others * bytes;
        case OpKind::exchange:
        case OpKind::shift:
            return bytes;
        default:
            ORRERY_CHECK(false, "an op that does not communicate");
    }
    return 0;
}

}  // namespace orrery::plan
