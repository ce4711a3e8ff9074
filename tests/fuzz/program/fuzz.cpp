// libFuzzer's program. ORRERY_FUZZ_TARGET names what is fuzzed (an argument would not survive
// libFuzzer's starting of itself for -merge and -minimize_crash).
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.hpp"

namespace {

const orrery::fuzz::Target* chosen() {
    const char* name = std::getenv("ORRERY_FUZZ_TARGET");
    const orrery::fuzz::Target* target = name ? orrery::fuzz::find_target(name) : nullptr;
    if (target != nullptr) return target;
    std::fputs("ORRERY_FUZZ_TARGET must be one of:", stderr);
    for (const orrery::fuzz::Target& one : orrery::fuzz::targets())
        std::fprintf(stderr, " %s", one.name);
    std::fputs("\n", stderr);
    std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const orrery::fuzz::Target& target = *chosen();
    if (size <= target.longest_input) target.run({reinterpret_cast<const char*>(data), size});
    return 0;
}
