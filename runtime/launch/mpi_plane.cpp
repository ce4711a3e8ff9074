#include "runtime/launch/mpi_plane.hpp"

#include <climits>
#include <cstdio>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "runtime/mpi/mpi_functions.hpp"

namespace orrery::runtime {
namespace {

constexpr int kExitOfAbort = 6;  // device or communication failure, as of every rank

int count_of(std::size_t bytes) {
    ORRERY_CHECK(bytes <= INT_MAX, "a message of the control plane that MPI cannot count");
    return static_cast<int>(bytes);
}

// Errors of MPI itself end the run by its default handler.
class MpiPlane final : public ControlPlane {
  public:
    MpiPlane(int rank, int size) : ControlPlane(rank, size) {}
    ~MpiPlane() override {
        if (!finished_) abort("it left before the others had finished");
    }

    void broadcast(Bytes& data) override {
        int size = count_of(data.size());
        mpi()->broadcast(&size, sizeof size);
        data.resize(static_cast<std::size_t>(size));
        mpi()->broadcast(data.data(), size);
    }

    std::vector<Bytes> gather(std::span<const std::byte> mine) override {
        const bool root = rank() == 0;
        const std::size_t ranks = root ? static_cast<std::size_t>(size()) : 0;
        const int own = count_of(mine.size());
        std::vector<int> sizes(ranks), places(ranks);
        mpi()->gather_int(&own, sizes.data());
        count_of(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
        std::exclusive_scan(sizes.begin(), sizes.end(), places.begin(), 0);
        Bytes all(root ? static_cast<std::size_t>(places.back() + sizes.back()) : 0);
        mpi()->gather(mine.data(), own, all.data(), sizes.data(), places.data());
        std::vector<Bytes> parts(ranks);
        for (std::size_t rank = 0; rank < ranks; ++rank)
            parts[rank].assign(all.begin() + places[rank],
                               all.begin() + places[rank] + sizes[rank]);
        return parts;
    }

    void check() override {}  // mpirun ends this process where another has failed

    void finish() override {
        mpi()->barrier();
        finished_ = true;
        mpi()->finalize();
    }

    void abort(std::string_view reason) override {
        const std::string text = fmt::format("orrery: rank {} ended the run: {}\n", rank(), reason);
        std::fputs(text.c_str(), stderr);
        std::fflush(stderr);
        mpi()->abort(kExitOfAbort);
    }

  private:
    bool finished_ = false;
};

}  // namespace

bool has_mpi() {
    return mpi() != nullptr;
}

std::unique_ptr<ControlPlane> mpi_plane() {
    int support = 0;
    mpi()->begin(0, &support);  // abort() may come from another thread than the rest
    int rank = 0, size = 1;
    mpi()->rank(&rank);
    mpi()->size(&size);
    return std::make_unique<MpiPlane>(rank, size);
}

}  // namespace orrery::runtime
