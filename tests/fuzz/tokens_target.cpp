// Token files: bytes to tokens of the vocabulary or a DataError that names the file, and from a
// source that is read a sampler takes its samples or says why it cannot.
#include "plan/check.hpp"
#include "runtime/data/sampler.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/runtime/data/data_files.hpp"

namespace orrery::fuzz {
namespace {

using plan::DataFormat;
using runtime::DataError;
using runtime::Sampler;
using runtime::TokenSource;

constexpr std::int64_t kVocabularies[] = {1, 256, 50257, std::int64_t{1} << 33};

void check_samples(const TokenSource& source, std::int64_t vocabulary) {
    constexpr std::size_t kLength = 3;
    std::int32_t inputs[kLength], targets[kLength];
    const Sampler sampler(1234, source, kLength);
    for (std::int64_t n = 0; n < 2 * sampler.windows(); ++n) {
        sampler.sample(n, inputs, targets);
        for (std::size_t i = 0; i < kLength; ++i) {
            ORRERY_CHECK(inputs[i] >= 0 && inputs[i] < vocabulary, "a token of no vocabulary");
            ORRERY_CHECK(i == 0 || targets[i - 1] == inputs[i], "a target that does not follow");
        }
    }
}

// Input: the format and the vocabulary in one byte, then the file.
void run(std::string_view input) {
    const auto choice = static_cast<unsigned char>(input.empty() ? 0 : input[0]);
    const auto format = static_cast<DataFormat>(choice % 4);
    const std::int64_t vocabulary = kVocabularies[choice / 4 % std::size(kVocabularies)];
    const MemoryFile file(input.substr(input.empty() ? 0 : 1));
    try {
        const TokenSource source(file.path(), format, vocabulary);
        check_samples(source, vocabulary);
    } catch (const DataError& fault) {
        ORRERY_CHECK(std::string_view(fault.what()).substr(0, file.path().size()) == file.path(),
                     fault.what());
    }
}

std::string chosen(DataFormat format, unsigned vocabulary) {
    return {static_cast<char>(static_cast<unsigned>(format) + 4 * vocabulary)};
}

std::vector<std::string> seeds() {
    return {chosen(DataFormat::text, 1) + "What a file says.",
            chosen(DataFormat::nanogpt, 2) + runtime::nanogpt_bytes({1, 2, 3, 50256}),
            chosen(DataFormat::llmc, 2) + runtime::llmc_gpt2({50256, 3, 4, 5, 6, 7, 8}),
            chosen(DataFormat::automatic, 3) + runtime::llmc_llama3({128000, 3, 4, 5})};
}

}  // namespace

const Target kTokens = {"tokens", 2048, run, seeds};

}  // namespace orrery::fuzz
