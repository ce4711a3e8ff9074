#include "runtime/checkpoint/manifest.hpp"

#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/manifest_fields.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/checkpoint/slice_cover.hpp"
#include "runtime/checkpoint/stored_numbers.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {
namespace {

using ManifestJson = nlohmann::ordered_json;

constexpr std::string_view kFormat = "orrery checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostOlder = 64;  // as many as a layout may have

// Around the part that is hashed, byte for byte.
constexpr std::string_view kBefore = "{\"xxh3_128\":\"",
                           kBetween = "\",\n\"manifest\":", kAfter = "}\n";
constexpr std::size_t kHashDigits = 32;

ManifestJson json_of(const Shard& shard) {
    ManifestJson pieces = ManifestJson::array();
    for (const Piece& piece : shard.pieces) {
        ManifestJson slices = ManifestJson::array();
        for (const Slice& slice : piece.slices)
            slices.push_back({slice.first, slice.elements, slice.stride, slice.count});
        pieces.push_back({{"tensor", piece.tensor},
                          {"quantity", name(piece.quantity)},
                          {"dtype", piece.dtype},
                          {"slices", std::move(slices)},
                          {"xxh3_128", piece.hash}});
        if (piece.age > 0) pieces.back()["age"] = piece.age;
    }
    return {{"file", shard.file},
            {"bytes", shard.bytes},
            {"head_xxh3_128", shard.head_hash},
            {"tensors", std::move(pieces)}};
}

ManifestJson json_of(const Progress& progress) {
    ManifestJson out{{"step", progress.step},
                     {"updates", progress.updates},
                     {"consumed_samples", progress.consumed_samples}};
    if (progress.loss_scale)
        out["loss_scale"] = {
            {"scale", progress.loss_scale->scale},
            {"steps_without_overflow", progress.loss_scale->steps_without_overflow},
            {"overflows", progress.loss_scale->overflows}};
    if (progress.losses)
        out["loss_spike"] = {{"accepted_losses", progress.losses->accepted},
                             {"count", progress.losses->count}};
    if (progress.older_weights > 0) out["older_weights"] = progress.older_weights;
    return out;
}

Slice slice_of(const ManifestFields& fields, const nlohmann::json& numbers, std::int64_t whole) {
    constexpr std::size_t kNumbers = 4;
    if (!numbers.is_array() || numbers.size() != kNumbers)
        fields.refuse("a slice is four numbers: first, elements, stride, count");
    const auto number = [&](std::size_t i) { return fields.natural(numbers[i], "of a slice"); };
    const Slice slice{number(0), number(1), number(2), number(3)};
    std::int64_t last = 0, elements = 0;
    if (slice.elements < 1 || slice.count < 1 ||
        (slice.count > 1 && slice.stride < slice.elements) ||
        __builtin_mul_overflow(slice.count - 1, slice.stride, &last) ||
        __builtin_mul_overflow(slice.count, slice.elements, &elements) || last > whole ||
        slice.first > whole - last || slice.elements > whole - last - slice.first)
        fields.refuse(
            fmt::format("slice {} lies beyond its tensor of {} elements", numbers.dump(), whole));
    return slice;
}

Piece piece_of(const ManifestFields& fields,
               const std::map<std::string, std::vector<std::int64_t>>* tensors) {
    Piece piece;
    piece.tensor = fields.text("tensor");
    const std::string quantity = fields.text("quantity");
    bool known = false;
    for (const Quantity each : kQuantities)
        if (name(each) == quantity) {
            piece.quantity = each;
            known = true;
        }
    if (!known) fields.refuse("unknown quantity " + quantity);
    piece.age = fields.optional_natural("age");
    if (piece.age > 0 && piece.quantity != Quantity::weight)
        fields.refuse("an age of what is no weight");
    piece.dtype = fields.text("dtype");
    if (!is_floating(piece.dtype))
        fields.refuse("dtype " + piece.dtype + " is none of F64, F32, BF16, F16");
    piece.hash = fields.text("xxh3_128");
    std::int64_t whole = std::int64_t{1} << 53;
    if (tensors != nullptr) {
        const auto found = tensors->find(piece.tensor);
        if (found == tensors->end()) fields.refuse("a part of unknown tensor " + piece.tensor);
        whole = elements_of(found->second);
    }
    for (const nlohmann::json& slice : fields.list("slices"))
        piece.slices.push_back(slice_of(fields, slice, whole));
    return piece;
}

Shard shard_of(const ManifestFields& fields,
               const std::map<std::string, std::vector<std::int64_t>>* tensors) {
    Shard shard;
    shard.file = fields.text("file");
    if (shard.file.empty() || shard.file.find('/') != std::string::npos)
        fields.refuse("\"" + shard.file + "\" is not the name of a file in the folder");
    shard.bytes = fields.natural("bytes");
    shard.head_hash = fields.text("head_xxh3_128");
    for (const nlohmann::json& piece : fields.list("tensors"))
        shard.pieces.push_back(piece_of({fields.path(), piece, "tensors"}, tensors));
    return shard;
}

Progress progress_of(const ManifestFields& fields) {
    constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();
    Progress progress;
    progress.step = fields.natural("step");
    progress.updates = fields.natural("updates");
    progress.consumed_samples = fields.natural("consumed_samples");
    progress.older_weights = fields.optional_natural("older_weights");
    if (progress.older_weights > kMostOlder)
        fields.refuse(
            fmt::format("older_weights {} are more than {}", progress.older_weights, kMostOlder));
    const auto count = [&](const ManifestFields& of, const char* key) {
        const std::int64_t value = of.natural(key);
        if (value > kMostCount) of.refuse(std::string(key) + " is beyond 32 bits");
        return static_cast<std::int32_t>(value);
    };
    if (const auto scale = fields.optional_object("loss_scale")) {
        SavedLossScale saved;
        const double number = scale->number("scale");
        if (!(number > 0) || number > std::numeric_limits<float>::max())
            scale->refuse("scale is no positive number of 32 bits");
        saved.scale = static_cast<float>(number);
        saved.steps_without_overflow = count(*scale, "steps_without_overflow");
        saved.overflows = count(*scale, "overflows");
        progress.loss_scale = saved;
    }
    if (const auto spike = fields.optional_object("loss_spike")) {
        SavedLosses saved;
        for (const nlohmann::json& loss : spike->list("accepted_losses")) {
            if (!loss.is_number()) spike->refuse("a loss is a number");
            saved.accepted.push_back(loss.get<double>());
        }
        saved.count = count(*spike, "count");
        progress.losses = std::move(saved);
    }
    return progress;
}

// Each element of each age, once.
void check_all_there(const ManifestFields& fields, const Manifest& manifest) {
    using Kept = std::tuple<std::string, Quantity, std::int64_t>;
    struct Found {
        std::int64_t elements = 0;
        std::vector<Slice> slices;
    };
    std::map<Kept, Found> found;
    std::set<std::string> files;
    for (const Shard& shard : manifest.shards) {
        if (!files.insert(shard.file).second) fields.refuse(shard.file + " is there twice");
        for (const Piece& piece : shard.pieces) {
            auto& [elements, slices] = found[{piece.tensor, piece.quantity, piece.age}];
            if (__builtin_add_overflow(elements, piece.elements(), &elements))
                fields.refuse(piece.tensor + " has too many elements");
            slices.insert(slices.end(), piece.slices.begin(), piece.slices.end());
            if (piece.age > manifest.progress.older_weights)
                fields.refuse(
                    fmt::format("{} is older than older_weights says", piece.stored_name()));
        }
    }
    const auto expect_all = [&](const std::string& tensor, const std::vector<std::int64_t>& shape,
                                Quantity quantity, std::int64_t age) {
        const auto& [elements, slices] = found[{tensor, quantity, age}];
        const std::string old = age == 0 ? "" : fmt::format(" of {} updates before", age);
        if (elements != elements_of(shape))
            fields.refuse(fmt::format("{} has {} elements, its {}{} in the shards {}", tensor,
                                      elements_of(shape), name(quantity), old, elements));
        if (const std::string fault = cover_fault(slices); !fault.empty())
            fields.refuse(fmt::format("{}: of its {}{} in the shards, {}", tensor, name(quantity),
                                      old, fault));
    };
    for (const auto& [tensor, shape] : manifest.tensors) {
        const bool frozen = manifest.frozen.count(tensor) > 0;
        for (const Quantity quantity : kQuantities)
            if (!frozen || quantity == Quantity::weight)
                expect_all(tensor, shape, quantity, 0);
            else if (found.count({tensor, quantity, 0}) > 0)
                fields.refuse(fmt::format("{} is frozen, and its {} is in the shards", tensor,
                                          name(quantity)));
        for (std::int64_t age = 1; age <= manifest.progress.older_weights; ++age)
            expect_all(tensor, shape, Quantity::weight, age);
    }
}

// The hashed part; throws where the file is not one of ours, or not as it was.
std::string_view hashed_part(const std::string& path, std::string_view text) {
    const std::size_t head = kBefore.size() + kHashDigits + kBetween.size();
    if (text.size() < head + kAfter.size() || !text.starts_with(kBefore) ||
        text.substr(kBefore.size() + kHashDigits, kBetween.size()) != kBetween ||
        !text.ends_with(kAfter))
        throw DataError(path, "is no manifest of a checkpoint, or not as it was written");
    const std::string_view part = text.substr(head, text.size() - head - kAfter.size());
    if (content_hash(part) != text.substr(kBefore.size(), kHashDigits))
        throw DataError(path, "is not as it was written: its XXH3 is " + content_hash(part));
    return part;
}

// Nested deeper than a manifest is: refused before anything walks over it.
template <typename Any>
Any parse_part(const std::string& path, std::string_view part) {
    constexpr int kDeepest = 64;
    bool deep = false;
    Any all = Any::parse(
        part,
        [&](int depth, typename Any::parse_event_t, Any&) {
            deep = deep || depth > kDeepest;
            return !deep;
        },
        false);
    if (deep) throw DataError(path, "is nested too deeply");
    return all;
}

}  // namespace

