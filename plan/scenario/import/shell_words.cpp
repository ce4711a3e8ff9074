#include "plan/scenario/import/shell_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plan/scenario/import/shell_arithmetic.hpp"

namespace orrery::plan::imports {
namespace {

constexpr int kDeepestDefault = 16;                   // defaults within defaults
constexpr std::size_t kLongestWord_bytes = 1u << 16;  // variables that double themselves end here
constexpr std::size_t kMostWordsOfText = 1u << 14;

bool begins_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool in_name(char c) {
    return begins_name(c) || (c >= '0' && c <= '9');
}

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Where an unquoted word ends.
bool ends_word(char c) {
    return is_blank(c) || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == '(' ||
           c == ')';
}

bool all_digits(const std::string& name) {
    return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_empty(const std::vector<ShellWord>& value) {
    return value.empty() || (value.size() == 1 && value[0].text.empty());
}

// Where the $(…), ${…} or `…` ends that stands at `at`, as an open word has it; `at` where none
// does. Blanks within it are those of the command, not of what it prints.
std::size_t end_of_expansion(std::string_view text, std::size_t at) {
    if (text[at] == '`') {
        const std::size_t close = text.find('`', at + 1);
        return close == std::string_view::npos ? at : close + 1;
    }
    const std::string_view opens = text.substr(at, 2);
    if (opens != "$(" && opens != "${") return at;
    const char open = opens[1], close = open == '(' ? ')' : '}';
    int depth = 0;
    for (std::size_t i = at + 1; i < text.size(); ++i) {
        if (text[i] == open) ++depth;
        if (text[i] == close && --depth == 0) return i + 1;
    }
    return at;
}

}  // namespace

std::optional<std::string> settled_value(const ShellVariables& variables, const std::string& name) {
    const auto at = variables.find(name);
    if (at == variables.end() || at->second.size() != 1 || at->second[0].open) return std::nullopt;
    return at->second[0].text;
}

bool is_shell_name(std::string_view text) {
    return !text.empty() && begins_name(text[0]) && std::all_of(text.begin(), text.end(), in_name);
}

char ShellCursor::take() {
    const char c = text[at++];
    if (c == '\n') {
        ++line;
        line_start = at;
    }
    return c;
}

bool ShellCursor::takes(std::string_view expected) {
    if (text.substr(at, expected.size()) != expected) return false;
    for (std::size_t i = 0; i < expected.size(); ++i)
        take();
    return true;
}

void ShellCursor::fail(const std::string& what) const {
    throw ShellError(line, static_cast<int>(at - line_start) + 1, what);
}

std::vector<ShellWord> ShellWords::read(bool split) {
    while (!cursor_.done() && !ends_word(cursor_.peek())) {
        const char c = cursor_.peek();
        if (c == '\'') {
            single_quotes();
        } else if (c == '"') {
            double_quotes(split);
        } else if (c == '`') {
            backticks();
        } else if (c == '$') {
            expansion(false, split);
        } else if (c == '\\') {
            cursor_.take();
            if (cursor_.takes("\r\n") || cursor_.takes("\n")) continue;
            if (!cursor_.done()) add(cursor_.take());
        } else {
            add(cursor_.take());
        }
    }
    end_word();
    return std::move(done_);
}

std::string ShellWords::read_document() {
    marks_ = true;
    while (!cursor_.done()) {
        const char c = cursor_.peek();
        if (c == '$') {
            expansion(true, false);
        } else if (c == '`') {
            backticks();
        } else if (c == '\\') {
            cursor_.take();
            if (cursor_.takes("\n")) continue;
            const char next = cursor_.peek();
            if (next != '\\' && next != '$' && next != '`') add('\\');
            if (!cursor_.done()) add(cursor_.take());
        } else {
            add(cursor_.take());
        }
    }
    end_word();
    return done_.empty() ? "" : done_[0].text;
}

void ShellWords::add(char c) {
    if (!begun_) word_.line = cursor_.line;
    begun_ = true;
    if (word_.text.size() >= kLongestWord_bytes)
        cursor_.fail("a word of more than 64 KiB: not a command line");
    word_.text += c;
}

void ShellWords::add(const ShellWord& word, bool split) {
    if (!split) {
        if (!begun_) word_.line = word.line;
        begun_ = true;
        if (word_.text.size() + word.text.size() > kLongestWord_bytes)
            cursor_.fail("a word of more than 64 KiB: not a command line");
        const bool marked = marks_ && word.open;
        if (marked) word_.text += kOpens;
        word_.text += word.text;
        if (marked) word_.text += kCloses;
        word_.open = word_.open || word.open;
        return;
    }
    std::size_t unsettled_end = 0;
    for (std::size_t i = 0; i < word.text.size(); ++i) {
        const char c = word.text[i];
        if (word.open && i >= unsettled_end) unsettled_end = end_of_expansion(word.text, i);
        if (i >= unsettled_end && is_blank(c)) {
            end_word();
            continue;
        }
        if (!begun_) word_.line = word.line;
        word_.open = word_.open || word.open;
        begun_ = true;
        word_.text += c;
    }
}

// "${A[@]}": the first joins what stands before, the last what follows.
void ShellWords::add_all(const std::vector<ShellWord>& words, bool quoted, bool split) {
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) {
            if (split)
                end_word();
            else
                add(' ');
        }
        add(words[i], split && !quoted);
    }
}

