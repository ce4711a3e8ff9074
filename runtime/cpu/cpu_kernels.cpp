#include "runtime/cpu/cpu_kernels.hpp"

namespace orrery::runtime {
namespace {

struct Performed {
    const KernelTable& table;
    Team& team;

#define ORRERY_PERFORM(name, Request)               \
    void operator()(const Request& request) const { \
        table.name(request, team);                  \
    }
    ORRERY_KERNELS(ORRERY_PERFORM)
#undef ORRERY_PERFORM
};

}  // namespace

void CpuKernels::launch(const KernelRequest& request) {
    std::visit(Performed{table_, team_}, request);
}

}  // namespace orrery::runtime
