// A random scenario for a random tool: where it is not refused, what was written for it is
// taken by its importer without a word that is not known, and has the scenario's layout.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "plan/scenario/export/export.hpp"
#include "plan/scenario/import/import.hpp"
#include "tests/property/random_scenario.hpp"

namespace orrery::property {
namespace ORRERY_TEST_FILE {

namespace exports = plan::exports;

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";

plan::ReadResult read(const std::string& text, const std::vector<std::string>& sets) {
    return plan::read_scenario_text(text, "random.json", kLibrary, sets, kLibrary);
}

// What a tool need not have: Orrery's own, and what counts for nothing in this layout.
std::string layout_that_counts(plan::Layout layout) {
    const plan::Layout usual;
    layout.expert_row_bound = usual.expert_row_bound;
    layout.offload.prefetch = usual.offload.prefetch;
    if (layout.data_ranks() == 1) layout.zero_stage = 0;
    if (layout.zero_stage < 3) layout.reshard_after_forward = true;
    if (layout.zero_stage == 0 || layout.zero_group_size == layout.data_ranks())
        layout.zero_group_size = 0;
    return plan::layout_text(layout);
}

std::string export_fault(const plan::ReadResult& once, const std::string& tool) {
    const auto format = *exports::tool_of_name(tool);
    const exports::Exported out =
        exports::export_scenario(once, format, "random.json", kLibrary, kLibrary);
    if (out.text.empty()) return "nothing is written";
    RC_TAG(out.is_refused() ? "refused" : "written");
    if (out.is_refused()) return "";
    const plan::ReadResult again = read(out.read_again, {});
    if (!again.scenario) return plan::format_text(again.errors);
    const std::string before = layout_that_counts(once.scenario->layout);
    const std::string after = layout_that_counts(again.scenario->layout);
    if (before != after) return before + "\nis, without a word,\n" + after;
    plan::imports::Wishes wishes;
    wishes.model = "elsewhere";
    wishes.layers = once.scenario->model.layers;
    const auto imported = plan::imports::import_text(out.text, "out", format, wishes);
    if (!imported.errors.empty()) return plan::format_text(imported.errors) + out.text;
    for (const plan::imports::Left& left : imported.unsupported)
        return left.key + " is not taken: " + left.why + '\n' + out.text;
    return "";
}

class EveryFamily : public testing::TestWithParam<std::size_t> {};

TEST_P(EveryFamily, ComesBackFromToolsThatCanRunIt) {
    const Family& family = families()[GetParam()];
    EXPECT_TRUE(rc::check([&] {
        const RandomScenario random = random_scenario(family);
        const std::string tool = *rc::gen::elementOf(exports::tool_names());
        const plan::ReadResult once = read(random.text, random.sets);
        RC_PRE(once.scenario.has_value());
        const std::string fault = export_fault(once, tool);
        for (const std::string& set : random.sets)
            RC_LOG() << "--set '" << set << "' \\\n";
        RC_LOG() << tool << ": " << fault << '\n';
        RC_ASSERT(fault.empty());
    }));
}

INSTANTIATE_TEST_SUITE_P(Export, EveryFamily, testing::Range<std::size_t>(0, families().size()),
                         [](const auto& one) {
                             return std::string(families()[one.param].model_type);
                         });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::property
