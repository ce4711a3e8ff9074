#include "runtime/machine/find_library.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> nccl_code(const LoadedLibrary& library) {
    int code = 0;
    auto* get = library.function<int(int*)>("ncclGetVersion");
    if (get == nullptr || get(&code) != 0) return std::nullopt;
    return code;
}

std::optional<std::int64_t> cublas_code(const LoadedLibrary& library) {
    auto* get = library.function<std::size_t()>("cublasLtGetVersion");
    if (get == nullptr) return std::nullopt;
    return static_cast<std::int64_t>(get());
}

std::optional<std::int64_t> cudnn_code(const LoadedLibrary& library) {
    auto* get = library.function<std::size_t()>("cudnnGetVersion");
    if (get == nullptr) return std::nullopt;
    return static_cast<std::int64_t>(get());
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
    const char* package;               // where a package of Python has it; null: none has
    std::optional<std::int64_t> (*code)(const LoadedLibrary&);  // of the version; null: it has none
    std::int64_t least;                                         // 0: any
    const char* remedy;                                         // empty where nobody needs it
};

// cuBLASLt: of the CUDA whose header is compiled in. NCCL: the oldest whose sources were read for
// what is asked of it, communicators that never block and can be aborted above all. cuDNN: the
// first for CUDA 13; none at all does, too.
constexpr std::array<Wanted, 4> kWanted = {{
    {"cuBLASLt",
     "matrix products on GPUs",
     {"libcublasLt.so.13", nullptr},
     "nvidia/cu13/lib",
     cublas_code,
     130'000,
     "apt-get install libcublas-13-0 (of NVIDIA's package source), or pip install nvidia-cublas"},
    {"NCCL",
     "communication between GPUs",
     {"libnccl.so.2", nullptr},
     "nvidia/nccl/lib",
     nccl_code,
     21'900,
     "apt-get install libnccl2 (of NVIDIA's package source), or pip install nvidia-nccl-cu13"},
    {"cuDNN",
     "attention, faster than by Orrery's own kernels",
     {"libcudnn.so.9", nullptr},
     "nvidia/cudnn/lib",
     cudnn_code,
     91'200,
     "apt-get install libcudnn9-cuda-13 (of NVIDIA's package source), or pip install "
     "nvidia-cudnn-cu13"},
    {"MPI",
     "ranks that mpirun starts; torchrun and srun do without",
     {"libmpi.so.40", "libmpi.so.12"},
     nullptr,
     nullptr,
     0,
     "apt-get install openmpi-bin"},
}};

constexpr const char* kCudaFolder = "/usr/local/cuda/lib64";

// Names to the loader, in the order in which they are tried.
std::vector<std::string> places(const Wanted& wanted, const std::vector<std::string>& folders) {
    std::vector<std::string> paths;
    for (const char* file : wanted.files)
        if (file != nullptr) paths.emplace_back(file);
    if (wanted.package == nullptr) return paths;
    for (const std::string& folder : folders)
        paths.push_back(folder + "/" + wanted.package + "/" + wanted.files[0]);
    paths.push_back(std::string(kCudaFolder) + "/" + wanted.files[0]);
    return paths;
}

// Adds PREFIX/lib/python3*/site-packages and dist-packages.
void add_packages_of(const fs::path& prefix, std::vector<std::string>& folders) {
    std::error_code ignored;
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(prefix / "lib", ignored)) {
        if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
        for (const char* packages : {"site-packages", "dist-packages"})
            if (fs::is_directory(entry.path() / packages, ignored))
                found.push_back((entry.path() / packages).string());
    }
    std::sort(found.rbegin(), found.rend());  // a folder is read in no order
    folders.insert(folders.end(), found.begin(), found.end());
}

std::vector<std::string> parts(const char* list) {
    std::vector<std::string> found;
    std::istringstream text(list == nullptr ? "" : list);
    for (std::string part; std::getline(text, part, ':');)
        if (!part.empty()) found.push_back(part);
    return found;
}

}  // namespace

FoundLibrary find_library(LibraryLoader& loader, std::string_view name,
                          const std::vector<std::string>& folders) {
    const auto wanted = std::find_if(kWanted.begin(), kWanted.end(),
                                     [&](const Wanted& of) { return of.name == name; });
    ORRERY_CHECK(wanted != kWanted.end(), "a library that nobody wants");
    Library facts;
    facts.name = wanted->name;
    facts.used_for = wanted->used_for;
    facts.file = wanted->files[0];
    facts.remedy = wanted->remedy;
    for (const std::string& place : places(*wanted, folders)) {
        std::string problem;
        auto library = loader.open(place, problem);
        if (!library) {
            if (facts.problem.empty()) facts.problem = problem;
            continue;
        }
        std::string version;
        if (wanted->code == nullptr) {
            version = mpi_version(*library);
        } else if (const auto code = wanted->code(*library)) {
            version = library_version_text(*code);
            if (*code < wanted->least) {
                if (facts.problem.empty())
                    facts.problem =
                        fmt::format("{} is version {}, and {} is the oldest that will do",
                                    library->path(), version, library_version_text(wanted->least));
                continue;
            }
        }
        facts.file = place;
        facts.path = library->path();
        facts.version = version;
        facts.problem.clear();
        return {std::move(library), std::move(facts)};
    }
    return {nullptr, std::move(facts)};
}

std::vector<std::string> names_of_libraries() {
    std::vector<std::string> names;
    for (const Wanted& wanted : kWanted)
        names.emplace_back(wanted.name);
    return names;
}

std::vector<std::string> python_package_folders(
    const std::function<const char*(const char*)>& variable) {
    std::vector<std::string> folders = parts(variable("PYTHONPATH"));
    std::error_code ignored;
    for (const std::string& folder : parts(variable("PATH")))
        if (fs::exists(fs::path(folder) / "python3", ignored))
            add_packages_of(fs::path(folder).parent_path(), folders);
    for (const char* prefix : {"VIRTUAL_ENV", "CONDA_PREFIX"})
        if (const char* of = variable(prefix)) add_packages_of(of, folders);
    if (const char* home = variable("HOME")) add_packages_of(fs::path(home) / ".local", folders);
    for (const char* prefix : {"/usr/local", "/usr"})
        add_packages_of(prefix, folders);
    std::vector<std::string> once;
    for (const std::string& folder : folders)
        if (std::find(once.begin(), once.end(), folder) == once.end()) once.push_back(folder);
    return once;
}

std::string why_missing(const Library& library) {
    return library.problem.empty()
               ? fmt::format("{} is missing ({})", library.name, library.file)
               : fmt::format("{} does not load: {}", library.name, library.problem);
}

}  // namespace orrery::runtime