// What only a run can tell: the text from there to the cursor.
void ShellWords::add_open(std::size_t from) {
    const std::string text(cursor_.text.substr(from, cursor_.at - from));
    add({text, cursor_.line, true}, false);
}

void ShellWords::end_word() {
    if (!begun_) return;
    if (done_.size() >= kMostWordsOfText)
        cursor_.fail("more than 16,384 words: not a command line");
    done_.push_back(std::move(word_));
    word_ = {};
    begun_ = false;
}

void ShellWords::single_quotes() {
    const ShellCursor start = cursor_;
    cursor_.take();
    if (!begun_) word_.line = cursor_.line;
    begun_ = true;
    while (!cursor_.done() && cursor_.peek() != '\'')
        add(cursor_.take());
    if (cursor_.done()) start.fail("this ' is not closed");
    cursor_.take();
}

void ShellWords::double_quotes(bool split) {
    const ShellCursor start = cursor_;
    cursor_.take();
    const bool empty_array = cursor_.text.substr(cursor_.at, 2) == "${";
    if (!begun_ && !empty_array) {
        word_.line = cursor_.line;
        begun_ = true;
    }
    while (!cursor_.done() && cursor_.peek() != '"') {
        const char c = cursor_.peek();
        if (c == '$') {
            expansion(true, split);
        } else if (c == '`') {
            backticks();
        } else if (c == '\\') {
            cursor_.take();
            if (cursor_.takes("\r\n") || cursor_.takes("\n")) continue;
            const char next = cursor_.peek();
            if (next != '"' && next != '\\' && next != '$' && next != '`') add('\\');
            if (!cursor_.done()) add(cursor_.take());
        } else {
            add(cursor_.take());
        }
    }
    if (cursor_.done()) start.fail("this \" is not closed");
    cursor_.take();
}

void ShellWords::backticks() {
    const ShellCursor start = cursor_;
    cursor_.take();
    while (!cursor_.done() && cursor_.peek() != '`')
        cursor_.take();
    if (cursor_.done()) start.fail("this ` is not closed");
    cursor_.take();
    add_open(start.at);
}

void ShellWords::skip_until_closed(char open, char close) {
    const ShellCursor start = cursor_;
    for (int depth = 1; depth > 0;) {
        if (cursor_.done()) start.fail(fmt::format("this {} is not closed", open));
        const char c = cursor_.take();
        if (c == open) ++depth;
        if (c == close) --depth;
    }
}

// $(command) or $((expression)); the cursor stands behind the first parenthesis.
void ShellWords::substitution(std::size_t from) {
    const bool arithmetic = cursor_.peek() == '(';
    skip_until_closed('(', ')');
    const std::string_view whole = cursor_.text.substr(from, cursor_.at - from);
    if (arithmetic && whole.size() > 5 && whole.substr(whole.size() - 2) == "))") {
        const auto value = shell_arithmetic(
            whole.substr(3, whole.size() - 5),
            [this](const std::string& name) { return settled_value(variables_, name); });
        if (value) {
            add({std::to_string(*value), cursor_.line, false}, false);
            return;
        }
    }
    add_open(from);
}

