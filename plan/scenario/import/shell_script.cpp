#include "plan/scenario/import/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "plan/scenario/import/shell_arithmetic.hpp"
#include "plan/scenario/import/shell_branches.hpp"
#include "plan/scenario/import/shell_conditions.hpp"
#include "plan/scenario/import/shell_words.hpp"

namespace orrery::plan::imports {
namespace {

constexpr std::size_t kMostWords = 1u << 16;
constexpr std::size_t kMostText_bytes = 1u << 20;
constexpr int kMostCommands = 1 << 14;
constexpr std::size_t kMostFiles = 64;
constexpr int kDeepestCommand = 64;  // conditions within conditions, functions within functions

using Words = std::vector<ShellWord>;
using Ends = std::initializer_list<const char*>;

bool is_one_of(const std::string& word, Ends words) {
    return std::any_of(words.begin(), words.end(), [&](const char* one) { return word == one; });
}

std::size_t size_of(const ShellVariables& variables) {
    std::size_t size = 0;
    for (const auto& [name, value] : variables)
        for (const ShellWord& word : value)
            size += word.text.size() + 1;
    return size;
}

// Runs assignments and conditions as a shell would, and keeps every command's words.
class Script {
  public:
    explicit Script(std::string_view text) { cursor_.text = text; }

    ShellScript read() {
        list({});
        return std::move(out_);
    }

  private:
    struct Assignment {
        std::string name;
        Words value;
        bool more = false;  // +=
        bool array = false;
        bool open() const {
            return std::any_of(value.begin(), value.end(),
                               [](const ShellWord& word) { return word.open; });
        }
    };

    // The file that a command writes to.
    struct Target {
        ShellWord name;
        bool appends = false;
    };

    // A text behind the line that a << stands in.
    struct HereDocument {
        std::string end;
        bool strips_tabs = false;
        bool quoted = false;    // nothing in it is expanded
        bool commands = false;  // a shell reads it
        std::optional<Target> target = std::nullopt;
        bool certain = true;     // as WrittenFile has it
        ShellCursor start = {};  // for messages
    };

    // Branches of one condition that are run while it is not settled which one a shell takes.
    struct Branches {
        ShellVariables base;
        std::vector<ShellVariables> ends = {};
        bool taken = false;    // the branches to come are not
        bool any_run = false;  // one was run though it may not be taken
        bool returns = false;  // one of them ended with its function, not with the script
        std::string unset = "";
    };

    bool runs() const { return skipping_ == 0 && !ended_ && !returned_; }

    Words words(bool split) {
        ShellWords reader(cursor_, variables_);
        Words read = reader.read(split);
        if (runs())
            for (const auto& [name, value] : reader.assigned())
                variables_[name] = value;
        return read;
    }

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

    // And the ends of lines, with the texts behind them, and comments.
    void skip_lines() {
        for (;;) {
            skip_blanks();
            if (cursor_.peek() == '#')
                read_comment();
            else if (cursor_.peek() == '\n')
                end_line();
            else
                return;
        }
    }

    void end_line() {
        cursor_.take();
        std::vector<HereDocument> documents;
        documents.swap(documents_);
        for (const HereDocument& document : documents)
            read_here_document(document);
    }

    void read_here_document(const HereDocument& document) {
        std::string text;
        const int line = cursor_.line;
        for (;;) {
            if (cursor_.done()) document.start.fail("this here-document is not closed");
            std::string next;
            while (!cursor_.done() && cursor_.peek() != '\n')
                next += cursor_.take();
            if (!cursor_.done()) cursor_.take();
            if (!next.empty() && next.back() == '\r') next.pop_back();
            if (document.strips_tabs) next.erase(0, next.find_first_not_of('\t'));
            if (next == document.end) break;
            text += next + '\n';
        }
        if (document.target) write_document(document, text, line);
        if (!document.commands) return;
        for (std::size_t at = 0; !document.quoted && at + 1 < text.size(); ++at)
            if (text[at] == '\\' && text[at + 1] == '$') text.erase(at, 1);
        texts_.push_back(std::move(text));
        run_at({texts_.back(), 0, line, 0}, [&] { list({}); });
    }

