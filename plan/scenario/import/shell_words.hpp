// One word of a shell: quotes, escapes and expansions. Internal to the reader of scripts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/import/shell_script.hpp"

namespace orrery::plan::imports {

// Where reading stands in a text.
struct ShellCursor {
    std::string_view text;
    std::size_t at = 0;
    int line = 1;
    std::size_t line_start = 0;

    bool done() const { return at >= text.size(); }
    char peek(std::size_t ahead = 0) const {
        return at + ahead < text.size() ? text[at + ahead] : '\0';
    }
    char take();
    bool takes(std::string_view expected);  // moves over it where it stands here
    [[noreturn]] void fail(const std::string& what) const;
};

// A variable is an array of words; a plain one has a single word.
using ShellVariables = std::map<std::string, std::vector<ShellWord>>;

class ShellWords {
  public:
    ShellWords(ShellCursor& cursor, const ShellVariables& variables, int depth = 0)
        : cursor_(cursor), variables_(variables), depth_(depth) {}

    // Reads the word that begins at the cursor. `split`: what an expansion outside of quotes brings
    // falls apart at its blanks, as it does everywhere but in an assignment. A word may so become
    // none or several.
    std::vector<ShellWord> read(bool split);

    // The text up to its end as a here-document has it: expansions, but no quotes.
    std::string read_document();

    // What ${NAME:=value} has given to variables that were not set.
    const ShellVariables& assigned() const { return assigned_; }

  private:
    void add(char c);
    void add(const ShellWord& word, bool split);
    void add_all(const std::vector<ShellWord>& words, bool quoted, bool split);
    void add_open(std::size_t from);
    void end_word();

    void single_quotes();
    void double_quotes(bool split);
    void backticks();
    void expansion(bool quoted, bool split);
    void add_default(std::string_view text, bool quoted, bool split);
    void braces(std::size_t from, bool quoted, bool split);
    void substitution(std::size_t from);
    void variable(const std::string& name, std::size_t from, bool quoted, bool split);
    void skip_until_closed(char open, char close);
    void all_of(const std::string& name, std::size_t from, bool quoted, bool split);

    ShellCursor& cursor_;
    const ShellVariables& variables_;
    int depth_;
    ShellVariables assigned_;
    std::vector<ShellWord> done_;
    ShellWord word_;
    bool begun_ = false;  // word_ is one even if it is empty
    bool marks_ = false;  // what is open stands between kOpens and kCloses
};

// The text of a variable that has one word which is known.
std::optional<std::string> settled_value(const ShellVariables& variables, const std::string& name);
bool is_shell_name(std::string_view text);

}  // namespace orrery::plan::imports
