#include "calib/compare/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "calib/compare/record.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

json read_json(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw RecordsError(path + ": cannot be read");
    try {
        return json::parse(file);
    } catch (const json::exception& fault) {
        throw RecordsError(path + ": " + fault.what());
    }
}

// The publication: what stands before its first table, figure or file of it.
std::string group_of(const std::string& source) {
    const std::size_t end = std::min({source.find(" Table"), source.find(" table"),
                                      source.find(';'), source.find(','), source.find('@')});
    return source.substr(0, end);
}

std::optional<double> baseline_s(const json& record, const RecordModel& m, const json& baseline) {
    const std::string gpu = record.value("gpu", "");
    const std::string precision = record.at("layout").value("precision", "");
    const json& rates = baseline.at("rates");
    if (!rates.contains(gpu) || !rates.at(gpu).contains(precision)) return std::nullopt;
    const double rate = rates.at(gpu).at(precision).at("rate_tflops").get<double>() * 1e12;
    auto d = [](std::int64_t v) { return static_cast<double>(v); };
    const double matrices =
        d(m.layers) * (d(m.hidden) * d((m.heads + 2 * m.kv_heads) * m.head_dim) +
                       d(m.heads * m.head_dim) * d(m.hidden) +
                       (m.gated_mlp ? 3.0 : 2.0) * d(m.hidden) * d(m.ffn_hidden)) +
        d(m.vocabulary) * d(m.hidden);
    const double attention = 4 * d(m.layers * m.heads * m.head_dim) * d(m.sequence);
    const double tokens =
        d(record.at("layout").at("global_batch").get<std::int64_t>()) * d(m.sequence);
    return 3 * tokens * (2 * matrices + attention) /
           (d(record.at("gpus").get<std::int64_t>()) * rate);
}

// Peak of the ranks that the record speaks of, in the record's own semantics; nothing where it does
// not say whose number it is.
std::optional<double> predicted_peak(const json& measured, const sim::MemoryPrediction& memory) {
    const std::string kind = measured.value("memory_kind", "not_stated");
    const std::string rank = measured.value("memory_rank", "not_stated");
    if (kind != "allocated" && kind != "device_used" && kind != "reserved") return std::nullopt;
    auto bytes = [&](const sim::StageMemory& stage) {
        return static_cast<double>(kind == "device_used" ? stage.peak_bytes : stage.arena_bytes);
    };
    if (rank == "first_or_last_node")
        return std::max(bytes(memory.stages.front()), bytes(memory.stages.back()));
    if (rank == "last") return bytes(memory.stages.back());
    double worst = 0;
    for (const sim::StageMemory& stage : memory.stages)
        worst = std::max(worst, bytes(stage));
    return worst;
}

std::optional<double> measured_peak(const json& measured) {
    if (measured.contains("peak_memory_gb") && measured.at("peak_memory_gb").is_number())
        return measured.at("peak_memory_gb").get<double>() * 1e9;
    if (measured.contains("peak_memory_gib") && measured.at("peak_memory_gib").is_number())
        return measured.at("peak_memory_gib").get<double>() * 1073741824.0;
    return std::nullopt;
}

class Validator {
  public:
    explicit Validator(const std::string& library_dir)
        : library_dir_(library_dir),
          rules_(read_json(library_dir + "/validation/rules.json")),
          baseline_(read_json(library_dir + "/validation/baseline.json")) {}

    void add(const json& record) {
        const std::string id = record.value("id", "without id");
        const std::string kind = record.value("kind", "");
        if (kind != "run" && kind != "oom") return skip(id, "a record of kind " + kind);
        const std::optional<double> measured = measured_step_s(record);
        if (kind == "run" && !measured) return skip(id, "no step time");
        const Translation translation = translate(record, rules_);
        if (translation.scenario_json.empty()) return skip(id, translation.why);
        const plan::ReadResult read =
            plan::read_scenario_text(translation.scenario_json, id, library_dir_, {}, library_dir_);
        if (!read.scenario)
            return skip(id, read.errors.front().pointer + ": " + read.errors.front().message);
        const sim::Prediction prediction =
            sim::simulate(*read.scenario, profile(read.scenario->cluster.profile_path), {}, "");
        const bool fits = prediction.memory.fit_probability >= 0.5;
        auto& outcomes = validation_.out_of_memory;
        if (kind == "oom") {
            ++(fits ? outcomes.false_negative : outcomes.true_positive);
            return;
        }
        ++(fits ? outcomes.true_negative : outcomes.false_positive);
        validation_.rows.push_back(row(record, id, *measured, translation, prediction));
    }

