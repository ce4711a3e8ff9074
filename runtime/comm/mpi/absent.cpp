// Built where CMake finds no MPI.
#include "plan/check.hpp"
#include "runtime/comm/processes/mpi_ranks.hpp"

namespace orrery::runtime {

bool has_mpi_messages() {
    return false;
}

void begin_mpi() {
    ORRERY_CHECK(false, "built without MPI");
}

std::string told_by_rank_zero(const std::string&) {
    ORRERY_CHECK(false, "built without MPI");
}

std::unique_ptr<Transport> mpi_transport(bool) {
    ORRERY_CHECK(false, "built without MPI");
}

}  // namespace orrery::runtime
