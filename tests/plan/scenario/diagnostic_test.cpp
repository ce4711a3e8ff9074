#include "plan/scenario/diagnostic.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

Diagnostic example() {
    Diagnostic fault;
    fault.code = "S012";
    fault.file = "run.json";
    fault.pointer = "/layout/pipeline_parallel";
    fault.value = "16";
    fault.origin = "from --set layout.pipeline_parallel=16";
    fault.message = "the layers do not split";
    fault.arithmetic = "80 / 16\n= 5";
    fault.note = "a note";
    fault.help = {"one", "two"};
    return fault;
}

TEST(Diagnostic, TextHasPlaceValueOriginArithmeticNoteAndHelp) {
    EXPECT_EQ(format_text({example()}),
              "error[S012]: the layers do not split\n"
              "  --> run.json:/layout/pipeline_parallel   "
              "(= 16, from --set layout.pipeline_parallel=16)\n"
              "   |  80 / 16\n"
              "   |  = 5\n"
              "   = note: a note\n"
              "   = help: one\n"
              "   = help: two\n"
              "\n"
              "1 error; nothing was run.\n");
    EXPECT_EQ(format_text({}), "");
}

TEST(Diagnostic, TextLeavesOutWhatIsEmptyAndTheFileAsOrigin) {
    Diagnostic fault;
    fault.code = "S001";
    fault.file = "run.json";
    fault.value = "7";
    fault.origin = "file run.json";
    fault.message = "no";
    EXPECT_EQ(format_text({fault, fault}),
              "error[S001]: no\n  --> run.json   (= 7)\n\n"
              "error[S001]: no\n  --> run.json   (= 7)\n\n"
              "2 errors; nothing was run.\n");
}

TEST(Diagnostic, TextCutsLongValuesBetweenCharactersAndHidesControls) {
    Diagnostic fault = example();
    fault.pointer = "/a\x1b[31mb";
    fault.value = std::string(59, 'x') + "éé";  // the 60th byte begins a character of two
    const std::string text = format_text({fault});
    EXPECT_NE(text.find("(= " + std::string(59, 'x') + " …, from"), std::string::npos) << text;
    EXPECT_NE(text.find("run.json:/a?[31mb "), std::string::npos) << text;
}

TEST(Diagnostic, JsonSaysTheSame) {
    const auto json = nlohmann::json::parse(format_json({example()}));
    ASSERT_EQ(json["errors"].size(), 1u);
    const auto& error = json["errors"][0];
    EXPECT_EQ(error["code"], "S012");
    EXPECT_EQ(error["pointer"], "/layout/pipeline_parallel");
    EXPECT_EQ(error["value"], 16);  // a value, not its text
    EXPECT_EQ(error["help"], (nlohmann::json{"one", "two"}));
    EXPECT_FALSE(error.contains("line"));
    Diagnostic syntax;
    syntax.line = 3;
    syntax.column = 7;
    const auto other = nlohmann::json::parse(format_json({syntax}))["errors"][0];
    EXPECT_EQ(other["line"], 3);
    EXPECT_EQ(other["column"], 7);
    EXPECT_FALSE(other.contains("note"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
