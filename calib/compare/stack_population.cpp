#include "calib/compare/stack_population.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "calib/compare/record_words.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

bool is_among(const std::vector<std::string>& list, const std::string& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
}

struct Member {
    double y = 0;
    double v = 0;
    bool of_generation = false;
};

// DerSimonian and Laird: what the squares about the mean exceed those of the members' own errors.
double spread_squared(const std::vector<Member>& members) {
    double weights = 0, squares = 0, sum = 0;
    for (const Member& member : members) {
        const double w = 1 / member.v;
        weights += w;
        squares += w * w;
        sum += w * member.y;
    }
    double excess = 1 - static_cast<double>(members.size());
    for (const Member& member : members)
        excess += (member.y - sum / weights) * (member.y - sum / weights) / member.v;
    const double scale = weights - squares / weights;
    const double found = scale > 0 ? excess / scale : 0;
    return std::max(found, kLeastSpread * kLeastSpread);
}

// As presets write it.
double three_digits(double value) {
    const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
    return std::round(value / unit) * unit;
}

Pooled pool(const std::vector<Member>& members) {
    const double spread = spread_squared(members);
    double weights = 0, sum = 0;
    for (const Member& member : members) {
        weights += 1 / (member.v + spread);
        sum += member.y / (member.v + spread);
    }
    const double mean = sum / weights;
    double own_weights = 1 / spread, own_sum = mean / spread;
    for (const Member& member : members) {
        if (!member.of_generation) continue;
        own_weights += 1 / (member.v + spread);
        own_sum += member.y / (member.v + spread);
    }
    return {three_digits(std::exp(own_sum / own_weights)), std::sqrt(spread + 1 / own_weights),
            static_cast<int>(members.size())};
}

// Whether what a preset says of the constant on this device is the population's.
bool is_pooled(const json& flag, const std::string& device) {
    for (const json& on : flag.value("on", json::array()))
        if (is_among(on.at("devices").get<std::vector<std::string>>(), device))
            return on.value("pooled", false);
    return flag.value("pooled", false);
}

}  // namespace

StackPopulation::StackPopulation(const json& file) {
    for (const json& estimate : file.at("estimates")) {
        Entry entry;
        estimate.at("generation").get_to(entry.generation);
        take(estimate, std::move(entry));
    }
    for (const json& member : file.at("members"))
        for (const json& constant : member.at("constants")) {
            if (constant.at("rows").get<std::int64_t>() < kFewestRows) continue;
            Entry entry;
            member.at("generation").get_to(entry.generation);
            member.at("fitted_to").get_to(entry.fitted_to);
            take(constant, std::move(entry));
        }
}

void StackPopulation::take(const json& constant, Entry entry) {
    constant.at("constant").get_to(entry.constant);
    entry.devices = constant.value("devices", std::vector<std::string>());
    entry.log_value = std::log(constant.at("value").get<double>());
    const double sd = constant.at("sd").get<double>();
    entry.variance = sd * sd;
    entries_.push_back(std::move(entry));
}

std::vector<std::string> StackPopulation::constants() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_)
        if (!is_among(names, entry.constant)) names.push_back(entry.constant);
    return names;
}

std::optional<Pooled> StackPopulation::pooled(const std::string& constant,
                                              const std::string& generation,
                                              const std::string& device,
                                              const std::string& left_out) const {
    std::vector<Member> here, anywhere;
    for (const Entry& entry : entries_) {
        if (entry.constant != constant) continue;
        if (!left_out.empty() && fitted_to(entry.fitted_to, left_out)) continue;
        const Member member{entry.log_value, entry.variance, entry.generation == generation};
        if (entry.devices.empty()) anywhere.push_back(member);
        if (is_among(entry.devices, device)) here.push_back(member);
    }
    const std::vector<Member>& members = here.empty() ? anywhere : here;
    if (members.empty()) return std::nullopt;
    return pool(members);
}

bool fitted_to(const std::vector<std::string>& words, const std::string& source) {
    return std::any_of(words.begin(), words.end(),
                       [&](const std::string& word) { return holds_words(source, word); });
}

bool was_fitted_to(const json& preset, const std::string& source) {
    return fitted_to(preset.value("fitted_to", std::vector<std::string>()), source);
}

bool leave_out_stack(const StackPopulation& population, const json& preset,
                     const std::string& device, const std::string& source, json& training) {
    const bool own = was_fitted_to(preset, source);
    for (const std::string& constant : population.constants()) {
        const json& flag = preset.at("flags").at(constant);
        if (training.contains(constant) || (!own && !is_pooled(flag, device))) continue;
        if (flag.contains("prior")) continue;
        if (const std::optional<Pooled> known =
                population.pooled(constant, preset.value("generation", "other"), device, source))
            training[constant] = known->value;
    }
    if (!own) return false;
    for (const auto& [constant, flag] : preset.at("flags").items())
        if (flag.contains("prior") && !training.contains(constant))
            training[constant] = flag.at("prior").at("value");
    training.update({{"deviation_factor", 1.0}, {"residual_sd", 0.0}});
    return true;
}

}  // namespace orrery::compare
