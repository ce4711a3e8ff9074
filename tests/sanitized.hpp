// Whether what is tested was built with AddressSanitizer. Tests themselves are compiled alike in
// every build, so only the linked program knows.
#pragma once

extern "C" [[gnu::weak]] void __asan_init();

namespace orrery {

inline bool sanitized() {
    return &__asan_init != nullptr;
}

}  // namespace orrery
