#include "trace/formats/frame_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

namespace orrery::trace::native {
namespace {

// "TRAK 3"; a code that is damaged may hold any byte.
std::string spelled(FrameKind kind, std::uint64_t index) {
    std::string text;
    for (auto code = static_cast<std::uint32_t>(kind); text.size() < 4; code >>= 8) {
        const auto letter = static_cast<char>(code & 0xff);
        text += letter >= ' ' && letter <= '~' ? letter : '?';
    }
    return fmt::format("{} {}", text, index);
}

}  // namespace

void FrameReader::Free::operator()(ZSTD_DCtx_s* context) const {
    ZSTD_freeDCtx(context);
}

FrameReader::FrameReader(const std::string& path) : path_(path), context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
    open();
    try {
        read_head();
        read_directory();
    } catch (...) {
        ::close(descriptor_);
        throw;
    }
}

FrameReader::~FrameReader() {
    ::close(descriptor_);
}

void FrameReader::fail(std::uint64_t at, const std::string& expected) const {
    throw TraceFileError(TraceFault::unreadable, path_,
                         fmt::format("byte {}: expected {}", at, expected));
}

void FrameReader::open() {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would block
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
        const std::string why = std::generic_category().message(errno);
        if (descriptor_ >= 0) ::close(descriptor_);
        throw TraceFileError(TraceFault::unreadable, path_, "cannot be opened: " + why);
    }
    if (!S_ISREG(status.st_mode)) {
        ::close(descriptor_);
        throw TraceFileError(TraceFault::unreadable, path_, "is not a regular file");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
}

