#include "plan/ir/mesh.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::plan {

Coordinates Mesh::coordinates(Rank rank) const {
    ORRERY_CHECK(rank >= 0 && rank < ranks(), "rank outside the mesh");
    Coordinates at;
    at.tensor = rank % tensor;
    rank /= tensor;
    at.context = rank % context;
    rank /= context;
    at.data = rank % data;
    at.pipeline = rank / data;
    return at;
}

Rank Mesh::rank(const Coordinates& at) const {
    return ((at.pipeline * data + at.data) * context + at.context) * tensor + at.tensor;
}

std::int64_t Mesh::group_size(GroupKind kind) const {
    switch (kind) {
        case GroupKind::none:
            return 1;
        case GroupKind::tensor:
            return tensor;
        case GroupKind::context:
            return context;
        case GroupKind::expert:
            return expert > 0 ? expert : 1;
        case GroupKind::expert_data:
            return expert > 0 ? stage_ranks() / expert : 1;
        case GroupKind::data:
            return context * data;
        case GroupKind::pipeline:
            return pipeline;
        case GroupKind::embedding:
            return pipeline > 1 ? 2 : 1;
        case GroupKind::model:
            return tensor * pipeline;
        case GroupKind::world:
            return ranks();
        case GroupKind::shard:
            return shard > 0 ? shard : context * data;
        case GroupKind::replica:
            return context * data / group_size(GroupKind::shard);
        case GroupKind::expert_shard:
            return group_size(GroupKind::expert_data) / group_size(GroupKind::expert_replica);
        case GroupKind::expert_replica:
            return expert > 0 ? group_size(GroupKind::replica) : 1;
    }
    return 1;
}

std::vector<Rank> Mesh::group(GroupKind kind, Rank self) const {
    const Coordinates at = coordinates(self);
    if (kind == GroupKind::none || group_size(kind) == 1) return {self};
    if (kind == GroupKind::expert || kind == GroupKind::expert_data) {
        const bool spread = kind == GroupKind::expert;
        const Rank in_stage = self % stage_ranks(),
                   first = spread ? self - in_stage % expert : self - in_stage + in_stage % expert;
        std::vector<Rank> members;
        for (std::int64_t i = 0; i < group_size(kind); ++i)
            members.push_back(first + i * (spread ? 1 : expert));
        return members;
    }
    if (kind == GroupKind::embedding) {
        if (pipeline == 1 || (at.pipeline != 0 && at.pipeline != pipeline - 1)) return {self};
        return {pipeline_peer(self, 0), pipeline_peer(self, pipeline - 1)};
    }
    if (kind == GroupKind::shard || kind == GroupKind::replica)
        return part_of(GroupKind::data, GroupKind::shard, kind, self);
    if (kind == GroupKind::expert_shard || kind == GroupKind::expert_replica)
        return part_of(GroupKind::expert_data, GroupKind::expert_shard, kind, self);
    const bool world = kind == GroupKind::world;
    const bool over_tensor = world || kind == GroupKind::tensor || kind == GroupKind::model;
    const bool over_context = world || kind == GroupKind::context || kind == GroupKind::data;
    const bool over_data = world || kind == GroupKind::data;
    const bool over_pipeline = world || kind == GroupKind::pipeline || kind == GroupKind::model;
    std::vector<Rank> members;
    members.reserve(static_cast<std::size_t>(group_size(kind)));
    for (std::int64_t p = over_pipeline ? 0 : at.pipeline;
         p <= (over_pipeline ? pipeline - 1 : at.pipeline); ++p)
        for (std::int64_t d = over_data ? 0 : at.data; d <= (over_data ? data - 1 : at.data); ++d)
            for (std::int64_t c = over_context ? 0 : at.context;
                 c <= (over_context ? context - 1 : at.context); ++c)
                for (std::int64_t t = over_tensor ? 0 : at.tensor;
                     t <= (over_tensor ? tensor - 1 : at.tensor); ++t)
                    members.push_back(rank({t, c, d, p}));
    return members;
}

// Context runs faster than data, so that the ranks of a data group are as far from each other each
// time, as those that hold the same experts are.
std::vector<Rank> Mesh::part_of(GroupKind whole, GroupKind shards, GroupKind kind,
                                Rank self) const {
    const std::int64_t apart = whole == GroupKind::data ? tensor : expert;
    const std::int64_t size = group_size(shards), all = group_size(whole);
    const std::int64_t own = self % stage_ranks() / apart % all;
    const bool in_a_row = kind == shards;
    const std::int64_t first = in_a_row ? own / size * size : own % size;
    const std::int64_t end = in_a_row ? first + size : all;
    std::vector<Rank> members;
    members.reserve(static_cast<std::size_t>(in_a_row ? size : all / size));
    for (std::int64_t i = first; i < end; i += in_a_row ? 1 : size)
        members.push_back(self + (i - own) * apart);
    return members;
}

Rank Mesh::pipeline_peer(Rank self, std::int64_t pipeline_rank) const {
    Coordinates at = coordinates(self);
    at.pipeline = pipeline_rank;
    return rank(at);
}

}  // namespace orrery::plan
