#include "runtime/cuda/product_choices.hpp"

#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/file_lock.hpp"
#include "runtime/checkpoint/files.hpp"
#include "runtime/checkpoint/folder_lock.hpp"
#include "runtime/checkpoint/manifest_fields.hpp"
#include "runtime/kernels/gemm_forms.hpp"

namespace orrery::runtime::cuda {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "orrery product choices";
constexpr std::int64_t kVersion = 1;
constexpr std::string_view kDigits = "0123456789abcdef";

std::string_view name_of(plan::GemmProduct product) {
    return plan::Spelling<plan::GemmProduct>::names[static_cast<std::size_t>(product)];
}

std::string_view name_of(GemmForm form) {
    for (const auto& [product, as_form] : kGemmForms)
        if (as_form == form) return name_of(product);
    return "";
}

GemmForm form_in(const ManifestFields& fields) {
    const std::string word = fields.text("form");
    for (const auto& [product, form] : kGemmForms)
        if (name_of(product) == word) return form;
    fields.refuse("unknown form " + word);
}

// By their order; a product without one has none in the file.
constexpr std::array<std::string_view, 5> kEpilogues = {"", "gelu", "gelu_kept", "gelu_slope",
                                                        "bias_gradient"};

Epilogue epilogue_in(const ManifestFields& fields) {
    const std::string word = fields.optional_text("epilogue");
    const auto found = std::find(kEpilogues.begin(), kEpilogues.end(), word);
    if (found == kEpilogues.end()) fields.refuse("unknown epilogue " + word);
    return static_cast<Epilogue>(found - kEpilogues.begin());
}

// Of b, where blocks share a scale; those of a are of 1 x 128.
constexpr std::string_view kRuns = "1x128", kSquares = "128x128";

plan::DType dtype_in(const ManifestFields& fields, const char* key) {
    const std::string word = fields.text(key);
    const auto dtype = plan::from_name<plan::DType>(word);
    if (!dtype) fields.refuse("unknown dtype " + word);
    return *dtype;
}

bool flag_in(const ManifestFields& fields, const char* key) {
    if (!fields.value(key).is_boolean())
        fields.refuse(std::string(key) + " is neither true nor false");
    return fields.value(key).get<bool>();
}

Scaling scaling_in(const ManifestFields& fields) {
    const std::string blocks = fields.optional_text("scale_blocks");
    if (blocks == kRuns) return Scaling::runs;
    if (blocks == kSquares) return Scaling::runs_and_squares;
    if (!blocks.empty()) fields.refuse("unknown scale_blocks " + blocks);
    if (flag_in(fields, "scales_by_rows")) return Scaling::rows;
    return plan::is_eight_bit(dtype_in(fields, "a")) ? Scaling::tensors : Scaling::none;
}

double time_in(const ManifestFields& fields, const char* key) {
    const double us = fields.number(key);
    if (!(us >= 0)) fields.refuse(std::string(key) + " is no time");
    return us;
}

std::string hex_of(std::span<const std::byte> bytes) {
    std::string digits;
    for (const std::byte byte : bytes)
        digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return digits;
}

std::array<std::byte, 64> algorithm_in(const ManifestFields& fields) {
    const std::string digits = fields.text("algorithm");
    std::array<std::byte, 64> bytes{};
    if (digits.size() != 2 * bytes.size() || digits.find_first_not_of(kDigits) != digits.npos)
        fields.refuse("algorithm is not 128 hexadecimal digits");
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(kDigits.find(digits[2 * i]) * 16 +
                                          kDigits.find(digits[2 * i + 1]));
    return bytes;
}

DeviceKind kind_in(const ManifestFields& fields) {
    return {fields.text("device"), fields.text("compute_capability"), fields.natural("cublaslt")};
}

Product product_in(const ManifestFields& fields) {
    const Epilogue epilogue = epilogue_in(fields);
    return {form_in(fields),
            fields.natural("m"),
            fields.natural("n"),
            fields.natural("k"),
            dtype_in(fields, "a"),
            dtype_in(fields, "b"),
            dtype_in(fields, "c"),
            scaling_in(fields),
            flag_in(fields, "bias"),
            flag_in(fields, "accumulate"),
            fields.natural("alignment_a"),
            fields.natural("alignment_b"),
            fields.natural("alignment_c"),
            fields.natural("workspace_bytes"),
            epilogue,
            epilogue == Epilogue::none ? 0 : fields.natural("alignment_beside")};
}

ProductChoice choice_in(const ManifestFields& fields) {
    return {algorithm_in(fields), time_in(fields, "us"), time_in(fields, "first_us")};
}

Json json_of(const DeviceKind& kind, const Product& product, const ProductChoice& choice) {
    Json json{{"device", kind.name},
              {"compute_capability", kind.compute_capability},
              {"cublaslt", kind.cublaslt},
              {"form", name_of(product.form)},
              {"m", product.m},
              {"n", product.n},
              {"k", product.k},
              {"a", plan::name(product.a)},
              {"b", plan::name(product.b)},
              {"c", plan::name(product.c)},
              {"scales_by_rows", product.scaling == Scaling::rows},
              {"bias", product.with_bias},
              {"accumulate", product.accumulate},
              {"alignment_a", product.alignment_a},
              {"alignment_b", product.alignment_b},
              {"alignment_c", product.alignment_c},
              {"workspace_bytes", product.workspace_bytes},
              {"algorithm", hex_of(choice.algorithm)},
              {"us", choice.us},
              {"first_us", choice.first_us}};
    if (product.scaling == Scaling::runs) json["scale_blocks"] = kRuns;
    if (product.scaling == Scaling::runs_and_squares) json["scale_blocks"] = kSquares;
    if (product.epilogue != Epilogue::none) {
        json["epilogue"] = kEpilogues.at(static_cast<std::size_t>(product.epilogue));
        json["alignment_beside"] = product.alignment_beside;
    }
    return json;
}

}  // namespace

