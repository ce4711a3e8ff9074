// Reads what a shell would run, as far as that is written in the text: words with quotes, line
// continuations and comments, variables and arrays, arithmetic, conditions, functions and
// here-documents. What only a run could tell (arguments, command substitutions, variables from
// outside) stays in a word as it is written, and the word is marked open. Where a condition is not
// settled, each of its branches is run: what they leave alike is settled all the same.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::plan::imports {

struct ShellWord {
    std::string text;
    int line = 0;  // where it is written, in an array or in the command
    bool open = false;

    bool operator==(const ShellWord& other) const {
        return text == other.text && open == other.open;
    }
};

// Options that a branch adds to a variable whose condition is not settled; they are not added.
struct Undecided {
    std::string variable;
    std::vector<ShellWord> words;
    int line = 0;
};

// A file that the script writes itself: `cat > NAME <<EOF`, `echo "…" > NAME`. What only a run can
// tell of its text stands between kOpens and kCloses.
struct WrittenFile {
    ShellWord name;
    std::string text;
    int line = 0;         // where the text begins
    bool certain = true;  // no condition that is not settled decides about it
    std::string fault;    // why the text is not read; empty where it is
};
// Characters that Unicode leaves to private use.
inline constexpr std::string_view kOpens = "\xee\x80\x80";
inline constexpr std::string_view kCloses = "\xee\x80\x81";

struct ShellScript {
    std::vector<std::vector<ShellWord>> commands;  // in their order; none is empty
    std::vector<ShellWord> batch;                  // options of #SBATCH comments
    std::vector<ShellWord> environment;            // "NAME=value", exported or before a command
    std::vector<Undecided> undecided;
    std::vector<WrittenFile> files;  // as the last command that writes each leaves it
};

// What is no shell text, or goes beyond what is read here.
class ShellError : public std::runtime_error {
  public:
    ShellError(int at_line, int at_column, const std::string& what)
        : std::runtime_error(what), line(at_line), column(at_column) {}

    int line;
    int column;
};

// Throws ShellError.
ShellScript read_shell(std::string_view text);

}  // namespace orrery::plan::imports
