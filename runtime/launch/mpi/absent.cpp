// Built where CMake finds no MPI.
#include "plan/check.hpp"
#include "runtime/launch/mpi_plane.hpp"

namespace orrery::runtime {

bool has_mpi() {
    return false;
}

std::unique_ptr<ControlPlane> mpi_plane() {
    ORRERY_CHECK(false, "built without MPI");
}

}  // namespace orrery::runtime
