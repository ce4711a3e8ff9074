#include "plan/scenario/import/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/scenario/import/shell_words.hpp"

namespace orrery::plan::imports {
namespace {

constexpr std::size_t kMostWords = 1u << 16;

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* one) { return word == one; });
}

// Runs assignments as a shell would, and keeps every command's words.
class Script {
  public:
    explicit Script(std::string_view text) { cursor_.text = text; }

    ShellScript read() {
        while (!cursor_.done())
            read_command();
        return std::move(out_);
    }

  private:
    struct Assignment {
        std::string name;
        std::vector<ShellWord> value;
        bool more = false;  // +=
        bool array = false;
    };

    // Blanks and continued lines, not the ends of lines.
    void skip_blanks() {
        for (;;) {
            if (is_blank_here())
                cursor_.take();
            else if (!cursor_.takes("\\\n") && !cursor_.takes("\\\r\n"))
                return;
        }
    }
    bool is_blank_here() const {
        const char c = cursor_.peek();
        return c == ' ' || c == '\t' || c == '\r';
    }

    void read_comment() {
        const int line = cursor_.line;
        std::string text;
        while (!cursor_.done() && cursor_.peek() != '\n')
            text += cursor_.take();
        if (text.rfind("#SBATCH", 0) != 0) return;
        ShellCursor inner = {std::string_view(text).substr(7), 0, line, 0};
        while (!inner.done()) {
            if (inner.peek() == ' ' || inner.peek() == '\t' || inner.peek() == '\r') {
                inner.take();
                continue;
            }
            if (inner.peek() == '#') return;
            const std::size_t before = inner.at;
            for (ShellWord& word : ShellWords(inner, variables_).read(false))
                out_.batch.push_back(std::move(word));
            if (inner.at == before) return;  // an operator: no option of a batch system
        }
    }

    // Consumes what ends a command; whether there was anything.
    bool read_end() {
        if (cursor_.takes("&&") || cursor_.takes("||")) {
            next_may_not_run_ = true;
            return true;
        }
        const char c = cursor_.peek();
        if (c != '\n' && c != ';' && c != '&' && c != '|') return false;
        cursor_.take();
        return true;
    }

    // The word after it is a file.
    bool read_redirection() {
        std::size_t digits = 0;
        while (cursor_.peek(digits) >= '0' && cursor_.peek(digits) <= '9')
            ++digits;
        const bool both = cursor_.peek() == '&' && cursor_.peek(1) == '>';
        const char c = both ? '>' : cursor_.peek(digits);
        if (c != '>' && c != '<') return false;
        for (std::size_t i = 0; i < digits + (both ? 1 : 0); ++i)
            cursor_.take();
        if (cursor_.text.substr(cursor_.at, 2) == "<<")
            cursor_.fail("here-documents are not read: give the command itself");
        cursor_.take();
        while (cursor_.peek() == '>' || cursor_.peek() == '&')
            cursor_.take();
        skip_blanks();
        ShellWords(cursor_, variables_).read(true);
        return true;
    }

    // NAME=… or NAME+=… at the cursor.
    bool reads_assignment(Assignment& out) {
        const std::string_view rest = cursor_.text.substr(cursor_.at);
        const std::size_t equals = rest.find('=');
        if (equals == std::string_view::npos || equals > 256) return false;
        const bool more = equals > 0 && rest[equals - 1] == '+';
        const std::string_view name = rest.substr(0, equals - (more ? 1 : 0));
        if (!is_shell_name(name)) return false;
        out.name = std::string(name);
        out.more = more;
        while (cursor_.take() != '=') {
        }
        if (cursor_.takes("("))
            read_array(out);
        else
            out.value = ShellWords(cursor_, variables_).read(false);
        if (!out.array && out.value.empty()) out.value.push_back({"", cursor_.line, false});
        return true;
    }

    void read_array(Assignment& out) {
        const ShellCursor start = cursor_;
        out.array = true;
        for (;;) {
            skip_blanks();
            if (cursor_.done()) start.fail("this array is not closed");
            if (cursor_.takes(")")) return;
            if (cursor_.takes("\n")) continue;
            if (cursor_.peek() == '#') {
                read_comment();
                continue;
            }
            const std::size_t before = cursor_.at;
            for (ShellWord& word : ShellWords(cursor_, variables_).read(true))
                out.value.push_back(std::move(word));
            if (cursor_.at == before) cursor_.fail("not a word of an array");
            if (out.value.size() > kMostWords) cursor_.fail("an array of more than 65,536 words");
        }
    }

