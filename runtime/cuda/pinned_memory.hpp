// Memory of the host that is locked in place: a copy from or to it goes into a stream and returns.
// Of any other memory cudaMemcpyAsync first waits for all that the stream holds, and with it the
// thread that issues, for a call perhaps that no other rank joins any more.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace orrery::runtime::cuda {

struct PinnedDeleter {
    void operator()(std::byte* memory) const;
};
using PinnedMemory = std::unique_ptr<std::byte, PinnedDeleter>;

// To allocate may wait for all that the device was given.
PinnedMemory allocate_pinned(std::size_t bytes);

// What a step brings to the device, on its way there: pieces of pinned memory that take turns, each
// free again once its copy has been made.
class TokenStaging {
  public:
    TokenStaging() = default;
    ~TokenStaging();
    TokenStaging(const TokenStaging&) = delete;
    TokenStaging& operator=(const TokenStaging&) = delete;

    // One more piece, of so many bytes. In the order in which they are brought, those of all steps
    // that are under way at once: then nothing is allocated within a step.
    void add(std::size_t bytes);
    // `from` need not stay as it is.
    void bring(std::span<const std::byte> from, void* to, cudaStream_t stream);

  private:
    struct Piece {
        PinnedMemory memory;
        std::size_t bytes = 0;
        cudaEvent_t copied = nullptr;  // null: it has not been used
    };
    static bool is_free(const Piece& piece);
    Piece& next(std::size_t bytes);

    std::vector<Piece> pieces_;
    std::size_t next_ = 0;
};

}  // namespace orrery::runtime::cuda
