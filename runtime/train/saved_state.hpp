// Which elements of the model each rank saves, so that all ranks together save each of them once:
// ranks that hold the same share them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "runtime/checkpoint/checkpoint_folder.hpp"
#include "runtime/checkpoint/checkpoint_reader.hpp"
#include "runtime/train/model_state.hpp"

namespace orrery::runtime {

// Elements in a row in the arena, a tensor of the rank's shard.
struct SavedPart {
    Piece piece;              // without its hash
    std::int64_t offset = 0;  // bytes from the arena's start
    std::int64_t bytes = 0;
};

// After a step; where steps run on, with the parameters that those under way are computed with.
std::vector<SavedPart> saved_parts(const BoundProgram& program, const plan::Program& planned,
                                   const plan::Mesh& mesh, plan::Rank rank, std::int64_t step);

// The state of a rank as it was between two steps, in memory of the host.
class Snapshot {
  public:
    // Memory for these, so that taking them is a copy: the system gives it out page by page, which
    // takes many times as long.
    void reserve(const std::vector<SavedPart>& parts);
    void take(const Device& device, std::vector<SavedPart> parts);

    std::vector<PieceBytes> pieces() const;

  private:
    std::vector<SavedPart> parts_;
    std::unique_ptr<std::byte[]> bytes_;
    std::int64_t room_ = 0;
};

// Fills parameters, masters, moments and histories of scales from a checkpoint of any layout. What
// fills up the vocabulary is 0. Where steps run on, parameters are those of `age` updates before,
// or if the checkpoint does not have these, the newest. Throws DataError, also where the checkpoint
// is of another model.
void load_state(Device& device, const BoundProgram& program, const plan::Program& planned,
                const CheckpointReader& checkpoint, int threads, std::int64_t age = 0);

// Shapes of the tensors that the shards have parts of.
std::map<std::string, std::vector<std::int64_t>> saved_tensors(const plan::Plan& plan,
                                                               const std::vector<Shard>& shards);

// Names of those that are never stepped: of frozen parameters, and of histories of scales.
std::set<std::string> frozen_tensors(const plan::Plan& plan);

}  // namespace orrery::runtime
