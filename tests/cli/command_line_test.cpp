// The command line as data, and what is made of it: completion in real shells, manual pages that
// groff takes without a word, build facts.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/build_facts.hpp"
#include "cli/command_line/description.hpp"
#include "cli/completed_values.hpp"
#include "cli/run/run_performing.hpp"
#include "cli/run_subcommands.hpp"
#include "tests/cli/world.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Words = std::vector<std::string>;

std::string printed(const std::string& command, int* status = nullptr) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen((command + " 2>&1").c_str(), "r"), [](std::FILE*) { return 0; });
    std::string text;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
        text += part.data();
    const int ended = pclose(pipe.get());
    if (status != nullptr) *status = ended;
    return text;
}

bool has_program(const std::string& name) {
    int status = 0;
    printed("command -v " + name, &status);
    return status == 0;
}

Words sorted_lines(const std::string& text) {
    Words lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (!line.empty()) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
}

CommandLine whole() {
    const Outcome outcome = run({"commands", "--json"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    return command_line_of(nlohmann::json::parse(outcome.out));
}

const DescribedOption& option_of(const CommandLine& all, const std::string& command,
                                 const std::string& name) {
    for (const DescribedCommand& one : all.commands) {
        if (one.name != command) continue;
        for (const DescribedOption& option : one.options)
            if (option.value == name ||
                std::count(option.names.begin(), option.names.end(), name) > 0)
                return option;
    }
    ADD_FAILURE() << command << ' ' << name;
    static const DescribedOption none;
    return none;
}

TEST(CommandLine, HasEveryCommandOfBothPrograms) {
    const CommandLine all = whole();
    std::set<std::string> names;
    for (const DescribedCommand& command : all.commands) {
        EXPECT_TRUE(names.insert(command.name).second) << command.name;
        EXPECT_FALSE(command.options.empty()) << command.name;
        EXPECT_FALSE(command.examples.empty()) << command.name;
    }
    for (const auto& subcommand : predicting_program().subcommands)
        EXPECT_TRUE(names.contains(subcommand->name())) << subcommand->name();
    EXPECT_TRUE(names.contains(kGui.name));
    // orrery-run, asked as a process, says what its own declarations do.
    const CommandLine performing = describe(performing_program(), "orrery-run");
    for (const RunSubcommand& subcommand : kRunSubcommands) {
        const auto is_it = [&](const DescribedCommand& one) { return one.name == subcommand.name; };
        const auto asked = std::find_if(all.commands.begin(), all.commands.end(), is_it);
        const auto declared =
            std::find_if(performing.commands.begin(), performing.commands.end(), is_it);
        ASSERT_NE(asked, all.commands.end());
        ASSERT_NE(declared, performing.commands.end());
        EXPECT_EQ(*asked, *declared) << subcommand.name;
    }
}

TEST(CommandLine, KnowsWhatStandsBehindAnOption) {
    const CommandLine all = whole();
    EXPECT_TRUE(option_of(all, "simulate", "FILE").file);
    EXPECT_TRUE(option_of(all, "simulate", "FILE").required);
    EXPECT_TRUE(option_of(all, "simulate", "--trace").file);
    EXPECT_TRUE(option_of(all, "simulate", "--chakra").folder);
    EXPECT_EQ(option_of(all, "simulate", "--json").value, "");
    EXPECT_TRUE(option_of(all, "simulate", "--set").repeatable);
    EXPECT_EQ(option_of(all, "simulate", "--set").value, "KEY=VALUE");
    EXPECT_EQ(option_of(all, "simulate", "--set").source, "settings");
    EXPECT_EQ(option_of(all, "init", "MODEL").source, "models");
    EXPECT_THAT(option_of(all, "train", "--transport").words, ElementsAre("auto", "tcp", "mpi"));
    EXPECT_THAT(option_of(all, "sweep", "--metric").words, Contains("tokens_per_s"));
    EXPECT_THAT(option_of(all, "import", "--from").words,
                IsSupersetOf({"megatron", "deepspeed", "huggingface"}));
    // Every set of values a command refuses others of is one that completes: what is listed works.
    for (const std::string& kind : option_of(all, "list", "KIND").words)
        EXPECT_EQ(run({"list", kind, "no such word"}).code, 0) << kind;
    EXPECT_EQ(option_of(all, "list", "KIND").words.size(), 4U);
}

TEST(CommandLine, WordsOfTheLibraryAreThoseThatCommandsTake) {
    for (std::size_t i = 0; i < kWordSources; ++i) {
        const auto source = static_cast<WordSource>(i);
        const Words words = words_of(source);
        EXPECT_GT(words.size(), 3U) << name(source);
        EXPECT_EQ(
            sorted_lines(run({"completion", "--words", std::string(name(source))}).out).size(),
            words.size());
    }
    EXPECT_THAT(words_of(WordSource::models), Contains("llama3-70b"));
    EXPECT_THAT(words_of(WordSource::devices), Contains("h100-sxm"));
    EXPECT_THAT(words_of(WordSource::settings),
                IsSupersetOf({"layout.tensor_parallel=", "layout.schedule=1f1b",
                              "layout.sequence_parallel=true"}));
    EXPECT_THAT(words_of(WordSource::op_kinds), IsSupersetOf({"gemm", "all_reduce"}));
}

// A program that lies alone: the commands of the other one are named, and that nothing more is
// known of them.
TEST(CommandLine, SaysThatTheOtherProgramIsNotThere) {
    const std::string alone = testing::TempDir() + "alone";
    fs::create_directories(alone);
    fs::copy_file(program("orrery"), alone + "/orrery", fs::copy_options::overwrite_existing);
    const std::string said = printed("'" + alone + "/orrery' man train");
    EXPECT_THAT(said, HasSubstr("orrery: orrery-run does not lie beside this program, so that "
                                "nothing is known of the options of train, export, calibrate, "
                                "doctor\n"));
    EXPECT_THAT(said, HasSubstr("It is part of \\fBorrery\\-run\\fR"));
    const std::string bash = printed("'" + alone + "/orrery' completion bash 2>/dev/null");
    EXPECT_THAT(bash, HasSubstr(" train export calibrate doctor gui "));
    EXPECT_THAT(bash, HasSubstr("'train' | 'export' | 'calibrate' | 'doctor'"));
    fs::remove_all(alone);
}

class Completion : public testing::Test {
  protected:
    Completion() : folder_(testing::TempDir() + "completion"), before_(fs::current_path()) {
        fs::create_directories(folder_ + "/runs of may");
        for (const char* file : {"run.json", "rules.txt"})
            std::ofstream(folder_ + '/' + file) << "{}";
        fs::current_path(folder_);
    }
    ~Completion() override { fs::current_path(before_); }

    // With the programs of this build before all others.
    std::string shell(const std::string& command) const {
        return printed("PATH='" + fs::path(program("orrery")).parent_path().string() +
                       "':\"$PATH\" " + command);
    }

    std::string script(const std::string& name) const {
        const Outcome outcome = run({"completion", name});
        EXPECT_EQ(outcome.code, 0);
        EXPECT_EQ(outcome.err, "");
        const std::string path = folder_ + "/completion." + name;
        std::ofstream(path) << outcome.out;
        return path;
    }

    std::string folder_;
    fs::path before_;
};

// What bash offers for each line, whose words are parted as bash parts them.
TEST_F(Completion, InBash) {
    struct Asked {
        std::string line;  // words in quotes
        Words offered;     // sorted
    };
    const std::vector<Asked> questions = {
        {"orrery sim", {"simulate"}},
        {"orrery tr", {"train"}},
        {"orrery --v", {"--version"}},
        {"orrery simulate --t", {"--table", "--timeline", "--trace"}},
        {"orrery simulate run.json --table sta", {"stacks", "stages"}},
        {"orrery list models --csv ru", {"rules.txt", "run.json", "runs of may"}},
        {"orrery simulate run.json --trace ru", {"rules.txt", "run.json", "runs of may"}},
        {"orrery simulate --chakra ru", {"runs of may"}},
        {"orrery simulate --trace run.json ru", {"rules.txt", "run.json", "runs of may"}},
        {"orrery simulate run.json ru", {}},
        {"orrery validate run.json rul", {"rules.txt"}},
        {"orrery train run.json --res", {"--resume", "--resume-step"}},
        {"orrery train --transport = t", {"tcp"}},
        {"orrery train --transport m", {"mpi"}},
        {"orrery launch run.json --for t", {"torchtitan"}},
        {"orrery simulate --set layout.tensor", {"layout.tensor_parallel="}},
        {"orrery simulate --set layout.schedule = zb-v", {"zb-v"}},
        {"orrery simulate --set = layout.schedule = zb-v", {"zb-v"}},
        {"orrery simulate --set layout.schedule = gpipe run", {"run.json", "runs of may"}},
        {"orrery init llama3-7", {"llama3-70b"}},
        {"orrery init --cluster clusters/eos", {"clusters/eos-h100-4608.json"}},
        {"orrery init --framework zero", {"zero-bubble"}},
        {"orrery list mod", {"models"}},
        {"orrery schema layout.tensor", {"layout.tensor_parallel"}},
        {"orrery man doc", {"doctor"}},
        {"orrery completion f", {"fish"}},
        {"orrery simulate --max-size 2", {}},
        {"orrery nonsense r", {}},
    };
    std::string text = "source '" + script("bash") +
                       "'\n"
                       "asked() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _orrery\n"
                       "    printf '%s\\n' \"${COMPREPLY[@]}\"; echo ---; }\n";
    for (const Asked& one : questions)
        text += "asked " + one.line + '\n';
    std::ofstream(folder_ + "/ask.bash") << text;
    std::istringstream answers(shell("bash --norc ask.bash"));
    for (const Asked& one : questions) {
        std::string offered;
        for (std::string line; std::getline(answers, line) && line != "---";)
            offered += line + '\n';
        EXPECT_EQ(sorted_lines(offered), one.offered) << one.line;
    }
    EXPECT_EQ(shell("bash --norc -c \"source completion.bash && complete -p orrery\""),
              "complete -F _orrery orrery\n");
}

// Every option of every command stands in each script; what a shell itself says where it is here.
TEST_F(Completion, InZshAndFish) {
    const std::string zsh = content_of(script("zsh")), fish = content_of(script("fish"));
    for (const DescribedCommand& command : whole().commands) {
        EXPECT_THAT(zsh, HasSubstr("                " + command.name + ")\n"));
        EXPECT_THAT(fish, HasSubstr("-a " + command.name + " -d "));
        for (const DescribedOption& option : command.options)
            for (const std::string& option_name : option.names) {
                EXPECT_THAT(zsh, HasSubstr(option_name));
                const std::string in_fish = option_name.starts_with("--")
                                                ? " -l " + option_name.substr(2) + ' '
                                                : " -s " + option_name.substr(1) + ' ';
                EXPECT_THAT(fish, HasSubstr(in_fish)) << command.name;
            }
    }
    if (has_program("zsh")) {
        EXPECT_EQ(shell("zsh -n completion.zsh"), "");
    }
    if (has_program("fish")) {
        EXPECT_EQ(shell("fish --no-execute completion.fish"), "");
        const auto offered = [&](const std::string& line) {
            return shell("fish -c \"source completion.fish; complete -C '" + line + "'\"");
        };
        EXPECT_THAT(offered("orrery sim"), HasSubstr("simulate\t"));
        EXPECT_THAT(offered("orrery launch x --for t"), HasSubstr("torchtitan"));
        EXPECT_THAT(offered("orrery simulate --set layout.schedule=g"), HasSubstr("=gpipe"));
    }
    if (!has_program("zsh") || !has_program("fish"))
        GTEST_SKIP() << "zsh or fish is not here: their scripts were not run";
}

TEST(Manual, PagesSayWhatHelpSays) {
    const CommandLine all = whole();
    const std::string first = run({"man"}).out;
    EXPECT_THAT(first, HasSubstr(".TH ORRERY 1 \"\" \"" + tool_name() + "\""));
    std::string every = first;
    for (const DescribedCommand& command : all.commands) {
        const Outcome outcome = run({"man", command.name});
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        every += outcome.out;
        EXPECT_THAT(first, HasSubstr("orrery\\-" + replaced(command.name, "-", "\\-")));
        for (const DescribedOption& option : command.options)
            for (const std::string& name : option.names)
                EXPECT_THAT(outcome.out, HasSubstr("\\fB" + replaced(name, "-", "\\-") + "\\fR"));
        for (const std::string& example : command.examples)
            EXPECT_THAT(outcome.out,
                        HasSubstr(replaced("orrery " + example.substr(0, 12), "-", "\\-")));
        EXPECT_THAT(outcome.out, HasSubstr(".SH EXIT STATUS"));
    }
    const Outcome unknown = run({"man", "simulat"});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.err, HasSubstr("did you mean 'simulate'?"));
    if (!has_program("groff")) GTEST_SKIP() << "groff is not here: no page was set";
    const std::string pages = written("pages.1", every);
    EXPECT_EQ(printed("groff -man -K utf8 -T utf8 -ww -z '" + pages + "'"), "");
}

// docs/command-line.md has the exit codes of the pages.
TEST(Manual, ExitCodesAreThoseOfTheDocs) {
    const std::string page = run({"man", "simulate"}).out;
    const std::string docs = content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/command-line.md");
    static const std::regex entry(R"(\.TP\n\\fB([0-9]+)\\fR\n([^\n]*)\.\n)");
    std::size_t codes = 0;
    for (std::sregex_iterator at(page.begin(), page.end(), entry), end; at != end; ++at, ++codes)
        EXPECT_THAT(docs, HasSubstr("| " + (*at)[1].str() + " | " + (*at)[2].str()));
    EXPECT_EQ(codes, 10U);
}

TEST(BuildFacts, AreOfThisProgram) {
    const BuildFacts facts = build_facts();
    EXPECT_EQ(facts.version, program_version());
    EXPECT_TRUE(std::regex_match(facts.version, std::regex(R"(\d+\.\d+\.\d+)")));
    EXPECT_FALSE(facts.compiler.empty());
    const std::string docs = content_of(std::string(ORRERY_SOURCE_DIR) + "/docs/formats.md");
    const std::string changes = content_of(std::string(ORRERY_SOURCE_DIR) + "/CHANGELOG.md");
    for (const FormatVersion& one : facts.formats) {
        const std::regex row("\n\\| \\[?" + std::string(one.format) + "[^|]*\\| " +
                             std::to_string(one.version) + " \\|");
        EXPECT_TRUE(std::regex_search(docs, row)) << one.format;
        EXPECT_TRUE(std::regex_search(changes, row)) << one.format;
    }
    EXPECT_THAT(changes, HasSubstr("## [" + facts.version + "]"));
    // The programs know the commit, or that there is none; the version is the project's.
    const std::string said = printed("'" + program("orrery") + "' --version");
    static const std::regex commit("\n  commit      ([0-9a-f]+(-dirty)?|unknown)\n");
    EXPECT_TRUE(std::regex_search(said, commit)) << said;
    EXPECT_EQ(said, printed("'" + program("orrery-run") + "' --version"));
    EXPECT_THAT(content_of(std::string(ORRERY_SOURCE_DIR) + "/CMakeLists.txt"),
                HasSubstr("project(orrery VERSION " + facts.version));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
