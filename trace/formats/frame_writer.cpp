#include "trace/formats/frame_writer.hpp"

#include <zstd.h>

#include <new>

#include "trace/formats/byte_writer.hpp"

namespace orrery::trace::native {
namespace {

constexpr int kLevel = 3;  // of zstd: columns repeat themselves, higher levels find little more

}  // namespace

void FrameWriter::Free::operator()(ZSTD_CCtx_s* context) const {
    ZSTD_freeCCtx(context);
}

FrameWriter::FrameWriter(const std::string& path) : file_(path), context_(ZSTD_createCCtx()) {
    if (!context_) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
    ByteWriter head;
    head.append(kHeadMagic);
    head.fixed(kVersion, 4);
    head.fixed(0, 4);
    file_.append(head.bytes());
}

std::string_view FrameWriter::compress(std::string_view raw) {
    packed_.resize(ZSTD_compressBound(raw.size()));
    const std::size_t size =
        ZSTD_compress2(context_.get(), packed_.data(), packed_.size(), raw.data(), raw.size());
    if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // all that can fail: the output fits
    return std::string_view(packed_).substr(0, size);
}

void FrameWriter::add(FrameKind kind, std::size_t index, std::string_view raw) {
    const std::string_view packed = compress(raw);
    entries_.push_back(
        {kind, static_cast<std::uint32_t>(index), file_.size(), packed.size(), raw.size()});
    raw_bytes_ += raw.size();
    file_.append(packed);
}

// See kUnpackedFactor.
void FrameWriter::pad(std::size_t directory_bytes) {
    if (raw_bytes_ <= kUnpackedSlack) return;
    const std::uint64_t least = (raw_bytes_ - kUnpackedSlack - 1) / kUnpackedFactor + 1;
    const std::uint64_t size = file_.size() + directory_bytes + kFooterBytes;
    if (size < least) file_.append(std::string(least - size, '\0'));
}

void FrameWriter::finish() {
    ByteWriter directory;
    for (const FrameEntry& entry : entries_) {
        directory.fixed(static_cast<std::uint32_t>(entry.kind), 4);
        directory.fixed(entry.index, 4);
        directory.fixed(entry.offset, 8);
        directory.fixed(entry.stored_bytes, 8);
        directory.fixed(entry.raw_bytes, 8);
    }
    const std::string_view packed = compress(directory.bytes());
    pad(packed.size());
    ByteWriter footer;
    footer.fixed(file_.size(), 8);
    footer.fixed(packed.size(), 8);
    footer.fixed(entries_.size(), 8);
    footer.append(kEndMagic);
    file_.append(packed);
    file_.append(footer.bytes());
    file_.commit();
}

}  // namespace orrery::trace::native