void ShellWords::variable(const std::string& name, std::size_t from, bool quoted, bool split) {
    const auto at = variables_.find(name);
    if (at == variables_.end()) {
        add_open(from);
        return;
    }
    // Without [@] an array is its first word.
    if (!at->second.empty()) add(at->second[0], split && !quoted);
}

// What stands behind ${NAME:-: words of their own where the expansion is not quoted.
void ShellWords::add_default(std::string_view text, bool quoted, bool split) {
    ShellCursor inner = {text, 0, cursor_.line, 0};
    bool first = true;
    while (!inner.done()) {
        if (is_blank(inner.peek())) {
            inner.take();
            continue;
        }
        if (!first && (quoted || !split))
            add(' ');
        else if (!first)
            end_word();
        first = false;
        if (ends_word(inner.peek())) add(inner.take());
        for (const ShellWord& word : ShellWords(inner, variables_, depth_ + 1).read(false))
            add(word, false);
    }
}

void ShellWords::all_of(const std::string& name, std::size_t from, bool quoted, bool split) {
    const auto at = variables_.find(name);
    if (at == variables_.end())
        add_open(from);
    else
        add_all(at->second, quoted, split);
}

// ${…}; the cursor stands behind the brace.
void ShellWords::braces(std::size_t from, bool quoted, bool split) {
    const std::size_t begin = cursor_.at;
    skip_until_closed('{', '}');
    const std::string_view inside = cursor_.text.substr(begin, cursor_.at - 1 - begin);
    const auto past = std::find_if_not(inside.begin(), inside.end(), in_name);
    const std::string name(inside.begin(), past);
    const std::string_view rest = inside.substr(name.size());
    const auto at = variables_.find(name);
    const std::string operation(rest.substr(0, rest.substr(0, 1) == ":" ? 2 : 1));
    const bool known = !name.empty() && (begins_name(name[0]) || all_digits(name));
    if (known && rest.empty()) {
        variable(name, from, quoted, split);
    } else if (known && (rest == "[@]" || rest == "[*]")) {
        all_of(name, from, quoted, split && (rest == "[@]" || !quoted));
    } else if (known &&
               (operation == ":-" || operation == "-" || operation == ":=" || operation == "=")) {
        const bool empty = at != variables_.end() && operation[0] == ':' && is_empty(at->second);
        if (at != variables_.end() && !empty) {
            variable(name, from, quoted, split);
            return;
        }
        if (depth_ >= kDeepestDefault) cursor_.fail("${…} is nested more than 16 deep");
        // The value may come from outside all the same: this is what the file says.
        const std::string_view text = rest.substr(operation.size());
        if (operation.back() == '=') {
            ShellCursor inner = {text, 0, cursor_.line, 0};
            assigned_[name] = ShellWords(inner, variables_, depth_ + 1).read(false);
        }
        add_default(text, quoted, split);
    } else if (name.empty() && (rest == "@" || rest == "*")) {
        all_of(std::string(rest), from, quoted, split && (rest == "@" || !quoted));
    } else {
        add_open(from);
    }
}

void ShellWords::expansion(bool quoted, bool split) {
    const std::size_t from = cursor_.at;
    cursor_.take();
    if (cursor_.takes("{")) {
        braces(from, quoted, split);
    } else if (cursor_.takes("(")) {
        substitution(from);
    } else if (begins_name(cursor_.peek())) {
        std::string name;
        while (in_name(cursor_.peek()))
            name += cursor_.take();
        variable(name, from, quoted, split);
    } else if (!cursor_.done() && std::string_view("0123456789@*#?$!-").find(cursor_.peek()) !=
                                      std::string_view::npos) {
        // Within a function its arguments have names too.
        const std::string name(1, cursor_.take());
        if (name == "@" || name == "*")
            all_of(name, from, quoted, split && (name == "@" || !quoted));
        else
            variable(name, from, quoted, split);
    } else {
        add('$');
    }
}

}  // namespace orrery::plan::imports
