#include "plan/text/reader.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

template <typename Number>
bool convert(std::string_view text, Number& value) {
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    return result.ec == std::errc{} && result.ptr == end;
}

std::string described(const Token& token) {
    switch (token.kind) {
        case TokenKind::end:
            return "the end of the text";
        case TokenKind::wrong:
            return token.text;
        default:
            return in_quotes(token.text);
    }
}

}  // namespace

Reader::Reader(std::string_view text) : tokens_(tokens_of(text)) {}

void Reader::fail_at(std::size_t place, std::string_view expected) const {
    fail_at(place, described(tokens_[place]), expected);
}

void Reader::fail_at(std::size_t place, std::string_view found, std::string_view expected) const {
    throw ParseFault{fmt::format("line {}, column {}: found {}, expected {}", tokens_[place].line,
                                 tokens_[place].column, found, expected)};
}

bool Reader::at_word(std::string_view word) const {
    return peek().kind == TokenKind::word && peek().text == word;
}

bool Reader::at_sign(std::string_view sign) const {
    return peek().kind == TokenKind::sign && peek().text == sign;
}

bool Reader::at_word_before(std::string_view sign) const {
    if (peek().kind != TokenKind::word) return false;
    const Token& behind = tokens_[next_ + 1];  // the last token is the end
    return behind.kind == TokenKind::sign && behind.text == sign;
}

bool Reader::at_number() const {
    std::int64_t value = 0;
    return peek().kind == TokenKind::word && convert(peek().text, value);
}

bool Reader::at_name() const {
    return peek().kind == TokenKind::quoted ||
           (peek().kind == TokenKind::word && is_bare_name(peek().text));
}

bool Reader::accept_word(std::string_view word) {
    if (!at_word(word)) return false;
    ++next_;
    return true;
}

bool Reader::accept_sign(std::string_view sign) {
    if (!at_sign(sign)) return false;
    ++next_;
    return true;
}

void Reader::expect_word(std::string_view word) {
    if (!accept_word(word)) fail(orrery::plan::in_quotes(word));
}

void Reader::expect_sign(std::string_view sign) {
    if (!accept_sign(sign)) fail(orrery::plan::in_quotes(sign));
}

std::string Reader::word(std::string_view expected) {
    if (peek().kind != TokenKind::word) fail(expected);
    return tokens_[next_++].text;
}

std::string Reader::in_quotes(std::string_view expected) {
    if (peek().kind != TokenKind::quoted) fail(expected);
    return tokens_[next_++].text;
}

std::string Reader::name(std::string_view expected) {
    if (!at_name()) fail(expected);
    return tokens_[next_++].text;
}

std::int64_t Reader::integer(std::string_view expected, std::int64_t least, std::int64_t most) {
    std::int64_t value = 0;
    if (peek().kind != TokenKind::word || !convert(peek().text, value) || value < least ||
        value > most)
        fail(expected);
    ++next_;
    return value;
}

std::int32_t Reader::index(std::string_view expected, std::int64_t least) {
    return static_cast<std::int32_t>(
        integer(expected, least, std::numeric_limits<std::int32_t>::max() - 1));
}

double Reader::real(std::string_view expected) {
    double value = 0;
    if (peek().kind != TokenKind::word || !convert(peek().text, value)) fail(expected);
    ++next_;
    return value;
}

std::int32_t Reader::id(char letter, std::size_t count, std::string_view expected) {
    const std::string_view text = peek().text;
    if (peek().kind != TokenKind::word || text.size() < 2 || text[0] != letter) fail(expected);
    std::int32_t value = -1;
    if (text.substr(1) != "-" &&
        (!convert(text.substr(1), value) || value < 0 || static_cast<std::size_t>(value) >= count))
        fail(expected);
    ++next_;
    return value;
}

std::int32_t Reader::some_id(char letter, std::size_t count, std::string_view expected) {
    const std::size_t here = place();
    const std::int32_t value = id(letter, count, expected);
    if (value < 0) fail_at(here, expected);
    return value;
}

Reader::Range Reader::range(std::string_view expected) {
    const std::string_view text = peek().text;
    const std::size_t dots = text.find("..");
    Range range;
    const bool read = peek().kind == TokenKind::word && convert(text.substr(0, dots), range.first);
    if (!read) fail(expected);
    range.last = range.first;
    if (dots != std::string_view::npos && !convert(text.substr(dots + 2), range.last))
        fail(expected);
    auto large = [](std::int64_t n) { return n < -1 || n > kLargest; };
    if (large(range.first) || large(range.last)) fail(expected);
    ++next_;
    return range;
}

}  // namespace orrery::plan
