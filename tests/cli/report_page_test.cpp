// The page that `orrery report` writes: the numbers of the other commands, whole as HTML and JSON,
// nothing from a network, bounded in size. Where a browser is installed it is opened as well.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "cli/output_kinds.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

constexpr std::size_t kMostBytes = 3'000'000;
const std::string kRuns = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/";
// A pipeline of two ranks, a moment to simulate.
const Words kPipeline = {tiny()};

std::string page_of(Words words, int code = 0) {
    const std::string path = testing::TempDir() + "page.html";
    words.insert(words.begin(), "report");
    words.insert(words.end(), {"-o", path, "--force"});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    return content_of(path);
}

// Of the only element of that id, which has no element within.
std::string text_of(const std::string& page, const std::string& begin, const std::string& end) {
    const std::size_t from = page.find(begin);
    EXPECT_NE(from, std::string::npos) << begin;
    if (from == std::string::npos) return "";
    return page.substr(from + begin.size(), page.find(end, from) - from - begin.size());
}

json data_of(const std::string& page) {
    return json::parse(
        text_of(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

// Elements that are opened and never closed, or closed and not open.
std::string unbalanced(std::string page) {
    for (std::size_t at = 0; (at = page.find("<script", at)) != std::string::npos;)
        page.erase(at, page.find("</script>", at) + std::string("</script>").size() - at);
    static const std::set<std::string> empty_ones = {"meta", "input", "br"};
    const std::regex tag("<(/?)([a-z0-9]+)[^>]*?(/?)>");
    std::vector<std::string> open;
    for (std::sregex_iterator at(page.begin(), page.end(), tag), end; at != end; ++at) {
        const std::string name = (*at)[2];
        if (empty_ones.count(name) > 0 || (*at)[3].length() > 0) continue;
        if ((*at)[1].length() == 0) {
            open.push_back(name);
        } else if (open.empty() || open.back() != name) {
            return "</" + name + "> in " + (open.empty() ? "nothing" : open.back());
        } else {
            open.pop_back();
        }
    }
    return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

TEST(ReportPage, HasTheNumbersOfSimulateAndExplain) {
    const json data = data_of(page_of(kPipeline));
    EXPECT_EQ(data.at("simulate"), json::parse(run({"simulate", tiny(), "--json"}).out));
    const json explained = json::parse(run({"explain", tiny(), "--json"}).out);
    EXPECT_EQ(data.at("explain").at("summary"), explained.at("summary"));
    EXPECT_EQ(data.at("explain").at("what_if"), explained.at("what_if"));
    EXPECT_EQ(data.at("explain").at("critical_path").at("parts"),
              explained.at("critical_path").at("parts"));
    EXPECT_TRUE(data.at("search").is_null());
    EXPECT_THAT(page_of(kPipeline), HasSubstr("<title>"));
}

TEST(ReportPage, HasTheTextOfSimulateAsItIs) {
    std::string printed = run({"simulate", tiny()}).out;
    for (const auto& [plain, html] : std::vector<std::pair<std::string, std::string>>{
             {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}})
        printed = replaced(std::move(printed), plain, html);
    EXPECT_THAT(page_of(kPipeline), HasSubstr("<pre>" + printed + "</pre>"));
}

TEST(ReportPage, IsWholeAndAsksNoNetwork) {
    for (const Words& words : {kPipeline, Words{tiny(), "--search"}}) {
        const std::string page = page_of(words);
        EXPECT_TRUE(page.starts_with(kPageBegins));
        EXPECT_EQ(unbalanced(page), "");
        for (const char* loads : {" src=", " href=", "url(", "@import", "fetch(", "XMLHttpRequest"})
            EXPECT_THAT(page, Not(HasSubstr(loads)));
    }
    EXPECT_EQ(unbalanced("<p><b></p></b>"), "</p> in b");
}

TEST(ReportPage, ShowsWhatASearchFinds) {
    const std::string page = page_of({tiny(), "--search"});
    const json searched = json::parse(run({"search", tiny(), "--json"}).out);
    json shown = data_of(page).at("search");
    EXPECT_EQ(shown.at("layouts"), searched.at("layouts"));
    EXPECT_EQ(shown.at("pareto"), searched.at("pareto"));
    std::size_t dots = 0;
    for (std::size_t at = 0; (at = page.find("<circle class=\"front\"", at)) != std::string::npos;
         ++at)
        ++dots;
    EXPECT_EQ(dots, searched.at("pareto").size());
}

// A bar begins where the one above it ends, and the last ends with the run.
TEST(ReportPage, TheDaysOfARunAddUpToItsWallClock) {
    Words words = {kRuns + "llama3-70b-h100x256.json", "--set", "reliability=meta-rsc", "--set",
                   "training.tokens=2e12"};
    const std::string page = page_of(words);
    EXPECT_EQ(unbalanced(page), "");
    words.insert(words.begin(), "goodput");
    words.push_back("--json");
    const json goodput = json::parse(run(words).out);
    EXPECT_EQ(data_of(page).at("goodput"), goodput);

    const std::string rows = text_of(page, "<h2>Where the days of the run go</h2>", "</table>");
    const std::regex bar("left:([0-9.]+)%;width:([0-9.]+)%");
    std::vector<std::pair<double, double>> bars;
    for (std::sregex_iterator at(rows.begin(), rows.end(), bar), end; at != end; ++at)
        bars.emplace_back(std::stod((*at)[1]), std::stod((*at)[2]));
    // Four parts of steps, of the run's other accounts those that take time, and the run.
    const json& days = goodput.at("breakdown_days");
    std::size_t expected = 4 + 1;
    for (const auto& [name, part] : days.items())
        expected += part.get<double>() > 0 && name != "steps" ? 1 : 0;
    ASSERT_EQ(bars.size(), expected);
    EXPECT_EQ(bars.back(), std::pair(0.0, 100.0));
    bars.pop_back();
    double steps = 0;
    for (std::size_t i = 0; i < bars.size(); ++i) {
        const double next = i + 1 < bars.size() ? bars[i + 1].first : 100;
        EXPECT_NEAR(bars[i].first + bars[i].second, next, 0.011);  // two digits are written
        if (i < 4) steps += bars[i].second;
    }
    EXPECT_NEAR(steps, 100 * days.at("steps").get<double>() / goodput.at("days").get<double>(),
                0.02);
}

// Of every line of the run that is shown: colours fill it, and its failures are those that goodput
// counts.
TEST(ReportPage, ShowsOneRunDayByDay) {
    Words words = {kRuns + "gpt3-175b-a100x1024.json", "--set", "reliability=opt-175b", "--set",
                   "training.tokens=3e11"};
    const std::string page = page_of(words);
    EXPECT_EQ(unbalanced(page), "");
    words.insert(words.begin(), "goodput");
    words.insert(words.end(), {"--json", "--timeline"});
    const json middle = json::parse(run(words).out).at("middle_run");
    const double days = middle.at("days");
    const std::string table = text_of(page, "<table class=\"days\">", "</table>");
    const std::regex box("M[0-9]+ [0-9]+h([0-9]+)v([0-9]+)");
    const std::regex mark("<i style=\"left:[0-9.]+%\" title=\"([^\"]*)\"");
    std::size_t lines = 0, failures = 0;
    double area = 0;
    for (std::size_t at = 0; (at = table.find("<tr>", at)) != std::string::npos; ++at) {
        const std::string line = table.substr(at, table.find("</tr>", at) - at);
        for (std::sregex_iterator b(line.begin(), line.end(), box), end; b != end; ++b)
            area += std::stod((*b)[1]) * std::stod((*b)[2]) / 1000;
        std::size_t told = 0;
        for (std::sregex_iterator m(line.begin(), line.end(), mark), end; m != end; ++m) {
            const std::string title = (*m)[1];
            EXPECT_THAT(title, HasSubstr("replacing, restarting, loading"));
            told += static_cast<std::size_t>(std::count(title.begin(), title.end(), '\n'));
        }
        // No cell of half an hour has more than it tells.
        const std::string counted = line.substr(line.rfind("<td>") + 4);
        EXPECT_EQ(told, std::stoul(counted)) << counted;
        failures += told;
        ++lines;
    }
    EXPECT_EQ(lines, static_cast<std::size_t>(std::ceil(days / 7)));
    EXPECT_EQ(failures, middle.at("failures").size());
    // 336 cells a week, each rounded to a thousandth for each account.
    const double cells = std::ceil(days / 7 * 336);
    EXPECT_NEAR(area, cells, 0.004 * cells);
}

TEST(ReportPage, HasNoDaysOfARunThatIsNotSaidToFail) {
    const std::string page = page_of({kRuns + "llama3-70b-h100x256.json"});
    EXPECT_TRUE(data_of(page).at("goodput").is_null());
    EXPECT_THAT(page, Not(HasSubstr("Where the days of the run go")));
}

// Of every box its length and shares: they fill the step, rank by rank.
TEST(ReportPage, TimelineFillsTheStep) {
    const json timeline = data_of(page_of(kPipeline)).at("timeline");
    ASSERT_EQ(timeline.at("rows").size(), 2U);
    for (const json& row : timeline.at("rows")) {
        std::int64_t sum = 0;
        const json& boxes = row.at("boxes");
        for (std::size_t i = 0; i < boxes.size(); i += 3) {
            sum += boxes[i].get<std::int64_t>();
            EXPECT_LT(boxes[i + 1].get<std::int64_t>(),
                      static_cast<std::int64_t>(row.at("actions").size()));
            ASSERT_LT(boxes[i + 2].get<std::size_t>(), timeline.at("mixes").size());
        }
        EXPECT_EQ(sum, timeline.at("units"));
    }
    for (const json& mix : timeline.at("mixes")) {
        int sum = 0;
        for (const json& share : mix)
            sum += share.get<int>();
        EXPECT_NEAR(sum, 100, 4);  // nine of them, each rounded to a percent
    }
    // The critical path leads from the begin of the step to its end.
    const json& path = timeline.at("path");
    EXPECT_EQ(path[1], 0);
    EXPECT_EQ(path.back(), timeline.at("units"));
}

// The largest of the shipped runs that a test can wait for; the bounds of boxes and of steps of
// the path hold for all.
TEST(ReportPage, StaysSmall) {
    for (const char* name : {"gpt3-175b-a100x1024", "llama3.1-405b-h100x16384"}) {
        const std::string page = page_of({kRuns + name + ".json"});
        EXPECT_LT(page.size(), kMostBytes) << name;
        EXPECT_EQ(unbalanced(page), "") << name;
    }
    // A run of years, with more than ten thousand failures.
    const std::string page = page_of({kRuns + "llama3.1-405b-h100x16384.json", "--set",
                                      "reliability=meta-rsc", "--set", "training.tokens=2e14"});
    EXPECT_GT(data_of(page).at("goodput").at("failures"), 10'000);
    EXPECT_LT(page.size(), kMostBytes);
}

TEST(ReportPage, IsWrittenWhereNothingFits) {
    const Words too_much = {tiny(),
                            "--set",
                            "layout.micro_batch_size=32",
                            "--set",
                            "layout.global_batch_size=64",
                            "--set",
                            "layout.recompute=none"};
    Words simulated = too_much;
    simulated.insert(simulated.begin(), "simulate");
    ASSERT_EQ(run(simulated).code, 4);
    EXPECT_THAT(page_of(too_much, 4), HasSubstr("does not fit"));
}

TEST(ReportPage, RefusesBadInputAndWritesNothing) {
    const std::string path = testing::TempDir() + "refused.html";
    EXPECT_EQ(run({"report", tiny()}).code, 2);
    EXPECT_EQ(run({"report", tiny(), "-o", testing::TempDir() + "page.txt"}).code, 2);
    EXPECT_EQ(run({"report", "no-such-file.json", "-o", path}).code, 5);
    EXPECT_EQ(run({"report", tiny(), "--set", "layout.zero_stage=7", "-o", path}).code, 3);
    EXPECT_FALSE(std::filesystem::exists(path));
}

// Zooms with the wheel and asks what is under the pointer, as a user would.
TEST(ReportPage, ZoomsInABrowser) {
    if (std::system("command -v chromium >/dev/null") != 0) GTEST_SKIP() << "no chromium here";
    const std::string user = R"(<script>
const canvas = document.getElementById("timeline"), box = canvas.getBoundingClientRect();
const say = (type, more) => canvas.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(
    type, {clientX: box.left + 60, clientY: box.top + 5, bubbles: true, cancelable: true, ...more}));
for (let i = 0; i < 30; ++i) say("wheel", {deltaY: -100});
say("pointermove", {});
document.body.dataset.tip = document.getElementById("tip").textContent;
</script></body>)";
    const std::string path = written("browser.html", replaced(page_of(kPipeline), "</body>", user));
    const std::string told = testing::TempDir() + "browser.txt";
    const int status =
        std::system(("chromium --headless --no-sandbox --disable-gpu --dump-dom 'file://" + path +
                     "' >" + told + " 2>/dev/null")
                        .c_str());
    ASSERT_EQ(WEXITSTATUS(status), 0);
    const std::string shown = content_of(told);
    // The first thing that the first rank does is the first forward of the first stage.
    EXPECT_THAT(text_of(shown, "data-tip=\"", "\""), HasSubstr("pp 0: 0F0"));
    EXPECT_THAT(text_of(shown, "id=\"legend\"", "<label"), HasSubstr("backward"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
