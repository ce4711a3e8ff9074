// Which pipeline rank holds which stage, and what passes between stages. Programs ask here,
// whatever schedule made the order: an imported grid may place its stages at will.
//
// Stages are a chain, from the embedding to the head. Where pipeline ranks share out the vocabulary
// (layout.vocabulary_parallel), the chain has the layers alone; behind its stages come those of the
// pieces: rank r of p holds piece r of the embedding, stage stages() + r, and of the head, stage
// stages() + p + r. Each rank hands on its own pieces' results, and collectives within the pieces
// join the ranks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::plan {

class StagePlacement {
  public:
    StagePlacement() = default;
    explicit StagePlacement(std::vector<std::int32_t> rank_of_stage)
        : rank_of_stage_(std::move(rank_of_stage)) {}
    // The same with so many pieces of the vocabulary, one for each pipeline rank.
    StagePlacement with_pieces(std::int32_t pieces) const {
        StagePlacement shared = *this;
        shared.pieces_ = pieces;
        return shared;
    }

    std::int32_t rank_of(std::int32_t stage) const {
        return stage < stages() ? rank_of_stage_[static_cast<std::size_t>(stage)]
                                : (stage - stages()) % pieces_;
    }
    // Of the chain.
    std::int32_t stages() const { return static_cast<std::int32_t>(rank_of_stage_.size()); }
    std::int32_t pieces() const { return pieces_; }  // 0: the vocabulary is not shared out

    // The stages of this rank, or of the one that has any, with the embedding and with the head.
    std::int32_t embedding_of(std::int32_t rank) const { return pieces_ > 0 ? stages() + rank : 0; }
    std::int32_t head_of(std::int32_t rank) const {
        return pieces_ > 0 ? stages() + pieces_ + rank : stages() - 1;
    }
    bool is_embedding(std::int32_t stage) const {
        return pieces_ > 0 ? stage >= stages() && stage < stages() + pieces_ : stage == 0;
    }
    bool is_head(std::int32_t stage) const {
        return pieces_ > 0 ? stage >= stages() + pieces_ : stage == stages() - 1;
    }
    // Whether a stage's forward pass begins with what another stage made, and its backward pass.
    bool receives(std::int32_t stage) const { return !is_embedding(stage); }
    bool receives_gradient(std::int32_t stage) const { return !is_head(stage); }
    // The stages on the other side of that, as rank `self` counts: of the pieces its own.
    std::int32_t after(std::int32_t stage, std::int32_t self) const {
        if (stage >= stages()) return 0;
        return stage + 1 == stages() ? head_of(self) : stage + 1;
    }
    std::int32_t before(std::int32_t stage, std::int32_t self) const {
        if (stage >= stages()) return stages() - 1;
        return stage == 0 ? embedding_of(self) : stage - 1;
    }

    bool operator==(const StagePlacement&) const = default;

  private:
    std::vector<std::int32_t> rank_of_stage_;
    std::int32_t pieces_ = 0;
};

// How a schedule of v chunks per rank places its stages: chunk after chunk in ascending ranks, or
// every other chunk in descending ones, so that the last rank hands chunk 0 on to itself (v = 2: a
// V, with the first and the last stage on rank 0).
enum class Placement : std::uint8_t { wrap, v };

StagePlacement place(Placement placement, std::int32_t pipeline, std::int32_t virtual_stages);

}  // namespace orrery::plan
