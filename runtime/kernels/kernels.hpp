// What computes on a device: requests are performed one after another, in the order in which they
// are launched. Where a device has a queue of its own, a call returns before it is performed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "runtime/kernels/requests.hpp"

namespace orrery::runtime {

class Kernels {
  public:
    Kernels() = default;
    virtual ~Kernels() = default;
    Kernels(const Kernels&) = delete;
    Kernels& operator=(const Kernels&) = delete;

    virtual void launch(const KernelRequest&) = 0;
#define ORRERY_LAUNCH(name, Request)    \
    void name(const Request& request) { \
        launch(request);                \
    }
    ORRERY_KERNELS(ORRERY_LAUNCH)
#undef ORRERY_LAUNCH

    // What will be launched in the steps to come, and with what memory: where there is a choice of
    // how to perform it, it is made now. Before the first step, while nothing is performed; but for
    // scratch of the kernels' own, memory is afterwards as it was. The same may come again.
    virtual void prepare(const KernelRequest& /*request*/) {}

    // That steps will bring so many numbers, once for each time that they will: in the same order,
    // and for all steps that are under way at once.
    virtual void prepare_bring(std::int64_t /*numbers*/) {}

    // From the host's memory, which stays as it is until the step has ended, to the device's.
    virtual void bring(std::span<const std::int32_t> from, void* to) = 0;

    // Within the device's memory; both may be the same, and overlap in no other way.
    virtual void copy(const void* from, void* to, std::int64_t bytes) = 0;

    // What stands there once all that was launched has been performed, for the host, which waits
    // for it where the device has a queue of its own. Until the next call.
    virtual const std::int32_t* fetch(std::span<const std::int32_t> numbers) = 0;

    // The values where kernels can read them, for as long as this object lives. At any time before
    // the first request that names them.
    template <typename T>
    const T* keep(const std::vector<T>& values) {
        static_assert(std::is_trivially_copyable_v<T>);
        return static_cast<const T*>(keep_bytes(std::as_bytes(std::span(values))));
    }
    virtual const void* keep_bytes(std::span<const std::byte> bytes) = 0;
};

}  // namespace orrery::runtime
