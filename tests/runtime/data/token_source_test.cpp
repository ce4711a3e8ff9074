// Token files as people have them, and what is said of those that are broken.
#include "runtime/data/token_source.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/data_files.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DataFormat;
using testing::ElementsAre;

class TokenSourceTest : public testing::Test {
  protected:
    std::string file(const std::string& name, const std::string& bytes) {
        trace::put_file(folder_.file(name), bytes);
        return folder_.file(name);
    }

    // What is said of the file behind its path, on opening it or on reading all of it.
    std::string fault(const std::string& path, DataFormat format, std::int64_t vocabulary) {
        try {
            const TokenSource source(path, format, vocabulary);
            std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.tokens()));
            source.copy(0, tokens);
        } catch (const DataError& error) {
            EXPECT_EQ(std::string(error.what()).substr(0, path.size() + 2), path + ": ");
            return std::string(error.what()).substr(path.size() + 2);
        }
        return "nothing";
    }

    trace::TestFolder folder_;
};

std::vector<std::int32_t> all(const TokenSource& source) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.tokens()));
    source.copy(0, tokens);
    return tokens;
}

TEST_F(TokenSourceTest, ReadsTextByteByByte) {
    const TokenSource source(file("t.txt", "A\n\xC3\xBC\xFF"), DataFormat::automatic, 256);
    EXPECT_THAT(all(source), ElementsAre('A', '\n', 0xC3, 0xBC, 0xFF));
}

TEST_F(TokenSourceTest, ReadsNanoGpt) {
    const TokenSource source(file("t.bin", nanogpt_bytes({50256, 0, 258})), DataFormat::automatic,
                             50257);
    EXPECT_THAT(all(source), ElementsAre(50256, 0, 258));
}

TEST_F(TokenSourceTest, ReadsLlmcOfBothWidths) {
    const TokenSource gpt2(file("t.bin", llmc_gpt2({50256, 1, 2})), DataFormat::automatic, 50257);
    EXPECT_THAT(all(gpt2), ElementsAre(50256, 1, 2));
    const TokenSource llama(file("t", llmc_llama3({128000, 3})), DataFormat::automatic, 128256);
    EXPECT_THAT(all(llama), ElementsAre(128000, 3));
}

TEST_F(TokenSourceTest, TakesTheFormatItIsTold) {
    const std::string path = file("t.bin", "abcd");
    EXPECT_THAT(all(TokenSource(path, DataFormat::text, 256)), ElementsAre('a', 'b', 'c', 'd'));
    EXPECT_THAT(all(TokenSource(path, DataFormat::nanogpt, 65536)),
                ElementsAre('a' + 256 * 'b', 'c' + 256 * 'd'));
}

TEST_F(TokenSourceTest, CopiesFromTheMiddle) {
    const TokenSource source(file("t.bin", llmc_gpt2({10, 11, 12, 13})), DataFormat::llmc, 14);
    std::vector<std::int32_t> two(2);
    source.copy(2, two);
    EXPECT_THAT(two, ElementsAre(12, 13));
    source.copy(4, {});  // nothing, at the end
}

TEST_F(TokenSourceTest, HasNoTokensInAnEmptyFile) {
    EXPECT_EQ(TokenSource(file("t.txt", ""), DataFormat::automatic, 256).tokens(), 0);
    EXPECT_EQ(TokenSource(file("t.bin", ""), DataFormat::automatic, 256).tokens(), 0);
}

TEST_F(TokenSourceTest, NamesAFileItCannotRead) {
    EXPECT_EQ(fault(folder_.file("none"), DataFormat::text, 256),
              "cannot be opened: No such file or directory");
    EXPECT_EQ(fault(folder_.path().string(), DataFormat::text, 256), "is not a regular file");
}

TEST_F(TokenSourceTest, NeedsAVocabularyOfBytesForText) {
    EXPECT_EQ(fault(file("t.txt", "a"), DataFormat::automatic, 255),
              "text is read a byte a token, which takes a vocabulary of 256; the model's is 255");
}

