// MPI, for ranks that mpirun has started: what is asked of it, as functions of a module that is
// opened when the first of them is called. The program itself needs no MPI to start;
// liborrery_mpi.so, which lies beside it or in ../lib/orrery, is built of one file that alone sees
// mpi.h, where CMake finds MPI (on Debian: apt-get install libopenmpi-dev; option ORRERY_MPI turns
// it off).
//
// One communicator, that of all ranks. Functions answer 0, or a code of MPI's that `error_text`
// explains. Bytes are of int, as MPI counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace orrery::runtime {

// A request of MPI's, whose type is another with each MPI; 0: none yet.
struct MpiRequest {
    std::uint64_t bits = 0;
};

struct MpiFunctions {
    // Initialises MPI for the rest of the process: once, from its main thread; the main thread and
    // one more take turns. `supports` is 0 where this MPI can be used by one thread only.
    // `returns_errors`: else an error ends the run.
    int (*begin)(int returns_errors, int* supports);
    int (*rank)(int* rank);
    int (*size)(int* size);
    int (*barrier)();
    int (*broadcast)(void* data, int bytes);  // from rank 0
    // To rank 0, where `sizes` and `places` have an entry for each rank.
    int (*gather_int)(const int* own, int* all);
    int (*gather)(const void* own, int bytes, void* all, const int* sizes, const int* places);
    int (*isend)(const void* data, int bytes, int to, int tag, MpiRequest* request);
    int (*irecv)(void* data, int bytes, int from, int tag, MpiRequest* request);
    int (*test)(MpiRequest* request, int* done);
    int (*finalize)();
    int (*abort)(int exit_code);
    int (*error_text)(int code, char* text, int* length);  // of kLongestMpiError bytes
};
inline constexpr std::size_t kLongestMpiError = 1024;  // no MPI needs more than 512

// Null where the module or MPI is not there.
const MpiFunctions* mpi();

// Why mpi() is null, for a message.
std::string why_no_mpi();

}  // namespace orrery::runtime