    void write_document(const HereDocument& document, const std::string& text, int line) {
        WrittenFile file = {document.target->name, document.quoted ? text : "", line,
                            document.certain, ""};
        try {
            ShellCursor inner = {text, 0, line, 0};
            if (!document.quoted) file.text = ShellWords(inner, variables_).read_document();
        } catch (const ShellError& error) {
            file.fault = fmt::format("line {}: {}", error.line, error.what());
        }
        write_file(std::move(file), document.target->appends);
    }

    void write_file(WrittenFile file, bool appends) {
        const auto same =
            std::find_if(out_.files.begin(), out_.files.end(),
                         [&](const WrittenFile& one) { return one.name == file.name; });
        if (same == out_.files.end()) {
            if (out_.files.size() < kMostFiles) out_.files.push_back(std::move(file));
            return;
        }
        if (!file.certain || (appends && !same->certain)) {
            same->certain = false;
        } else if (!appends) {
            *same = std::move(file);
        } else if (same->text.size() + file.text.size() > kMostText_bytes) {
            same->fault = "it is longer than 1 MiB";
        } else {
            same->text += file.text;
            if (same->fault.empty()) same->fault = file.fault;
        }
    }

    // `cat > NAME <<EOF`, `tee NAME <<EOF`: what stands in the text is what the file holds.
    std::optional<Target> copied_to(const Words& read) const {
        if (read.empty()) return std::nullopt;
        const std::string& name = read[0].text;
        if (name == "cat" && (read.size() == 1 || (read.size() == 2 && read[1].text == "-")))
            return target_;
        if (name != "tee" || read.size() < 2) return std::nullopt;
        const bool appends = read[1].text == "-a";
        const std::size_t at = appends ? 2 : 1;
        if (read.size() != at + 1 || read[at].text[0] == '-') return std::nullopt;
        return Target{read[at], appends};
    }

    // `echo "…" > NAME`.
    void note_echo(const Words& read) {
        if (!target_ || read.empty() || read[0].text != "echo") return;
        const std::size_t first = read.size() > 1 && read[1].text == "-n" ? 2 : 1;
        WrittenFile file = {target_->name, "", read[0].line, unsure_ == 0, ""};
        for (std::size_t i = first; i < read.size(); ++i) {
            file.text += (i == first ? "" : " ") + read[i].text;
            if (read[i].open) file.fault = "what echo writes there is not settled in this file";
            if (file.text.size() > kMostText_bytes) file.fault = "it is longer than 1 MiB";
        }
        if (first == 1) file.text += '\n';
        write_file(std::move(file), target_->appends);
    }

    // Reads elsewhere for a while.
    template <typename Reading>
    void run_at(ShellCursor cursor, const Reading& reading) {
        if (++depth_ > kDeepestCommand) cursor_.fail("commands are nested more than 64 deep");
        std::swap(cursor, cursor_);
        reading();
        std::swap(cursor, cursor_);
        --depth_;
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
            if (inner.peek() == '#') break;
            const std::size_t before = inner.at;
            for (ShellWord& word : ShellWords(inner, variables_).read(false))
                out_.batch.push_back(std::move(word));
            if (inner.at == before) break;  // an operator: no option of a batch system
        }
        set_batch_variables();
    }

