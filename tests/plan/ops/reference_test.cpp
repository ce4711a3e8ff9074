// docs/ops.md is what the declarations say: every op, its fields with their defaults, one sentence.
// ORRERY_REGENERATE=1 writes it anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "plan/ir/kinds.hpp"
#include "plan/ops/spec.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

template <typename Value>
std::string shown(const Value& value) {
    if constexpr (std::is_enum_v<Value>)
        return std::string(spelling(value));
    else
        return fmt::format("{}", value);
}

// With all that fields may ask for: what has a value that is not 0 reads and writes the most.
OpSpec fullest(OpKind kind) {
    OpSpec spec = spec_of(kind, {1, 1, 1, 1, 1, 1, 1});
    walk_spec(spec, [](FieldUse, std::string_view, auto& value, const auto&) {
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (!std::is_enum_v<Value>) value = static_cast<Value>(1);
    });
    return spec;
}

std::string operands_of(OpKind kind) {
    std::string reads, writes;
    const auto into = [](std::string& text) {
        return [&text](const OperandSpec& operand) {
            const bool may_lack =
                operand.use == OperandUse::optional || operand.use == OperandUse::in_place;
            const bool several =
                operand.use == OperandUse::several || operand.use == OperandUse::message ||
                operand.use == OperandUse::together || operand.use == OperandUse::in_place_together;
            text += fmt::format("{}{}{}{}{}", text.empty() ? "" : ", ", may_lack ? "[" : "",
                                operand.name, may_lack ? "]" : "", several ? "…" : "");
        };
    };
    walk_operands(fullest(kind), into(reads), into(writes));
    return reads.empty() && writes.empty() ? "" : reads + " → " + writes;
}

std::string page() {
    std::string text =
        "# Ops\n"
        "\n"
        "What a plan's ops say (plan/ops). Sizes stand behind the kind, separated by ×; the other\n"
        "fields by their names, where they are not the default given here (docs/plan-text.md).\n"
        "Operands are what an op reads → writes, in order: [may be absent], … several. Which "
        "there\n"
        "are, and how large they must be, follows from the fields; those of the first form of a "
        "kind\n"
        "are shown. Sums that an op adds to are read as well.\n"
        "\n"
        "| op | sizes | fields | operands | |\n"
        "|---|---|---|---|---|\n";
    for (std::size_t k = 0; k < kOpKinds; ++k) {
        const auto kind = static_cast<OpKind>(k);
        const OpSpec spec = spec_of(kind);
        std::string sizes, fields;
        walk_spec(spec, [&](FieldUse use, std::string_view name, const auto& value, const auto&) {
            if (use == FieldUse::size)
                sizes += fmt::format("{}{}", sizes.empty() ? "" : "×", name);
            else
                fields += fmt::format("{}{}={}", fields.empty() ? "" : " ", name, shown(value));
        });
        text += fmt::format("| {} | {} | {} | {} | {} |\n", name(kind), sizes, fields,
                            operands_of(kind), documentation(kind));
    }
    return text;
}

TEST(Ops, TheReferenceIsWhatIsDeclared) {
    const std::string path = ORRERY_SOURCE_DIR "/docs/ops.md";
    const char* wish = std::getenv("ORRERY_REGENERATE");
    if (wish != nullptr && std::string(wish) == "1") {
        std::ofstream(path, std::ios::binary) << page();
        return;
    }
    std::ifstream file(path, std::ios::binary);
    const std::string written{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(written, page());
}

// Names tell fields apart, and set_sizes reaches what size_of finds.
TEST(Ops, FieldsAreTheirOwn) {
    for (std::size_t k = 0; k < kOpKinds; ++k) {
        OpSpec spec = spec_of(static_cast<OpKind>(k), {11, 12, 13, 14, 15, 16, 17});
        std::set<std::string_view> names;
        std::size_t extents = 0;
        walk_spec(spec, [&](FieldUse use, std::string_view name, const auto&, const auto&) {
            EXPECT_TRUE(names.insert(name).second) << name;
            extents += use == FieldUse::number ? 0 : 1;
        });
        for (std::size_t i = 0; i < extents && i < 7; ++i)
            EXPECT_EQ(size_of(spec, i), 11 + static_cast<std::int64_t>(i));
        EXPECT_EQ(size_of(spec, extents), 0);
        EXPECT_FALSE(documentation(kind_of(spec)).empty());
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
