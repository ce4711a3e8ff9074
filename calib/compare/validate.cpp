#include "calib/compare/validate.hpp"

#include <fmt/format.h>

#include <tbb/info.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "calib/compare/record.hpp"
#include "calib/compare/record_memory.hpp"
#include "calib/compare/record_rules.hpp"
#include "calib/compare/record_words.hpp"
#include "calib/compare/stack_population.hpp"
#include "plan/scenario/files.hpp"
#include "plan/scenario/reader.hpp"
#include "sim/prediction.hpp"

namespace orrery::compare {
namespace {

using nlohmann::json;

}  // namespace

json read_json(const std::string& path) {
    std::string why;
    const std::optional<std::string> text = plan::disk().read(path, why);
    if (!text) throw RecordsError(path + ": cannot be read: " + why);
    try {
        return json::parse(*text);
    } catch (const json::exception& fault) {
        throw RecordsError(path + ": " + fault.what());
    }
}

namespace {

// The publication: what stands before its first table, figure or file of it.
std::string group_of(const std::string& source) {
    const std::size_t end = std::min({source.find(" Table"), source.find(" table"),
                                      source.find(';'), source.find(','), source.find('@')});
    return source.substr(0, end);
}

// None of a run whose source does not say on how many GPUs it was.
std::optional<double> baseline_s(const json& record, double model_flops, const json& baseline) {
    if (!states(record, "gpus")) return std::nullopt;
    const std::string gpu = record.value("gpu", "");
    const std::string precision = record.at("layout").value("precision", "");
    const json& rates = baseline.at("rates");
    if (!rates.contains(gpu) || !rates.at(gpu).contains(precision)) return std::nullopt;
    const double rate = rates.at(gpu).at(precision).at("rate_tflops").get<double>() * 1e12;
    return model_flops / (record.at("gpus").get<double>() * rate);
}

// What became of one record: a row, a reason why there is none, or the end of a run that ran out of
// memory.
struct Outcome {
    std::optional<ValidatedRow> row;
    std::string why;
    MemoryOutcome memory;
};

// f(i) for every i below `count`, on all processors that this process may use. The first exception
// is thrown again.
template <typename F>
void for_each_index(std::size_t count, const F& f) {
    std::atomic<std::size_t> next = 0;
    std::exception_ptr fault;
    std::mutex fault_mutex;
    const auto work = [&] {
        try {
            for (std::size_t i = next++; i < count; i = next++)
                f(i);
        } catch (...) {
            const std::lock_guard lock(fault_mutex);
            if (!fault) fault = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < tbb::info::default_concurrency(); ++i)
        threads.emplace_back(work);
    work();
    for (std::thread& thread : threads)
        thread.join();
    if (fault) std::rethrow_exception(fault);
}

// The profile with other values at some places; `patch` is empty, or an object of pointers.
sim::Profile patched_profile(const std::string& path, const std::string& patch) {
    if (patch.empty()) return sim::load_profile(path);
    json profile = read_json(path);
    const json places = json::parse(patch);
    for (const auto& [place, value] : places.items())
        profile.at(json::json_pointer(place)) = value;
    return sim::parse_profile(profile.dump(), path);
}

// Model, software and cluster, which runs that compete have in common.
std::string contest_of(const json& record, const Translation& translation) {
    const json& model = record.at("model");
    if (translation.global_batch <= 0 || !model.contains("seq_len") || !states(record, "gpus"))
        return "";
    return fmt::format(
        "{}, {} layers of {}, {} tokens, {} {}, {}, {}", model.value("name", "model"),
        model.value("layers", json()).dump(), model.value("hidden", json()).dump(),
        model.at("seq_len").dump(), record.value("gpus", json()).dump(), record.value("gpu", ""),
        record.at("layout").value("precision", "precision not stated"), translation.framework);
}

class Validator {
  public:
    Validator(const std::string& library_dir, const std::vector<std::string>& overrides,
              Fitted fitted)
        : library_dir_(library_dir),
          overrides_(overrides),
          fitted_(fitted),
          rules_(read_json(library_dir + "/validation/rules.json")),
          baseline_(read_json(library_dir + "/validation/baseline.json")),
          population_(read_json(library_dir + "/priors/stacks.json")) {}

    // Records do not depend on each other: threads take the next one, results stand by place.
    Validation run(const json& records) {
        std::vector<Outcome> outcomes(records.size());
        for_each_index(records.size(), [&](std::size_t i) { outcomes[i] = predict(records[i]); });
        Validation validation;
        rules_.at("causes").get_to(validation.causes);
        for (std::size_t i = 0; i < records.size(); ++i)
            take(std::move(outcomes[i]), records[i].value("id", "without id"), validation);
        return validation;
    }

  private:
    static void take(Outcome outcome, const std::string& id, Validation& validation) {
        if (!outcome.why.empty()) {
            validation.skipped.push_back({id, outcome.why});
            return;
        }
        auto& o = validation.out_of_memory;
        const bool fits = outcome.memory.fit_probability >= 0.5;
        if (outcome.memory.ran_out)
            ++(fits ? o.false_negative : o.true_positive);
        else
            ++(fits ? o.true_negative : o.false_positive);
        outcome.memory.id = id;
        validation.outcomes.push_back(std::move(outcome.memory));
        if (outcome.row) validation.rows.push_back(std::move(*outcome.row));
    }

    Outcome predict(const json& as_printed) {
        const json record = read_by_meaning(as_printed, rules_);
        const std::string id = record.value("id", "without id");
        const std::string kind = record.value("kind", "");
        if (kind != "run" && kind != "oom" && kind != "memory")
            return skipped("a record of kind " + kind);
        const json* const memory_alone = RecordRules(rules_, record).first("memory_alone");
        const std::optional<double> time = kind == "run" && memory_alone == nullptr
                                               ? measured_step_s(record)
                                               : std::optional<double>();
        const std::optional<double> peak =
            kind == "oom" ? std::optional<double>() : measured_peak(record, rules_);
        if (kind != "oom" && !time && !peak)
            return skipped(memory_alone == nullptr ? "neither a step time nor a peak"
                                                   : memory_alone->at("why").get<std::string>());
        Translation translation = translate(record, rules_, fitted_);
        if (translation.scenario_json.empty()) return skipped(translation.why);
        std::string scenario_json = translation.scenario_json;
        const json preset = preset_of(scenario_json);
        const std::string source = record.value("source", "");
        const bool fitted = was_fitted_to(preset, source);
        const bool stack_left_out = fitted && fitted_ == Fitted::other_sources;
        if (fitted_ == Fitted::other_sources) leave_out_stack(preset, source, scenario_json);
        plan::ReadResult read =
            plan::read_scenario_text(scenario_json, id, library_dir_, overrides_, library_dir_);
        if (read.scenario && stack_left_out) read.scenario->training.framework.measured_on.clear();
        if (stack_left_out)
            translation.left_out.push_back("the stack's constants: the population's");
        if (!read.scenario)
            return skipped(read.errors.front().pointer + ": " + read.errors.front().message);
        const sim::Profile& known =
            profile(read.scenario->cluster.profile_path, translation.profile_patch);
        sim::SimulateOptions of_times;  // nothing else is held against what was measured
        of_times.keep_trace = of_times.part_waiting = false;
        of_times.of_fitted_source = fitted && fitted_ == Fitted::all_sources;
        sim::Prediction prediction = sim::simulate(*read.scenario, known, of_times, "");
        if (kind == "run")
            take_what_fits(id, translation, scenario_json, known, of_times, prediction);
        widen(prediction.step, id, translation.otherwise, scenario_json, known, of_times);
        Outcome outcome;
        outcome.memory.fit_probability = prediction.memory.fit_probability;
        outcome.memory.verdict = std::string(name(prediction.memory.verdict));
        outcome.memory.peak_bytes = prediction.memory.worst().peak_bytes;
        outcome.memory.capacity_bytes = prediction.memory.capacity_bytes;
        outcome.memory.ran_out = kind == "oom";
        if (!outcome.memory.ran_out)
            outcome.row = row(record, id, time, peak, translation, prediction);
        return outcome;
    }

    json preset_of(const std::string& scenario_json) const {
        const json scenario = json::parse(scenario_json);
        return read_json(fmt::format("{}/frameworks/{}.json", library_dir_,
                                     scenario.at("training").at("framework").get<std::string>()));
    }

    // The scenario's stack as other sources know it (stack_population.hpp).
    void leave_out_stack(const json& preset, const std::string& source,
                         std::string& scenario_json) const {
        json scenario = json::parse(scenario_json);
        compare::leave_out_stack(population_, preset, scenario.at("cluster").at("device"), source,
                                 scenario.at("training"));
        scenario_json = scenario.dump();
    }

    // What ran had room. Where a default leaves none, another that leaves some stands for the fact.
    void take_what_fits(const std::string& id, Translation& translation, std::string& scenario_json,
                        const sim::Profile& known, const sim::SimulateOptions& options,
                        sim::Prediction& prediction) const {
        constexpr double kFits = 0.5;
        if (prediction.memory.fit_probability >= kFits) return;
        for (const Translation::Smaller& smaller : translation.smaller) {
            json scenario = json::parse(scenario_json);
            scenario.merge_patch(json::parse(smaller.patch));
            const plan::ReadResult read = plan::read_scenario_text(
                scenario.dump(), id, library_dir_, overrides_, library_dir_);
            if (!read.scenario) continue;
            sim::Prediction other = sim::simulate(*read.scenario, known, options, "");
            if (other.memory.fit_probability < kFits) continue;
            std::replace(translation.assumed.begin(), translation.assumed.end(), smaller.instead_of,
                         smaller.what);
            scenario_json = scenario.dump();
            prediction = std::move(other);
            return;
        }
    }

    // What a fact that nothing knows could have been besides its default: each such step lies one
    // standard deviation off, on its side, and adds to the interval as an independent part. One
    // that is no scenario of this run (a stack without its schedule) could not have been.
    void widen(sim::StepPrediction& step, const std::string& id,
               const std::vector<std::string>& otherwise, const std::string& scenario_json,
               const sim::Profile& known, const sim::SimulateOptions& options) const {
        const double late = step.high_s - step.time_s, early = step.time_s - step.low_s;
        double late_squared = late * late, early_squared = early * early;
        for (const std::string& patch : otherwise) {
            json scenario = json::parse(scenario_json);
            scenario.merge_patch(json::parse(patch));
            const plan::ReadResult read = plan::read_scenario_text(
                scenario.dump(), id, library_dir_, overrides_, library_dir_);
            if (!read.scenario) continue;
            const double off =
                sim::kCentral90 *
                (sim::simulate(*read.scenario, known, options, "").step.time_s - step.time_s);
            (off > 0 ? late_squared : early_squared) += off * off;
        }
        step.high_s = step.time_s + std::sqrt(late_squared);
        step.low_s = step.time_s * sim::earliest_share(std::sqrt(early_squared) / step.time_s);
    }

    static Outcome skipped(std::string why) {
        Outcome outcome;
        outcome.why = std::move(why);
        return outcome;
    }

    const sim::Profile& profile(const std::string& path, const std::string& patch) {
        const std::lock_guard lock(profiles_mutex_);
        auto& slot = profiles_[path + patch];
        if (!slot) slot = std::make_unique<sim::Profile>(patched_profile(path, patch));
        return *slot;
    }

    ValidatedRow row(const json& record, const std::string& id, std::optional<double> measured_s,
                     std::optional<double> peak, const Translation& translation,
                     const sim::Prediction& prediction) const {
        ValidatedRow row;
        row.id = id;
        row.group = group_of(record.value("source", ""));
        row.framework = translation.framework;
        row.contest = contest_of(record, translation);
        row.global_batch = translation.global_batch;
        row.assumed = translation.assumed;
        row.left_out = translation.left_out;
        row.measured_s = measured_s;
        row.predicted_s = prediction.step.time_s;
        row.low_s = prediction.step.low_s;
        row.high_s = prediction.step.high_s;
        row.baseline_s = baseline_s(record, prediction.conserved.model_flops_per_step, baseline_);
        if (const auto it = rules_.at("mistrusted").find(id); it != rules_.at("mistrusted").end())
            row.mistrusted = *it;
        if (peak) row.predicted_peak_bytes = predicted_peak(record, prediction.memory);
        if (row.predicted_peak_bytes) row.measured_peak_bytes = peak;
        return row;
    }

    std::string library_dir_;
    std::vector<std::string> overrides_;
    Fitted fitted_;
    json rules_;
    json baseline_;
    StackPopulation population_;
    std::mutex profiles_mutex_;
    std::map<std::string, std::unique_ptr<sim::Profile>> profiles_;
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

struct Judged {
    double predicted;
    double measured;
    bool covered;
    std::optional<double> baseline;
};

ErrorSummary summarise(const std::vector<Judged>& comparisons) {
    ErrorSummary summary;
    std::vector<double> errors;
    double baseline = 0;
    std::int64_t with_baseline = 0;
    for (const Judged& c : comparisons) {
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

Validation validate_records(const std::vector<std::string>& records_paths,
                            const std::string& library_dir,
                            const std::vector<std::string>& overrides, Fitted fitted) {
    json all = json::array();
    for (const std::string& path : records_paths) {
        const json records = read_json(path);
        if (!records.is_array()) throw RecordsError(path + ": not an array of records");
        all.insert(all.end(), records.begin(), records.end());
    }
    try {
        return Validator(library_dir, overrides, fitted).run(all);
    } catch (const json::exception& fault) {
        throw RecordsError(library_dir + "/validation: " + fault.what());
    }
}

static bool is_among(const ValidatedRow& row, Rows rows) {
    if (rows == Rows::assumed) return !row.assumed.empty();
    if (rows == Rows::measured) return row.mistrusted.empty();
    return rows == Rows::all || (row.mistrusted.empty() && row.assumed.empty());
}

ErrorSummary summarise_time(const Validation& validation, Rows rows, const std::string& group) {
    std::vector<Judged> comparisons;
    for (const ValidatedRow& row : validation.rows) {
        if (!is_among(row, rows)) continue;
        if (!group.empty() && row.group != group) continue;
        if (!row.measured_s) continue;
        const bool covered = row.low_s <= *row.measured_s && *row.measured_s <= row.high_s;
        comparisons.push_back({row.predicted_s, *row.measured_s, covered, row.baseline_s});
    }
    return summarise(comparisons);
}

ErrorSummary summarise_memory(const Validation& validation, Rows rows, const std::string& group) {
    std::vector<Judged> comparisons;
    for (const ValidatedRow& row : validation.rows) {
        if (!row.measured_peak_bytes) continue;
        if (!group.empty() && row.group != group) continue;
        if (!is_among(row, rows)) continue;
        comparisons.push_back(
            {*row.predicted_peak_bytes, *row.measured_peak_bytes, false, std::nullopt});
    }
    return summarise(comparisons);
}

}  // namespace orrery::compare
