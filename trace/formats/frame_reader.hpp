// The outer layer of a native trace file, read: everything about sizes and offsets is checked when
// the file is opened, and a frame is unpacked when it is asked for. Internal to trace/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/formats/byte_reader.hpp"
#include "trace/formats/native_layout.hpp"

struct ZSTD_DCtx_s;

namespace orrery::trace::native {

// A frame's bytes, and where they came from.
struct UnpackedFrame {
    std::string_view bytes;
    BytesPlace place;
    ByteReader reader() const { return {bytes, place}; }
};

// All functions throw TraceFileError (unreadable).
class FrameReader {
  public:
    explicit FrameReader(const std::string& path);
    ~FrameReader();
    FrameReader(const FrameReader&) = delete;
    FrameReader& operator=(const FrameReader&) = delete;

    std::size_t frames() const { return entries_.size(); }
    // The frame at a position in the directory, which has to be of this kind and index. The bytes
    // are valid until the next call.
    UnpackedFrame unpack(std::size_t position, FrameKind kind, std::size_t index);
    [[noreturn]] void fail(std::uint64_t at, const std::string& expected) const;

  private:
    struct Free {
        void operator()(ZSTD_DCtx_s* context) const;
    };
    void open();
    void read_head();
    void read_directory();
    void check_entries(std::uint64_t directory_offset);
    void check_padding(std::uint64_t from, std::uint64_t to);
    std::string_view read(std::uint64_t offset, std::uint64_t size);  // valid until the next call
    std::string_view decompress(const FrameEntry& entry);             // likewise

    std::string path_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
    std::unique_ptr<ZSTD_DCtx_s, Free> context_;
    std::string packed_, raw_;
    std::vector<FrameEntry> entries_;
};

}  // namespace orrery::trace::native
