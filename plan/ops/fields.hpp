// How an op declares its fields. A struct of plan/ops has
//
//     template <typename V> static void fields(V&& v) {
//         v.size("rows", &Rope::rows);      tells the work; text has it always, by its place
//         v.extent("heads", &Rope::heads);  does so too; text has it by its name, where it is not 0
//         v.number("theta", &Rope::theta);  what the kernel computes with; text has it by its name,
//         v.part(&Rope::scaling);           where it is not the default; a struct of such
//     }
//
// in the order of their text form. Sizes and extents are integers; numbers may be integers,
// doubles, bools, or enums with a Spelling. Its operands are declared likewise
// (plan/ops/operands.hpp), and its gradient where that is one op, or none, to whoever derives a
// backward block (plan/blocks/backward_writer.hpp):
//
//     template <typename Writer, typename Op> void gradient(Writer& w, const Op& op) const;
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace orrery::plan {

// The names of an enum's values, in their order: `static constexpr std::array<std::string_view, n>
// names`.
template <typename Enum>
struct Spelling;

template <typename Enum>
constexpr std::string_view spelling(Enum value) {
    return Spelling<Enum>::names[static_cast<std::size_t>(value)];
}

template <typename Enum>
constexpr std::optional<Enum> value_spelled(std::string_view text) {
    for (std::size_t i = 0; i < Spelling<Enum>::names.size(); ++i)
        if (Spelling<Enum>::names[i] == text) return static_cast<Enum>(i);
    return std::nullopt;
}

enum class FieldUse : std::uint8_t { size, extent, number };

// Calls leaf(use, name, value, default) for each field of an op, parts unfolded.
template <typename Op, typename Leaf>
class FieldWalk {
  public:
    FieldWalk(Op& op, Leaf& leaf) : op_(op), leaf_(leaf) {}

    template <typename Member>
    void size(std::string_view name, Member member) {
        leaf_(FieldUse::size, name, op_.*member, kDefaults.*member);
    }
    template <typename Member>
    void extent(std::string_view name, Member member) {
        leaf_(FieldUse::extent, name, op_.*member, kDefaults.*member);
    }
    template <typename Member>
    void number(std::string_view name, Member member) {
        leaf_(FieldUse::number, name, op_.*member, kDefaults.*member);
    }
    template <typename Member>
    void part(Member member) {
        auto& part = op_.*member;
        FieldWalk<std::remove_reference_t<decltype(part)>, Leaf> walk(part, leaf_);
        std::remove_cvref_t<decltype(part)>::fields(walk);
    }

  private:
    inline static const std::remove_const_t<Op> kDefaults{};
    Op& op_;
    Leaf& leaf_;
};

template <typename Op, typename Leaf>
void walk_fields(Op& op, Leaf leaf) {
    FieldWalk<Op, Leaf> walk(op, leaf);
    std::remove_const_t<Op>::fields(walk);
}

}  // namespace orrery::plan
