#include "runtime/kernels/kernels.hpp"

#include "plan/check.hpp"

namespace orrery::runtime {

void Kernels::qk_norm(const QkNorm&) {
    ORRERY_CHECK(false, "a backend without qk_norm was asked for it");
}

void Kernels::qk_norm_sums(const QkNormSums&) {
    ORRERY_CHECK(false, "a backend without qk_norm_sums was asked for it");
}

void Kernels::qk_norm_backward(const QkNormBackward&) {
    ORRERY_CHECK(false, "a backend without qk_norm_backward was asked for it");
}

}  // namespace orrery::runtime