    // What Slurm tells a job of what it asked for (man sbatch, output environment variables).
    void set_batch_variables() {
        struct Told {
            std::string_view option, letter;
            std::vector<std::string> variables;
        };
        static const std::vector<Told> kTold = {
            {"--nodes", "-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
            {"--ntasks", "-n", {"SLURM_NTASKS", "SLURM_NPROCS"}},
            {"--ntasks-per-node", "", {"SLURM_NTASKS_PER_NODE"}},
            {"--gpus-per-node", "", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
            {"--cpus-per-task", "-c", {"SLURM_CPUS_PER_TASK"}}};
        const Words& words = out_.batch;
        for (std::size_t i = 0; i < words.size(); ++i)
            for (const auto& [option, letter, variables] : kTold) {
                const std::string_view text = words[i].text;
                std::string_view value;
                if (text.starts_with(option) && text.substr(option.size()).starts_with('='))
                    value = text.substr(option.size() + 1);
                else if ((text == option || (text == letter && !letter.empty())) &&
                         i + 1 < words.size())
                    value = words[i + 1].text;
                if (value.empty() || value.find_first_not_of("0123456789") != value.npos) continue;
                for (const std::string& variable : variables)
                    variables_[variable] = {{std::string(value), words[i].line}};
            }
    }

    // The word after it is a file, or the end of a text behind this line.
    bool read_redirection() {
        std::size_t digits = 0;
        while (cursor_.peek(digits) >= '0' && cursor_.peek(digits) <= '9')
            ++digits;
        const bool both = cursor_.peek() == '&' && cursor_.peek(1) == '>';
        const char c = both ? '>' : cursor_.peek(digits);
        if (c != '>' && c != '<') return false;
        const bool output = c == '>' && (digits == 0 || (digits == 1 && cursor_.peek() == '1'));
        for (std::size_t i = 0; i < digits + (both ? 1 : 0); ++i)
            cursor_.take();
        if (cursor_.peek(1) == '(') {
            const ShellCursor start = cursor_;
            cursor_.take();
            cursor_.take();
            skip_until_closed(1, start);
            return true;
        }
        if (cursor_.takes("<<<")) {
            skip_blanks();
            words(true);
            return true;
        }
        HereDocument document;
        document.start = cursor_;
        if (cursor_.takes("<<")) {
            document.strips_tabs = cursor_.takes("-");
            skip_blanks();
            document.quoted =
                cursor_.peek() == '\'' || cursor_.peek() == '"' || cursor_.peek() == '\\';
            const Words end = words(false);
            if (end.empty())
                document.start.fail("the word that ends this here-document is missing");
            document.end = end[0].text;
            documents_.push_back(std::move(document));
            return true;
        }
        cursor_.take();
        bool appends = false, copies = false;
        for (char next = cursor_.peek(); next == '>' || next == '&' || next == '|';
             next = cursor_.peek()) {
            appends = appends || next == '>';
            copies = copies || next == '&';
            cursor_.take();
        }
        skip_blanks();
        const Words file = words(true);
        if (output && !copies && file.size() == 1) target_ = {file[0], appends};
        return true;
    }

    // So many parentheses.
    void skip_until_closed(int depth, const ShellCursor& start) {
        while (depth > 0) {
            if (cursor_.done()) start.fail("this ( is not closed");
            const char c = cursor_.take();
            if (c == '(') ++depth;
            if (c == ')') --depth;
        }
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
            out.value = words(false);
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
            for (ShellWord& word : words(true))
                out.value.push_back(std::move(word));
            if (cursor_.at == before) cursor_.fail("not a word of an array");
            if (out.value.size() > kMostWords) cursor_.fail("an array of more than 65,536 words");
        }
    }

    void assign(Assignment&& given) {
        Words& value = variables_[given.name];
        if (!given.more) {
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

    void note_environment(const Assignment& given) {
        const ShellWord& word = given.value.empty() ? ShellWord{} : given.value[0];
        out_.environment.push_back({given.name + '=' + word.text, word.line, word.open});
    }

    // The letters at the cursor, where a word of the shell itself may stand.
    std::string keyword() const {
        std::size_t size = 0;
        for (char c = cursor_.peek(); c >= 'a' && c <= 'z'; c = cursor_.peek(size))
            ++size;
        const char next = cursor_.peek(size);
        const bool ends = next == '\0' || next == ' ' || next == '\t' || next == '\r' ||
                          next == '\n' || next == ';' || next == '&' || next == '|' ||
                          next == '(' || next == ')';
        return ends ? std::string(cursor_.text.substr(cursor_.at, size)) : "";
    }

    bool at_one_of(Ends ends) const {
        const std::string word = keyword();
        return std::any_of(ends.begin(), ends.end(), [&](const char* end) {
            const std::string_view text = end;
            return text[0] >= 'a' && text[0] <= 'z'
                       ? word == text
                       : cursor_.text.substr(cursor_.at, text.size()) == text;
        });
    }

    void expect(const char* end, const ShellCursor& start, const char* what) {
        skip_lines();
        if (!at_one_of({end})) start.fail(fmt::format("this {} has no {}", what, end));
        cursor_.takes(end);
    }

    // Commands up to one of `ends`, which stays; the truth of the last.
    Truth list(Ends ends) {
        const ShellCursor start = cursor_;
        Truth truth = true;
        for (;;) {
            skip_lines();
            if (cursor_.done()) {
                if (ends.size() > 0)
                    start.fail(fmt::format("what begins here has no {}", *ends.begin()));
                return truth;
            }
            if (at_one_of(ends)) return truth;
            if (cursor_.peek() == ';' || cursor_.peek() == '&' || cursor_.peek() == '|') {
                cursor_.take();
                continue;
            }
            if (cursor_.peek() == ')') cursor_.fail("this ) closes nothing");
            truth = chain();
        }
    }

    // A branch that is taken if `holds`.
    template <typename Branch>
    void branch(Branches& all, Truth holds, const Branch& run) {
        if (all.taken || holds == false) {
            ++skipping_;
            run();
            --skipping_;
            return;
        }
        if (holds == true && !all.any_run) {
            all.taken = true;
            run();
            return;
        }
        if (size_of(all.base) > kMostText_bytes)
            cursor_.fail("variables of more than 1 MiB before a condition");
        const bool ended = ended_, returned = returned_;
        variables_ = all.base;
        ++unsure_;
        run();
        --unsure_;
        if (ended_ == ended && returned_ == returned) all.ends.push_back(variables_);
        all.returns = all.returns || returned_ != returned;
        ended_ = ended;
        returned_ = returned;
        variables_ = all.base;
        all.any_run = true;
        all.taken = holds == true;
    }

    // A branch that ends the script leaves nothing to those who go on.
    void meet(Branches& all) {
        if (!all.any_run || !runs()) return;
        if (!all.taken) all.ends.push_back(all.base);
        if (all.ends.empty())
            (all.returns ? returned_ : ended_) = true;
        else
            variables_ = merged(all.base, all.ends, all.unset, out_.undecided);
    }

    // a && b || c
    Truth chain() {
        Truth truth = pipeline();
        for (;;) {
            skip_blanks();
            const bool both = cursor_.takes("&&");
            if (!both && !cursor_.takes("||")) return truth;
            skip_lines();
            if (cursor_.done()) return truth;
            const Truth wanted = both ? truth : negated(truth);
            Branches all = {variables_};
            all.unset = std::exchange(asked_, "");
            Truth next;
            branch(all, wanted, [&] { next = pipeline(); });
            meet(all);
            // Where the first is not known, the second may settle it: a || true.
            if (wanted == true || (!wanted && next && *next != both))
                truth = next;
            else if (!wanted)
                truth = std::nullopt;
        }
    }

    Truth pipeline() {
        bool holds = true;
        while (at_one_of({"time", "! "})) {
            if (cursor_.takes("!"))
                holds = !holds;
            else
                cursor_.takes("time");
            skip_blanks();
        }
        Truth truth = command();
        skip_blanks();
        while (cursor_.peek() == '|' && cursor_.peek(1) != '|') {
            cursor_.take();
            cursor_.takes("&");
            skip_lines();
            if (!cursor_.done()) command();
            skip_blanks();
            truth = std::nullopt;
        }
        return holds ? truth : negated(truth);
    }

    Truth command() {
        if (++depth_ > kDeepestCommand) cursor_.fail("commands are nested more than 64 deep");
        asked_.clear();
        const Truth truth = compound();
        --depth_;
        return truth;
    }

    Truth compound() {
        const ShellCursor start = cursor_;
        const std::string word = keyword();
        Truth truth;
        if (word == "if")
            read_if(start);
        else if (word == "while" || word == "until")
            read_while(start, word);
        else if (word == "for" || word == "select")
            read_for(start, word);
        else if (word == "case")
            read_case(start);
        else if (word == "function")
            read_function();
        else if (cursor_.takes("[["))
            truth = condition(start);
        else if (cursor_.takes("(("))
            truth = arithmetic(start);
        else if (cursor_.peek() == '{' &&
                 is_one_of(std::string(1, cursor_.peek(1)), {" ", "\n", "\t"}))
            truth = group();
        else if (cursor_.peek() == '(')
            subshell();
        else
            return simple();
        skip_blanks();
        while (read_redirection())
            skip_blanks();
        return truth;
    }

    void read_if(const ShellCursor& start) {
        Branches all = {variables_};
        cursor_.takes("if");
        for (bool more = true; more;) {
            const Truth holds = unless_taken(all, [&] { return list({"then"}); });
            all.unset = all.unset.empty() ? asked_ : all.unset;
            expect("then", start, "if");
            branch(all, holds, [&] { list({"elif", "else", "fi"}); });
            more = cursor_.takes("elif");
        }
        if (cursor_.takes("else")) {
            branch(all, true, [&] { list({"fi"}); });
        }
        expect("fi", start, "if");
        meet(all);
    }

    // A condition behind a branch that is taken is not asked.
    template <typename Condition>
    Truth unless_taken(const Branches& all, const Condition& condition) {
        skipping_ += all.taken ? 1 : 0;
        const Truth holds = condition();
        skipping_ -= all.taken ? 1 : 0;
        return holds;
    }

    // How often is not known: as little as never.
    void read_body(const ShellCursor& start, const char* what, const std::string& variable) {
        expect("do", start, what);
        Branches all = {variables_};
        branch(all, std::nullopt, [&] {
            if (!variable.empty() && runs())
                variables_[variable] = {{'$' + variable, cursor_.line, true}};
            list({"done"});
        });
        expect("done", start, what);
        meet(all);
    }

    void read_while(const ShellCursor& start, const std::string& word) {
        cursor_.takes(word);
        list({"do"});
        read_body(start, word == "while" ? "while" : "until", "");
    }

    void read_for(const ShellCursor& start, const std::string& word) {
        cursor_.takes(word);
        skip_blanks();
        std::string variable;
        if (cursor_.takes("((")) {
            arithmetic(start);
        } else {
            const Words name = words(false);
            if (name.size() != 1 || !is_shell_name(name[0].text))
                start.fail("this for has no name");
            variable = name[0].text;
            skip_lines();
            if (keyword() == "in") {
                cursor_.takes("in");
                for (skip_blanks(); !cursor_.done() && !at_one_of({"\n", ";"}); skip_blanks()) {
                    const std::size_t before = cursor_.at;
                    words(true);
                    if (cursor_.at == before) cursor_.fail("not a word of a for");
                }
            }
        }
        skip_blanks();
        cursor_.takes(";");
        read_body(start, "for", variable);
    }

    void read_case(const ShellCursor& start) {
        cursor_.takes("case");
        skip_blanks();
        const Words read = words(false);
        const ShellWord word = read.empty() ? ShellWord{"", cursor_.line, false} : read[0];
        expect("in", start, "case");
        Branches all = {variables_};
        for (skip_lines(); !at_one_of({"esac"}); skip_lines()) {
            if (cursor_.done()) start.fail("this case has no esac");
            const Truth holds = read_patterns(word);
            branch(all, holds, [&] { list({";;", "esac"}); });
            cursor_.takes(";;");
        }
        cursor_.takes("esac");
        meet(all);
    }

    Truth read_patterns(const ShellWord& word) {
        Truth holds = false;
        cursor_.takes("(");
        do {
            skip_blanks();
            const Words pattern = words(false);
            if (pattern.empty()) cursor_.fail("not a pattern of a case");
            const Truth one = matches_pattern(word, pattern[0]);
            if (one == true || holds == true)
                holds = true;
            else if (!one)
                holds = std::nullopt;
            skip_blanks();
        } while (cursor_.takes("|"));
        if (!cursor_.takes(")")) cursor_.fail("a pattern of a case ends with )");
        return holds;
    }

    // [[ … ]]; the cursor stands behind the brackets.
    Truth condition(const ShellCursor& start) {
        Words read;
        for (skip_lines(); !cursor_.takes("]]"); skip_lines()) {
            if (cursor_.done()) start.fail("this [[ has no ]]");
            const auto operation = [&](const char* text) {
                if (!cursor_.takes(text)) return false;
                read.push_back({text, cursor_.line, false});
                return true;
            };
            if (operation("&&") || operation("||") || operation("(") || operation(")") ||
                operation("<") || operation(">"))
                continue;
            const std::size_t before = cursor_.at;
            Words word = words(false);
            if (cursor_.at == before) cursor_.fail("not a word of a condition");
            // "${A[@]}" may be none.
            read.push_back(word.empty() ? ShellWord{"", cursor_.line, false} : word[0]);
            if (read.back().text == "=~")
                for (skip_blanks(); !cursor_.done() && !is_blank_here() && cursor_.peek() != '\n';)
                    cursor_.take();
        }
        asked_ = asks_whether_set(read);
        return test_holds(read, true);
    }

    // (( … )); the cursor stands behind the parentheses.
    Truth arithmetic(const ShellCursor& start) {
        const std::size_t begin = cursor_.at;
        skip_until_closed(2, start);
        if (cursor_.at < begin + 2) start.fail("this (( has no ))");
        const auto value = shell_arithmetic(
            cursor_.text.substr(begin, cursor_.at - 2 - begin),
            [this](const std::string& name) { return settled_value(variables_, name); });
        return value ? Truth(*value != 0) : std::nullopt;
    }

    Truth group() {
        cursor_.take();
        const Truth truth = list({"}"});
        cursor_.take();
        return truth;
    }

    void subshell() {
        cursor_.take();
        const ShellVariables before = variables_;
        const bool ended = ended_;
        list({")"});
        cursor_.take();
        variables_ = before;
        ended_ = ended;
    }

    void read_function() {
        cursor_.takes("function");
        skip_blanks();
        const Words name = words(false);
        if (name.size() != 1) cursor_.fail("this function has no name");
        skip_blanks();
        if (cursor_.takes("(")) skip_blanks();
        cursor_.takes(")");
        define(name[0].text);
    }

    void define(const std::string& name) {
        skip_lines();
        if (cursor_.done()) cursor_.fail("this function has no body");
        if (runs()) functions_[name] = cursor_;
        ++skipping_;
        command();
        --skipping_;
    }

    void call(const ShellCursor& body, const Words& given) {
        const ShellVariables before = variables_;
        const auto names = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*"};
        for (const char* name : names)
            variables_.erase(name);
        for (std::size_t i = 1; i < given.size() && i < 10; ++i)
            variables_[std::to_string(i)] = {given[i]};
        variables_["@"] = variables_["*"] = Words(given.begin() + 1, given.end());
        std::vector<std::string> outer;
        outer.swap(locals_);
        run_at(body, [&] { command(); });
        returned_ = false;
        locals_.swap(outer);
        outer.insert(outer.end(), names.begin(), names.end());
        for (const std::string& name : outer) {
            variables_.erase(name);
            if (const auto at = before.find(name); at != before.end())
                variables_[name] = at->second;
        }
    }

    Truth simple() {
        if (++commands_ > kMostCommands) cursor_.fail("more than 16,384 commands are run");
        const std::size_t documents = documents_.size();
        target_.reset();
        Words read;
        std::vector<Assignment> before;
        bool exporting = false;
        for (;;) {
            skip_blanks();
            if (read_redirection()) continue;
            const char c = cursor_.peek();
            if (cursor_.done() || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')') break;
            if (c == '#') {
                read_comment();
                continue;
            }
            if (c == '(') {
                cursor_.take();
                skip_blanks();
                if (read.size() != 1 || !cursor_.takes(")")) cursor_.fail("this ( opens nothing");
                define(read[0].text);
                return true;
            }
            Assignment given;
            if ((read.empty() || exporting) && reads_assignment(given)) {
                before.push_back(std::move(given));
                continue;
            }
            for (ShellWord& word : words(true))
                read.push_back(std::move(word));
            if (!read.empty())
                exporting =
                    is_one_of(read[0].text, {"export", "declare", "local", "readonly", "typeset"});
            if (read.size() > kMostWords) cursor_.fail("a command of more than 65,536 words");
        }
        if (!runs()) return std::nullopt;
        for (std::size_t i = documents; i < documents_.size(); ++i) {
            documents_[i].commands =
                std::any_of(read.begin(), read.end(), [](const ShellWord& word) {
                    return is_one_of(word.text, {"bash", "sh", "sbatch"});
                });
            if (i + 1 == documents_.size()) documents_[i].target = copied_to(read);
            documents_[i].certain = unsure_ == 0;
        }
        if (documents == documents_.size()) note_echo(read);
        return finish(std::move(read), std::move(before), exporting);
    }

    Truth finish(Words read, std::vector<Assignment> before, bool exporting) {
        // Before a command they are its environment, and nothing after it sees them.
        const bool of_command = !read.empty() && !exporting;
        Truth truth = true;
        for (Assignment& given : before) {
            if (given.open()) truth = std::nullopt;
            if (of_command || (exporting && read[0].text == "export")) note_environment(given);
            if (exporting && read[0].text == "local") locals_.push_back(given.name);
            if (!of_command) assign(std::move(given));
        }
        return of_command ? run(std::move(read)) : truth;
    }

    Truth run(Words read) {
        const std::string& name = read[0].text;
        const bool bracket = name == "[" && read.back().text == "]" && read.size() > 1;
        if (bracket || name == "test") {
            read.erase(read.begin());
            if (bracket) read.pop_back();
            asked_ = asks_whether_set(read);
            return test_holds(read, false);
        }
        if (name == "true" || name == ":") return true;
        if (name == "false") return false;
        if (name == "exit") ended_ = true;
        if (name == "return") returned_ = true;
        if (name == "unset")
            for (const ShellWord& word : read)
                variables_.erase(word.text);
        if (const auto body = functions_.find(name); body != functions_.end()) {
            call(ShellCursor(body->second), read);
            return std::nullopt;
        }
        out_.commands.push_back(std::move(read));
        return std::nullopt;
    }

    ShellCursor cursor_;
    ShellVariables variables_;
    ShellScript out_;
    std::map<std::string, ShellCursor> functions_;  // where their bodies begin
    std::vector<HereDocument> documents_;           // whose texts begin behind this line
    std::optional<Target> target_;                  // of the command that is read
    std::deque<std::string> texts_;                 // of here-documents that are run
    std::vector<std::string> locals_;               // of the function that is run
    std::string asked_;                             // the variable whose absence was tested last
    int skipping_ = 0;
    int unsure_ = 0;  // branches, one in another, that are run though none may be taken
    int depth_ = 0;
    int commands_ = 0;
    bool ended_ = false;     // exit
    bool returned_ = false;  // return
};

}  // namespace

ShellScript read_shell(std::string_view text) {
    return Script(text).read();
}

}  // namespace orrery::plan::imports
