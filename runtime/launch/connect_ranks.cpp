#include "runtime/launch/connect_ranks.hpp"

#include <utility>

#include "runtime/launch/mpi_plane.hpp"
#include "runtime/launch/tcp_plane.hpp"
#include "runtime/launch/thread_planes.hpp"
#include "runtime/mpi/mpi_functions.hpp"

namespace orrery::runtime {

std::unique_ptr<ControlPlane> connect_ranks(const Launch& launch) {
    if (launch.size == 1) return std::move(thread_planes(1).front());
    if (!launch.host.empty()) return tcp_plane(launch);
    if (launch.launcher == Launcher::open_mpi && has_mpi()) return mpi_plane();
    throw LaunchError(
        "Open MPI's variables do not say on which node rank 0 is, and MPI cannot be asked (" +
        why_no_mpi() + "): set MASTER_ADDR to the host of rank 0 (mpirun -x MASTER_ADDR=HOST)");
}

}  // namespace orrery::runtime
