// --vary KEY=VALUES: a key of the scenario and the values that it takes one after another.
//   layout.pipeline_parallel=1,2,4,8      these
//   cluster.nodes=16..256*2               16, 32, 64, 128, 256
//   cluster.inter_node.latency_us=1..5+2  1, 3, 5
//   layout.micro_batch_size=1..4          1, 2, 3, 4
#pragma once

#include <string>
#include <vector>

namespace orrery::cli {

struct Vary {
    std::string key;
    std::vector<std::string> values;  // as --set takes them
};

inline constexpr std::size_t kMostValues = 10'000;  // of one key

// Throws UsageError where it is not of this form, says no value, or says too many.
Vary parse_vary(const std::string& argument);

// Several, of which none names a key twice; else UsageError.
std::vector<Vary> parse_all_varies(const std::vector<std::string>& arguments);

// Every combination as overrides, the first key changing slowest. Of none: one without overrides.
// Throws UsageError where there are more than `most`.
std::vector<std::vector<std::string>> combinations(const std::vector<Vary>& varies,
                                                   std::size_t most);

}  // namespace orrery::cli