std::string_view name(Quantity quantity) {
    switch (quantity) {
        case Quantity::weight:
            return "weight";
        case Quantity::first_moment:
            return "first_moment";
        case Quantity::second_moment:
            break;
    }
    return "second_moment";
}

void append_run(std::vector<Slice>& slices, std::int64_t first, std::int64_t elements) {
    if (elements == 0) return;
    if (!slices.empty()) {
        Slice& last = slices.back();
        const std::int64_t apart = first - (last.first + (last.count - 1) * last.stride);
        if (last.count == 1 && apart == last.elements) {
            last.elements += elements;
            return;
        }
        if (last.elements == elements && apart >= elements &&
            (last.count == 1 || apart == last.stride)) {
            last.stride = apart;
            ++last.count;
            return;
        }
    }
    slices.push_back({first, elements, 0, 1});
}

std::int64_t Piece::elements() const {
    std::int64_t all = 0;
    for (const Slice& slice : slices)
        if (__builtin_add_overflow(all, slice.all(), &all))
            return std::numeric_limits<std::int64_t>::max();
    return all;
}

std::string Piece::stored_name() const {
    if (age > 0) return fmt::format("{}:before_{}", tensor, age);
    if (quantity == Quantity::weight) return tensor;
    return tensor + ":" + std::string(name(quantity));
}

