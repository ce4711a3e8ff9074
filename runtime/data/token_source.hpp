// The tokens that a model is trained on, from a file as people have it (plan::DataFormat):
//   text       any file; a byte is a token
//   nanogpt    nanoGPT's .bin (data/*/prepare.py): 16-bit tokens and nothing else
//   llmc       llm.c's .bin (dev/data/data_common.py, write_datafile): 256 32-bit words, of which
//              the first three are magic, version and number of tokens; then the tokens, of 16 bits
//              (magic 20240520, version 1: GPT-2) or 32 (magic 20240801, version 7: Llama 3)
//   megatron   Megatron-LM's .bin, with its .idx beside it (runtime/data/megatron_index.hpp); named
//              as either of them, or without an ending
//   automatic  megatron where the name ends in .idx, or in .bin and an .idx of Megatron-LM lies
//              beside it; llmc where the file begins with one of its magics, which no text in UTF-8
//              and no tokens of GPT-2 do; else nanogpt where its name ends in .bin; else text
// All numbers little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plan/scenario/scenario.hpp"
#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {

// Where a file's tokens stand.
struct TokenLayout {
    std::int64_t first_byte = 0;
    std::int64_t bytes_per_token = 1;
    bool is_signed = false;
    std::int64_t tokens = 0;
};

class TokenSource {
  public:
    // `vocabulary` > 0 is the model's, without padding. Throws DataError: what MappedFile does, a
    // file that is not in this format, a vocabulary that cannot hold bytes where they are tokens.
    TokenSource(const std::string& path, plan::DataFormat format, std::int64_t vocabulary);

    const std::string& path() const { return file_.path(); }
    std::int64_t tokens() const { return layout_.tokens; }

    // sample_hash of the file: the same data, or most likely other.
    const std::string& content_sample() const { return content_; }

    // Throws DataError where somebody has written other bytes into the file since it was opened:
    // what was read of it is of two data sets.
    void require_unchanged() const;

    // Tokens `first` and what follows; the range lies within the file (ORRERY_CHECK). Throws
    // DataError for a token that the vocabulary does not have: to look at all of them beforehand
    // would read the whole data set. Any number of threads at once.
    void copy(std::int64_t first, std::span<std::int32_t> out) const;

  private:
    template <class Token>
    void copy_as(std::int64_t first, std::span<std::int32_t> out) const;

    MappedFile file_;
    std::int64_t vocabulary_;
    TokenLayout layout_;
    std::string content_;
};

}  // namespace orrery::runtime
