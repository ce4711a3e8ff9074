// What an op computes, whole: one of the structs that plan/ops declares. Whoever knows the kind
// asks for the struct; whoever treats kinds alike walks the fields.
#pragma once

#include <initializer_list>
#include <span>
#include <type_traits>
#include <variant>

#include "plan/ops/op_kind.hpp"
#include "plan/ops/operands.hpp"

namespace orrery::plan {
namespace detail {
template <typename None, typename... Ops>
struct OpVariant {
    static_assert(std::is_void_v<None>);
    using type = std::variant<Ops...>;
};
}  // namespace detail

#define ORRERY_OP_TYPE(name, type) , type
using OpSpec = detail::OpVariant<void ORRERY_OPS(ORRERY_OP_TYPE)>::type;
#undef ORRERY_OP_TYPE
static_assert(std::variant_size_v<OpSpec> == kOpKinds);

inline OpKind kind_of(const OpSpec& spec) {
    return static_cast<OpKind>(spec.index());
}

// An op of this kind with these sizes and extents, in the order of their declaration; the other
// fields have their defaults.
OpSpec spec_of(OpKind kind, std::span<const std::int64_t> sizes);
inline OpSpec spec_of(OpKind kind, std::initializer_list<std::int64_t> sizes = {}) {
    return spec_of(kind, std::span(sizes.begin(), sizes.size()));
}

// The i-th size or extent of an op, in the order of its declaration; 0 where there are fewer.
std::int64_t size_of(const OpSpec& spec, std::size_t i);
// Sets the first sizes and extents, in the same order.
void set_sizes(OpSpec& spec, std::span<const std::int64_t> sizes);
inline void set_sizes(OpSpec& spec, std::initializer_list<std::int64_t> sizes) {
    set_sizes(spec, std::span(sizes.begin(), sizes.size()));
}

// Floating-point operations that the op executes (multiply and add count two); 0 of what is bound
// by memory, and of communication.
double flops(const OpSpec& spec);

// Whether the op goes over rows: a table is touched at most once per row of it.
bool goes_by_rows(const OpSpec& spec);

std::string_view documentation(OpKind kind);
OpFamily family(OpKind kind);

// walk_fields of whatever the op is.
template <typename Spec, typename Leaf>
void walk_spec(Spec& spec, Leaf leaf) {
    std::visit([&](auto& op) { walk_fields(op, leaf); }, spec);
}
// Of whatever the op is, read(OperandSpec) and write(OperandSpec) for each operand.
template <typename Read, typename Write>
void walk_operands(const OpSpec& spec, Read&& read, Write&& write) {
    OperandWalk walk(read, write);
    std::visit([&](const auto& op) { op.operands(walk); }, spec);
}

}  // namespace orrery::plan
