#include "runtime/cuda/cudnn.hpp"

#include <optional>

#include "runtime/cuda/late_functions.hpp"
#include "runtime/streams/stream_driver.hpp"

namespace orrery::runtime::cuda {

const Cudnn* cudnn() {
    static const std::optional<Cudnn> functions = []() -> std::optional<Cudnn> {
        try {
            const auto library = open_library("cuDNN");
            Cudnn taken;
#define ORRERY_TAKE(name) take(*library, "cudnn" #name, taken.name);
            ORRERY_CUDNN_FUNCTIONS(ORRERY_TAKE)
#undef ORRERY_TAKE
            return taken;
        } catch (const DeviceError&) {
            return std::nullopt;  // `doctor` says why
        }
    }();
    return functions ? &*functions : nullptr;
}

}  // namespace orrery::runtime::cuda
