// What ranks that Open MPI's mpirun has started do through MPI: find rank 0, and carry messages.
// Where MPI is there (runtime/mpi). MPI says nothing of a rank that has died, and a blocking call
// would wait for it for ever: messages are sent and received without blocking, and who lives is the
// control plane's to know.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/processes/transport.hpp"

namespace orrery::runtime {

bool has_mpi_messages();

// Initialises MPI for the rest of the process: once, from its main thread. All ranks call it.
void begin_mpi();

// What rank 0 says, on every rank. All ranks call it.
std::string told_by_rank_zero(const std::string& said);

// After begin_mpi(). Its finish() ends MPI. Throws CommunicationError where MPI reports an error.
// `spins`: before it sleeps; for ranks that have a core each.
std::unique_ptr<Transport> mpi_transport(bool spins);

}  // namespace orrery::runtime