std::string shard_text(const Shard& shard) {
    return json_of(shard).dump();
}

Shard read_shard_text(const std::string& path, std::string_view text) {
    const nlohmann::json shard = nlohmann::json::parse(text, nullptr, false);
    return shard_of({path, shard, "shard"}, nullptr);
}

std::string manifest_text(const Manifest& manifest) {
    ManifestJson tensors = ManifestJson::object(), shards = ManifestJson::array();
    for (const auto& [tensor, shape] : manifest.tensors)
        tensors[tensor] = shape;
    for (const Shard& shard : manifest.shards)
        shards.push_back(json_of(shard));
    ManifestJson all{{"format", kFormat},
                     {"version", kVersion},
                     {"progress", json_of(manifest.progress)},
                     {"data",
                      {{"seed", manifest.data.seed},
                       {"sequence_length", manifest.data.sequence_length},
                       {"path", manifest.data.path},
                       {"tokens", manifest.data.tokens},
                       {"xxh3_128", manifest.data.content}}},
                     {"tensors", std::move(tensors)},
                     {"shards", std::move(shards)},
                     {"scenario", ManifestJson::parse(manifest.scenario)}};
    if (!manifest.frozen.empty()) all["frozen"] = manifest.frozen;
    const std::string part = all.dump(-1, ' ', false, ManifestJson::error_handler_t::replace);
    return fmt::format("{}{}{}{}{}", kBefore, content_hash(part), kBetween, part, kAfter);
}

Manifest read_manifest(const std::string& path, std::string_view text) {
    const std::string_view part = hashed_part(path, text);
    const auto all = parse_part<nlohmann::json>(path, part);
    const ManifestFields fields(path, all, "manifest");
    if (fields.text("format") != kFormat) fields.refuse("format is not \"orrery checkpoint\"");
    if (const std::int64_t version = fields.natural("version"); version != kVersion)
        fields.refuse(fmt::format("version {}; this program reads {}", version, kVersion));
    Manifest manifest;
    manifest.progress = progress_of(fields.object("progress"));
    const ManifestFields data = fields.object("data");
    manifest.data = {data.natural("seed"), data.natural("sequence_length"), data.text("path"),
                     data.natural("tokens"), data.optional_text("xxh3_128")};
    if (!fields.value("tensors").is_object()) fields.refuse("tensors is no JSON object");
    for (const auto& [tensor, shape] : fields.value("tensors").items()) {
        std::vector<std::int64_t>& dims = manifest.tensors[tensor];
        if (!shape.is_array()) fields.refuse("the shape of " + tensor + " is no list");
        for (const nlohmann::json& dim : shape)
            dims.push_back(fields.natural(dim, "of a shape"));
        if (elements_of(dims) < 0) fields.refuse(tensor + " has too many elements");
    }
    if (all.contains("frozen"))
        for (const nlohmann::json& tensor : fields.list("frozen")) {
            if (!tensor.is_string() || manifest.tensors.count(tensor.get<std::string>()) == 0)
                fields.refuse("frozen names a tensor that is not among tensors");
            manifest.frozen.insert(tensor.get<std::string>());
        }
    for (const nlohmann::json& shard : fields.list("shards"))
        manifest.shards.push_back(shard_of({path, shard, "shards"}, &manifest.tensors));
    check_all_there(fields, manifest);
    // In the order of the file: what is embedded is what was resolved.
    const auto scenario = parse_part<ManifestJson>(path, part).value("scenario", ManifestJson());
    if (!scenario.is_object()) fields.refuse("scenario is no JSON object");
    manifest.scenario = scenario.dump(-1, ' ', false, ManifestJson::error_handler_t::replace);
    return manifest;
}

}  // namespace orrery::runtime
