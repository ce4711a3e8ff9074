#include "trace/formats/packed_text.hpp"

#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "trace/trace_file_error.hpp"

namespace orrery::trace {

PackedText::PackedText(const std::string& path) : path_(path), buffer_(kBuffer) {
    // A pipe would be waited for.
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        throw TraceFileError(TraceFault::unreadable, path_, "is not a regular file");
    file_ = ::gzopen(path.c_str(), "rbe");
    if (file_ == nullptr)
        throw TraceFileError(TraceFault::unreadable, path_,
                             "cannot be opened: " + std::generic_category().message(errno));
    ::gzbuffer(file_, kBuffer);
}

PackedText::~PackedText() {
    ::gzclose(file_);
}

void PackedText::fail(const std::string& what) const {
    throw TraceFileError(TraceFault::unreadable, path_,
                         fmt::format("byte {}: {}", before_ + have_, what));
}

bool PackedText::fill() {
    const int got = ::gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    int fault = Z_OK;
    const char* message = ::gzerror(file_, &fault);
    if (fault == Z_ERRNO) fail("cannot be read: " + std::generic_category().message(errno));
    // A stream that is cut short hands out what it has, and says so besides.
    if (got <= 0 && fault != Z_OK && fault != Z_STREAM_END)
        fail(fmt::format("the packed text is damaged or cut off: {}", message));
    if (got <= 0) return false;
    before_ += have_;
    next_ = 0;
    have_ = static_cast<std::size_t>(got);
    return true;
}

std::string PackedText::read(std::size_t most) {
    std::string text;
    for (; text.size() < most && !at_end(); advance())
        text += current();
    return text;
}

}  // namespace orrery::trace
