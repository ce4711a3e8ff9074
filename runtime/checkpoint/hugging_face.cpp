#include "runtime/checkpoint/hugging_face.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "plan/check.hpp"
#include "runtime/checkpoint/stored_numbers.hpp"

namespace orrery::runtime {
namespace {

constexpr char kModelFile[] = "model.safetensors", kIndexFile[] = "model.safetensors.index.json";
constexpr char kConfigFile[] = "config.json", kBeingWritten[] = ".tmp";

std::int64_t width_of(const std::vector<std::int64_t>& shape) {
    return shape.size() > 1 ? shape[1] : 1;
}

// Appears under its name when all of it is on the disk.
class WholeFile {
  public:
    WholeFile(Files& files, std::string path)
        : files_(files), path_(std::move(path)), file_(files.create(path_ + kBeingWritten)) {}
    void write(std::span<const std::byte> bytes) { file_->write(bytes); }
    void write(const std::string& text) {
        write(std::as_bytes(std::span(text.data(), text.size())));
    }
    void finish() {
        file_->sync();
        file_.reset();
        files_.rename(path_ + kBeingWritten, path_);
    }

  private:
    Files& files_;
    std::string path_;
    std::unique_ptr<OutputFile> file_;
};

struct WrittenPart {
    const NamedShape* of = nullptr;
    HuggingFacePart part;
};

// Where element `element` of the part's rows, in our order, stands in theirs.
std::int64_t their_index(const HuggingFacePart& part, std::int64_t element, std::int64_t width) {
    if (!part.transposed) return element;
    return element % width * part.rows + element / width;
}

void write_part(WholeFile& file, const WrittenPart& written, const std::string& dtype,
                const ReadWeights& read) {
    const std::int64_t width = width_of(written.of->shape), size = bytes_of_stored(dtype);
    std::vector<double> values(static_cast<std::size_t>(written.part.rows * width));
    read(written.of->parameter, written.part.first_row * width, values);
    std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i)
        store_number(
            values[i],
            bytes.data() + their_index(written.part, static_cast<std::int64_t>(i), width) * size,
            dtype);
    file.write(bytes);
}

std::vector<std::string> files_of(const std::string& folder) {
    const std::string index = folder + "/" + kIndexFile;
    std::error_code ignored;
    if (!std::filesystem::exists(index, ignored)) return {kModelFile};
    const MappedFile file(index);
    const auto json = nlohmann::json::parse(
        std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()),
        nullptr, false);
    std::set<std::string> names;
    if (json.is_object() && json.contains("weight_map") && json["weight_map"].is_object())
        for (const auto& name : json["weight_map"])
            if (name.is_string() && name.get<std::string>().find('/') == std::string::npos)
                names.insert(name.get<std::string>());
    file.require_read();
    if (names.empty()) throw DataError(index, "has no weight_map of files");
    return {names.begin(), names.end()};
}

std::string content_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Of a config.json, without the type of its weights; no object where the text is none.
nlohmann::json model_of(const std::string& config) {
    auto model = nlohmann::json::parse(config, nullptr, false);
    if (model.is_object()) model.erase(kHuggingFaceType);
    return model;
}

}  // namespace

void write_hugging_face(Files& files, const std::string& folder, const std::string& config,
                        const HuggingFaceModel& model, const std::vector<NamedShape>& parameters,
                        const std::string& dtype, const ReadWeights& read) {
    std::vector<WrittenPart> parts;
    std::vector<StoredTensor> stored;
    std::int64_t at = 0;
    for (const NamedShape& each : parameters)
        for (HuggingFacePart& part : hugging_face_parts(model, each.parameter, each.shape)) {
            std::vector<std::int64_t> shape = part.shape(each.shape);
            const std::int64_t end = at + elements_of(shape) * bytes_of_stored(dtype);
            stored.push_back({part.tensor, dtype, std::move(shape), at, end});
            parts.push_back({&each, std::move(part)});
            at = end;
        }
    files.make_folder(folder);
    WholeFile weights(files, folder + "/" + kModelFile);
    weights.write(safetensors_head(stored, {{"format", "pt"}}));
    for (const WrittenPart& part : parts)
        write_part(weights, part, dtype, read);
    weights.finish();
    WholeFile about(files, folder + "/" + kConfigFile);
    about.write(config);
    about.finish();
    files.sync_folder(folder);
}

