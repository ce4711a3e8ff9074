// The public gate on accuracy: the records of scenarios/published, source by source. A source whose
// mean error grows by more than half a point over what is written down fails; one that shrinks
// should be written down: ORRERY_REGENERATE=1. Of runs that ran out of memory as many must be
// foreseen as before, and of those that ran no more may be said to run out. Layouts must be put in
// the measured order as well as before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "calib/compare/rank_order.hpp"
#include "calib/compare/validate.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using nlohmann::ordered_json;

const std::string kLibrary = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
constexpr const char* kMemory = "out of memory";
constexpr const char* kRankOrder = "rank order";
constexpr double kLeastTau = 0.8;
constexpr double kMostRegretPct = 5;
constexpr double kMostTauLost = 0.02;
const std::string kExpected = std::string(ORRERY_SOURCE_DIR) + "/tests/golden/accuracy.json";
constexpr double kMostGrowth = 0.5;  // percentage points

std::vector<std::string> published_files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(kLibrary + "/published"))
        files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    return files;
}

std::size_t records_in(const std::vector<std::string>& files) {
    std::size_t count = 0;
    for (const std::string& file : files) {
        std::ifstream in(file);
        count += nlohmann::json::parse(in).size();
    }
    return count;
}

double rounded(double value) {
    return std::round(value * 100) / 100;
}

// What the predictions of all published records amount to, by source.
ordered_json accuracy_of(const Validation& validation) {
    ordered_json out;
    std::set<std::string> groups;
    for (const ValidatedRow& row : validation.rows)
        groups.insert(row.group);
    for (const std::string& group : groups) {
        const ErrorSummary s = summarise_time(validation, Rows::trusted, group);
        if (s.n == 0) continue;
        out[group] = {{"rows", s.n}, {"mean_abs_error_pct", rounded(s.mean_abs_error_pct)}};
    }
    const std::vector<Contest> contests = contests_of(validation);
    const RankOrder mean = mean_of(contests);
    out[kRankOrder] = {{"contests", contests.size()},
                       {"mean_tau_b", rounded(mean.mean_tau_b)},
                       {"mean_regret_pct", rounded(100 * mean.mean_regret)}};
    const OutOfMemorySummary& memory = validation.out_of_memory;
    out[kMemory] = {{"foreseen", memory.true_positive},
                    {"missed", memory.false_negative},
                    {"false_alarms", memory.false_positive},
                    {"ran", memory.true_negative}};
    return out;
}

std::string content_of_page(const std::string& name) {
    std::ifstream file(std::string(ORRERY_SOURCE_DIR) + '/' + name);
    return {std::istreambuf_iterator<char>(file), {}};
}

// docs/accuracy.md is what `validate --markdown` prints, and sections of its own. Predicting all
// once more without what was fitted takes as long again: at night.
void expect_page(const Validation& validation, const std::vector<std::string>& files) {
    const bool all = std::getenv("ORRERY_EVERY_RUN") != nullptr;
    const std::string page = '\n' + content_of_page("docs/accuracy.md");
    const std::string left_out_heading = "## With nothing fitted to a source";
    const std::string made = validation_markdown(
        validation,
        all ? validate_records(files, kLibrary, {}, Fitted::other_sources) : validation);
    std::istringstream lines(made);
    std::size_t held = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line == left_out_heading && !all) break;
        // Of the page's own sections it says so.
        if (line.empty() || line.starts_with("Published runs, predicted")) continue;
        EXPECT_NE(page.find('\n' + line + '\n'), std::string::npos) << line;
        ++held;
    }
    EXPECT_GT(held, 30U);
    EXPECT_NE(made.find(left_out_heading), std::string::npos);
}

// What the README counts in words.
void expect_counts_of_readme(const Validation& validation) {
    std::set<std::string> stacks, sources;
    for (const ValidatedRow& row : validation.rows) {
        if (!row.measured_s) continue;
        // A stack of two generations has two presets: "megatron" and "megatron-2021".
        stacks.insert(std::regex_replace(row.framework, std::regex("-[0-9]{4}$"), ""));
        sources.insert(row.group);
    }
    const std::string readme = content_of_page("README.md");
    EXPECT_EQ(stacks.size(), 7U);
    EXPECT_NE(readme.find("published runs of seven stacks"), std::string::npos);
    EXPECT_EQ(sources.size(), 13U);
    EXPECT_NE(readme.find("thirteen sources"), std::string::npos);
}

TEST(PublishedRuns, NoSourceIsMetWorseThanBefore) {
    const std::vector<std::string> files = published_files();
    const Validation validation = validate_records(files, kLibrary);
    expect_page(validation, files);
    expect_counts_of_readme(validation);
    EXPECT_GE(validation.rows.size() + validation.skipped.size(), 300U);
    EXPECT_EQ(validation.outcomes.size() + validation.skipped.size(), records_in(files));
    const ordered_json found = accuracy_of(validation);
    if (std::getenv("ORRERY_REGENERATE") != nullptr) {
        std::ofstream(kExpected) << found.dump(2) << '\n';
        return;
    }
    std::ifstream in(kExpected);
    const ordered_json expected = ordered_json::parse(in);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_GT(found[kMemory]["foreseen"], 0);
    EXPECT_GE(found[kMemory]["foreseen"], expected[kMemory]["foreseen"]);
    EXPECT_LE(found[kMemory]["false_alarms"], expected[kMemory]["false_alarms"]);
    const ordered_json& order = found[kRankOrder];
    const ordered_json& order_before = expected[kRankOrder];
    EXPECT_GE(order["contests"], order_before["contests"]);
    EXPECT_GE(order["mean_tau_b"].get<double>(),
              std::max(kLeastTau, order_before["mean_tau_b"].get<double>() - kMostTauLost));
    EXPECT_LE(
        order["mean_regret_pct"].get<double>(),
        std::min(kMostRegretPct, order_before["mean_regret_pct"].get<double>() + kMostGrowth));
    for (const auto& [group, before] : expected.items()) {
        if (group == kMemory || group == kRankOrder) continue;
        ASSERT_TRUE(found.contains(group)) << group;
        EXPECT_GE(found[group]["rows"].get<int>(), before["rows"].get<int>()) << group;
        EXPECT_LE(found[group]["mean_abs_error_pct"].get<double>(),
                  before["mean_abs_error_pct"].get<double>() + kMostGrowth)
            << group;
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
