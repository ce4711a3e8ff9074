// To be preloaded (LD_PRELOAD) into a program that writes files: of its calls of write, pwrite,
// fsync, fdatasync and rename that concern files below a folder, one fails, or is the last thing
// that the process does. The system's own calls, so that nothing between the program and them is
// left out.
//
//   FAILING_STORAGE_UNDER   the folder
//   FAILING_STORAGE_AT      number of the call, from 0
//   FAILING_STORAGE_HOW     "EIO"; "kill"; or "ENOSPC": a disk that is full. Writes alone count
//                           then: of that one the first half is written, and from the next call on
//                           all fail
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

std::atomic<int> calls{0};

std::string setting(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

template <typename Function>
Function* real(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_below(std::string_view path) {
    static const std::string folder = setting("FAILING_STORAGE_UNDER");
    return !folder.empty() && path.starts_with(folder);
}

bool is_file_below(int descriptor) {
    std::array<char, PATH_MAX> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t size = readlink(link.c_str(), path.data(), path.size());
    return size > 0 && is_below({path.data(), static_cast<std::size_t>(size)});
}

enum class Strike { no, error, half };

// Whether this call is the one; errno is set then.
Strike strikes(bool writes) {
    static const int at = std::atoi(setting("FAILING_STORAGE_AT").c_str());
    static const std::string how = setting("FAILING_STORAGE_HOW");
    const bool full = how == "ENOSPC";
    if (full && !writes && calls.load() <= at) return Strike::no;
    const int call = calls.fetch_add(1);
    if (how == "kill" && call == at) raise(SIGKILL);
    if (how == "EIO" && call == at) {
        errno = EIO;
        return Strike::error;
    }
    if (!full || call < at) return Strike::no;
    if (writes && call == at) return Strike::half;
    errno = ENOSPC;  // a disk that is full stays so
    return Strike::error;
}

ssize_t write_half_or_fail(int descriptor, const void* data, std::size_t bytes, Strike strike) {
    if (strike == Strike::error || bytes < 2) {
        if (strike == Strike::half) errno = ENOSPC;
        return -1;
    }
    return real<ssize_t(int, const void*, std::size_t)>("write")(descriptor, data, bytes / 2);
}

int synchronise(const char* name, int descriptor) {
    if (is_file_below(descriptor) && strikes(false) != Strike::no) return -1;
    return real<int(int)>(name)(descriptor);
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t bytes) {
    if (is_file_below(descriptor))
        if (const Strike strike = strikes(true); strike != Strike::no)
            return write_half_or_fail(descriptor, data, bytes, strike);
    return real<ssize_t(int, const void*, std::size_t)>("write")(descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t at) {
    if (is_file_below(descriptor))
        if (const Strike strike = strikes(true); strike != Strike::no) {
            if (strike == Strike::half) errno = ENOSPC;
            return -1;
        }
    return real<ssize_t(int, const void*, std::size_t, off_t)>("pwrite")(descriptor, data, bytes,
                                                                         at);
}

int fsync(int descriptor) {
    return synchronise("fsync", descriptor);
}

int fdatasync(int descriptor) {
    return synchronise("fdatasync", descriptor);
}

int rename(const char* from, const char* to) noexcept {
    if ((is_below(from) || is_below(to)) && strikes(false) != Strike::no) return -1;
    return real<int(const char*, const char*)>("rename")(from, to);
}

}  // extern "C"