struct ProductChoices::Content {
    std::string id;
    std::vector<Json> entries;  // of all kinds, as they stand there
    std::map<Product, ProductChoice> choices;
};

ProductChoices::ProductChoices(std::string path, DeviceKind kind)
    : path_(std::move(path)), kind_(std::move(kind)) {
    // One that is there is read without its lock: its folder may be closed to us.
    std::error_code unknown;
    std::optional<FileLock> making;
    if (!std::filesystem::exists(path_, unknown)) making.emplace(lock());
    if (!std::filesystem::exists(path_, unknown)) write({new_run_id(), {}, {}});
    Content content = read();
    id_ = std::move(content.id);
    choices_ = std::move(content.choices);
}

const ProductChoice* ProductChoices::find(const Product& product) const {
    const auto found = choices_.find(product);
    return found == choices_.end() ? nullptr : &found->second;
}

const ProductChoice& ProductChoices::settle(const Product& product, const ProductChoice& timed) {
    const FileLock locked(lock());
    Content content = read();
    if (content.id != id_)
        throw StorageError(path_ + ": was replaced by another while products were timed");
    if (content.choices.try_emplace(product, timed).second) {
        content.entries.push_back(json_of(kind_, product, timed));
        write(content);
    }
    choices_ = std::move(content.choices);
    return choices_.at(product);
}

ProductChoices::Content ProductChoices::read() const {
    const MappedFile file(path_);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    const Json json = Json::parse(text, nullptr, false);
    file.require_read();
    if (!json.is_object() || json.value("format", Json()) != kFormat)
        throw DataError(path_, "is no file of product choices: give run.product_choices another");
    const ManifestFields fields(path_, json, "choices of products");
    if (const std::int64_t version = fields.natural("version"); version != kVersion)
        fields.refuse(fmt::format("version {}, where this program reads {}", version, kVersion));
    Content content;
    content.id = fields.text("id");
    if (content.id.size() != 16 || content.id.find_first_not_of(kDigits) != content.id.npos)
        fields.refuse("id is not 16 hexadecimal digits");
    for (const Json& entry : fields.list("choices")) {
        const ManifestFields of_entry(
            path_, entry, fmt::format("choices of products, entry {}", content.entries.size() + 1));
        const DeviceKind kind = kind_in(of_entry);
        const Product product = product_in(of_entry);
        const ProductChoice choice = choice_in(of_entry);
        if (kind == kind_ && !content.choices.try_emplace(product, choice).second)
            of_entry.refuse("a second choice for one product");
        content.entries.push_back(entry);
    }
    return content;
}

// An entry a line.
void ProductChoices::write(const Content& content) const {
    std::string text = fmt::format(R"({{"format":"{}","version":{},"id":"{}","choices":[)", kFormat,
                                   kVersion, content.id);
    for (std::size_t i = 0; i < content.entries.size(); ++i)
        text += (i > 0 ? ",\n" : "\n") +
                content.entries[i].dump(-1, ' ', false, Json::error_handler_t::replace);
    text += "\n]}\n";
    Files& files = disk_files();
    const std::string unfinished = path_ + ".partial";
    {
        const auto file = files.create(unfinished);
        file->write(std::as_bytes(std::span(text)));
        file->sync();
    }
    files.rename(unfinished, path_);
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    files.sync_folder(folder.empty() ? "." : folder);
}

}  // namespace orrery::runtime::cuda
