#include "trace/recorded_inputs.hpp"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

namespace orrery::trace {
namespace {

void add_tensors(const nlohmann::json& value, std::vector<Dims>& tensors) {
    if (!value.is_array() || value.empty()) return;
    if (std::all_of(value.begin(), value.end(),
                    [](const auto& one) { return one.is_number_integer(); })) {
        tensors.push_back(value.get<Dims>());
        return;
    }
    for (const auto& one : value)
        add_tensors(one, tensors);
}

}  // namespace

Inputs inputs_of(const std::string& dims) {
    Inputs inputs;
    const auto list = nlohmann::json::parse(dims, nullptr, false);
    if (!list.is_array()) return inputs;
    for (const auto& value : list)
        add_tensors(value, inputs.emplace_back());
    return inputs;
}

std::vector<Dims> tensors_of(const Inputs& inputs) {
    std::vector<Dims> tensors;
    for (const auto& input : inputs)
        tensors.insert(tensors.end(), input.begin(), input.end());
    return tensors;
}

double elements_of(const std::vector<Dims>& tensors) {
    double sum = 0;
    for (const Dims& dims : tensors)
        sum += std::accumulate(dims.begin(), dims.end(), 1.0, [](double product, std::int64_t dim) {
            return product * static_cast<double>(dim);
        });
    return sum;
}

}  // namespace orrery::trace