    Validation take() { return std::move(validation_); }

  private:
    void skip(const std::string& id, const std::string& why) {
        validation_.skipped.push_back({id, why});
    }

    const sim::Profile& profile(const std::string& path) {
        auto& slot = profiles_[path];
        if (!slot) slot = std::make_unique<sim::Profile>(sim::load_profile(path));
        return *slot;
    }

    ValidatedRow row(const json& record, const std::string& id, double measured_s,
                     const Translation& translation, const sim::Prediction& prediction) const {
        ValidatedRow row;
        row.id = id;
        row.group = group_of(record.value("source", ""));
        row.framework = translation.framework;
        row.measured_s = measured_s;
        row.predicted_s = prediction.step.time_s;
        row.low_s = prediction.step.low_s;
        row.high_s = prediction.step.high_s;
        row.baseline_s = baseline_s(record, translation.model, baseline_);
        if (const auto it = rules_.at("mistrusted").find(id); it != rules_.at("mistrusted").end())
            row.mistrusted = *it;
        const json& measured = record.at("measured");
        if (const auto peak = measured_peak(measured)) {
            row.predicted_peak_bytes = predicted_peak(measured, prediction.memory);
            if (row.predicted_peak_bytes) row.measured_peak_bytes = peak;
        }
        return row;
    }

    std::string library_dir_;
    json rules_;
    json baseline_;
    std::map<std::string, std::unique_ptr<sim::Profile>> profiles_;
    Validation validation_;
};

// Linear interpolation between order statistics.
double quantile(std::vector<double> values, double q) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double place = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

struct Comparison {
    double predicted;
    double measured;
    bool covered;
    std::optional<double> baseline;
};

ErrorSummary summarise(const std::vector<Comparison>& comparisons) {
    ErrorSummary summary;
    std::vector<double> errors;
    double baseline = 0;
    std::int64_t with_baseline = 0;
    for (const Comparison& c : comparisons) {
        const double error = (c.predicted / c.measured - 1) * 100;
        errors.push_back(std::max(error, -error));
        summary.mean_abs_error_pct += errors.back();
        summary.bias_pct += error;
        summary.interval_coverage += c.covered ? 1 : 0;
        if (!c.baseline) continue;
        const double off = (*c.baseline / c.measured - 1) * 100;
        baseline += std::max(off, -off);
        ++with_baseline;
    }
    summary.n = static_cast<std::int64_t>(errors.size());
    if (errors.empty()) return summary;
    const double n = static_cast<double>(errors.size());
    summary.mean_abs_error_pct /= n;
    summary.bias_pct /= n;
    summary.interval_coverage /= n;
    summary.median_abs_error_pct = quantile(errors, 0.5);
    summary.p95_abs_error_pct = quantile(errors, 0.95);
    if (with_baseline > 0)
        summary.baseline_mean_abs_error_pct = baseline / static_cast<double>(with_baseline);
    return summary;
}

}  // namespace

Validation validate_records(const std::string& records_path, const std::string& library_dir) {
    const json records = read_json(records_path);
    if (!records.is_array()) throw RecordsError(records_path + ": not an array of records");
    Validator validator(library_dir);
    try {
        for (const json& record : records)
            validator.add(record);
    } catch (const json::exception& fault) {
        throw RecordsError(library_dir + "/validation: " + fault.what());
    }
    return validator.take();
}

ErrorSummary summarise_time(const Validation& validation, Rows rows, const std::string& group) {
    std::vector<Comparison> comparisons;
    for (const ValidatedRow& row : validation.rows) {
        if (rows == Rows::trusted && !row.mistrusted.empty()) continue;
        if (!group.empty() && row.group != group) continue;
        const bool covered = row.low_s <= row.measured_s && row.measured_s <= row.high_s;
        comparisons.push_back({row.predicted_s, row.measured_s, covered, row.baseline_s});
    }
    return summarise(comparisons);
}

ErrorSummary summarise_memory(const Validation& validation, Rows rows) {
    std::vector<Comparison> comparisons;
    for (const ValidatedRow& row : validation.rows) {
        if (!row.measured_peak_bytes) continue;
        if (rows == Rows::trusted && !row.mistrusted.empty()) continue;
        comparisons.push_back(
            {*row.predicted_peak_bytes, *row.measured_peak_bytes, false, std::nullopt});
    }
    return summarise(comparisons);
}

}  // namespace orrery::compare
