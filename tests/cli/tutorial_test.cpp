// docs/tutorial.md is performed: each of its files is written, each command run, and what the page
// shows of its output is held against what it prints. The page says how it is to be read: a line
// "…" stands for lines that are left out, a number behind "≈" for one that computers differ in.
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/run_subcommands.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;

// One command of the page with what is shown of it, or a file of it, whose command is empty.
struct Shown {
    std::string command;
    std::string file;
    std::vector<std::string> lines;
};

// What is set off by four blanks: files, behind a line that ends with "as `NAME`:", and commands.
std::vector<Shown> shown_in(const std::string& page) {
    static const std::regex names_a_file("as `([^`]+)`:$");
    std::vector<Shown> all;
    std::istringstream in(page);
    std::string file;
    for (std::string line; std::getline(in, line);) {
        std::smatch named;
        if (std::regex_search(line, named, names_a_file)) file = named[1];
        if (!line.empty() && !line.starts_with("    ")) {
            all.emplace_back();  // prose ends what stood before it
            continue;
        }
        const std::string text = line.substr(std::min<std::size_t>(4, line.size()));
        if (text.starts_with("$ ")) {
            all.push_back({text.substr(2), "", {}});
        } else if (!text.empty() && !file.empty()) {
            all.push_back({"", file, {}});
            file.clear();
        }
        if (!text.empty() && !all.empty()) all.back().lines.push_back(text);
    }
    std::erase_if(all, [](const Shown& one) { return one.command.empty() && one.file.empty(); });
    for (Shown& one : all)
        if (!one.command.empty()) one.lines.erase(one.lines.begin());
    return all;
}

std::vector<std::string> words_of(const std::string& command) {
    std::istringstream in(command);
    std::vector<std::string> words;
    for (std::string word; in >> word;)
        words.push_back(word);
    return words;
}

// Of both streams together, as a terminal shows them.
std::string printed_by_orrery_run(const std::vector<std::string>& args) {
    std::string command = "'" + program("orrery-run") + "'";
    for (const std::string& arg : args)
        command += " '" + arg + "'";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen((command + " 2>&1").c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
        text += part.data();
    return text;
}

std::string printed_by(const std::string& command) {
    std::vector<std::string> words = words_of(command);
    if (words.at(0) == "cat") return content_of(words.at(1));
    EXPECT_EQ(words.at(0), "orrery") << command;
    words.erase(words.begin());
    for (const RunSubcommand& performing : kRunSubcommands)
        if (words.at(0) == performing.name) return printed_by_orrery_run(words);
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
    return outcome.out + outcome.err;
}

// Blank lines, how far a command has come, and that a busy computer waited for data are left out;
// white space is one blank.
std::vector<std::string> lines_printed(const std::string& text) {
    static const std::regex waited(" waited [0-9.,]+ [^ ]+ for data$");
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        if (line.find(": pricing layouts, ") != std::string::npos) continue;
        std::string joined;
        for (const std::string& word : words_of(line))
            joined += (joined.empty() ? "" : " ") + word;
        if (!joined.empty()) lines.push_back(std::regex_replace(joined, waited, ""));
    }
    return lines;
}

std::regex pattern_of(const std::string& shown) {
    static const std::regex special(R"([.^$|()\[\]{}*+?\\])");
    static const std::regex measured(
        "( ?)≈[-+]?[0-9][0-9.,]*( (?:ps|ns|µs|ms|s|min|kB|MB|GB|%))?(?=[ ,:]|$)");
    std::string joined;
    for (const std::string& word : words_of(shown))
        joined += (joined.empty() ? "" : " ") + word;
    std::string pattern;
    std::size_t from = 0;
    for (std::sregex_iterator at(joined.begin(), joined.end(), measured), end; at != end; ++at) {
        const auto place = static_cast<std::size_t>(at->position());
        pattern += std::regex_replace(joined.substr(from, place - from), special, R"(\$&)");
        pattern += " ?[-+<]?[0-9][0-9.,]*";
        if ((*at)[2].matched) pattern += " (ps|ns|µs|ms|s|min|kB|MB|GB|%)";
        from = place + static_cast<std::size_t>(at->length());
    }
    return std::regex(pattern + std::regex_replace(joined.substr(from), special, R"(\$&)"));
}

void expect_shown(const Shown& shown) {
    const std::vector<std::string> printed = lines_printed(printed_by(shown.command));
    std::size_t next = 0;
    bool left_out = false;
    for (const std::string& line : shown.lines) {
        if (line == "…") {
            left_out = true;
            continue;
        }
        const std::regex pattern = pattern_of(line);
        const std::size_t from = next;
        while (left_out && next < printed.size() && !std::regex_match(printed[next], pattern))
            ++next;
        if (next == printed.size() || !std::regex_match(printed[next], pattern)) {
            std::string all;
            for (const std::string& one : printed)
                all += one + '\n';
            FAIL() << "$ " << shown.command << "\nis said to print\n  " << line << "\nbehind line "
                   << from << " of\n"
                   << all;
        }
        ++next;
        left_out = false;
    }
    EXPECT_TRUE(left_out || next == printed.size())
        << "$ " << shown.command << "\nprints more than is shown: " << printed.at(next);
}

class WorkingFolder {
  public:
    explicit WorkingFolder(const fs::path& folder) : before_(fs::current_path()) {
        fs::create_directories(folder);
        fs::current_path(folder);
    }
    ~WorkingFolder() { fs::current_path(before_); }
    WorkingFolder(const WorkingFolder&) = delete;
    WorkingFolder& operator=(const WorkingFolder&) = delete;

  private:
    fs::path before_;
};

TEST(Tutorial, PrintsWhatThePageShows) {
    const std::vector<Shown> page =
        shown_in(content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/tutorial.md"));
    const WorkingFolder here(testing::TempDir() + "tutorial");
    std::size_t commands = 0, files = 0, lines = 0;
    for (const Shown& shown : page) {
        if (shown.command.empty()) {
            fs::create_directories(fs::absolute(shown.file).parent_path());
            std::ofstream file(shown.file);
            for (const std::string& line : shown.lines)
                file << line << '\n';
            ++files;
        } else {
            expect_shown(shown);
            ++commands;
            lines += shown.lines.size();
        }
    }
    EXPECT_EQ(files, 2U);
    EXPECT_GE(commands, 10U);
    EXPECT_GE(lines, 100U);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
