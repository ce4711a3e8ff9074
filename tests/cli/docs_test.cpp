// The pages of docs/ and the README show commands, and what they print: commands have the options
// that the pages give them, and print what the pages say.
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/run_subcommands.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

const fs::path kTree = ORRERY_SOURCE_DIR;

std::vector<fs::path> pages() {
    std::vector<fs::path> found = {kTree / "README.md"};
    for (const auto& entry : fs::directory_iterator(kTree / "docs"))
        if (entry.path().extension() == ".md") found.push_back(entry.path());
    return found;
}

std::string trimmed(const std::string& line) {
    const std::size_t first = line.find_first_not_of(' ');
    if (first == std::string::npos) return "";
    return line.substr(first, line.find_last_not_of(" \r") + 1 - first);
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(trimmed(line));
    return lines;
}

// The lines of an example that is set off by four blanks, from the one that begins with `first`.
std::vector<std::string> example_of(const fs::path& page, const std::string& first) {
    std::vector<std::string> example;
    std::istringstream in(content_of(page));
    for (std::string line; std::getline(in, line);) {
        if (example.empty() && !line.starts_with("    " + first)) continue;
        if (!line.empty() && !line.starts_with("    ")) break;
        example.push_back(trimmed(line));
    }
    while (!example.empty() && example.back().empty())
        example.pop_back();
    return example;
}

std::string output_of(const std::string& command) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
        text += part.data();
    return text;
}

std::string help_of(const std::string& subcommand) {
    for (const RunSubcommand& performing : kRunSubcommands)
        if (subcommand == performing.name)
            return output_of("'" + program("orrery-run") + "' " + subcommand + " --help");
    return run({subcommand, "--help"}).out;
}

// "orrery plan 2" begins a plan's text, and is no command.
bool is_command(const std::string& word) {
    static const std::set<std::string> of_the_wrapper = {"build", "test", "packages"};
    return of_the_wrapper.count(word) == 0;
}

TEST(Docs, CommandsHaveTheOptionsThatPagesGiveThem) {
    const std::regex command(R"(\borrery(?:-run)? ([a-z]+)( [^`\n]*))");
    const std::regex option(R"([ \[](--?[a-z][-a-z]*))");
    std::map<std::string, std::string> help;
    std::set<std::string> subcommands;
    std::size_t options = 0;
    for (const fs::path& page : pages()) {
        const std::string text = content_of(page);
        for (std::sregex_iterator at(text.begin(), text.end(), command), end; at != end; ++at) {
            const std::string name = (*at)[1], rest = (*at)[2];
            if (!is_command(name)) continue;
            if (help.count(name) == 0) help[name] = help_of(name);
            for (std::sregex_iterator o(rest.begin(), rest.end(), option); o != end; ++o) {
                const std::regex listed("(^|[ ,\\[])" + (*o)[1].str() + "([ ,=\\]\n]|$)");
                EXPECT_TRUE(std::regex_search(help[name], listed))
                    << page.filename() << ": orrery " << name << rest;
                subcommands.insert(name);
                ++options;
            }
        }
    }
    EXPECT_GT(subcommands.size(), 6U);
    EXPECT_GT(options, 30U);
}

// Every line of the page that is set off, but its command lines.
std::vector<std::string> set_off_in(const fs::path& page) {
    std::vector<std::string> lines;
    std::istringstream in(content_of(page));
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("    ") && !line.starts_with("    orrery ") &&
            !line.starts_with("    ./orrery "))
            lines.push_back(trimmed(line));
    return lines;
}

TEST(Docs, ReadmeAndItsPageShowWhatSimulatePrints) {
    const std::string run_file = kTree / "scenarios/runs/gpt3-175b-a100x1024.json";
    const Outcome simulated = run({"simulate", run_file});
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const std::vector<std::string> printed = lines_of(simulated.out);
    const std::vector<std::string> in_readme =
        example_of(kTree / "README.md", "gpt3-175b, one training step");
    EXPECT_GT(in_readme.size(), 12U);
    for (const std::string& line : in_readme)
        EXPECT_NE(std::find(printed.begin(), printed.end(), line), printed.end()) << line;
    // Its page has all of it, in order, but for the commands that it ends with.
    std::vector<std::string> whole = set_off_in(kTree / "docs/simulate.md"), expected;
    for (const std::string& line : printed) {
        if (line == "next") break;
        if (!line.empty()) expected.push_back(line);
    }
    EXPECT_EQ(whole, expected);
}

TEST(Docs, TheErrorThatIsShownIsTheOneThatIsPrinted) {
    const std::string file = written("run.json", R"({
        "model": "models/llama3-70b.json", "cluster": "clusters/h100-sxm-256.json",
        "layout": {"tensor_parallel": 8, "pipeline_parallel": 4, "virtual_pipeline": 2,
                   "schedule": "interleaved", "micro_batch_size": 1, "global_batch_size": 256},
        "training": {"sequence_length": 8192}})");
    const Outcome refused = run({"simulate", file, "--set", "layout.pipeline_parallel=16"});
    EXPECT_EQ(refused.code, 3);
    const std::vector<std::string> printed = lines_of(replaced(refused.err, file, "run.json"));
    const std::vector<std::string> shown = example_of(kTree / "docs/errors.md", "error[S012]");
    EXPECT_EQ(shown.size(), 7U);
    for (const std::string& line : shown)
        EXPECT_NE(std::find(printed.begin(), printed.end(), line), printed.end())
            << line << "\nprinted:\n"
            << refused.err;
}

// What a hunk keeps and takes out stands in the file like that, in one piece.
void expect_hunk(const std::string& file, const std::string& before) {
    if (file.empty() || before.empty()) return;  // a file that the diff adds
    const fs::path path = kTree / file;
    ASSERT_TRUE(fs::exists(path)) << path;
    EXPECT_NE(content_of(path).find(before), std::string::npos)
        << "docs/extending.md has of " << file << ":\n"
        << before;
}

TEST(Docs, DiffsFitTheTree) {
    std::istringstream in(content_of(kTree / "docs/extending.md"));
    bool in_diff = false;
    std::string file, before;
    std::size_t hunks = 0;
    for (std::string line; std::getline(in, line);) {
        const bool begins = line == "```diff", ends = line == "```";
        if (begins || ends || line.starts_with("@@") || line.starts_with("--- ")) {
            expect_hunk(file, before);
            hunks += before.empty() ? 0 : 1;
            before.clear();
        }
        if (begins || ends) in_diff = begins;
        if (!in_diff) continue;
        if (line.starts_with("--- ")) file = line == "--- /dev/null" ? "" : line.substr(6);
        if (line.starts_with("--- ") || line.starts_with("+++ ")) continue;
        if (line.starts_with(" ") || line.starts_with("-")) before += line.substr(1) + "\n";
    }
    EXPECT_GT(hunks, 10U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
