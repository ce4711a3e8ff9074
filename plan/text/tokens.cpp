#include "plan/text/tokens.hpp"

#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

constexpr std::string_view kTimes = "×";

bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.';
}

class Lexer {
  public:
    explicit Lexer(std::string_view text) : rest_(text) {}

    std::vector<Token> run() {
        while (next()) {
        }
        return std::move(tokens_);
    }

  private:
    bool next() {
        while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n'))
            take(1);
        tokens_.push_back({TokenKind::end, "", line_, column_});
        if (rest_.empty()) return false;
        Token& token = tokens_.back();
        const std::size_t word = word_length();
        if (word > 0) {
            token.kind = TokenKind::word;
            token.text = take(word);
        } else if (rest_[0] == '"') {
            read_quoted(token);
        } else {
            read_sign(token);
        }
        if (token.kind != TokenKind::wrong) return true;
        tokens_.push_back({TokenKind::end, "", line_, column_});
        return false;
    }

    char peek(std::size_t ahead) const { return ahead < rest_.size() ? rest_[ahead] : '\0'; }

    std::size_t word_length() const {
        std::size_t n = 0;
        while (true) {
            const char c = peek(n);
            const bool sign =
                (c == '-' || c == '+') && peek(n + 1) != '>' && (n > 0 || is_digit(peek(1)));
            if (!in_word(c) && !sign) return n;
            ++n;
        }
    }

    void read_quoted(Token& token) {
        token.kind = TokenKind::quoted;
        take(1);
        while (!rest_.empty() && rest_[0] != '\n') {
            if (rest_[0] == '"') {
                take(1);
                return;
            }
            if (rest_[0] == '\\') {
                take(1);
                if (rest_.empty()) break;
                token.text += rest_[0] == 'n' ? std::string("\n") : std::string(rest_.substr(0, 1));
                take(1);
                continue;
            }
            token.text += take(1);
        }
        token = {TokenKind::wrong, "a string without its closing quote", token.line, token.column};
    }

    void read_sign(Token& token) {
        token.kind = TokenKind::sign;
        for (std::string_view sign : {std::string_view("->"), kTimes})
            if (rest_.substr(0, sign.size()) == sign) {
                token.text = take(sign.size());
                return;
            }
        constexpr std::string_view kSigns = ",[](){}:#@/=-";
        if (kSigns.find(rest_[0]) != std::string_view::npos) {
            token.text = take(1);
            return;
        }
        token.kind = TokenKind::wrong;
        token.text = "a character that plans do not use";
    }

    std::string take(std::size_t n) {
        std::string taken(rest_.substr(0, n));
        rest_.remove_prefix(n);
        for (char c : taken) {
            if (c == '\n') {
                ++line_;
                column_ = 1;
            } else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) {
                ++column_;
            }
        }
        return taken;
    }

    std::string_view rest_;
    int line_ = 1;
    int column_ = 1;
    std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) {
    return Lexer(text).run();
}

}  // namespace orrery::plan
