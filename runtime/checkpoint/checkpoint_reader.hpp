// A checkpoint as whoever loads it sees it: whole tensors, wherever their elements lie.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/checkpoint/manifest.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {

class CheckpointReader {
  public:
    // `path` is the checkpoint's own folder. Throws DataError: what read_manifest does, a shard
    // that is missing, cut short or whose head is not as it was written.
    explicit CheckpointReader(const std::string& path);

    const std::string& path() const { return path_; }
    const Manifest& manifest() const { return manifest_; }

    // Reads all bytes of a shard; throws DataError with the name of a tensor that is not as it was
    // written. Any number of threads at once.
    void verify_shard(std::size_t shard) const;

    // Elements of a whole tensor, from number `first` on; all are within it: the newest, or as they
    // were `age` updates before. Throws DataError for one that no shard has. Any number of threads
    // at once.
    void read(const std::string& tensor, Quantity quantity, std::int64_t first,
              std::span<double> values, std::int64_t age = 0) const;

  private:
    // A slice, and where the shard has its first element.
    struct Source {
        Slice slice;
        const std::byte* data = nullptr;
        std::int64_t element_bytes = 4;
        const MappedFile* file = nullptr;
    };

    void open_shard(const Shard& shard);
    std::int64_t copy(const Source& source, std::int64_t first, std::span<double> values) const;

    std::string path_;
    Manifest manifest_;
    std::vector<std::unique_ptr<MappedFile>> files_;  // by shard
    std::vector<SafetensorsFile> heads_;
    // By tensor, quantity and age.
    std::map<std::tuple<std::string, Quantity, std::int64_t>, std::vector<Source>> sources_;
};

}  // namespace orrery::runtime
