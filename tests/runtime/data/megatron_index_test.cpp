// Token files of Megatron-LM, written here by what its indexed_dataset.py says.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/data/megatron_index.hpp"
#include "runtime/data/token_source.hpp"
#include "tests/runtime/data/megatron_files.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DataFormat;

class MegatronFiles : public testing::Test {
  protected:
    std::string write(const std::string& index, const std::string& tokens) {
        const std::string base = testing::TempDir() + "megatron";
        std::ofstream(base + ".idx", std::ios::binary) << index;
        std::ofstream(base + ".bin", std::ios::binary) << tokens;
        return base;
    }
    static std::string complaint(const std::string& path) {
        try {
            const TokenSource source(path, DataFormat::megatron, 1000);
        } catch (const DataError& refused) {
            return refused.what();
        }
        return "";
    }
    static std::vector<std::int32_t> tokens_of(const std::string& path, DataFormat format) {
        const TokenSource source(path, format, 1000);
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.tokens()));
        source.copy(0, tokens);
        return tokens;
    }
};

const std::vector<std::vector<std::uint64_t>> kDocuments = {{5, 6, 7, 0}, {8, 0}, {9, 10, 0}};
const std::vector<std::int32_t> kAll = {5, 6, 7, 0, 8, 0, 9, 10, 0};

TEST_F(MegatronFiles, AreReadInEveryTypeOfTokens) {
    for (const int code : {1, 2, 3, 4, 5, 8}) {
        const std::string base =
            write(megatron_index(kDocuments, code), megatron_tokens(kDocuments, code));
        EXPECT_EQ(tokens_of(base + ".bin", DataFormat::megatron), kAll) << code;
    }
}

TEST_F(MegatronFiles, AreFoundByEitherNameAndNone) {
    const std::string base = write(megatron_index(kDocuments, 8), megatron_tokens(kDocuments, 8));
    for (const char* ending : {".bin", ".idx", ""})
        EXPECT_EQ(tokens_of(base + ending, DataFormat::megatron), kAll);
    for (const char* ending : {".bin", ".idx"})
        EXPECT_EQ(tokens_of(base + ending, DataFormat::automatic), kAll);
    std::filesystem::remove(base + ".idx");
    EXPECT_EQ(TokenSource(base + ".bin", DataFormat::automatic, 1000).tokens(), 9);  // nanoGPT's
}

TEST_F(MegatronFiles, ThatContradictThemselvesAreRefused) {
    const std::string index = megatron_index(kDocuments, 8), bin = megatron_tokens(kDocuments, 8);
    const std::string path = testing::TempDir() + "megatron.idx: ";
    const auto changed = [&](std::size_t at, char value) {
        std::string other = index;
        other[at] = value;
        return complaint(write(other, bin)).substr(path.size());
    };
    EXPECT_EQ(changed(0, 'm'), "byte 0: an index of Megatron-LM begins with MMIDIDX and two zeros");
    EXPECT_EQ(changed(9, 2), "byte 9: version 2; version 1 is read");
    EXPECT_EQ(changed(17, 9), "byte 17: unknown type of tokens 9; 1 to 8 are known");
    EXPECT_EQ(changed(17, 7), "byte 17: float32 7 are no tokens");
    EXPECT_EQ(changed(18, 4),
              "bytes 18 and 26: 4 sequences and 4 document bounds; 34 + 12 × 4 + 8 "
              "× 4 bytes are not the 102 that the file has");
    EXPECT_EQ(changed(34, 5),
              "byte 54: sequence 1 begins at byte 8 of the .bin, the one before it "
              "ends at 10");
    EXPECT_EQ(changed(42, 9),
              "byte 42: sequence 2 of 9 tokens of 2 bytes ends beyond the .bin, "
              "which has 18 bytes");
    EXPECT_EQ(changed(42, 2), "its sequences end at byte 16 of the .bin, which has 18");
    EXPECT_EQ(changed(78, 3),
              "byte 86: document bound 2 is sequence 2; they go from 0 to 3, each no "
              "less than the one before");
    EXPECT_NE(complaint(write(megatron_index({{2000}}, 8), megatron_tokens({{2000}}, 8))), "x");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
