#include "plan/scenario/import/python_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery::plan::imports {
namespace {

constexpr std::size_t kMostTokens = 1u << 18;
constexpr std::size_t kDeepestBlock = 64;
constexpr std::size_t kDeepestBracket = 100;

bool begins_python_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

bool is_python_digit(char c) {
    return c >= '0' && c <= '9';
}

bool in_python_name(char c) {
    return begins_python_name(c) || is_python_digit(c);
}

// Statements that open a block.
bool opens_block(const std::vector<PythonToken>& tokens) {
    if (tokens.empty() || tokens[0].kind != PythonKind::name) return false;
    static const std::array kWords = {"if",      "elif",  "else",  "for", "while",
                                      "def",     "class", "with",  "try", "except",
                                      "finally", "async", "match", "case"};
    const bool word = std::any_of(kWords.begin(), kWords.end(),
                                  [&](const char* one) { return tokens[0].text == one; });
    const bool soft = tokens[0].text == "match" || tokens[0].text == "case";
    return word && (!soft || (tokens.size() > 1 && tokens[1].kind != PythonKind::symbol));
}

class PythonLines {
  public:
    explicit PythonLines(std::string_view text) : text_(text) {}

    std::vector<PythonStatement> read() {
        std::vector<PythonStatement> all;
        read_block(all, 0, 0);
        if (!done()) fail("unexpected indent");
        return all;
    }

  private:
    bool done() const { return at_ >= text_.size(); }
    char peek(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    char take() {
        const char c = text_[at_++];
        if (c == '\n') {
            ++line_;
            line_start_ = at_;
        }
        return c;
    }
    bool takes(std::string_view expected) {
        if (text_.substr(at_, expected.size()) != expected) return false;
        for (std::size_t i = 0; i < expected.size(); ++i)
            take();
        return true;
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw PythonError(line_, static_cast<int>(at_ - line_start_) + 1, what);
    }

    // The columns that the next line with a statement begins at; the cursor stands there.
    std::size_t indent() {
        for (;;) {
            const std::size_t begin = at_;
            std::size_t columns = 0;
            for (char c = peek(); c == ' ' || c == '\t' || c == '\f'; c = peek()) {
                columns = c == '\t' ? (columns / 8 + 1) * 8 : columns + 1;
                take();
            }
            if (peek() == '#') skip_comment();
            if (takes("\r\n") || takes("\n")) continue;
            if (done()) return 0;
            if (peek() == '\\' && at_ == begin) fail("a line that continues nothing");
            return columns;
        }
    }

    void skip_comment() {
        while (!done() && peek() != '\n')
            take();
    }

    // Statements at one indent; the cursor stands at the first that is out of it.
    void read_block(std::vector<PythonStatement>& out, std::size_t columns, std::size_t depth) {
        if (depth > kDeepestBlock) fail("blocks are nested more than 64 deep");
        for (;;) {
            const std::size_t here = at_;
            const int line = line_;
            const std::size_t start = line_start_;
            const std::size_t found = indent();
            if (done()) return;
            if (found > columns) fail("unexpected indent");
            if (found < columns) {
                at_ = here;
                line_ = line;
                line_start_ = start;
                return;
            }
            read_line(out, columns, depth);
        }
    }

    // One logical line: a statement with its block, or several with ; between them.
    void read_line(std::vector<PythonStatement>& out, std::size_t columns, std::size_t depth) {
        PythonStatement statement;
        statement.line = line_;
        std::vector<char> open;
        for (;;) {
            const bool spaced = skip_blanks(!open.empty());
            const char c = peek();
            if (done() || c == '\n') {
                if (!open.empty()) fail(fmt::format("this {} is not closed", open.back()));
                if (!done()) take();
                break;
            }
            if (open.empty() && c == ';') {
                take();
                keep(out, statement);
                continue;
            }
            if (open.empty() && c == ':' && peek(1) != '=' && opens_block(statement.tokens)) {
                take();
                read_body(statement, columns, depth);
                out.push_back(std::move(statement));
                return;
            }
            statement.tokens.push_back(token());
            statement.tokens.back().spaced = spaced;
            if (++tokens_ > kMostTokens) fail("a program of more than 262,144 words");
            track_bracket(statement.tokens.back(), open);
        }
        if (opens_block(statement.tokens))
            throw PythonError(statement.line, 1,
                              fmt::format("a : is missing behind {}", statement.tokens[0].text));
        keep(out, statement);
    }

    static void keep(std::vector<PythonStatement>& out, PythonStatement& statement) {
        const int line = statement.line;
        if (!statement.tokens.empty()) out.push_back(std::move(statement));
        statement = {};
        statement.line = line;
    }

    void track_bracket(const PythonToken& token, std::vector<char>& open) const {
        if (token.kind != PythonKind::symbol) return;
        const char c = token.text[0];
        if (c == '(' || c == '[' || c == '{') open.push_back(c);
        if (open.size() > kDeepestBracket) fail("brackets are nested more than 100 deep");
        if (c != ')' && c != ']' && c != '}') return;
        const char opens = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != opens) fail(fmt::format("this {} closes nothing", c));
        open.pop_back();
    }

