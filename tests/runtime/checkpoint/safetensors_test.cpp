// Safetensors and manifests: what is written is read, and what is wrong is named.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/data/mapped_file.hpp"
#include "tests/trace/native_container.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

std::string with_header(const std::string& header, std::size_t data_bytes) {
    return trace::little_endian(header.size(), 8) + header + std::string(data_bytes, '\0');
}

SafetensorsFile read(const std::string& bytes) {
    return read_safetensors("t", std::as_bytes(std::span(bytes)));
}

std::string complaint(const std::function<void()>& action) {
    try {
        action();
    } catch (const DataError& refused) {
        return refused.what();
    }
    return "";
}

TEST(Safetensors, IsReadAsTheFormatSays) {
    const SafetensorsFile file = read(with_header(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
        R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("none":{"dtype":"I64","shape":[0,7],"data_offsets":[28,28]}}   )",
        28));
    ASSERT_EQ(file.tensors.size(), 3U);
    EXPECT_EQ(file.tensors[0].name, "a");
    EXPECT_EQ(file.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(file.tensors[1].begin - file.data_begin, 24);
    EXPECT_EQ(file.find("b")->bytes(), 4);
    EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Safetensors, WhatIsWrittenIsRead) {
    const std::vector<StoredTensor> tensors = {{"x/y:z", "F32", {3}, 0, 12},
                                               {"w", "F64", {1, 2}, 12, 28}};
    const std::string head = safetensors_head(tensors, {{"format", "pt"}});
    EXPECT_EQ(head.size() % 8, 0U);
    const SafetensorsFile file = read(head + std::string(28, 'd'));
    EXPECT_EQ(file.tensors[1].name, "w");
    EXPECT_EQ(file.tensors[1].end, static_cast<std::int64_t>(head.size()) + 28);
}

TEST(Safetensors, WhatIsWrongIsNamed) {
    const auto refused = [](const std::string& bytes) { return complaint([&] { read(bytes); }); };
    EXPECT_EQ(refused("1234"), "t: 4 bytes are no safetensors file");
    EXPECT_EQ(refused(trace::little_endian(9, 8)),
              "t: byte 0: a header of 9 bytes, in a file of 8");
    EXPECT_EQ(refused(with_header("[]", 0)), "t: byte 8: the header is no JSON object of tensors");
    EXPECT_EQ(refused(with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8)),
              "t: ends at byte 70, its tensors at 66");
    EXPECT_EQ(refused(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
              R"(t: tensor "a": 2 elements of F32 are not the 4 bytes that it has)");
    EXPECT_EQ(
        refused(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12)),
        R"(t: tensor "a" begins at byte 67, what is before it ends at 63)");
    EXPECT_EQ(refused(with_header(R"({"a":{"dtype":"C64","shape":[],"data_offsets":[0,8]}})", 8)),
              R"(t: tensor "a": unknown dtype C64)");
    EXPECT_EQ(
        refused(with_header(
            R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0)),
        R"(t: tensor "a": its shape is not one of natural numbers)");
    EXPECT_EQ(refused(with_header(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                  R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                  0)),
              R"(t: tensor "a" is there twice)");
}

// XXH3_128bits of no bytes and of "a" with seed 0, from xxHash's own xxh128sum.
TEST(ContentHash, IsXxh3) {
    EXPECT_EQ(content_hash(std::string_view()), "99aa06d3014798d86001c324468d497f");
    EXPECT_EQ(content_hash("a"), "a96faf705af16834e6c632b61e964e1f");
}

TEST(Slices, OfRunsThatAreAlikeAreOne) {
    std::vector<Slice> slices;
    append_run(slices, 0, 4);
    append_run(slices, 4, 2);  // goes on
    EXPECT_EQ(slices, (std::vector<Slice>{{0, 6, 0, 1}}));
    for (const std::int64_t first : {10, 20, 30})
        append_run(slices, first, 3);
    append_run(slices, 40, 1);
    EXPECT_EQ(slices, (std::vector<Slice>{{0, 6, 0, 1}, {10, 3, 10, 3}, {40, 1, 0, 1}}));
}

Manifest small_manifest() {
    Manifest manifest;
    manifest.progress = {7, 5, 56, SavedLossScale{0.1F, 3, 1}, SavedLosses{{0.1, 2e-300}, 9}};
    manifest.data = {1234, 16, "book.txt", 1000, "0c"};
    manifest.scenario = R"({"run":{"data":"book.txt"}})";
    manifest.tensors = {{"w", {2, 3}}};
    Shard shard{"s", 100, "00", {}};
    for (const Quantity quantity : kQuantities)
        shard.pieces.push_back({"w", quantity, "F32", {{0, 1, 3, 2}, {1, 2, 3, 2}}, "ff"});
    manifest.shards = {shard};
    return manifest;
}

TEST(Manifest, IsReadAsItWasWritten) {
    const Manifest manifest = small_manifest();
    const Manifest read = read_manifest("m", manifest_text(manifest));
    EXPECT_EQ(read.progress, manifest.progress);
    EXPECT_EQ(read.data, manifest.data);
    EXPECT_EQ(read.scenario, manifest.scenario);
    EXPECT_EQ(read.tensors, manifest.tensors);
    EXPECT_EQ(read.shards, manifest.shards);
    EXPECT_EQ(read.frozen, manifest.frozen);
}

// Of what is never stepped there are weights and no moments.
TEST(Manifest, OfAFrozenTensorHasItsWeightAlone) {
    Manifest frozen = small_manifest();
    frozen.frozen = {"w"};
    EXPECT_EQ(complaint([&] { read_manifest("m", manifest_text(frozen)); }),
              "m: manifest: w is frozen, and its first_moment is in the shards");
    frozen.shards[0].pieces.resize(1);
    EXPECT_EQ(read_manifest("m", manifest_text(frozen)).frozen, frozen.frozen);
    frozen.frozen.insert("x");
    EXPECT_EQ(complaint([&] { read_manifest("m", manifest_text(frozen)); }),
              "m: manifest: frozen names a tensor that is not among tensors");
}

TEST(Manifest, AChangedByteIsRefused) {
    const std::string text = manifest_text(small_manifest());
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string changed = text;
        changed[at] ^= 1;
        EXPECT_NE(complaint([&] { read_manifest("m", changed); }), "") << at;
    }
}

TEST(Manifest, WhoseShardsLackSomethingIsRefused) {
    Manifest lacking = small_manifest();
    lacking.shards[0].pieces[1].slices.pop_back();
    EXPECT_EQ(complaint([&] { read_manifest("m", manifest_text(lacking)); }),
              "m: manifest: w has 6 elements, its first_moment in the shards 2");
    Manifest beyond = small_manifest();
    beyond.shards[0].pieces[0].slices[0].stride = 1'000'000;
    EXPECT_EQ(complaint([&] { read_manifest("m", manifest_text(beyond)); }),
              "m: tensors: slice [0,1,1000000,2] lies beyond its tensor of 6 elements");
    Manifest elsewhere = small_manifest();
    elsewhere.shards[0].file = "../s";
    EXPECT_NE(complaint([&] { read_manifest("m", manifest_text(elsewhere)); }), "");
    Manifest cut = small_manifest();
    cut.shards[0].file = std::string("s\0x", 3);
    EXPECT_EQ(complaint([&] { read_manifest("m", manifest_text(cut)); }),
              "m: shards: file has a character of value 0");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