TEST_F(TokenSourceTest, NamesATokenBeyondTheVocabulary) {
    EXPECT_EQ(fault(file("n.bin", nanogpt_bytes({7, 49, 50, 51})), DataFormat::nanogpt, 50),
              "byte 4: token 50, number 2 of the file from 0; the model's vocabulary is 50, its "
              "tokens are 0 to 49");
    EXPECT_EQ(fault(file("l.bin", llmc_gpt2({7, 50})), DataFormat::llmc, 50),
              "byte 1026: token 50, number 1 of the file from 0; the model's vocabulary is 50, its "
              "tokens are 0 to 49");
    EXPECT_EQ(fault(file("w.bin", llmc_llama3({0xFFFFFFFF})), DataFormat::llmc, 128256),
              "byte 1024: token 4294967295, number 0 of the file from 0; the model's vocabulary is "
              "128256, its tokens are 0 to 128255");
}

TEST_F(TokenSourceTest, NamesHalfATokenOfNanoGpt) {
    EXPECT_EQ(fault(file("t.bin", "abc"), DataFormat::automatic, 50257),
              "3 bytes are not a whole number of tokens of 2 bytes, as a nanoGPT file has them");
}

TEST_F(TokenSourceTest, NamesWhatIsWrongWithAnLlmcHeader) {
    EXPECT_EQ(fault(file("t.bin", llmc_gpt2({1}).substr(0, 1023)), DataFormat::automatic, 256),
              "ends at byte 1023, within the header of 1024 bytes that an llm.c file has");
    EXPECT_EQ(fault(file("t.bin", ""), DataFormat::llmc, 256),
              "ends at byte 0, within the header of 1024 bytes that an llm.c file has");
    EXPECT_EQ(fault(file("t.bin", llmc_bytes({20240522, 1, 1}, {1}, 2)), DataFormat::llmc, 256),
              "byte 0: magic 20240522; tokens in llm.c's format begin with 20240520 (16 bits) or "
              "20240801 (32 bits)");
    EXPECT_EQ(fault(file("t.bin", llmc_bytes({20240520, 7, 1}, {1}, 2)), DataFormat::llmc, 256),
              "byte 4: version 7; of llm.c files with magic 20240520 version 1 is read");
    EXPECT_EQ(fault(file("t.bin", llmc_bytes({20240801, 1, 1}, {1}, 4)), DataFormat::llmc, 256),
              "byte 4: version 1; of llm.c files with magic 20240801 version 7 is read");
}

TEST_F(TokenSourceTest, NoticesThatItWasWrittenInto) {
    const std::string bytes(3000, 'a');
    const TokenSource source(file("t.txt", bytes), DataFormat::automatic, 256);
    EXPECT_NO_THROW(source.require_unchanged());
    std::fstream(source.path(), std::ios::in | std::ios::out) << 'b';
    EXPECT_THAT([&] { source.require_unchanged(); },
                testing::ThrowsMessage<DataError>(testing::HasSubstr("somebody wrote into it")));
}

// Also where it is the look itself that finds the end gone.
TEST_F(TokenSourceTest, NoticesThatItWasCutOff) {
    const TokenSource source(file("t.txt", std::string(3000, 'a')), DataFormat::automatic, 256);
    std::filesystem::resize_file(source.path(), 0);
    EXPECT_THAT([&] { source.require_unchanged(); },
                testing::ThrowsMessage<DataError>(testing::HasSubstr("and has 0 now")));
}

TEST_F(TokenSourceTest, ComparesAnLlmcHeadersTokensWithTheFile) {
    EXPECT_EQ(fault(file("t.bin", llmc_bytes({20240520, 1, 3}, {1, 2}, 2)), DataFormat::llmc, 256),
              "byte 8: 3 tokens; 1024 + 3 × 2 = 1030 bytes, the file has 1028");
    EXPECT_EQ(fault(file("t.bin", llmc_bytes({20240801, 7, 1}, {1, 2}, 4)), DataFormat::llmc, 256),
              "byte 8: 1 tokens; 1024 + 1 × 4 = 1028 bytes, the file has 1032");
    // −512 of 2 bytes would end where the header begins.
    const std::string negative = llmc_bytes({20240520, 1, 0xFFFFFE00}, {}, 2);
    EXPECT_EQ(fault(file("t.bin", negative), DataFormat::llmc, 256),
              "byte 8: -512 tokens; 1024 + -512 × 2 = 0 bytes, the file has 1024");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
