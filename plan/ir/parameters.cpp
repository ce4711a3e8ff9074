#include "plan/ir/parameters.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "plan/check.hpp"
#include "plan/ops/words.hpp"

namespace orrery::plan {
namespace {

// The declared parameters of a part, each with the share that a rank has.
struct OfPart {
    const StagePart& part;
    std::int32_t position;
    const Tensor& tensor;
    const ParameterSpec& spec;
};

template <typename Visit>
void for_parameters(const std::vector<Block>& blocks, const Stage& stage, std::int32_t first,
                    std::int32_t last, Visit visit) {
    for (std::int32_t p = first; p <= last; ++p) {
        const StagePart& part = stage.parts[static_cast<std::size_t>(p)];
        const Block& block = blocks[static_cast<std::size_t>(part.forward)];
        for (const DeclaredParameter& declared : block.parameters)
            visit(OfPart{part, p, block.tensors[static_cast<std::size_t>(declared.tensor)],
                         declared.spec});
    }
}

int place_in_bucket(const ParameterSpec& spec) {
    if (spec.partial_gradient) return 0;
    return spec.cut == Cut::whole ? 1 : 2;
}

}  // namespace

std::int64_t ParameterSpec::elements() const {
    return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<std::int64_t> ParameterSpec::unpadded() const {
    std::vector<std::int64_t> kept = dims;
    kept[0] -= padding;
    return kept;
}

std::vector<std::int64_t> share_of(const ParameterSpec& parameter, std::int64_t tensor_ranks,
                                   const ExpertPlaces& places) {
    std::vector<std::int64_t> dims = parameter.dims;
    if (parameter.experts > 0) dims[0] = dims[0] * places.split / places.ranks;
    const std::int64_t ranks =
        parameter.experts > 0 ? places.split : tensor_ranks * parameter.pipeline_ranks;
    if (parameter.cut == Cut::rows) dims[0] /= ranks;
    if (parameter.cut == Cut::columns) dims[1] /= ranks;
    return dims;
}

namespace {

// Appends what rank `rank` of `ranks` has of rows [first_row, first_row + rows) of the whole.
void append_runs(const ParameterSpec& parameter, std::int64_t first_row, std::int64_t rows,
                 std::int64_t ranks, std::int64_t rank, std::vector<ParameterRun>& runs) {
    const std::int64_t width = parameter.dims.size() > 1 ? parameter.dims[1] : 1;
    std::int64_t local = runs.empty() ? 0 : runs.back().local + runs.back().elements;
    const auto append = [&](std::int64_t whole, std::int64_t elements) {
        runs.push_back({local, whole, elements});
        local += elements;
    };
    if (parameter.cut == Cut::whole || ranks == 1) return append(first_row * width, rows * width);
    if (parameter.cut == Cut::columns) {
        const std::int64_t share = width / ranks;
        for (std::int64_t row = first_row; row < first_row + rows; ++row)
            append(row * width + rank * share, share);
        return;
    }
    for (const std::int64_t section : parameter.sections) {
        const std::int64_t share = section / ranks;
        append((first_row + rank * share) * width, share * width);
        first_row += section;
    }
}

}  // namespace

std::vector<ParameterRun> runs_of(const ParameterSpec& parameter, const Mesh& mesh, Rank rank) {
    std::vector<ParameterRun> runs;
    if (parameter.experts == 0) {
        const Coordinates at = mesh.coordinates(rank);
        const WordShares shares{parameter.pipeline_ranks};
        append_runs(parameter, 0, parameter.dims[0], mesh.tensor * parameter.pipeline_ranks,
                    shares.number(mesh.tensor, at.tensor, at.pipeline), runs);
        return runs;
    }
    const std::int64_t member = mesh.expert_member(rank), split = mesh.expert_split;
    const std::int64_t held = parameter.experts * split / mesh.expert;
    const std::int64_t rows = parameter.dims[0] / parameter.experts;
    for (std::int64_t expert = member / split * held; expert < (member / split + 1) * held;
         ++expert)
        append_runs(parameter, expert * rows, rows, split, member % split, runs);
    return runs;
}

std::vector<BucketEntry> bucket_entries(const std::vector<Block>& blocks, const Program& program,
                                        const Bucket& bucket) {
    std::vector<BucketEntry> entries;
    for (const Stage& stage : program.stages)
        if (stage.index == bucket.stage)
            for_parameters(blocks, stage, bucket.first_position, bucket.last_position,
                           [&](const OfPart& of) {
                               if (!bucket.takes(of.spec)) return;
                               entries.push_back({of.tensor.name,
                                                  of.position,
                                                  of.part.layer,
                                                  0,
                                                  of.tensor.elements(),
                                                  {of.spec, of.tensor.name}});
                           });
    std::stable_sort(entries.begin(), entries.end(),
                     [](const BucketEntry& a, const BucketEntry& b) {
                         return place_in_bucket(a.parameter) < place_in_bucket(b.parameter);
                     });
    std::int64_t offset = 0;
    for (BucketEntry& entry : entries) {
        entry.offset = offset;
        offset += entry.elements;
    }
    ORRERY_CHECK(offset == bucket.elements + bucket.tied_elements,
                 "a bucket holds its parts' parameters");
    return entries;
}

std::map<std::string, Parameter> parameters_of(const Plan& plan) {
    std::map<std::string, Parameter> all;
    for (const Program& program : plan.programs)
        for (const Stage& stage : program.stages)
            for_parameters(plan.blocks, stage, 0, static_cast<std::int32_t>(stage.parts.size()) - 1,
                           [&](const OfPart& of) {
                               all.emplace(full_name(of.part.layer, of.tensor.name),
                                           Parameter{of.spec, of.tensor.name});
                           });
    return all;
}

std::string full_name(std::int32_t layer, const std::string& name) {
    return layer < 0 ? name : "layer." + std::to_string(layer) + "/" + name;
}

}  // namespace orrery::plan
