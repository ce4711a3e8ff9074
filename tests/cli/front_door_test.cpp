// The README and docs/ as whoever comes finds them: every link leads somewhere, every page is
// reached from docs/index.md, and figures that are quoted are those that commands give.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/quantity.hpp"
#include "cli/run_subcommands.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const fs::path kRoot = ORRERY_SOURCE_DIR;

std::vector<fs::path> pages_of_docs() {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs"))
        if (entry.path().extension() == ".md") found.push_back(entry.path());
    return found;
}

std::vector<fs::path> all_pages() {
    std::vector<fs::path> found = pages_of_docs();
    for (const char* page : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"})
        found.push_back(kRoot / page);
    return found;
}

// Without what is set off: code may look like a link.
std::string prose_of(const fs::path& page) {
    std::string prose;
    std::istringstream in(content_of(page));
    bool fenced = false;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("```")) fenced = !fenced;
        if (!fenced && !line.starts_with("    ")) prose += line + '\n';
    }
    return prose;
}

struct Link {
    std::string to;      // as it stands there
    fs::path file;       // empty: of the web
    std::string anchor;  // without #; may be empty
};

std::vector<Link> links_of(const fs::path& page) {
    static const std::regex link(R"(\]\(([^()\s]+)\))");
    const std::string prose = prose_of(page);
    std::vector<Link> links;
    for (std::sregex_iterator at(prose.begin(), prose.end(), link), end; at != end; ++at) {
        const std::string to = (*at)[1];
        if (to.find("://") != std::string::npos) continue;
        const std::size_t hash = to.find('#');
        const std::string path = to.substr(0, hash);
        links.push_back({to, path.empty() ? page : (page.parent_path() / path).lexically_normal(),
                         hash == std::string::npos ? "" : to.substr(hash + 1)});
    }
    return links;
}

// What GitHub makes of a heading: lower case, blanks to dashes, letters, digits, - and _ kept.
std::string anchor_of(const std::string& heading) {
    std::string anchor;
    for (const char c : heading) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) != 0 || byte >= 0x80 || c == '-' || c == '_')
            anchor += static_cast<char>(std::tolower(byte));
        else if (c == ' ')
            anchor += '-';
    }
    return anchor;
}

std::set<std::string> anchors_of(const fs::path& page) {
    static const std::regex heading("^#+ (.*)$");
    std::set<std::string> anchors;
    std::istringstream in(prose_of(page));
    for (std::string line; std::getline(in, line);) {
        std::smatch found;
        if (std::regex_match(line, found, heading)) anchors.insert(anchor_of(found[1]));
    }
    return anchors;
}

TEST(FrontDoor, EveryLinkLeadsSomewhere) {
    std::size_t links = 0;
    for (const fs::path& page : all_pages()) {
        for (const Link& link : links_of(page)) {
            ++links;
            EXPECT_TRUE(fs::exists(link.file)) << page << ": " << link.to;
            if (link.anchor.empty() || !fs::exists(link.file)) continue;
            EXPECT_TRUE(anchors_of(link.file).contains(link.anchor)) << page << ": " << link.to;
        }
    }
    EXPECT_GT(links, 100U);
}

TEST(FrontDoor, EveryPageIsReachedFromTheIndex) {
    std::set<std::string> listed;
    for (const Link& link : links_of(kRoot / "docs/index.md"))
        listed.insert(link.file.lexically_relative(kRoot));
    EXPECT_TRUE(listed.contains("docs/tutorial.md"));
    for (const fs::path& page : pages_of_docs()) {
        if (page.filename() == "index.md") continue;
        EXPECT_TRUE(listed.contains(page.lexically_relative(kRoot))) << page;
    }
    std::set<std::string> first;
    for (const Link& link : links_of(kRoot / "README.md"))
        first.insert(link.file.lexically_relative(kRoot));
    for (const char* page : {"docs/index.md", "docs/tutorial.md", "docs/features.md", "LICENSE"})
        EXPECT_TRUE(first.contains(page)) << page;
}

