// To be preloaded (LD_PRELOAD) into a program that keeps files: of its calls that concern what is
// below a folder, one fails, is the last thing that the process does, or is the moment of a signal.
// The system's own calls, so that nothing between the program and them is left out.
//
//   FAILING_STORAGE_UNDER   the folder
//   FAILING_STORAGE_OF      "writes" (also where it is not set): write, pwrite, fsync, fdatasync
//   and
//                           rename; "reads": open without writing, openat, stat, lstat, fstat,
//                           access, fdopendir, readdir, mmap
//   FAILING_STORAGE_AT      number of the call among those, from 0
//   FAILING_STORAGE_MARK    a file that is written when it was that call's turn, with its name
//   FAILING_STORAGE_HOW     "kill"; the number of a signal, as "signal 15"; the number of an error,
//                           as "5", with which that one call fails; or "full": the disk is. Writes
//                           alone count then: of that one the first half is written, and from the
//                           next call on all fail
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
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

std::string path_of(int descriptor) {
    std::array<char, PATH_MAX> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t size = readlink(link.c_str(), path.data(), path.size());
    return {path.data(), static_cast<std::size_t>(size > 0 ? size : 0)};
}

bool is_file_below(int descriptor) {
    return is_below(path_of(descriptor));
}

enum class Call { write, change, read };
enum class Strike { no, error, half };

void mark(const char* name) {
    static const std::string path = setting("FAILING_STORAGE_MARK");
    if (path.empty()) return;
    std::FILE* const file = std::fopen(path.c_str(), "w");
    std::fputs(name, file);
    std::fclose(file);
}

// Whether this call is the one; errno is set then.
Strike strikes(Call kind, const char* name) {
    static const int at = std::atoi(setting("FAILING_STORAGE_AT").c_str());
    static const std::string how = setting("FAILING_STORAGE_HOW");
    static const bool of_reads = setting("FAILING_STORAGE_OF") == "reads";
    if ((kind == Call::read) != of_reads) return Strike::no;
    const bool full = how == "full", writes = kind == Call::write;
    if (full && !writes && calls.load() <= at) return Strike::no;
    const int call = calls.fetch_add(1);
    if (full && call == at) return Strike::half;
    if (full ? call < at : call != at) return Strike::no;
    if (call == at) mark(name);
    if (how == "kill") raise(SIGKILL);
    if (how.starts_with("signal ")) {
        kill(getpid(), std::atoi(how.c_str() + 7));
        return Strike::no;
    }
    errno = full ? ENOSPC : std::atoi(how.c_str());  // a disk that is full stays so
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
    if (is_file_below(descriptor) && strikes(Call::change, name) != Strike::no) return -1;
    return real<int(int)>(name)(descriptor);
}

bool read_fails(const char* name, std::string_view path) {
    return is_below(path) && strikes(Call::read, name) != Strike::no;
}

// The mode that open's third argument is, where it has one.
mode_t mode_of(int flags, va_list& more) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
}

bool only_reads(int flags) {
    return (flags & (O_ACCMODE | O_CREAT)) == O_RDONLY;
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t bytes) {
    if (is_file_below(descriptor))
        if (const Strike strike = strikes(Call::write, "write"); strike != Strike::no)
            return write_half_or_fail(descriptor, data, bytes, strike);
    return real<ssize_t(int, const void*, std::size_t)>("write")(descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, std::size_t bytes, off_t at) {
    if (is_file_below(descriptor))
        if (const Strike strike = strikes(Call::write, "pwrite"); strike != Strike::no) {
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
    if ((is_below(from) || is_below(to)) && strikes(Call::change, "rename") != Strike::no)
        return -1;
    return real<int(const char*, const char*)>("rename")(from, to);
}

int open(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    if (only_reads(flags) && read_fails("open", path)) return -1;
    return real<int(const char*, int, mode_t)>("open")(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_of(flags, more);
    va_end(more);
    const bool whole = folder == AT_FDCWD || *path == '/';
    if (only_reads(flags) && read_fails("openat", whole ? path : path_of(folder) + "/" + path))
        return -1;
    return real<int(int, const char*, int, mode_t)>("openat")(folder, path, flags, mode);
}

int stat(const char* path, struct stat* into) noexcept {
    if (read_fails("stat", path)) return -1;
    return real<int(const char*, struct stat*)>("stat")(path, into);
}

int lstat(const char* path, struct stat* into) noexcept {
    if (read_fails("lstat", path)) return -1;
    return real<int(const char*, struct stat*)>("lstat")(path, into);
}

int fstat(int descriptor, struct stat* into) noexcept {
    if (read_fails("fstat", path_of(descriptor))) return -1;
    return real<int(int, struct stat*)>("fstat")(descriptor, into);
}

int access(const char* path, int mode) noexcept {
    if (read_fails("access", path)) return -1;
    return real<int(const char*, int)>("access")(path, mode);
}

DIR* fdopendir(int descriptor) {
    if (read_fails("fdopendir", path_of(descriptor))) return nullptr;
    return real<DIR*(int)>("fdopendir")(descriptor);
}

dirent* readdir(DIR* folder) {
    if (read_fails("readdir", path_of(dirfd(folder)))) return nullptr;
    return real<dirent*(DIR*)>("readdir")(folder);
}

void* mmap(void* at, std::size_t bytes, int protection, int flags, int descriptor,
           off_t offset) noexcept {
    if (descriptor >= 0 && read_fails("mmap", path_of(descriptor))) return MAP_FAILED;
    return real<void*(void*, std::size_t, int, int, int, off_t)>("mmap")(at, bytes, protection,
                                                                         flags, descriptor, offset);
}

}  // extern "C"
