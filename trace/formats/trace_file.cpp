#include "trace/formats/trace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "plan/check.hpp"
#include "trace/formats/chrome.hpp"
#include "trace/formats/native_layout.hpp"
#include "trace/formats/perfetto.hpp"

namespace orrery::trace {
namespace {

constexpr std::array<std::pair<std::string_view, TraceFormat>, 3> kEndings = {
    {{".orrery", TraceFormat::native},
     {".pftrace", TraceFormat::perfetto},
     {".json", TraceFormat::chrome}}};
constexpr std::size_t kReadBytes = std::size_t{1} << 30;  // Linux reads at most 2 GiB at once
constexpr char kPacket = 0x0A;  // the tag of a Perfetto packet, and a line feed

class InputFile {
  public:
    explicit InputFile(const std::string& path)
        : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
        if (descriptor_ < 0) fail("cannot be opened");
        struct stat status {};
        if (::fstat(descriptor_, &status) != 0) close_and_fail("cannot be opened");
        if (!S_ISREG(status.st_mode)) {
            ::close(descriptor_);
            throw TraceFileError(TraceFault::unreadable, path_, "is not a regular file");
        }
        size_ = static_cast<std::size_t>(status.st_size);
    }
    ~InputFile() { ::close(descriptor_); }
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;

    // The first bytes, as many as asked for or as there are.
    std::string read(std::size_t most) {
        std::string bytes(std::min(most, size_), '\0');
        for (std::size_t have = 0; have < bytes.size();) {
            const ssize_t got =
                ::pread(descriptor_, bytes.data() + have, std::min(bytes.size() - have, kReadBytes),
                        static_cast<off_t>(have));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) fail("cannot be read");
            if (got == 0) bytes.resize(have);  // someone cut it
            have += static_cast<std::size_t>(got);
        }
        return bytes;
    }
    std::size_t size() const { return size_; }

  private:
    [[noreturn]] void fail(const char* doing) const {
        throw TraceFileError(TraceFault::unreadable, path_,
                             std::string(doing) + ": " + std::generic_category().message(errno));
    }
    [[noreturn]] void close_and_fail(const char* doing) const {
        const int error = errno;
        ::close(descriptor_);
        errno = error;
        fail(doing);
    }

    const std::string& path_;
    int descriptor_;
    std::size_t size_ = 0;
};

bool is_native(std::string_view bytes) {
    const std::string_view head = bytes.substr(0, native::kHeadMagic.size());
    return !head.empty() && native::kHeadMagic.substr(0, head.size()) == head;
}

// JSON may begin with line feeds. Our Perfetto files do not go on with a bracket.
bool is_json(std::string_view bytes) {
    const std::size_t first = bytes.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

}  // namespace

std::optional<TraceFormat> format_of_name(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string_view name =
        std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
    for (const auto& [ending, format] : kEndings)
        if (name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending)
            return format;
    return std::nullopt;
}

bool begins_as_trace(const std::string& path, TraceFormat format) {
    constexpr std::size_t kHead = 4096;  // descriptions of tracks and names stand before the event
    std::string head;
    try {
        head = InputFile(path).read(kHead);
    } catch (const TraceFileError&) {
        return false;
    }
    switch (format) {
        case TraceFormat::native:
            return is_native(head);
        case TraceFormat::perfetto:
            return !head.empty() && head.front() == kPacket &&
                   head.find(kDataEvent) != std::string::npos;
        case TraceFormat::chrome:
            return std::string_view(head).substr(0, kChromeBegin.size()) == kChromeBegin;
    }
    return false;
}

Trace read_trace(const std::string& path) {
    InputFile file(path);
    if (is_native(file.read(native::kHeadMagic.size()))) return read_native(path);
    const std::string bytes = file.read(file.size());
    if (is_json(bytes)) return read_chrome(bytes, path);
    if (!bytes.empty() && bytes.front() == kPacket) return read_perfetto(bytes, path);
    throw TraceFileError(
        TraceFault::unreadable, path,
        fmt::format("byte 0: expected a trace, as in files named {}", kTraceEndings));
}

void write_trace(const Trace& trace, const std::string& path) {
    const std::optional<TraceFormat> format = format_of_name(path);
    ORRERY_CHECK(format.has_value(), "a trace is to be written to a name of no known ending");
    switch (*format) {
        case TraceFormat::native:
            return write_native(trace, path);
        case TraceFormat::perfetto:
            return write_perfetto(trace, path);
        case TraceFormat::chrome:
            return write_chrome(trace, path);
    }
}

}  // namespace orrery::trace