TEST(FrontDoor, FeaturesHaveEverySubcommand) {
    const std::string features = content_of(kRoot / "docs/features.md");
    std::vector<std::string> names = {kGui.name};
    for (const auto& subcommand : predicting_program().subcommands)
        names.push_back(subcommand->name());
    for (const RunSubcommand& subcommand : kRunSubcommands)
        names.emplace_back(subcommand.name);
    EXPECT_GT(names.size(), 20U);
    for (const std::string& name : names)
        EXPECT_NE(features.find("| `" + name + "`"), std::string::npos) << name;
}

// "81 models are in", "36 devices", …: of the library as `list` has it.
TEST(FrontDoor, FeaturesCountTheLibrary) {
    const std::string features = content_of(kRoot / "docs/features.md");
    const auto listed = [](const std::string& kind) {
        return nlohmann::json::parse(run({"list", kind, "--json"}).out).at(kind);
    };
    std::set<std::string> devices;
    for (const auto& profile : listed("profiles"))
        devices.insert(profile.at("device"));
    const auto frameworks = listed("frameworks");
    for (const std::string& said :
         {fmt::format("{} models are in `scenarios/models/`", listed("models").size()),
          fmt::format("{} devices in `scenarios/profiles/`", devices.size()),
          fmt::format("{} clusters of them", listed("clusters").size()),
          fmt::format("{} stacks in `scenarios/frameworks/`", frameworks.size())})
        EXPECT_NE(features.find(said), std::string::npos) << said;
    for (const auto& framework : frameworks)
        EXPECT_NE(features.find(fmt::format("`{}`", framework.at("name").get<std::string>())),
                  std::string::npos)
            << framework;
}

std::string on_one_line(const std::string& text) {
    std::string line;
    std::istringstream in(text);
    for (std::string word; in >> word;)
        line += (line.empty() ? "" : " ") + word;
    return line;
}

// The cells of a row of a table, by what its first cell is.
std::vector<std::string> row_of(const std::string& page, const std::string& first) {
    std::vector<std::string> cells;
    const std::size_t at = page.find("\n| " + first + " |");
    if (at == std::string::npos) return cells;
    std::istringstream line(page.substr(at + 1, page.find('\n', at + 1) - at - 1));
    for (std::string cell; std::getline(line, cell, '|');)
        cells.push_back(on_one_line(cell));
    return {cells.begin() + 1, cells.end()};
}

std::string found_in(const std::string& page, const std::string& pattern) {
    std::smatch found;
    return std::regex_search(page, found, std::regex(pattern)) ? found[1].str()
                                                               : "nothing like " + pattern;
}

// The README quotes docs/accuracy.md, whose figures a test of calib/ holds against `validate`.
TEST(FrontDoor, ReadmeIsAsRightAsTheAccuracyPageSays) {
    const std::string readme = on_one_line(content_of(kRoot / "README.md"));
    const std::string page = content_of(kRoot / "docs/accuracy.md");
    const auto trusted = row_of(page, "all"), every = row_of(page, "all, mistrusted runs too");
    ASSERT_EQ(trusted.size(), 8U);
    ASSERT_EQ(every.size(), 8U);
    const int by_default = std::stoi(row_of(page, "with a default for a fact").at(1));
    EXPECT_EQ(std::stoi(every[1]) - std::stoi(trusted[1]) - by_default, 10);  // "ten"
    const double in_2021 = std::stod(row_of(page, "Narayanan et al. SC21").at(2));
    const double in_2022 = std::stod(row_of(page, "Korthikanti et al. 2022").at(2));
    const std::string foreseen = found_in(page, "Out of memory: ([0-9]+) foreseen");
    const std::string missed = found_in(page, "foreseen, ([0-9]+) missed");
    const std::string alarms = found_in(page, "missed, ([0-9]+) false alarms");
    const std::string ran = found_in(page, "false alarms, ([0-9]+) rightly");
    for (const std::string& said :
         {fmt::format("predicts {} published runs", every[1]),
          fmt::format("mean error {} %, median {} % (without ten that are mistrusted and {} that "
                      "leave a fact unsaid)",
                      trusted[2], trusted[3], by_default),
          fmt::format("A100 runs of 2021 and 2022 within {} % on average",
                      std::max(in_2021, in_2022)),
          fmt::format("nothing fitted to the source it is {} %",
                      found_in(page, R"(\nMean over sources: ([0-9.]+) %)")),
          fmt::format("{} % over all {} that were collected",
                      found_in(page, R"(Mean over [0-9]+ sources ([0-9.]+) %)"),
                      found_in(page, R"(Mean over ([0-9]+) sources [0-9.]+ %)")),
          fmt::format("Of {} that ran out of memory {} are foreseen",
                      std::stoi(foreseen) + std::stoi(missed), foreseen),
          fmt::format("of {} that ran {} are said not to", std::stoi(alarms) + std::stoi(ran),
                      alarms)})
        EXPECT_NE(readme.find(said), std::string::npos) << said;
}

