// Indexes of Megatron-LM's token files: read, with a .bin that is all tokens, or a DataError that
// names the file.
#include "plan/check.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/megatron_index.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/runtime/data/megatron_files.hpp"

namespace orrery::fuzz {
namespace {

// Input: bytes of the .bin, in two bytes, then the index.
void run(std::string_view input) {
    std::int64_t bin_bytes = 0;
    for (int i = 0; i < 2 && !input.empty(); ++i, input.remove_prefix(1))
        bin_bytes = 256 * bin_bytes + static_cast<unsigned char>(input[0]);
    try {
        const runtime::MegatronIndex index = runtime::read_megatron_index(
            "a file", std::as_bytes(std::span(input.data(), input.size())), bin_bytes);
        ORRERY_CHECK(index.tokens * index.bytes_per_token == bin_bytes, "bytes of no token");
        ORRERY_CHECK(index.documents >= 0 && index.sequences >= 0, "fewer than none");
    } catch (const runtime::DataError& fault) {
        ORRERY_CHECK(std::string_view(fault.what()).starts_with("a file: "), fault.what());
    }
}

std::vector<std::string> seeds() {
    const std::vector<std::vector<std::uint64_t>> documents = {{5, 6, 7, 0}, {8, 0}};
    std::vector<std::string> all;
    for (const int code : {1, 4, 5, 8}) {
        const std::size_t bytes = runtime::megatron_tokens(documents, code).size();
        all.push_back(std::string{'\0', static_cast<char>(bytes)} +
                      runtime::megatron_index(documents, code));
    }
    return all;
}

}  // namespace

const Target kMegatronIndex = {"megatron_index", 1024, run, seeds};

}  // namespace orrery::fuzz
