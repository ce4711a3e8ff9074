#include "runtime/checkpoint/file_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/storage_error.hpp"

namespace orrery::runtime {

FileLock::FileLock(const std::string& path)
    : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    const auto refuse = [&](const char* doing, int error) {
        throw StorageError(path + ": " + doing + ": " + std::generic_category().message(error));
    };
    if (file_ < 0) refuse("cannot be created", errno);
    struct flock all {};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    while (::fcntl(file_, F_OFD_SETLKW, &all) != 0) {
        const int error = errno;
        if (error == EINTR) continue;
        ::close(file_);
        refuse("cannot be locked", error);
    }
}

FileLock::~FileLock() {
    ::close(file_);
}

}  // namespace orrery::runtime
