// Memory of a stream's for what one request needs between its kernels: nothing stays in it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orrery::runtime::cuda {

// Grows, and never shrinks.
class ScratchMemory {
  public:
    ScratchMemory() = default;
    ~ScratchMemory();
    ScratchMemory(const ScratchMemory&) = delete;
    ScratchMemory& operator=(const ScratchMemory&) = delete;

    // So many numbers; what was there is lost. To grow waits for all that the device was given.
    template <typename T>
    T* numbers(std::int64_t count) {
        return static_cast<T*>(bytes(count * static_cast<std::int64_t>(sizeof(T))));
    }

  private:
    void* bytes(std::int64_t count);

    void* memory_ = nullptr;
    std::int64_t count_ = 0;
};

}  // namespace orrery::runtime::cuda
