#include "runtime/cuda/nccl_driver.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <list>
#include <thread>

#include "plan/check.hpp"
#include "runtime/cuda/nccl_functions.hpp"

namespace orrery::runtime {
namespace {

using cuda::nccl;

// How long a communicator whose calls have ended may take to say goodbye to its peers.
constexpr std::chrono::seconds kGoodbye(20);

// Ranks that ask one namer for their neighbours, as PyTorch has it (TORCH_NCCL_RANKS_PER_ROOT).
constexpr std::int64_t kRanksOfNamer = 128;

// A call that is in progress has been taken.
void check(ncclResult_t answer, const char* what) {
    if (answer == ncclSuccess || answer == ncclInProgress) return;
    throw CollectiveError(std::string(what) + ": " + nccl().GetErrorString(answer) + ": " +
                          nccl().GetLastError(nullptr));
}

void check(cudaError_t answer, const char* what) {
    if (answer == cudaSuccess) return;
    cudaGetLastError();  // so that the next call is not blamed for it
    throw CollectiveError(std::string(what) + ": " + cudaGetErrorString(answer));
}

ncclDataType_t type_of(plan::DType dtype) {
    switch (dtype) {
        case plan::DType::u8:
            return ncclUint8;
        case plan::DType::i32:
            return ncclInt32;
        case plan::DType::bf16:
            return ncclBfloat16;
        case plan::DType::fp16:
            return ncclFloat16;
        case plan::DType::fp32:
            return ncclFloat32;
        case plan::DType::fp64:
            return ncclFloat64;
        case plan::DType::fp8_e4m3:
        case plan::DType::fp8_e5m2:
            break;
    }
    ORRERY_CHECK(false, "a type that NCCL does not have");
}

class NcclDriver final : public CollectiveDriver {
  public:
    explicit NcclDriver(int device) : device_(device) { enter(); }

    std::int64_t namers(std::int64_t members) const override {
        return scalable() ? (members + kRanksOfNamer - 1) / kRanksOfNamer : 1;
    }
    std::vector<std::byte> unique_id() override {
        ncclUniqueId id;
        check(nccl().GetUniqueId(&id), "ncclGetUniqueId");
        const auto bytes = std::as_bytes(std::span(&id, 1));
        return {bytes.begin(), bytes.end()};
    }

    // A block is a channel, and each channel has a table of all ranks in the device's memory.
    Communicator begin(std::span<const std::byte> ids, std::int64_t member,
                       std::int64_t members) override {
        enter();
        std::vector<ncclUniqueId> names(ids.size() / sizeof(ncclUniqueId));
        ORRERY_CHECK(!names.empty() && ids.size() % sizeof(ncclUniqueId) == 0,
                     "ids that are not NCCL's");
        std::memcpy(names.data(), ids.data(), ids.size());
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        config.minCTAs = config.maxCTAs = 1;
        config.splitShare = 0;
        Made& made = made_.emplace_back();
        make_world(made.communicator, names, static_cast<int>(member), static_cast<int>(members),
                   config);
        return &made;
    }

    Communicator split(Communicator all, const std::optional<Part>& part,
                       const BlockBounds& blocks) override {
        enter();
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 1;
        config.splitShare = 0;
        if (blocks.min > 0) config.minCTAs = static_cast<int>(blocks.min);
        if (blocks.max > 0) config.maxCTAs = static_cast<int>(blocks.max);
        Made& made = made_.emplace_back();
        made.blocking = true;
        check(nccl().CommSplit(of(all), part ? static_cast<int>(part->number) : NCCL_SPLIT_NOCOLOR,
                               part ? static_cast<int>(part->member) : 0, &made.communicator,
                               &config),
              "ncclCommSplit");
        return part ? &made : nullptr;
    }

    State state(Communicator communicator) override {
        if (of(communicator) == nullptr) return State::in_progress;  // of a split that goes on
        switch (result_of(communicator)) {
            case ncclSuccess:
                return State::ready;
            case ncclInProgress:
                return State::in_progress;
            default:
                return State::failed;
        }
    }
    std::string fault(Communicator communicator) override {
        return std::string("NCCL: ") + nccl().GetErrorString(result_of(communicator)) + ": " +
               nccl().GetLastError(of(communicator));
    }

    Registration register_memory(Communicator communicator, std::byte* memory, std::int64_t bytes,
                                 bool symmetric) override {
        enter();
        // NCCL may fill it in later.
        KnownMemory& made = known_.emplace_back();
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
        made.window_asked = symmetric && nccl().CommWindowRegister != nullptr;
        if (made.window_asked) {
            check(nccl().CommWindowRegister(of(communicator), memory, count(bytes), &made.window,
                                            NCCL_WIN_COLL_SYMMETRIC),
                  "ncclCommWindowRegister");
            return &made;
        }
#endif
        static_cast<void>(symmetric);  // known to each member by itself
        check(nccl().CommRegister(of(communicator), memory, count(bytes), &made.handle),
              "ncclCommRegister");
        return &made;
    }
    bool taken(Registration registration) override {
        const KnownMemory& known = *static_cast<KnownMemory*>(registration);
        return !known.window_asked || known.window != nullptr;
    }
    void deregister(Communicator communicator, Registration registration) override {
        enter();
        const KnownMemory& known = *static_cast<KnownMemory*>(registration);
        if (known.handle != nullptr)
            check(nccl().CommDeregister(of(communicator), known.handle), "ncclCommDeregister");
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
        if (known.window != nullptr)
            check(nccl().CommWindowDeregister(of(communicator), known.window),
                  "ncclCommWindowDeregister");
#endif
    }