    // On the same line behind the colon, or the lines that are indented deeper.
    void read_body(PythonStatement& statement, std::size_t columns, std::size_t depth) {
        skip_blanks(false);
        if (!done() && peek() != '\n') {
            read_line(statement.body, columns, depth + 1);
            return;
        }
        if (!done()) take();
        const std::size_t here = at_;
        const int line = line_;
        const std::size_t start = line_start_;
        const std::size_t inner = indent();
        at_ = here;
        line_ = line;
        line_start_ = start;
        if (inner <= columns) fail("an indented block is missing");
        read_block(statement.body, inner, depth + 1);
    }

    // Whether there were any. Within brackets lines go on.
    bool skip_blanks(bool within) {
        const std::size_t begin = at_;
        for (;;) {
            const char c = peek();
            if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || (within && c == '\n')) {
                if (done()) break;
                take();
            } else if (c == '#') {
                skip_comment();
            } else if (!takes("\\\n") && !takes("\\\r\n")) {
                break;
            }
        }
        return at_ != begin;
    }

    PythonToken token() {
        PythonToken out;
        out.line = line_;
        std::size_t letters = 0;
        while (begins_python_name(peek(letters)) && letters < 3)
            ++letters;
        const char quote = peek(letters);
        if (letters < 3 && (quote == '"' || quote == '\'')) return text_token(letters);
        if (begins_python_name(peek())) {
            out.kind = PythonKind::name;
            while (in_python_name(peek()))
                out.text += take();
        } else if (is_python_digit(peek()) || (peek() == '.' && is_python_digit(peek(1)))) {
            out.kind = PythonKind::number;
            read_number(out.text);
        } else {
            read_symbol(out.text);
        }
        return out;
    }

    void read_number(std::string& text) {
        while (in_python_name(peek()) || peek() == '.') {
            const char c = take();
            if (c != '_') text += c;
            const bool hexadecimal = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
            if ((c == 'e' || c == 'E') && !hexadecimal && (peek() == '+' || peek() == '-'))
                text += take();
        }
    }

    void read_symbol(std::string& text) {
        static const std::array kLong = {
            "**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=", "+=",
            "-=",  "*=",  "/=",  "%=",  "&=",  "|=", "^=", "@=", "**", "//", "<<", ">>"};
        for (const char* symbol : kLong)
            if (takes(symbol)) {
                text = symbol;
                return;
            }
        constexpr std::string_view kShort = "()[]{}.,:;=+-*/%@<>&|^~";
        if (kShort.find(peek()) == std::string_view::npos)
            fail(fmt::format("'{}' begins nothing in Python", peek()));
        text = take();
    }

    PythonToken text_token(std::size_t letters) {
        PythonToken out;
        out.kind = PythonKind::text;
        out.line = line_;
        const std::size_t begin = at_;
        bool raw = false;
        for (std::size_t i = 0; i < letters; ++i) {
            const char c = take();
            raw = raw || c == 'r' || c == 'R';
            if (c == 'f' || c == 'F') out.kind = PythonKind::format;
        }
        const char quote = peek();
        const std::string end =
            takes(std::string(3, quote)) ? std::string(3, quote) : std::string(1, take());
        while (!takes(end)) {
            if (done() || (end.size() == 1 && peek() == '\n'))
                throw PythonError(out.line, 1, "a string is not closed");
            if (peek() == '\\' && !raw) {
                take();
                if (!done()) out.text += escaped(take());
                continue;
            }
            if (peek() == '\\' && at_ + 1 < text_.size()) out.text += take();
            out.text += take();
        }
        // Without anything in braces it is a plain one.
        if (out.kind == PythonKind::format && out.text.find('{') == std::string::npos)
            out.kind = PythonKind::text;
        if (out.kind == PythonKind::format)
            out.text = std::string(text_.substr(begin, at_ - begin));
        return out;
    }

    static std::string escaped(char c) {
        if (c == 'n') return "\n";
        if (c == 't') return "\t";
        if (c == '\n') return "";
        if (c == '\\' || c == '"' || c == '\'') return std::string(1, c);
        return std::string("\\") + c;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int line_ = 1;
    std::size_t line_start_ = 0;
    std::size_t tokens_ = 0;
};

}  // namespace

std::vector<PythonStatement> read_python(std::string_view text) {
    return PythonLines(text).read();
}

std::string spelled(const std::vector<PythonToken>& tokens, std::size_t from, std::size_t to) {
    constexpr std::size_t kLongest = 60;
    std::string out;
    for (std::size_t i = from; i < to && out.size() <= kLongest; ++i) {
        const PythonToken& token = tokens[i];
        if (i > from && token.spaced) out += ' ';
        out += token.kind == PythonKind::text ? '"' + token.text + '"' : token.text;
    }
    if (out.size() <= kLongest) return out;
    std::size_t end = kLongest;
    while ((static_cast<unsigned char>(out[end]) & 0xC0) == 0x80 && end > 0)
        --end;
    return out.substr(0, end) + "…";
}

}  // namespace orrery::plan::imports