std::string_view FrameReader::read(std::uint64_t offset, std::uint64_t size) {
    packed_.resize(size);
    for (std::uint64_t done = 0; done < size;) {
        const ssize_t got = ::pread(descriptor_, packed_.data() + done, size - done,
                                    static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            throw TraceFileError(TraceFault::unreadable, path_,
                                 "cannot be read: " + std::generic_category().message(errno));
        if (got == 0) fail(offset + done, "more bytes, found the end: the file is being changed");
        done += static_cast<std::uint64_t>(got);
    }
    return packed_;
}

void FrameReader::read_head() {
    if (size_ < kHeadBytes + kFooterBytes)
        fail(size_, fmt::format("at least {} bytes, found the end", kHeadBytes + kFooterBytes));
    const BytesPlace place{path_, "", kHeadMagic.size()};
    const std::string_view head = read(0, kHeadBytes);
    if (head.substr(0, kHeadMagic.size()) != kHeadMagic)
        fail(0, "the first bytes of a native trace, found others");
    ByteReader rest(head.substr(kHeadMagic.size()), place);
    const std::uint64_t version = rest.fixed(4);
    if (version != kVersion)
        fail(place.offset, fmt::format("version {}, found {}", kVersion, version));
    if (rest.fixed(4) != 0) fail(place.offset + 4, "four bytes of 0, found others");
}

void FrameReader::read_directory() {
    const std::uint64_t footer_at = size_ - kFooterBytes;
    const std::string_view footer = read(footer_at, kFooterBytes);
    const std::size_t magic_at = kFooterBytes - kEndMagic.size();
    if (footer.substr(magic_at) != kEndMagic)
        fail(footer_at + magic_at, "the last bytes of a native trace, found others: truncated?");
    const BytesPlace place{path_, "", footer_at};
    ByteReader fields(footer, place);
    FrameEntry directory;
    directory.offset = fields.fixed(8);
    directory.stored_bytes = fields.fixed(8);
    const std::uint64_t count = fields.fixed(8);
    if (directory.offset < kHeadBytes || directory.offset > footer_at ||
        directory.stored_bytes != footer_at - directory.offset)
        fail(footer_at, fmt::format("a directory that ends at byte {}, found {} bytes from {}",
                                    footer_at, directory.stored_bytes, directory.offset));
    const std::uint64_t most = (directory.offset - kHeadBytes) / kLeastFrameBytes;
    if (count > most)
        fail(footer_at + 16, fmt::format("at most {} frames, found a count of {}", most, count));
    directory.raw_bytes = count * kEntryBytes;
    const std::string_view raw = decompress(directory);
    const BytesPlace directory_place{path_, "directory", directory.offset};
    ByteReader reader(raw, directory_place);
    entries_.resize(count);
    for (FrameEntry& entry : entries_) {
        entry.kind = static_cast<FrameKind>(reader.fixed(4));
        entry.index = static_cast<std::uint32_t>(reader.fixed(4));
        entry.offset = reader.fixed(8);
        entry.stored_bytes = reader.fixed(8);
        entry.raw_bytes = reader.fixed(8);
    }
    check_entries(directory.offset);
}

// Frames lie one after another, and are together not larger than a file of this size may be.
void FrameReader::check_entries(std::uint64_t directory_offset) {
    std::uint64_t at = kHeadBytes;
    const std::uint64_t most = size_ * kUnpackedFactor + kUnpackedSlack;
    std::uint64_t left = most;
    for (const FrameEntry& entry : entries_) {
        const std::string frame = spelled(entry.kind, entry.index);
        if (entry.offset != at)
            fail(directory_offset,
                 fmt::format("frame {} at byte {}, found {}", frame, at, entry.offset));
        if (entry.stored_bytes > directory_offset - at)
            fail(directory_offset, fmt::format("frame {} to end by byte {}, found {} bytes from {}",
                                               frame, directory_offset, entry.stored_bytes, at));
        if (entry.raw_bytes > left)
            fail(directory_offset,
                 fmt::format("frames of at most {} bytes when unpacked, found more in frame {}",
                             most, frame));
        left -= entry.raw_bytes;
        at += entry.stored_bytes;
    }
    check_padding(at, directory_offset);
}

void FrameReader::check_padding(std::uint64_t from, std::uint64_t to) {
    constexpr std::uint64_t kPiece = 1 << 20;
    for (std::uint64_t at = from; at < to; at += kPiece) {
        const std::string_view piece = read(at, std::min(kPiece, to - at));
        const std::size_t other = piece.find_first_not_of('\0');
        if (other != std::string_view::npos) fail(at + other, "padding of 0, found another byte");
    }
}

std::string_view FrameReader::decompress(const FrameEntry& entry) {
    const std::string_view packed = read(entry.offset, entry.stored_bytes);
    if (ZSTD_findFrameCompressedSize(packed.data(), packed.size()) != packed.size() ||
        ZSTD_getFrameContentSize(packed.data(), packed.size()) != entry.raw_bytes)
        fail(entry.offset,
             fmt::format("one zstd frame of {} bytes that unpacks to {}, found another",
                         entry.stored_bytes, entry.raw_bytes));
    raw_.resize(entry.raw_bytes);
    const std::size_t size =
        ZSTD_decompressDCtx(context_.get(), raw_.data(), raw_.size(), packed.data(), packed.size());
    if (ZSTD_isError(size) != 0 || size != raw_.size())
        fail(entry.offset,
             fmt::format("a sound zstd frame, found a fault: {}",
                         ZSTD_isError(size) != 0 ? ZSTD_getErrorName(size) : "wrong size"));
    return raw_;
}

UnpackedFrame FrameReader::unpack(std::size_t position, FrameKind kind, std::size_t index) {
    const std::string wanted = spelled(kind, index);
    if (position >= entries_.size())
        fail(size_ - kFooterBytes, fmt::format("frame {}, found the end of the directory", wanted));
    const FrameEntry& entry = entries_[position];
    if (entry.kind != kind || entry.index != index)
        fail(entry.offset,
             fmt::format("frame {}, found {}", wanted, spelled(entry.kind, entry.index)));
    return {decompress(entry), {path_, wanted, entry.offset}};
}

}  // namespace orrery::trace::native
