#include "runtime/cpu/kernels/dropout_mask.hpp"

namespace orrery::runtime::ORRERY_INSTRUCTION_SET {
namespace {

// Blocks of random words side by side, so that vector instructions apply. Words of one block are
// neighbours: word w of block b is at [4·b + w].
constexpr std::int64_t kBlocks = 16;

void random_words(const RandomKey& key, std::uint64_t first_block,
                  std::uint32_t words[4 * kBlocks]) {
    std::uint32_t lane[4][kBlocks];
    for (std::int64_t b = 0; b < kBlocks; ++b) {
        const PhiloxWords block = random_block(key, first_block + static_cast<std::uint64_t>(b));
        for (int w = 0; w < 4; ++w)
            lane[w][b] = block.word[w];
    }
    for (std::int64_t b = 0; b < kBlocks; ++b)
        for (int w = 0; w < 4; ++w)
            words[4 * b + w] = lane[w][b];
}

}  // namespace

template <typename W>
void keep_factors(const DropoutKey& key, std::uint64_t first, std::int64_t n, W* factor) {
    constexpr std::int64_t kWords = 4 * kBlocks;
    const std::uint64_t first_kept = first_kept_word(key);
    const auto kept = static_cast<W>(1 / (1 - key.p));
    std::uint32_t words[kWords];
    auto skipped = static_cast<std::int64_t>(first % 4);
    std::uint64_t block = first / 4;
    for (std::int64_t done = 0; done < n; block += kBlocks) {
        random_words(key.random, block, words);
        const std::int64_t length = n - done < kWords - skipped ? n - done : kWords - skipped;
        for (std::int64_t i = 0; i < length; ++i)
            factor[done + i] = words[skipped + i] >= first_kept ? kept : W{0};
        done += length;
        skipped = 0;
    }
}

template void keep_factors<float>(const DropoutKey&, std::uint64_t, std::int64_t, float*);
template void keep_factors<double>(const DropoutKey&, std::uint64_t, std::int64_t, double*);

}  // namespace orrery::runtime::ORRERY_INSTRUCTION_SET
