#include "plan/ir/rearrangement.hpp"

#include <string_view>

#include "plan/ir/check.hpp"

namespace orrery::plan {
namespace {

struct End {
    std::string_view text;
    Rearrangement rearrangement;
};

constexpr End kEnds[] = {{kKeysPacked, Rearrangement::keys},
                         {kGradientsJoined, Rearrangement::gradients},
                         {kHeadsApart, Rearrangement::heads_apart},
                         {kHeadsTogether, Rearrangement::heads_together},
                         {kSamplesTogether, Rearrangement::samples_together},
                         {kSamplesApart, Rearrangement::samples_apart}};

}  // namespace

Rearrangement rearrangement_of(const Op& op) {
    for (const End& end : kEnds)
        if (op.label.ends_with(end.text)) return end.rearrangement;
    ORRERY_CHECK(false, "a rearrange op without a form: " + op.label);
    return Rearrangement::keys;
}

const char* undoing(Rearrangement rearrangement) {
    switch (rearrangement) {
        case Rearrangement::heads_apart:
            return kHeadsTogether;
        case Rearrangement::heads_together:
            return kHeadsApart;
        case Rearrangement::samples_together:
            return kSamplesApart;
        case Rearrangement::samples_apart:
            return kSamplesTogether;
        case Rearrangement::keys:
        case Rearrangement::gradients:
            break;
    }
    ORRERY_CHECK(false, "packed keys and joined gradients are not undone");
    return "";
}

}  // namespace orrery::plan
