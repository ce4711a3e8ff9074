#include "runtime/cuda/pinned_memory.hpp"

#include <cstring>
#include <string>

#include "runtime/cuda/cuda_error.hpp"

namespace orrery::runtime::cuda {

void PinnedDeleter::operator()(std::byte* memory) const {
    cudaFreeHost(memory);
}

PinnedMemory allocate_pinned(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, bytes),
          "cudaMallocHost of " + std::to_string(bytes) + " bytes, which are locked in memory");
    return PinnedMemory(static_cast<std::byte*>(memory));
}

TokenStaging::~TokenStaging() {
    for (const Piece& piece : pieces_)
        if (piece.copied != nullptr) cudaEventDestroy(piece.copied);
}

void TokenStaging::add(std::size_t bytes) {
    pieces_.push_back({allocate_pinned(bytes), bytes});
}

bool TokenStaging::is_free(const Piece& piece) {
    if (piece.copied == nullptr) return true;
    const cudaError_t answer = cudaEventQuery(piece.copied);
    if (answer == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
    }
    check(answer, "copy of tokens to the device");
    return true;
}

// Whose turn it is, or one more before it.
TokenStaging::Piece& TokenStaging::next(std::size_t bytes) {
    if (next_ == pieces_.size()) next_ = 0;
    const auto turn = pieces_.begin() + static_cast<std::ptrdiff_t>(next_++);
    if (turn == pieces_.end() || !is_free(*turn))
        return *pieces_.insert(turn, {allocate_pinned(bytes), bytes});
    if (turn->bytes < bytes) {
        turn->memory = allocate_pinned(bytes);
        turn->bytes = bytes;
    }
    return *turn;
}

void TokenStaging::bring(std::span<const std::byte> from, void* to, cudaStream_t stream) {
    Piece& piece = next(from.size());
    std::memcpy(piece.memory.get(), from.data(), from.size());
    check(cudaMemcpyAsync(to, piece.memory.get(), from.size(), cudaMemcpyHostToDevice, stream),
          "copy of tokens to the device");
    if (piece.copied == nullptr)
        check(cudaEventCreateWithFlags(&piece.copied, cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
    check(cudaEventRecord(piece.copied, stream), "cudaEventRecord");
}

}  // namespace orrery::runtime::cuda
