// A plan's text as words, quoted strings and signs, each with its place. Internal to plan/text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::plan {

enum class TokenKind { word, quoted, sign, wrong, end };

struct Token {
    TokenKind kind = TokenKind::end;
    std::string text;  // without quotes and escapes; for wrong: what is wrong
    int line = 1;
    int column = 1;  // of characters, from 1
};

// Words are letters, digits, '_', '.', and '+' or '-' within or before a digit. Signs are
// -> × , [ ] ( ) { } : # @ /. The last token is the end; a wrong one comes before it.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace orrery::plan