    void end(Communicator communicator) override {
        enter();
        if (static_cast<const Made*>(communicator)->blocking) return end_blocking(communicator);
        check(nccl().CommFinalize(of(communicator)), "ncclCommFinalize");
        const auto until = std::chrono::steady_clock::now() + kGoodbye;
        while (state(communicator) == State::in_progress) {
            if (std::chrono::steady_clock::now() > until) return abort(communicator);
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        if (state(communicator) == State::failed) return abort(communicator);
        check(nccl().CommDestroy(of(communicator)), "ncclCommDestroy");
    }
    void abort(Communicator communicator) override {
        enter();
        if (of(communicator) == nullptr) return;  // its split ends with the communicator of all
        check(nccl().CommAbort(of(communicator)), "ncclCommAbort");
    }

    void group_start() override {
        check(nccl().GroupStart(), "ncclGroupStart");
    }
    void group_end() override {
        check(nccl().GroupEnd(), "ncclGroupEnd");
    }

    void all_reduce(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                    Reduction reduction, Stream stream) override {
        enter();
        check(nccl().AllReduce(data, data, count(elements), type_of(dtype),
                               reduction == Reduction::sum ? ncclSum : ncclMax, of(communicator),
                               of(stream)),
              "ncclAllReduce");
    }
    void all_gather(Communicator communicator, plan::DType dtype, const void* mine, void* all,
                    std::int64_t each, Stream stream) override {
        enter();
        check(
            nccl().AllGather(mine, all, count(each), type_of(dtype), of(communicator), of(stream)),
            "ncclAllGather");
    }
    void reduce_scatter(Communicator communicator, plan::DType dtype, const void* all, void* mine,
                        std::int64_t each, Stream stream) override {
        enter();
        check(nccl().ReduceScatter(all, mine, count(each), type_of(dtype), ncclSum,
                                   of(communicator), of(stream)),
              "ncclReduceScatter");
    }
    void broadcast(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                   std::int64_t root, Stream stream) override {
        enter();
        check(nccl().Broadcast(data, data, count(elements), type_of(dtype), static_cast<int>(root),
                               of(communicator), of(stream)),
              "ncclBroadcast");
    }
    void send(Communicator communicator, const void* data, std::int64_t bytes, std::int64_t member,
              Stream stream) override {
        enter();
        check(nccl().Send(data, count(bytes), ncclUint8, static_cast<int>(member), of(communicator),
                          of(stream)),
              "ncclSend");
    }
    void receive(Communicator communicator, void* data, std::int64_t bytes, std::int64_t member,
                 Stream stream) override {
        enter();
        check(nccl().Recv(data, count(bytes), ncclUint8, static_cast<int>(member), of(communicator),
                          of(stream)),
              "ncclRecv");
    }
    void copy(void* to, const void* from, std::int64_t bytes, Stream stream) override {
        enter();
        check(cudaMemcpyAsync(to, from, count(bytes), cudaMemcpyDeviceToDevice, of(stream)),
              "cudaMemcpyAsync");
    }

  private:
    struct KnownMemory {
        void* handle = nullptr;
        bool window_asked = false;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
        ncclWindow_t window = nullptr;
#else
        void* window = nullptr;
#endif
    };

    // NCCL may fill it in later, from a thread of its own.
    struct Made {
        ncclComm_t communicator = nullptr;
        bool blocking = false;
    };

    static ncclComm_t of(Communicator communicator) {
        return std::atomic_ref(static_cast<Made*>(communicator)->communicator).load();
    }

    static bool scalable() {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
        return nccl().CommInitRankScalable != nullptr;
#else
        return false;
#endif
    }
    static void make_world(ncclComm_t& made, std::vector<ncclUniqueId>& names, int member,
                           int members, ncclConfig_t& config) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
        if (scalable())
            return check(
                nccl().CommInitRankScalable(&made, members, member, static_cast<int>(names.size()),
                                            names.data(), &config),
                "ncclCommInitRankScalable");
#endif
        check(nccl().CommInitRankConfig(&made, members, names.front(), member, &config),
              "ncclCommInitRankConfig");
    }

    // On a thread of its own: a peer that has gone would keep this one.
    void end_blocking(Communicator communicator) {
        auto goodbye = std::async(std::launch::async, [&] {
            enter();
            check(nccl().CommFinalize(of(communicator)), "ncclCommFinalize");
        });
        if (goodbye.wait_for(kGoodbye) != std::future_status::ready) return abort(communicator);
        goodbye.get();
        check(nccl().CommDestroy(of(communicator)), "ncclCommDestroy");
    }

    static cudaStream_t of(Stream stream) {
        return static_cast<cudaStream_t>(stream.handle);
    }
    static std::size_t count(std::int64_t number) {
        return static_cast<std::size_t>(number);
    }

    static ncclResult_t result_of(Communicator communicator) {
        ncclResult_t result = ncclSuccess;
        check(nccl().CommGetAsyncError(of(communicator), &result), "ncclCommGetAsyncError");
        return result;
    }

    // CUDA's current device is the thread's, and threads may take turns.
    void enter() const {
        check(cudaSetDevice(device_), "cudaSetDevice");
    }

    int device_;
    std::list<KnownMemory> known_;
    std::list<Made> made_;
};

}  // namespace

std::unique_ptr<CollectiveDriver> make_nccl_driver(int device) {
    return std::make_unique<NcclDriver>(device);
}

}  // namespace orrery::runtime
