// liborrery_mpi.so: MPI's functions in the form in which mpi_functions.hpp asks for them. Whichever
// MPI this is compiled with is the one that it needs.
#include <mpi.h>

#include <cstring>

#include "runtime/mpi/mpi_functions.hpp"

namespace {

using orrery::runtime::MpiFunctions;
using orrery::runtime::MpiRequest;

static_assert(sizeof(MPI_Request) <= sizeof(MpiRequest));
static_assert(MPI_MAX_ERROR_STRING <= orrery::runtime::kLongestMpiError);

MPI_Request of(const MpiRequest& request) {
    MPI_Request own = MPI_REQUEST_NULL;
    std::memcpy(&own, &request.bits, sizeof own);
    return own;
}

void keep(MPI_Request own, MpiRequest* request) {
    request->bits = 0;
    std::memcpy(&request->bits, &own, sizeof own);
}

int begin(int returns_errors, int* supports) {
    int support = 0;
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &support);
    if (code != MPI_SUCCESS) return code;
    *supports = support >= MPI_THREAD_SERIALIZED ? 1 : 0;
    return returns_errors != 0 ? MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
                               : MPI_SUCCESS;
}

int rank(int* rank) {
    return MPI_Comm_rank(MPI_COMM_WORLD, rank);
}

int size(int* size) {
    return MPI_Comm_size(MPI_COMM_WORLD, size);
}

int barrier() {
    return MPI_Barrier(MPI_COMM_WORLD);
}

int broadcast(void* data, int bytes) {
    return MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

int gather_int(const int* own, int* all) {
    return MPI_Gather(own, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

int gather(const void* own, int bytes, void* all, const int* sizes, const int* places) {
    return MPI_Gatherv(own, bytes, MPI_BYTE, all, sizes, places, MPI_BYTE, 0, MPI_COMM_WORLD);
}

int isend(const void* data, int bytes, int to, int tag, MpiRequest* request) {
    MPI_Request own = MPI_REQUEST_NULL;
    const int code = MPI_Isend(data, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &own);
    keep(own, request);
    return code;
}

int irecv(void* data, int bytes, int from, int tag, MpiRequest* request) {
    MPI_Request own = MPI_REQUEST_NULL;
    const int code = MPI_Irecv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &own);
    keep(own, request);
    return code;
}

int test(MpiRequest* request, int* done) {
    MPI_Request own = of(*request);
    const int code = MPI_Test(&own, done, MPI_STATUS_IGNORE);
    keep(own, request);
    return code;
}

int abort_run(int exit_code) {
    return MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiFunctions orrery_mpi_functions;
const MpiFunctions orrery_mpi_functions = {
    begin, rank,  size, barrier,      broadcast, gather_int,      gather,
    isend, irecv, test, MPI_Finalize, abort_run, MPI_Error_string};
