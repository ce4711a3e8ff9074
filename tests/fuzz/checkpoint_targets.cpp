// Files of checkpoints: read, with all that a reader relies on, or a DataError that names the file.
#include "plan/check.hpp"
#include "runtime/checkpoint/manifest.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/data/mapped_file.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

using runtime::DataError;

void check_named(const DataError& fault) {
    ORRERY_CHECK(std::string_view(fault.what()).starts_with("a file: "), fault.what());
}

// Tensors cover the data, and what is written of them is read again.
void run_safetensors(std::string_view input) {
    try {
        const runtime::SafetensorsFile file = runtime::read_safetensors(
            "a file", std::as_bytes(std::span(input.data(), input.size())));
        std::int64_t at = file.data_begin;
        std::vector<runtime::StoredTensor> stored;
        for (const runtime::StoredTensor& tensor : file.tensors) {
            ORRERY_CHECK(tensor.begin == at && tensor.end >= at, "a gap between tensors");
            ORRERY_CHECK(tensor.bytes() == runtime::elements_of(tensor.shape) *
                                               runtime::bytes_of_stored(tensor.dtype),
                         "bytes that are no elements");
            at = tensor.end;
            stored.push_back(tensor);
            stored.back().begin -= file.data_begin;
            stored.back().end -= file.data_begin;
        }
        ORRERY_CHECK(at == std::ssize(input), "bytes of no tensor");
        std::string again = runtime::safetensors_head(stored, {});
        again.append(input.substr(static_cast<std::size_t>(file.data_begin)));
        const auto read = runtime::read_safetensors("a file", std::as_bytes(std::span(again)));
        ORRERY_CHECK(read.tensors.size() == file.tensors.size(), "tensors that were lost");
    } catch (const DataError& fault) {
        check_named(fault);
    }
}

std::vector<std::string> safetensors_seeds() {
    const std::vector<runtime::StoredTensor> tensors = {{"w", "F32", {2}, 0, 8},
                                                        {"b", "BF16", {}, 8, 10}};
    return {runtime::safetensors_head(tensors, {{"format", "pt"}}) + std::string(10, 'x'),
            runtime::safetensors_head({}, {})};
}

void check_manifest(std::string_view text) {
    try {
        const runtime::Manifest manifest = runtime::read_manifest("a file", text);
        for (const runtime::Shard& shard : manifest.shards)
            for (const runtime::Piece& piece : shard.pieces)
                for (const runtime::Slice& slice : piece.slices)
                    ORRERY_CHECK(slice.first + (slice.count - 1) * slice.stride + slice.elements <=
                                     runtime::elements_of(manifest.tensors.at(piece.tensor)),
                                 "a slice beyond its tensor");
        const runtime::Manifest again =
            runtime::read_manifest("a file", runtime::manifest_text(manifest));
        ORRERY_CHECK(again.shards == manifest.shards && again.tensors == manifest.tensors &&
                         again.progress == manifest.progress && again.data == manifest.data,
                     "what is written is not what is read");
    } catch (const DataError& fault) {
        check_named(fault);
    }
}

// As it stands, and as what somebody wrote with its hash.
void run_manifest(std::string_view input) {
    check_manifest(input);
    check_manifest("{\"xxh3_128\":\"" + runtime::content_hash(input) +
                   "\",\n\"manifest\":" + std::string(input) + "}\n");
}

std::vector<std::string> manifest_seeds() {
    runtime::Manifest manifest;
    manifest.progress = {7, 5, 56, runtime::SavedLossScale{1024, 3, 1},
                         runtime::SavedLosses{{0.5, 0.25}, 9}};
    manifest.tensors = {{"w", {2, 3}}};
    runtime::Shard shard{"s", 100, "00", {}};
    for (const runtime::Quantity quantity : runtime::kQuantities)
        shard.pieces.push_back({"w", quantity, "F32", {{0, 1, 3, 2}, {1, 2, 3, 2}}, "ff"});
    manifest.shards = {shard};
    const std::string text = runtime::manifest_text(manifest);
    const std::size_t part = text.find("\"manifest\":") + 11;
    return {text, text.substr(part, text.size() - part - 2)};
}

}  // namespace

const Target kSafetensors = {"safetensors", 2048, run_safetensors, safetensors_seeds};
const Target kManifest = {"manifest", 4096, run_manifest, manifest_seeds};

}  // namespace orrery::fuzz
