// The outer layer of a native trace file, taken apart and put together by what docs/formats.md says
// and not by the program: for tests that forge files whose checksums are right.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery::trace {

inline std::string bytes_of_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// A new file each time: to cut off an old one can make the disk wait.
inline void put_file(const std::string& path, const std::string& bytes) {
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::uint64_t little_endian(const std::string& bytes, std::size_t at, int size) {
    std::uint64_t value = 0;
    for (int i = size; i-- > 0;)
        value = value << 8 | static_cast<std::uint8_t>(bytes.at(at + static_cast<std::size_t>(i)));
    return value;
}

inline std::string little_endian(std::uint64_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i, value >>= 8)
        bytes += static_cast<char>(value & 0xff);
    return bytes;
}

inline std::string packed(const std::string& raw) {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    std::string out(ZSTD_compressBound(raw.size()), '\0');
    out.resize(ZSTD_compress2(context, out.data(), out.size(), raw.data(), raw.size()));
    ZSTD_freeCCtx(context);
    return out;
}

inline std::string unpacked(const std::string& bytes, std::size_t raw_size) {
    std::string raw(raw_size, '\0');
    if (ZSTD_decompress(raw.data(), raw.size(), bytes.data(), bytes.size()) != raw_size)
        throw std::runtime_error("frame does not unpack to the size in the directory");
    return raw;
}

struct Container {
    struct Frame {
        std::string code;  // "HEAD"
        std::uint64_t index = 0;
        std::string raw;
        std::uint64_t claimed_raw_bytes = 0;  // 0: the truth
    };
    std::string head;  // 16 bytes
    std::vector<Frame> frames;

    static Container of(const std::string& file) {
        Container result;
        result.head = file.substr(0, 16);
        const std::size_t footer = file.size() - 32;
        const std::uint64_t directory_at = little_endian(file, footer, 8);
        const std::uint64_t directory_size = little_endian(file, footer + 8, 8);
        const std::uint64_t count = little_endian(file, footer + 16, 8);
        const std::string directory =
            unpacked(file.substr(directory_at, directory_size), 32 * count);
        for (std::size_t at = 0; at < directory.size(); at += 32) {
            const std::string stored = file.substr(little_endian(directory, at + 8, 8),
                                                   little_endian(directory, at + 16, 8));
            result.frames.push_back({directory.substr(at, 4), little_endian(directory, at + 4, 4),
                                     unpacked(stored, little_endian(directory, at + 24, 8)), 0});
        }
        return result;
    }

    std::string file() const {
        std::string bytes = head, directory;
        for (const Frame& frame : frames) {
            const std::string stored = packed(frame.raw);
            const std::uint64_t raw_bytes =
                frame.claimed_raw_bytes != 0 ? frame.claimed_raw_bytes : frame.raw.size();
            directory += frame.code + little_endian(frame.index, 4) +
                         little_endian(bytes.size(), 8) + little_endian(stored.size(), 8) +
                         little_endian(raw_bytes, 8);
            bytes += stored;
        }
        const std::string stored = packed(directory);
        const std::string footer = little_endian(bytes.size(), 8) +
                                   little_endian(stored.size(), 8) +
                                   little_endian(frames.size(), 8) + "ORRY.END";
        return bytes + stored + footer;
    }
};

// A folder of the test's own, gone with it.
class TestFolder {
  public:
    TestFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "orrery-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~TestFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;
    std::string file(const std::string& name) const { return (path_ / name).string(); }
    const std::filesystem::path& path() const { return path_; }
    std::size_t entries() const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(path_), {}));
    }

  private:
    std::filesystem::path path_;
};

}  // namespace orrery::trace
