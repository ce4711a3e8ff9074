#include "runtime/data/token_source.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>

#include "plan/check.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/data/megatron_index.hpp"

namespace orrery::runtime {
namespace {

using plan::DataFormat;

// Numbers are copied as they stand in the file.
static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kBytes = 256;  // values of a byte

constexpr std::int64_t kHeaderBytes = 256 * 4;
constexpr std::uint32_t kMagicOf16Bits = 20240520, kMagicOf32Bits = 20240801;

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::int64_t offset) {
    Number value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

bool begins_with_magic(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(std::uint32_t)) return false;
    const auto magic = number_at<std::uint32_t>(bytes, 0);
    return magic == kMagicOf16Bits || magic == kMagicOf32Bits;
}

// Of a .bin that an index of Megatron-LM lies beside.
bool has_megatron_index(const std::string& path) {
    const std::string index = megatron_index_path(path);
    std::error_code ignored;
    if (!path.ends_with(".bin") || !std::filesystem::is_regular_file(index, ignored)) return false;
    return is_megatron_index(MappedFile(index).bytes());
}

// The file that has the tokens.
std::string token_file(const std::string& path, DataFormat format) {
    const bool megatron = format == DataFormat::megatron ||
                          (format == DataFormat::automatic && path.ends_with(".idx"));
    return megatron ? megatron_bin_path(path) : path;
}

DataFormat format_of(const MappedFile& file) {
    if (has_megatron_index(file.path())) return DataFormat::megatron;
    if (begins_with_magic(file.bytes())) return DataFormat::llmc;
    return std::string_view(file.path()).ends_with(".bin") ? DataFormat::nanogpt : DataFormat::text;
}

TokenLayout text_layout(const MappedFile& file, std::int64_t vocabulary) {
    if (vocabulary < kBytes)
        throw DataError(
            file.path(),
            fmt::format("text is read a byte a token, which takes a vocabulary of {}; the "
                        "model's is {}",
                        kBytes, vocabulary));
    return {0, 1, false, std::ssize(file.bytes())};
}

TokenLayout nanogpt_layout(const MappedFile& file) {
    const std::int64_t size = std::ssize(file.bytes());
    if (size % 2 != 0)
        throw DataError(file.path(), fmt::format("{} bytes are not a whole number of tokens of 2 "
                                                 "bytes, as a nanoGPT file has them",
                                                 size));
    return {0, 2, false, size / 2};
}

TokenLayout llmc_layout(const MappedFile& file) {
    const std::span<const std::byte> bytes = file.bytes();
    const std::int64_t size = std::ssize(bytes);
    if (size < kHeaderBytes)
        throw DataError(file.path(),
                        fmt::format("ends at byte {}, within the header of {} bytes that an llm.c "
                                    "file has",
                                    size, kHeaderBytes));
    if (!begins_with_magic(bytes))
        throw DataError(
            file.path(),
            fmt::format("byte 0: magic {}; tokens in llm.c's format begin with {} (16 "
                        "bits) or {} (32 bits)",
                        number_at<std::uint32_t>(bytes, 0), kMagicOf16Bits, kMagicOf32Bits));
    const auto magic = number_at<std::uint32_t>(bytes, 0);
    const std::int64_t width = magic == kMagicOf16Bits ? 2 : 4;
    const auto version = number_at<std::int32_t>(bytes, 4);
    const std::int32_t known = magic == kMagicOf16Bits ? 1 : 7;
    if (version != known)
        throw DataError(file.path(), fmt::format("byte 4: version {}; of llm.c files with magic {} "
                                                 "version {} is read",
                                                 version, magic, known));
    const auto tokens = number_at<std::int32_t>(bytes, 8);
    const std::int64_t expected = kHeaderBytes + tokens * width;
    if (tokens < 0 || size != expected)
        throw DataError(file.path(),
                        fmt::format("byte 8: {} tokens; {} + {} × {} = {} bytes, the file has {}",
                                    tokens, kHeaderBytes, tokens, width, expected, size));
    return {kHeaderBytes, width, false, tokens};
}

TokenLayout megatron_layout(const MappedFile& file) {
    const MappedFile beside(megatron_index_path(file.path()));
    const MegatronIndex index =
        read_megatron_index(beside.path(), beside.bytes(), std::ssize(file.bytes()));
    return {0, index.bytes_per_token, index.is_signed, index.tokens};
}

TokenLayout layout_of(const MappedFile& file, DataFormat format, std::int64_t vocabulary) {
    switch (format == DataFormat::automatic ? format_of(file) : format) {
        case DataFormat::text:
            return text_layout(file, vocabulary);
        case DataFormat::nanogpt:
            return nanogpt_layout(file);
        case DataFormat::llmc:
            return llmc_layout(file);
        case DataFormat::megatron:
            return megatron_layout(file);
        case DataFormat::automatic:
            break;
    }
    ORRERY_CHECK(false, "no such format");
    return {};
}

}  // namespace

TokenSource::TokenSource(const std::string& path, plan::DataFormat format, std::int64_t vocabulary)
    : file_(token_file(path, format)),
      vocabulary_(vocabulary),
      layout_(layout_of(file_, format, vocabulary)),
      content_(sample_hash(file_.bytes())) {
    ORRERY_CHECK(vocabulary > 0, "a model without words");
    file_.require_read();
}

void TokenSource::require_unchanged() const {
    const bool same = !file_.may_have_changed() || sample_hash(file_.bytes()) == content_;
    file_.require_read();  // the hash too is of zeros where the file is cut off
    if (!same)
        throw DataError(path(),
                        "somebody wrote into it while it was read: what was trained is of two data "
                        "sets; data that change are to be put in place by a rename");
}

template <class Token>
void TokenSource::copy_as(std::int64_t first, std::span<std::int32_t> out) const {
    constexpr std::int64_t kWidth = sizeof(Token);
    // What a model holds as a token: 31 bits.
    const std::int64_t end =
        std::min<std::int64_t>(vocabulary_, std::numeric_limits<std::int32_t>::max());
    for (std::int64_t i = 0; i < std::ssize(out); ++i) {
        const std::int64_t offset = layout_.first_byte + (first + i) * kWidth;
        const auto token = static_cast<std::int64_t>(number_at<Token>(file_.bytes(), offset));
        if (token >= 0 && token < end) {
            out[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(token);
            continue;
        }
        file_.require_read();
        throw DataError(path(), fmt::format("byte {}: token {}, number {} of the file from 0; the "
                                            "model's vocabulary is {}, its tokens are 0 to {}",
                                            offset, token, first + i, vocabulary_, end - 1));
    }
    file_.require_read();
}

void TokenSource::copy(std::int64_t first, std::span<std::int32_t> out) const {
    ORRERY_CHECK(first >= 0 && first <= tokens() && std::ssize(out) <= tokens() - first,
                 "tokens beyond the end of the file");
    const bool is_signed = layout_.is_signed;
    switch (layout_.bytes_per_token) {
        case 1:
            return is_signed ? copy_as<std::int8_t>(first, out) : copy_as<std::uint8_t>(first, out);
        case 2:
            return is_signed ? copy_as<std::int16_t>(first, out)
                             : copy_as<std::uint16_t>(first, out);
        case 4:
            return is_signed ? copy_as<std::int32_t>(first, out)
                             : copy_as<std::uint32_t>(first, out);
        default:
            return copy_as<std::int64_t>(first, out);
    }
}

}  // namespace orrery::runtime