    void assign(Assignment&& given) {
        std::vector<ShellWord>& value = variables_[given.name];
        if (undecided() && given.more) {
            std::string text = given.name + "+=";
            for (const ShellWord& word : given.value)
                text += (text.back() == '=' ? "" : " ") + word.text;
            const int line = given.value.empty() ? cursor_.line : given.value[0].line;
            out_.undecided.push_back({std::move(text), line, true});
        } else if (undecided()) {
            const int line = given.value.empty() ? cursor_.line : given.value[0].line;
            value = {{'$' + given.name, line, true}};
        } else if (!given.more) {
            value = std::move(given.value);
        } else if (given.array || value.empty()) {
            for (ShellWord& word : given.value)
                value.push_back(std::move(word));
            if (value.size() > kMostWords) cursor_.fail("an array of more than 65,536 words");
        } else {
            value[0].text += given.value[0].text;
            value[0].open = value[0].open || given.value[0].open;
            if (value[0].text.size() > kMostWords)
                cursor_.fail("a word of more than 64 KiB: not a command line");
        }
    }

    // Whether what is read now runs is not settled in the text.
    bool undecided() const { return conditions_ > 0 || may_not_run_; }

    void note_environment(const Assignment& given) {
        const ShellWord& word = given.value.empty() ? ShellWord{} : given.value[0];
        out_.environment.push_back({given.name + '=' + word.text, word.line, word.open});
    }

    // A word that the shell itself acts on; whether it was one.
    bool is_control(const std::string& word) {
        if (is_one_of(word, {"if", "while", "until", "for", "select"})) {
            ++conditions_;
            return true;
        }
        if (word == "case" || word == "function")
            cursor_.fail(word + " is not read: give the command itself");
        if (is_one_of(word, {"fi", "done"})) {
            conditions_ = std::max(conditions_ - 1, 0);
            return true;
        }
        return is_one_of(word, {"then", "else", "elif", "do", "{", "}", "!", "time"});
    }

    void read_command() {
        may_not_run_ = std::exchange(next_may_not_run_, false);
        std::vector<ShellWord> words;
        std::vector<Assignment> before;
        bool exporting = false;
        for (;;) {
            skip_blanks();
            if (read_redirection()) continue;
            if (cursor_.done() || read_end()) break;
            if (cursor_.peek() == '#') {
                read_comment();
                continue;
            }
            if (cursor_.peek() == '(' || cursor_.peek() == ')')
                cursor_.fail("functions and subshells are not read: give the command itself");
            Assignment given;
            if ((words.empty() || exporting) && reads_assignment(given)) {
                before.push_back(std::move(given));
                continue;
            }
            for (ShellWord& word : ShellWords(cursor_, variables_).read(true)) {
                if (words.empty() && is_control(word.text)) continue;
                if (words.empty())
                    exporting =
                        is_one_of(word.text, {"export", "declare", "local", "readonly", "typeset"});
                words.push_back(std::move(word));
            }
            if (words.size() > kMostWords) cursor_.fail("a command of more than 65,536 words");
        }
        finish(std::move(words), std::move(before), exporting);
    }

    void finish(std::vector<ShellWord> words, std::vector<Assignment> before, bool exporting) {
        // Before a command they are its environment, and nothing after it sees them.
        const bool of_command = !words.empty() && !exporting;
        for (Assignment& given : before) {
            if (of_command || (exporting && words[0].text == "export")) note_environment(given);
            if (!of_command) assign(std::move(given));
        }
        if (of_command) out_.commands.push_back(std::move(words));
    }

    ShellCursor cursor_;
    ShellVariables variables_;
    ShellScript out_;
    int conditions_ = 0;
    bool may_not_run_ = false;
    bool next_may_not_run_ = false;
};

}  // namespace

ShellScript read_shell(std::string_view text) {
    return Script(text).read();
}

}  // namespace orrery::plan::imports
