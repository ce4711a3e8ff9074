#include <algorithm>
#include <iterator>

#include "plan/check.hpp"
#include "plan/ir/plan.hpp"

namespace orrery::plan {

std::string_view name(StateKind kind) {
    constexpr std::array<std::string_view, kStateKinds> kNames = {
        "parameters", "gradients", "first_moments", "second_moments", "masters"};
    return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(Extent extent) {
    constexpr std::array<std::string_view, kExtents> kNames = {"whole", "in_place", "shard"};
    return kNames[static_cast<std::size_t>(extent)];
}

const BucketState* Bucket::state(StateKind kind) const {
    const auto found = std::find_if(states.begin(), states.end(),
                                    [&](const BucketState& state) { return state.kind == kind; });
    return found == states.end() ? nullptr : &*found;
}

std::vector<BucketState> Bucket::optimizer_states() const {
    std::vector<BucketState> found;
    std::copy_if(states.begin(), states.end(), std::back_inserter(found),
                 [](const BucketState& state) { return is_optimizer_state(state.kind); });
    return found;
}

bool of_one_type(const std::vector<BucketState>& states) {
    return std::all_of(states.begin(), states.end(), [&](const BucketState& state) {
        return state.dtype == states.front().dtype;
    });
}

std::int32_t Bucket::resident(StateKind kind) const {
    if (is_optimizer_state(kind)) return optimizer;
    return kind == StateKind::parameters ? parameters : gradients;
}

std::int64_t Bucket::padded() const {
    if (shares.empty()) return elements;
    std::int64_t sum = 0;
    for (const Share& share : shares)
        sum += share.elements;
    return sum;
}

std::int64_t Bucket::stepped(const Mesh& mesh) const {
    if (shares.empty()) return elements;
    std::int64_t sum = 0;
    for (const Share& share : shares)
        sum += share.elements / mesh.group_size(share.group);
    return sum;
}

std::int64_t Bucket::room(StateKind kind, const Mesh& mesh) const {
    const BucketState* of = state(kind);
    ORRERY_CHECK(of != nullptr, "a bucket has the state that is asked for");
    return of->extent == Extent::shard ? stepped(mesh) : padded();
}

std::int64_t Bucket::first_stepped(const Mesh& mesh, std::int64_t number) const {
    ORRERY_CHECK(shares.size() <= 1, "what a rank steps of a bucket is in a row");
    return shares.empty() ? 0 : number * stepped(mesh);
}

}  // namespace orrery::plan
