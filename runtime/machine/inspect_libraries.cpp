// The libraries that a run on GPUs, or over several machines, takes: whether the loader finds them,
// and which version they say they are.
#include <array>

#include "runtime/machine/inspect.hpp"

namespace orrery::runtime {
namespace {

std::string nccl_version(const LoadedLibrary& library) {
    int code = 0;
    auto* get = library.function<int(int*)>("ncclGetVersion");
    return get != nullptr && get(&code) == 0 ? library_version_text(code) : "";
}

std::string cublas_version(const LoadedLibrary& library) {
    auto* get = library.function<std::size_t()>("cublasLtGetVersion");
    return get == nullptr ? "" : library_version_text(static_cast<std::int64_t>(get()));
}

std::string cudnn_version(const LoadedLibrary& library) {
    auto* get = library.function<std::size_t()>("cudnnGetVersion");
    return get == nullptr ? "" : library_version_text(static_cast<std::int64_t>(get()));
}

// "Open MPI v4.1.4" of "Open MPI v4.1.4, package: …"; what MPICH says is several lines. May be
// asked before MPI_Init.
std::string mpi_version(const LoadedLibrary& library) {
    std::array<char, 16384> text{};  // MPICH's limit is 8192, Open MPI's 256
    int length = 0;
    auto* get = library.function<int(char*, int*)>("MPI_Get_library_version");
    if (get == nullptr || get(text.data(), &length) != 0) return "";
    const std::string version(text.data());
    return version.substr(0, version.find_first_of(",\n"));
}

struct Wanted {
    const char* name;
    const char* used_for;
    std::array<const char*, 2> files;  // the first that is there; the second may be null
    std::string (*version)(const LoadedLibrary&);
    const char* remedy;  // empty where nobody needs it
};

constexpr std::array<Wanted, 4> kWanted = {{
    {"cuBLASLt",
     "matrix products on GPUs",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     cublas_version,
     "apt-get install libcublas-13-0 (of NVIDIA's package source), or the CUDA toolkit"},
    {"NCCL",
     "communication between GPUs",
     {"libnccl.so.2", nullptr},
     nccl_version,
     "apt-get install libnccl2 (of NVIDIA's package source)"},
    {"cuDNN",
     "not used yet: attention has kernels of its own",
     {"libcudnn.so.9", nullptr},
     cudnn_version,
     ""},
    {"MPI",
     "ranks that mpirun starts; torchrun and srun do without",
     {"libmpi.so.40", "libmpi.so.12"},
     mpi_version,
     "apt-get install openmpi-bin"},
}};

Library probe(LibraryLoader& loader, const Wanted& wanted) {
    Library library;
    library.name = wanted.name;
    library.used_for = wanted.used_for;
    library.file = wanted.files[0];
    library.remedy = wanted.remedy;
    for (const char* file : wanted.files) {
        if (file == nullptr || !library.problem.empty()) continue;
        const auto loaded = loader.open(file, library.problem);
        if (!loaded) continue;
        library.file = file;
        library.path = loaded->path();
        library.version = wanted.version(*loaded);
        break;
    }
    return library;
}

}  // namespace

std::vector<Library> inspect_libraries(LibraryLoader& loader) {
    std::vector<Library> libraries;
    for (const Wanted& wanted : kWanted)
        libraries.push_back(probe(loader, wanted));
    return libraries;
}

}  // namespace orrery::runtime
