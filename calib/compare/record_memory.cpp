#include "calib/compare/record_memory.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calib/compare/record_rules.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

// 1e9 bytes, unless a rule knows better what the source of the record means by a GB.
double gigabyte(const json& record, const json& rules) {
    const json* unit = RecordRules(rules, record).first("gigabytes");
    return unit == nullptr ? 1e9 : unit->at("bytes").get<double>();
}

}  // namespace

std::optional<double> predicted_peak(const json& record, const sim::MemoryPrediction& memory) {
    const std::string kind = record.value("memory_kind", "not_stated");
    const std::string rank = record.value("memory_rank", "not_stated");
    if (kind != "allocated" && kind != "device_used" && kind != "reserved") return std::nullopt;
    auto bytes = [&](const sim::StageMemory& stage) {
        std::int64_t held = stage.live_bytes;
        if (kind != "allocated") held += stage.lost_bytes;
        if (kind == "device_used") held += stage.process_bytes;
        return static_cast<double>(held);
    };
    if (rank == "first_or_last_node")
        return std::max(bytes(memory.stages.front()), bytes(memory.stages.back()));
    if (rank == "last") return bytes(memory.stages.back());
    double worst = 0;
    for (const sim::StageMemory& stage : memory.stages)
        worst = std::max(worst, bytes(stage));
    return worst;
}

std::optional<double> measured_peak(const json& record, const json& rules) {
    const json& measured = record.at("measured");
    if (measured.contains("peak_memory_bytes") && measured.at("peak_memory_bytes").is_number())
        return measured.at("peak_memory_bytes").get<double>();
    if (measured.contains("peak_memory_gb") && measured.at("peak_memory_gb").is_number())
        return measured.at("peak_memory_gb").get<double>() * gigabyte(record, rules);
    if (measured.contains("peak_memory_gib") && measured.at("peak_memory_gib").is_number())
        return measured.at("peak_memory_gib").get<double>() * 1073741824.0;
    return std::nullopt;
}

}  // namespace orrery::compare
