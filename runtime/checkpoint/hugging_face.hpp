// Models as folders of Hugging Face: config.json and model.safetensors, or several files with an
// index, as transformers' save_pretrained writes them and from_pretrained reads them. Families
// whose tensors are GPT-2's or Llama's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/files.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {

// What names and shapes depend on.
struct HuggingFaceModel {
    std::string family;        // model_type
    std::int64_t q_rows = 0;   // of the joint projection: heads × head size …
    std::int64_t kv_rows = 0;  // … and key-value heads × head size
    std::int64_t experts = 0;  // of a layer, each of which has tensors of its own there
};

// The key of a config.json that has the type of the weights, by PyTorch's name.
inline constexpr char kHuggingFaceType[] = "torch_dtype";

// The families that there are names for.
std::vector<std::string> hugging_face_families();
// What from_pretrained makes of one of them: "LlamaForCausalLM".
std::string hugging_face_architecture(const std::string& family);

// Rows of one of our parameters, which is [out, in], in a tensor of theirs.
struct HuggingFacePart {
    std::string tensor;
    std::int64_t first_row = 0;
    std::int64_t rows = 0;
    bool transposed = false;  // GPT-2's Conv1D holds [in, out]

    std::vector<std::int64_t> shape(const std::vector<std::int64_t>& whole) const;
};

// Of "layer.0/qkv.weight" with such a shape. Throws DataError("…") where there is no such tensor.
std::vector<HuggingFacePart> hugging_face_parts(const HuggingFaceModel& model,
                                                const std::string& parameter,
                                                const std::vector<std::int64_t>& shape);

// Elements of a whole parameter, from number `first` on.
using ReadWeights =
    std::function<void(const std::string& parameter, std::int64_t first, std::span<double>)>;

struct NamedShape {
    std::string parameter;
    std::vector<std::int64_t> shape;
};

// Experts of a layer in a model of such parameters: as many as a router has rows; 0: none.
std::int64_t experts_of(const std::vector<NamedShape>& parameters);

// Writes model.safetensors and config.json. `dtype`: F32, BF16 or F16, to which numbers are rounded
// to nearest. Throws StorageError, and what `read` throws.
void write_hugging_face(Files& files, const std::string& folder, const std::string& config,
                        const HuggingFaceModel& model, const std::vector<NamedShape>& parameters,
                        const std::string& dtype, const ReadWeights& read);

// What a folder that is there holds beside an earlier export of this very model, whose weights may
// have been of another type: "holds tokenizer.json, …"; empty: nothing.
std::string foreign_to_export(const std::string& folder, const std::string& config);

class HuggingFaceWeights {
  public:
    // Throws DataError: no such files, a tensor that is missing or has another shape.
    HuggingFaceWeights(const std::string& folder, const HuggingFaceModel& model,
                       const std::vector<NamedShape>& parameters);

    // Elements of a whole parameter, from number `first` on, all within it. Any number of threads
    // at once.
    void read(const std::string& parameter, std::int64_t first, std::span<double> values) const;

  private:
    struct Source {
        HuggingFacePart part;
        const std::byte* data = nullptr;
        std::string dtype;
        const MappedFile* file = nullptr;
    };
    struct Whole {
        std::int64_t width = 1;
        std::vector<Source> sources;
    };

    std::string folder_;
    std::vector<std::unique_ptr<MappedFile>> files_;
    std::map<std::string, Whole> parameters_;
};

}  // namespace orrery::runtime
