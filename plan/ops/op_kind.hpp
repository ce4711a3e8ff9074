// The list of all ops: an op's spelling on disk and the struct that declares it, which stand beside
// each other in the file of its family. The enum, the count, the variant (plan/ops/spec.hpp), text,
// JSON and the reference page (docs/ops.md) follow from it, as XLA's opcodes do from
// HLO_OPCODE_LIST. A spelling on disk never changes its meaning; the order is that of the reference
// page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/ops/attention.hpp"
#include "plan/ops/communication.hpp"
#include "plan/ops/conversions.hpp"
#include "plan/ops/copies.hpp"
#include "plan/ops/eight_bit.hpp"
#include "plan/ops/embedding.hpp"
#include "plan/ops/epilogues.hpp"
#include "plan/ops/experts.hpp"
#include "plan/ops/heads.hpp"
#include "plan/ops/latent.hpp"
#include "plan/ops/loss.hpp"
#include "plan/ops/matrix.hpp"
#include "plan/ops/optimizer.hpp"
#include "plan/ops/residuals.hpp"
#include "plan/ops/rows.hpp"

namespace orrery::plan {

// clang-format off
#define ORRERY_OPS(OP)           \
    ORRERY_MATRIX_OPS(OP)        \
    ORRERY_EPILOGUE_OPS(OP)      \
    ORRERY_ATTENTION_OPS(OP)     \
    ORRERY_ROW_OPS(OP)           \
    ORRERY_HEAD_OPS(OP)          \
    ORRERY_LATENT_OPS(OP)        \
    ORRERY_RESIDUAL_OPS(OP)      \
    ORRERY_EXPERT_OPS(OP)        \
    ORRERY_EMBEDDING_OPS(OP)     \
    ORRERY_LOSS_OPS(OP)          \
    ORRERY_OPTIMIZER_OPS(OP)     \
    ORRERY_CONVERSION_OPS(OP)    \
    ORRERY_EIGHT_BIT_OPS(OP)     \
    ORRERY_COMMUNICATION_OPS(OP) \
    ORRERY_COPY_OPS(OP)
// clang-format on

enum class OpKind : std::uint8_t {
#define ORRERY_OP_NAME(name, type) name,
    ORRERY_OPS(ORRERY_OP_NAME)
#undef ORRERY_OP_NAME
};

#define ORRERY_OP_ONE(name, type) +1
inline constexpr std::size_t kOpKinds = 0 ORRERY_OPS(ORRERY_OP_ONE);
#undef ORRERY_OP_ONE

}  // namespace orrery::plan