std::string foreign_to_export(const std::string& folder, const std::string& config) {
    std::set<std::string> names;
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed))
        names.insert(entry->path().filename().string());
    if (failed) return "cannot be read: " + failed.message();
    for (const char* file : {kModelFile, kConfigFile})
        names.erase(file + std::string(kBeingWritten));
    if (names.erase(kConfigFile) > 0) {
        if (model_of(content_of_file(folder + "/" + kConfigFile)) != model_of(config))
            return "holds another model";
        names.erase(kModelFile);  // which alone may be anybody's
    }
    return names.empty() ? "" : fmt::format("holds {}, which no export wrote", *names.begin());
}

HuggingFaceWeights::HuggingFaceWeights(const std::string& folder, const HuggingFaceModel& model,
                                       const std::vector<NamedShape>& parameters)
    : folder_(folder) {
    struct Place {
        const MappedFile* file = nullptr;
        StoredTensor tensor;
    };
    std::map<std::string, Place> places;
    for (const std::string& name : files_of(folder)) {
        files_.push_back(std::make_unique<MappedFile>(folder + "/" + name));
        const MappedFile& file = *files_.back();
        for (StoredTensor& tensor : read_safetensors(file.path(), file.bytes()).tensors) {
            const std::string called = tensor.name;
            places[called] = {&file, std::move(tensor)};
        }
        file.require_read();
    }
    const auto find = [&](const std::string& name) {
        const auto found = places.find(name);
        if (found != places.end()) return found;
        // GPT-2 as OpenAI's conversion has it is the model without what is around it.
        constexpr std::string_view kAround = "transformer.";
        return places.find(name.starts_with(kAround) ? name.substr(kAround.size()) : name);
    };
    for (const NamedShape& each : parameters) {
        Whole& whole = parameters_[each.parameter];
        whole.width = width_of(each.shape);
        for (HuggingFacePart& part : hugging_face_parts(model, each.parameter, each.shape)) {
            const auto found = find(part.tensor);
            const std::vector<std::int64_t> shape = part.shape(each.shape);
            if (found == places.end())
                throw DataError(folder, fmt::format("has no tensor {}, which the scenario's model "
                                                    "needs as [{}]",
                                                    part.tensor, fmt::join(shape, ", ")));
            const StoredTensor& tensor = found->second.tensor;
            if (tensor.shape != shape || !is_floating(tensor.dtype))
                throw DataError(
                    folder, fmt::format("tensor {} is {} [{}], the scenario's model needs [{}]",
                                        part.tensor, tensor.dtype, fmt::join(tensor.shape, ", "),
                                        fmt::join(shape, ", ")));
            const MappedFile* file = found->second.file;
            whole.sources.push_back(
                {std::move(part), file->bytes().data() + tensor.begin, tensor.dtype, file});
        }
    }
}

void HuggingFaceWeights::read(const std::string& parameter, std::int64_t first,
                              std::span<double> values) const {
    const Whole& whole = parameters_.at(parameter);
    for (const Source& source : whole.sources) {
        const std::int64_t size = bytes_of_stored(source.dtype);
        const std::int64_t begin = source.part.first_row * whole.width;
        const std::int64_t from = std::max(first, begin);
        const std::int64_t to =
            std::min(first + std::ssize(values), begin + source.part.rows * whole.width);
        for (std::int64_t element = from; element < to; ++element)
            values[static_cast<std::size_t>(element - first)] = load_number(
                source.data + their_index(source.part, element - begin, whole.width) * size,
                source.dtype);
        source.file->require_read();
    }
}

}  // namespace orrery::runtime