// What is set off by four blanks behind `command`, up to prose; trimmed, without empty lines.
Words lines_behind(const std::string& page, const std::string& command) {
    Words lines;
    std::istringstream in(content_of(kRoot / "docs" / page));
    bool found = false;
    for (std::string line; std::getline(in, line);) {
        if (found && !line.empty() && !line.starts_with("    ")) break;
        if (found && !line.empty()) lines.push_back(on_one_line(line));
        found = found || on_one_line(line) == command;
    }
    EXPECT_TRUE(found) << page << ": " << command;
    return lines;
}

class InFolder {
  public:
    explicit InFolder(const fs::path& folder) : before_(fs::current_path()) {
        fs::current_path(folder);
    }
    ~InFolder() { fs::current_path(before_); }
    InFolder(const InFolder&) = delete;
    InFolder& operator=(const InFolder&) = delete;

  private:
    fs::path before_;
};

// Outputs that other pages show of a command that they name: each line is one that it prints.
TEST(FrontDoor, PagesShowWhatTheirCommandsPrint) {
    struct Example {
        const char* page;
        std::string command;
        std::size_t least;  // lines that are shown
    };
    const std::string schedule = written("run.json", R"({
        "model": "models/tiny-gpt.json", "cluster": "clusters/cpu-8.json",
        "layout": {"pipeline_parallel": 3, "data_parallel": 1, "layers_per_stage": [2, 1, 1],
                   "micro_batch_size": 1, "global_batch_size": 4},
        "training": {"sequence_length": 64, "precision": "fp32"}})");
    const std::vector<Example> examples = {
        {"goodput.md",
         "./orrery goodput scenarios/runs/llama3.1-405b-h100x16384.json "
         "--set reliability=llama3-405b",
         30},
        {"goodput.md",
         "./orrery goodput scenarios/runs/llama3.1-405b-h100x16384.json "
         "--set reliability=llama3-405b --timeline",
         15},
        {"import-trace.md",
         "./orrery import-trace tests/calib/compare/traces/gpt-1.json.gz "
         "--scenario tests/calib/compare/traces/gpt.json",
         30},
        {"schedule.md", "$ orrery schedule run.json --set layout.schedule=zb-h1", 5},
        // Writes over the scenario of the one before.
        {"import-trace.md",
         "./orrery import-trace tests/calib/compare/traces/llama.json.gz "
         "--infer-scenario run.json",
         25},
    };
    const InFolder here(kRoot);
    for (const Example& example : examples) {
        Words words;
        std::istringstream in(replaced(example.command, "run.json", schedule));
        for (std::string word; in >> word;)
            if (word != "$" && word != "./orrery" && word != "orrery") words.push_back(word);
        const Outcome outcome = run(words);
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        std::set<std::string> printed;
        std::istringstream out(outcome.out);
        for (std::string line; std::getline(out, line);)
            printed.insert(on_one_line(replaced(line, schedule, "run.json")));
        const Words shown = lines_behind(example.page, example.command);
        EXPECT_GE(shown.size(), example.least) << example.page;
        for (const std::string& line : shown)
            EXPECT_TRUE(printed.contains(line)) << example.page << ": " << line;
    }
}

