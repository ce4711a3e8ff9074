#include "plan/blocks/parameters.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "plan/check.hpp"

namespace orrery::plan {
namespace {

using Dimensions = std::vector<std::int64_t>;

Parameter rows(Dimensions dims, Dimensions sections) {
    return {{}, std::move(dims), Cut::rows, std::move(sections), Start::normal};
}
Parameter columns(Dimensions dims) {
    return {{}, std::move(dims), Cut::columns, {}, Start::residual_normal};
}
Parameter whole(Dimensions dims, Start start) {
    return {{}, std::move(dims), Cut::whole, {}, start};
}
Parameter bias_of(Parameter weight) {
    weight.dims.resize(1);
    if (weight.cut == Cut::columns) weight.cut = Cut::whole;
    weight.start = Start::zero;
    return weight;
}

// Of one norm, by the ending of its name.
Parameter norm_parameter(const Scenario& scenario, bool bias) {
    const Model& model = scenario.model;
    const bool from_one = model.norm_weight_offset != 0;  // stored as the difference from 1
    return whole({model.hidden}, bias || from_one ? Start::zero : Start::one);
}

Parameter linear_weight(const Scenario& scenario, const std::string& linear) {
    const Model& m = scenario.model;
    const std::int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
    if (linear == "qkv") return rows({q + 2 * kv, m.hidden}, {q, kv, kv});
    if (linear == "projection") return columns({m.hidden, q});
    if (linear == "fc1") {
        if (m.gated_mlp()) return rows({2 * m.ffn_hidden, m.hidden}, {m.ffn_hidden, m.ffn_hidden});
        return rows({m.ffn_hidden, m.hidden}, {m.ffn_hidden});
    }
    if (linear == "fc2") return columns({m.hidden, m.ffn_hidden});
    if (linear == "embedding" || linear == "head") {
        const std::int64_t vocabulary = padded_vocabulary(scenario);
        return rows({vocabulary, m.hidden}, {vocabulary});
    }
    ORRERY_CHECK(linear == "positions", "unknown parameter " + linear);
    return whole({m.position_rows(), m.hidden}, Start::normal);
}

}  // namespace

std::int64_t Parameter::elements() const {
    return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

Parameter parameter_of(const Scenario& scenario, const std::string& name) {
    const std::size_t dot = name.rfind('.');
    ORRERY_CHECK(dot != std::string::npos, "a parameter's name says what it is of: " + name);
    const std::string owner = name.substr(0, dot);
    const bool bias = name.substr(dot) == ".bias";
    Parameter parameter;
    if (owner.find("norm") != std::string::npos)
        parameter = norm_parameter(scenario, bias);
    else if (bias)
        parameter = bias_of(linear_weight(scenario, owner));
    else
        parameter = linear_weight(scenario, owner);
    parameter.name = name;
    return parameter;
}

std::vector<ParameterRun> runs_of(const Parameter& parameter, std::int64_t tensor_ranks,
                                  std::int64_t tensor_rank) {
    const std::int64_t width = parameter.dims.size() > 1 ? parameter.dims[1] : 1;
    if (parameter.cut == Cut::whole || tensor_ranks == 1) return {{0, 0, parameter.elements()}};
    std::vector<ParameterRun> runs;
    if (parameter.cut == Cut::columns) {
        const std::int64_t share = width / tensor_ranks;
        for (std::int64_t row = 0; row < parameter.dims[0]; ++row)
            runs.push_back({row * share, row * width + tensor_rank * share, share});
        return runs;
    }
    std::int64_t local = 0, first_row = 0;
    for (const std::int64_t section : parameter.sections) {
        const std::int64_t share = section / tensor_ranks;
        runs.push_back({local, (first_row + tensor_rank * share) * width, share * width});
        local += share * width;
        first_row += section;
    }
    return runs;
}

std::vector<BucketEntry> bucket_entries(const std::vector<Block>& blocks, const Program& program,
                                        const Scenario& scenario, const Bucket& bucket) {
    std::vector<BucketEntry> entries;
    for (const Stage& stage : program.stages) {
        if (stage.index != bucket.stage) continue;
        for (std::int32_t p = bucket.first_position; p <= bucket.last_position; ++p) {
            const StagePart& part = stage.parts[static_cast<std::size_t>(p)];
            for (const Tensor& tensor : blocks[static_cast<std::size_t>(part.forward)].tensors)
                if (tensor.role == Role::parameter)
                    entries.push_back({tensor.name, p, part.layer, 0, tensor.elements(),
                                       parameter_of(scenario, tensor.name)});
        }
    }
    std::stable_partition(entries.begin(), entries.end(), [](const BucketEntry& entry) {
        return entry.parameter.cut == Cut::whole;
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

std::string full_name(std::int32_t layer, const std::string& name) {
    return layer < 0 ? name : "layer." + std::to_string(layer) + "/" + name;
}

}  // namespace orrery::plan
