#include "runtime/checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kSizeBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the reference implementation's

// Nested deeper than any header is, or a name twice: refused while it is read.
class HeaderGuard {
  public:
    bool operator()(int depth, Json::parse_event_t event, const Json& value) {
        constexpr int kDeepest = 3;
        if (depth > kDeepest) deep_ = true;
        if (event == Json::parse_event_t::key && depth == 1 &&
            !names_.insert(value.get<std::string>()).second)
            twice_ = value.get<std::string>();
        return !deep_;
    }
    const std::string& twice() const { return twice_; }
    bool deep() const { return deep_; }

  private:
    std::set<std::string> names_;
    std::string twice_;
    bool deep_ = false;
};

std::int64_t whole_number(const Json& value) {
    if (!value.is_number_integer()) return -1;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMost) return -1;
    return value.get<std::int64_t>();
}

StoredTensor tensor_of(const std::string& path, const std::string& name, const Json& entry,
                       std::int64_t data_begin, std::int64_t file_bytes) {
    const auto refuse = [&](const std::string& why) -> DataError {
        return {path, fmt::format("tensor \"{}\": {}", name, why)};
    };
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
        !entry.contains("data_offsets"))
        throw refuse("is no object with dtype, shape and data_offsets");
    StoredTensor tensor;
    tensor.name = name;
    if (!entry["dtype"].is_string()) throw refuse("its dtype is not a word");
    tensor.dtype = entry["dtype"].get<std::string>();
    const std::int64_t size = bytes_of_stored(tensor.dtype);
    if (size == 0) throw refuse("unknown dtype " + tensor.dtype);
    const Json &shape = entry["shape"], &offsets = entry["data_offsets"];
    if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
        throw refuse("its shape or its two data_offsets are no lists");
    for (const Json& dim : shape)
        tensor.shape.push_back(whole_number(dim));
    const std::int64_t elements = elements_of(tensor.shape);
    const std::int64_t begin = whole_number(offsets[0]), end = whole_number(offsets[1]);
    if (elements < 0) throw refuse("its shape is not one of natural numbers");
    if (begin < 0 || end < begin || end > file_bytes - data_begin)
        throw refuse(fmt::format("data_offsets {} to {} are not within the {} bytes of data", begin,
                                 end, file_bytes - data_begin));
    if ((end - begin) / size != elements || (end - begin) % size != 0)
        throw refuse(fmt::format("{} elements of {} are not the {} bytes that it has", elements,
                                 tensor.dtype, end - begin));
    tensor.begin = data_begin + begin;
    tensor.end = data_begin + end;
    return tensor;
}

void check_metadata(const std::string& path, const Json& metadata) {
    bool strings = metadata.is_object();
    if (strings)
        for (const Json& value : metadata)
            strings = strings && value.is_string();
    if (!strings) throw DataError(path, "__metadata__ is no object of strings");
}

// They cover the data, each byte once.
void check_cover(const std::string& path, const SafetensorsFile& file, std::int64_t end) {
    std::int64_t at = file.data_begin;
    for (const StoredTensor& tensor : file.tensors) {
        if (tensor.begin != at)
            throw DataError(path, fmt::format("tensor \"{}\" begins at byte {}, what is before it "
                                              "ends at {}",
                                              tensor.name, tensor.begin, at));
        at = tensor.end;
    }
    if (at != end)
        throw DataError(path, fmt::format("ends at byte {}, its tensors at {}", end, at));
}

}  // namespace

std::int64_t bytes_of_stored(const std::string& dtype) {
    static constexpr std::array<std::pair<std::string_view, std::int64_t>, 15> kTypes{
        {{"F64", 8},
         {"F32", 4},
         {"F16", 2},
         {"BF16", 2},
         {"I64", 8},
         {"I32", 4},
         {"I16", 2},
         {"I8", 1},
         {"U64", 8},
         {"U32", 4},
         {"U16", 2},
         {"U8", 1},
         {"BOOL", 1},
         {"F8_E4M3", 1},
         {"F8_E5M2", 1}}};
    for (const auto& [name, bytes] : kTypes)
        if (name == dtype) return bytes;
    return 0;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
    constexpr std::int64_t kMost = std::int64_t{1} << 53;
    std::int64_t elements = 1;
    for (const std::int64_t dim : shape) {
        if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || elements > kMost)
            return -1;
    }
    return elements;
}

std::string safetensors_head(std::span<const StoredTensor> tensors, const Metadata& metadata) {
    OrderedJson header = OrderedJson::object();
    if (!metadata.empty())
        for (const auto& [key, value] : metadata)
            header["__metadata__"][key] = value;
    for (const StoredTensor& tensor : tensors)
        header[tensor.name] = {{"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"data_offsets", {tensor.begin, tensor.end}}};
    std::string text = header.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    text.resize((text.size() + kSizeBytes - 1) / kSizeBytes * kSizeBytes, ' ');
    const std::uint64_t size = text.size();
    std::string head(kSizeBytes, '\0');
    std::memcpy(head.data(), &size, kSizeBytes);
    return head + text;
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
    for (const StoredTensor& tensor : tensors)
        if (tensor.name == name) return &tensor;
    return nullptr;
}

SafetensorsFile read_safetensors(const std::string& path, std::span<const std::byte> bytes) {
    if (bytes.size() < kSizeBytes)
        throw DataError(path, fmt::format("{} bytes are no safetensors file", bytes.size()));
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), kSizeBytes);
    if (size > kMostHeaderBytes || size > bytes.size() - kSizeBytes)
        throw DataError(
            path, fmt::format("byte 0: a header of {} bytes, in a file of {}", size, bytes.size()));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kSizeBytes, size);
    HeaderGuard guard;
    const Json header = Json::parse(
        text,
        [&](int depth, Json::parse_event_t event, Json& value) {
            return guard(depth, event, value);
        },
        false);
    if (guard.deep() || !header.is_object())
        throw DataError(path, "byte 8: the header is no JSON object of tensors");
    if (!guard.twice().empty())
        throw DataError(path, fmt::format("tensor \"{}\" is there twice", guard.twice()));
    SafetensorsFile file;
    file.data_begin = static_cast<std::int64_t>(kSizeBytes + size);
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__")
            check_metadata(path, entry);
        else
            file.tensors.push_back(
                tensor_of(path, name, entry, file.data_begin, std::ssize(bytes)));
    }
    std::sort(file.tensors.begin(), file.tensors.end(),
              [](const StoredTensor& a, const StoredTensor& b) {
                  return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
              });
    check_cover(path, file, std::ssize(bytes));
    return file;
}

}  // namespace orrery::runtime
