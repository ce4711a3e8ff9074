// The control plane over MPI, for ranks that Open MPI's mpirun has started on nodes whose names it
// does not tell, where MPI is there (runtime/mpi); tensors never go through it.
//
// A rank that dies is missed by mpirun, which ends the others without asking them: they say
// nothing. abort() writes its reason to stderr and has mpirun do the same.
#pragma once

#include <memory>

#include "runtime/launch/control_plane.hpp"

namespace orrery::runtime {

bool has_mpi();

// Initialises MPI for the rest of the process: once, from its main thread. Only where has_mpi().
std::unique_ptr<ControlPlane> mpi_plane();

}  // namespace orrery::runtime
