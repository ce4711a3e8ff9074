// Validation: predicts published runs with their own facts and says how far off it was, beside a
// baseline with one rate per GPU type and precision. Rows that cannot be predicted are listed with
// why, never dropped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "calib/compare/record.hpp"

namespace orrery::compare {

// A records, rules or baseline file that is missing or not shaped as it should be (exit code 5).
class RecordsError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Throws RecordsError, with the path.
nlohmann::json read_json(const std::string& path);

struct ValidatedRow {
    std::string id;
    std::string group;                 // by source: what precedes the table in the record's source
    std::optional<double> measured_s;  // a record of memory alone: none
    double predicted_s = 0;
    double low_s = 0;  // central 90 %
    double high_s = 0;
    std::optional<double> baseline_s;  // no rate for the GPU type: none
    std::optional<double> measured_peak_bytes;
    std::optional<double> predicted_peak_bytes;
    std::string mistrusted;  // why the row is mistrusted, empty: it is not
    std::string framework;
    std::string
        contest;  // with whom it competes (rank_order.hpp), empty: the record says too little
    std::int64_t global_batch = 0;      // sequences
    std::vector<std::string> assumed;   // facts for which a default stands
    std::vector<std::string> left_out;  // Fitted::other_sources: what was fitted to its source

    double error_pct() const { return (predicted_s / measured_s.value() - 1) * 100; }
};

struct SkippedRow {
    std::string id;
    std::string why;
};

// Whether a run had memory enough, and what was said of it.
struct MemoryOutcome {
    std::string id;
    bool ran_out = false;
    double fit_probability = 0;
    std::string verdict;  // "fits", "tight", "exceeds"
    std::int64_t peak_bytes = 0;
    std::int64_t capacity_bytes = 0;
};

struct ErrorSummary {
    std::int64_t n = 0;
    double mean_abs_error_pct = 0;
    double median_abs_error_pct = 0;
    double p95_abs_error_pct = 0;
    double bias_pct = 0;
    double interval_coverage = 0;  // share of rows inside their interval
    double baseline_mean_abs_error_pct = 0;
};

struct OutOfMemorySummary {
    std::int64_t true_positive = 0, false_positive = 0, true_negative = 0, false_negative = 0;
};

struct Validation {
    std::vector<ValidatedRow> rows;
    std::vector<SkippedRow> skipped;
    OutOfMemorySummary out_of_memory;
    std::vector<MemoryOutcome> outcomes;  // of every record that was not skipped
    // Sources that are met worse than kMostWithoutFit where nothing is fitted to them, and why.
    std::map<std::string, std::string> causes;
};

// Per cent: a source that is further off on average, with nothing fitted to it, needs a cause.
inline constexpr double kMostWithoutFit = 9;

// library_dir: where profiles, frameworks and validation/{rules,baseline}.json are. overrides:
// "key=value" on the scenario of every record (what would these constants predict?).
Validation validate_records(const std::vector<std::string>& records_paths,
                            const std::string& library_dir,
                            const std::vector<std::string>& overrides = {},
                            Fitted fitted = Fitted::all_sources);

// Publications in the order of their first rows.
std::vector<std::string> groups_of(const Validation& validation);

// trusted: neither mistrusted nor with a default for a fact that nothing knows; assumed: with one;
// measured: not mistrusted, whatever was assumed.
enum class Rows { all, trusted, assumed, measured };
ErrorSummary summarise_time(const Validation& validation, Rows rows, const std::string& group = "");
ErrorSummary summarise_memory(const Validation& validation, Rows rows,
                              const std::string& group = "");

// The object that validate --json prints, and a table for people.
std::string validation_json(const Validation& validation);
std::string validation_text(const Validation& validation);
// A page of Markdown: how right predictions are, source by source, with and without what was fitted
// to the source, and which runs are left out and why.
std::string validation_markdown(const Validation& validation, const Validation& left_out);
// Its section on sources that nothing is fitted to.
std::string left_out_markdown(const Validation& validation, const Validation& left_out);
// Mean over sources of each one's mean |error| of measured rows, per cent.
double mean_over_sources(const Validation& validation);

}  // namespace orrery::compare
