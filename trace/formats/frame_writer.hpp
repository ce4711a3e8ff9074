// The outer layer of a native trace file, written: head, compressed frames, directory, footer.
// Internal to trace/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/atomic_file.hpp"
#include "trace/formats/native_layout.hpp"

struct ZSTD_CCtx_s;

namespace orrery::trace::native {

class FrameWriter {
  public:
    explicit FrameWriter(const std::string& path);
    void add(FrameKind kind, std::size_t index, std::string_view raw);
    void finish();

  private:
    struct Free {
        void operator()(ZSTD_CCtx_s* context) const;
    };
    std::string_view compress(std::string_view raw);  // valid until the next call
    void pad(std::size_t directory_bytes);

    AtomicFile file_;
    std::unique_ptr<ZSTD_CCtx_s, Free> context_;
    std::string packed_;
    std::vector<FrameEntry> entries_;
    std::uint64_t raw_bytes_ = 0;
};

}  // namespace orrery::trace::native
