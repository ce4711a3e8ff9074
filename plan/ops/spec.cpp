#include "plan/ops/spec.hpp"

#include <array>

namespace orrery::plan {
namespace {

// What is known of a kind without an op of it.
struct KindRow {
    std::string_view doc;
    OpFamily family;
    OpSpec (*make)();
};

template <typename Op>
constexpr KindRow row_of() {
    return {Op::kDoc, Op::kFamily, [] { return OpSpec(Op{}); }};
}

#define ORRERY_OP_ROW(name, type) row_of<type>(),
constexpr std::array<KindRow, kOpKinds> kRows = {ORRERY_OPS(ORRERY_OP_ROW)};
#undef ORRERY_OP_ROW

const KindRow& row(OpKind kind) {
    return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace

OpSpec spec_of(OpKind kind, std::span<const std::int64_t> sizes) {
    OpSpec spec = row(kind).make();
    set_sizes(spec, sizes);
    return spec;
}
std::string_view documentation(OpKind kind) {
    return row(kind).doc;
}
OpFamily family(OpKind kind) {
    return row(kind).family;
}

std::int64_t size_of(const OpSpec& spec, std::size_t i) {
    std::size_t at = 0;
    std::int64_t found = 0;
    walk_spec(spec, [&](FieldUse use, std::string_view, const auto& value, const auto&) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::int64_t>)
            if (use != FieldUse::number && at++ == i) found = value;
    });
    return found;
}

void set_sizes(OpSpec& spec, std::span<const std::int64_t> sizes) {
    auto next = sizes.begin();
    walk_spec(spec, [&](FieldUse use, std::string_view, auto& value, const auto&) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::int64_t>)
            if (use != FieldUse::number && next != sizes.end()) value = *next++;
    });
}

double flops(const OpSpec& spec) {
    return std::visit(
        [](const auto& op) {
            if constexpr (requires { op.flops(); })
                return op.flops();
            else
                return 0.0;
        },
        spec);
}

bool goes_by_rows(const OpSpec& spec) {
    return std::visit(
        [](const auto& op) {
            return requires {
                op.rows + 0;
            };
        },
        spec);
}

}  // namespace orrery::plan
