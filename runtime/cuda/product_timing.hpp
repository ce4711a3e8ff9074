// How algorithms of a product are timed on the device, before the first step and on the step's own
// memory: numbers are put where it reads, and what was there before is put back.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace orrery::runtime::cuda {

// Memory of the device that others own. What is done to it goes into the stream.
class BorrowedMemory {
  public:
    // Returns once its content is in the host's memory.
    BorrowedMemory(void* memory, std::size_t bytes, cudaStream_t stream);
    BorrowedMemory(const BorrowedMemory&) = delete;
    BorrowedMemory& operator=(const BorrowedMemory&) = delete;

    // With random numbers of ordinary size, in any floating-point type of so many bytes: zeros take
    // less power to multiply, and so less time where power is what limits the clock.
    void fill(std::size_t element_bytes);
    // Returns once all is as it was.
    void put_back();

  private:
    void* memory_;
    std::vector<std::byte> content_;
    cudaStream_t stream_;
};

// Microseconds of each of so many: the median of rounds in which they take turns, so that a clock
// that changes changes for all, each behind one more of itself, so that the device does not wait
// for the host between the two marks. `launch` says whether it could; one that once could not is
// infinite.
std::vector<double> time_in_turn(std::size_t count, const std::function<bool(std::size_t)>& launch,
                                 cudaStream_t stream);

}  // namespace orrery::runtime::cuda
