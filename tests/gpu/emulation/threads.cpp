// The threads of a block, as fibers that are switched between.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include <boost/context/fiber.hpp>

#include "tests/gpu/emulation/cuda_runtime.h"

thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace orrery::runtime::cuda {

// As much as a block of an A100 may have, 163 KiB.
constexpr std::size_t kSharedFloats = std::size_t{163} * 1024 / sizeof(float);
thread_local __align__(16) float shared_memory[kSharedFloats];

}  // namespace orrery::runtime::cuda

namespace emulation {
namespace {

constexpr std::size_t kStack = std::size_t{64} * 1024;
constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;  // of a block

enum class State : std::uint8_t { ready, at_warp, at_block, ended };

struct Copy {
    void* to;
    const void* from;
};

// Two slots in turn: nobody hands in a third value before all have met for the second, and so have
// read the first.
struct Thread {
    boost::context::fiber fiber;  // where it waits
    State state = State::ready;
    std::array<std::array<std::byte, kMostHandedIn>, 2> slots{};
    unsigned turn = 0;
    std::deque<std::vector<Copy>> copies{1};  // in groups, the last one not yet ended
};

struct Block {
    std::unique_ptr<Thread[]> threads = std::make_unique<Thread[]>(kMostThreads);
    std::unique_ptr<std::byte[]> stacks =
        std::make_unique_for_overwrite<std::byte[]>(kMostThreads * kStack);
    unsigned count = 0;
    bool descending = false;  // whether the last threads run first: so does every second block
    boost::context::fiber scheduler;  // where it waits while a thread runs
    const std::function<void()>* body = nullptr;
};
thread_local Block block;

// Stacks are the block's, one after the other.
struct StackOfBlock {
    void deallocate(boost::context::stack_context&) const {}
};

boost::context::fiber fiber_of(unsigned thread) {
    boost::context::stack_context stack;
    stack.sp = block.stacks.get() + (thread + 1) * kStack;  // grows down
    stack.size = kStack;
    return boost::context::fiber(std::allocator_arg,
                                 boost::context::preallocated(stack.sp, stack.size, stack),
                                 StackOfBlock{}, [](boost::context::fiber&& scheduler) {
                                     block.scheduler = std::move(scheduler);
                                     (*block.body)();
                                     block.threads[threadIdx.x].state = State::ended;
                                     return std::move(block.scheduler);
                                 });
}

void resume(unsigned thread) {
    threadIdx = dim3{thread};
    boost::context::fiber& fiber = block.threads[thread].fiber;
    fiber = std::move(fiber).resume();
}

// Lets go those who have all met. Returns whether any have.
bool release(std::size_t first, std::size_t end, State met) {
    bool any = false;
    for (std::size_t t = first; t < end; ++t) {
        if (block.threads[t].state == State::ended) continue;
        if (block.threads[t].state != met) return false;
        any = true;
    }
    for (std::size_t t = first; t < end; ++t)
        if (block.threads[t].state == met) block.threads[t].state = State::ready;
    return any;
}

bool release_any() {
    const std::size_t threads = block.count;
    bool any = false;
    for (std::size_t warp = 0; warp < threads; warp += kWarp)
        any = release(warp, std::min(warp + kWarp, threads), State::at_warp) || any;
    return any || release(0, threads, State::at_block);
}

void run_block(unsigned threads) {
    block.count = threads;
    block.descending = !block.descending;
    for (unsigned t = 0; t < threads; ++t) {
        Thread& thread = block.threads[t];
        thread.state = State::ready;
        thread.turn = 0;
        thread.copies.assign(1, {});
        thread.fiber = fiber_of(t);
    }
    do {
        for (unsigned i = 0; i < threads; ++i) {
            const unsigned t = block.descending ? threads - 1 - i : i;
            if (block.threads[t].state == State::ready) resume(t);
        }
    } while (release_any());
    for (unsigned t = 0; t < threads; ++t)
        if (block.threads[t].state != State::ended) {
            std::fputs("emulated CUDA: threads wait where others of theirs do not\n", stderr);
            std::abort();
        }
}

std::map<const void*, std::size_t>& allowed_shared() {
    thread_local std::map<const void*, std::size_t> allowed;
    return allowed;
}

}  // namespace

void meet(Meeting meeting) {
    Thread& me = block.threads[threadIdx.x];
    const unsigned index = threadIdx.x;
    me.state = meeting == Meeting::warp ? State::at_warp : State::at_block;
    block.scheduler = std::move(block.scheduler).resume();
    threadIdx = dim3{index};
}

void hand_in(const void* value, std::size_t bytes) {
    Thread& me = block.threads[threadIdx.x];
    std::memcpy(me.slots[me.turn].data(), value, bytes);
}

void take(unsigned lane, void* value, std::size_t bytes) {
    const unsigned thread = threadIdx.x / kWarp * kWarp + lane;
    const Thread& me = block.threads[threadIdx.x];
    if (thread < block.count)
        std::memcpy(value, block.threads[thread].slots[me.turn].data(), bytes);
}

void next_turn() {
    block.threads[threadIdx.x].turn ^= 1U;
}

thread_local std::size_t of_block = sizeof orrery::runtime::cuda::shared_memory;

void set_most_shared(std::size_t bytes) {
    of_block = bytes;
}
std::size_t most_shared() {
    return of_block;
}

void copy_later(void* to, const void* from) {
    block.threads[threadIdx.x].copies.back().push_back({to, from});
}

void end_group_of_copies() {
    block.threads[threadIdx.x].copies.emplace_back();
}

void make_copies(int all_but) {
    constexpr std::size_t kBytes = 16;
    auto& groups = block.threads[threadIdx.x].copies;
    for (; groups.size() > static_cast<std::size_t>(all_but) + 1; groups.pop_front())
        for (const Copy& copy : groups.front()) {
            if (copy.from == nullptr)
                std::memset(copy.to, 0, kBytes);
            else
                std::memcpy(copy.to, copy.from, kBytes);
        }
}

cudaError_t run_grid(const cudaLaunchConfig_t& config, const void* kernel,
                     const std::function<void()>& body) {
    constexpr std::size_t kGivenToAll = std::size_t{48} * 1024;
    const std::size_t allowed = std::min(of_block, std::max(kGivenToAll, allowed_shared()[kernel]));
    if (config.blockDim.x == 0 || config.blockDim.x > kMostThreads || config.gridDim.x == 0 ||
        config.dynamicSmemBytes > allowed)
        return cudaErrorInvalidValue;
    blockDim = config.blockDim;
    gridDim = config.gridDim;
    block.body = &body;
    auto& shared = orrery::runtime::cuda::shared_memory;
    static const std::vector<float> unwritten(std::size(shared),
                                              std::numeric_limits<float>::quiet_NaN());
    const std::size_t size = (config.dynamicSmemBytes + 3) / sizeof(float);
    std::ranges::copy(unwritten, shared);
    for (unsigned b = 0; b < config.gridDim.x; ++b) {
        blockIdx = dim3{b};
        run_block(config.blockDim.x);
        if (std::memcmp(shared + size, unwritten.data() + size,
                        sizeof shared - size * sizeof(float)) != 0)
            return cudaErrorInvalidValue;  // beyond its end
        std::copy_n(unwritten.begin(), size, shared);
    }
    return cudaSuccess;
}

}  // namespace emulation

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
    const auto bytes = static_cast<std::size_t>(value);
    if (bytes > emulation::most_shared()) return cudaErrorInvalidValue;
    emulation::allowed_shared()[kernel] = bytes;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(emulation::most_shared());
            break;
        case cudaDevAttrComputeCapabilityMajor:
            *value = emulation::compute_capability / 10;
            break;
        case cudaDevAttrComputeCapabilityMinor:
            *value = emulation::compute_capability % 10;
            break;
    }
    return cudaSuccess;
}
