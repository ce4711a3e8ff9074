// What a rearrange op copies where: rows of heads to and from the order in which a collective over
// the context group, or a kernel, wants them. Told by the end of the op's label; an op's shape is
// rows × width of the rows with all their heads, of which k and v have kv_width each (0: rows of
// queries alone, or of what comes of them), in so many parts.
#pragma once

#include <cstdint>

#include "plan/ir/block.hpp"

namespace orrery::plan {

enum class Rearrangement : std::uint8_t {
    keys,              // k and v of rows of q, k and v
    gradients,         // rows of dq, dk and dv from rows of dq and rows of dk and dv
    heads_apart,       // [rows][heads] → [parts][rows][heads ÷ parts]
    heads_together,    // … and back
    samples_together,  // [parts][samples][rows][width] → [samples][parts][rows][width]
    samples_apart      // … and back
};
Rearrangement rearrangement_of(const Op& op);

// Ends of labels.
inline constexpr char kKeysPacked[] = "kv packed";
inline constexpr char kGradientsJoined[] = "dqkv joined";
inline constexpr char kHeadsApart[] = "heads apart";
inline constexpr char kHeadsTogether[] = "heads together";
inline constexpr char kSamplesTogether[] = "samples together";
inline constexpr char kSamplesApart[] = "samples apart";

// The end of the label of what undoes it; of the last four.
const char* undoing(Rearrangement rearrangement);

}  // namespace orrery::plan