// docs/measured: the steps as they were timed, and what is predicted of them today.
TEST(FrontDoor, MeasuredStepsStandBesideTheirPredictions) {
    const fs::path folder = kRoot / "docs/measured/h100-80gb-2026-11-26";
    const std::string page = content_of(kRoot / "docs/measured/README.md");
    const std::string features = on_one_line(content_of(kRoot / "docs/features.md"));
    const auto steps = nlohmann::json::parse(content_of(folder / "summary.json")).at("steps");
    double sum = 0;
    for (const auto& row : steps.at("rows")) {
        Words words = {"simulate", kRoot / "scenarios" / steps.at("scenario").get<std::string>(),
                       "--json"};
        auto sets = row.at("settings").get<Words>();
        sets.push_back("cluster.profile=" + (folder / "profile.json").string());
        sets.push_back("cluster.device=h100-sxm-orrery");
        sets.push_back("training.loss_logits=in_place");  // as it was that day
        for (const std::string& set : sets)
            words.insert(words.end(), {"--set", set});
        const Outcome outcome = run(words);
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        const double measured = row.at("measured_s");
        const double predicted =
            nlohmann::json::parse(outcome.out).at("step").at("time_s").get<double>();
        const double error = 100 * (predicted / measured - 1);
        sum += std::abs(error) / static_cast<double>(steps.at("rows").size());
        const std::string cells =
            fmt::format("| {:.1f} ms | {:.1f} ms | {}{:.1f} % |", 1e3 * measured, 1e3 * predicted,
                        error < 0 ? "−" : "+", std::abs(error));
        EXPECT_NE(page.find(cells), std::string::npos) << row.at("shape") << ": " << cells;
        if (row.at("shape") != "no dropout, heads of 64") continue;
        const std::string said = fmt::format("takes {:.1f} ms for 16,384 tokens", 1e3 * measured);
        EXPECT_NE(features.find(said), std::string::npos) << said;
        EXPECT_LT(std::abs(error), 5);  // "which the profile measured there predicts within 5 %"
    }
    const std::string mean = fmt::format("Mean {:.1f} %", sum);
    EXPECT_NE(page.find(mean), std::string::npos) << mean;
}

TEST(FrontDoor, TheFirstMinuteOfTheWindowIsTheStepOfTheReadme) {
    const auto simulated = nlohmann::json::parse(
        run({"simulate", kRoot / "scenarios/runs/gpt3-175b-a100x1024.json", "--json"}).out);
    const std::string step = seconds_text(simulated.at("step").at("time_s"));
    EXPECT_NE(on_one_line(content_of(kRoot / "docs/gui.md")).find("the step's " + step + " go"),
              std::string::npos);
    EXPECT_NE(content_of(kRoot / "README.md").find("step time   " + step), std::string::npos);
}

TEST(FrontDoor, BuildingNamesThePackagesThatTheWrapperInstalls) {
    const std::string wrapper = on_one_line(content_of(kRoot / "orrery"));
    const std::string building = on_one_line(content_of(kRoot / "docs/building.md"));
    EXPECT_NE(building.find("installs: " + found_in(wrapper, R"(build_packages=\(([^)]*)\))")),
              std::string::npos);
}

// One screen and a half: what grows belongs into docs/.
TEST(FrontDoor, ReadmeIsShort) {
    const std::string readme = content_of(kRoot / "README.md");
    EXPECT_LT(std::count(readme.begin(), readme.end(), '\n'), 110);
}

// No container is built in a test; what its file builds by has to be there.
TEST(FrontDoor, TheContainerIsBuiltByWhatThereIs) {
    const std::string file = on_one_line(content_of(kRoot / "Containerfile"));
    const std::string presets = content_of(kRoot / "CMakePresets.json");
    const std::string preset = found_in(file, "cmake --preset ([a-z]+)");
    EXPECT_NE(presets.find("\"name\": \"" + preset + "\""), std::string::npos) << preset;
    EXPECT_NE(file.find("cmake --build build/" + preset + " --target orrery orrery-run"),
              std::string::npos);
    EXPECT_NE(file.find("cmake --install build/" + preset + " --prefix /opt/orrery"),
              std::string::npos);
    EXPECT_NE(file.find("./orrery packages build"), std::string::npos);
    EXPECT_NE(content_of(kRoot / "CMakeLists.txt").find(found_in(file, "-D(ORRERY_MPI)=OFF")),
              std::string::npos);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
