// Values of a document by their JSON pointers (RFC 6901).
#include "plan/scenario/document.hpp"

#include <gtest/gtest.h>

namespace orrery::plan {
namespace ORRERY_TEST_FILE {

TEST(Document, FindsWhatAPointerLeadsTo) {
    const Document document(
        Json::parse(R"({"a": {"b": [1, {"c": 2}], "": 3, "x/y": 4, "~": 5}, "ab": 6})"), "here",
        "");
    const auto at = [&](const char* pointer) {
        const Json* value = document.find(pointer);
        return value == nullptr ? std::string("nothing") : value->dump();
    };
    EXPECT_EQ(at("/ab"), "6");
    EXPECT_EQ(at("/a/b"), R"([1,{"c":2}])");
    EXPECT_EQ(at("/a/b/1/c"), "2");
    EXPECT_EQ(at("/a/"), "3");
    EXPECT_EQ(at("/a/x~1y"), "4");
    EXPECT_EQ(at("/a/~0"), "5");
    EXPECT_EQ(document.find("")->size(), 2U);
    EXPECT_EQ(at("/b"), "nothing");
    EXPECT_EQ(at("/a/b/2"), "nothing");
    EXPECT_EQ(at("/ab/c"), "nothing");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::plan
