// Reading a plan's tokens: what is wanted next, and an error with its place where it is not there.
// Internal to plan/text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plan/ir/plan.hpp"
#include "plan/text/tokens.hpp"

namespace orrery::plan {

// Thrown within the parser only; parse_plan turns it into a value.
struct ParseFault {
    std::string message;
};

// Numbers of a plan stay below this (a petabyte), so that sums over them do not overflow.
inline constexpr std::int64_t kLargest = std::int64_t{1} << 50;

class Reader {
  public:
    explicit Reader(std::string_view text);

    const Token& peek() const { return tokens_[next_]; }
    std::size_t place() const { return next_; }
    [[noreturn]] void fail(std::string_view expected) const { fail_at(next_, expected); }
    [[noreturn]] void fail_at(std::size_t place, std::string_view expected) const;
    [[noreturn]] void fail_at(std::size_t place, std::string_view found,
                              std::string_view expected) const;

    bool at_end() const { return peek().kind == TokenKind::end; }
    bool at_word(std::string_view word) const;
    bool at_sign(std::string_view sign) const;
    bool at_number() const;
    bool at_name() const;  // a bare or quoted name
    // A word with this sign behind it.
    bool at_word_before(std::string_view sign) const;
    bool accept_word(std::string_view word);
    bool accept_sign(std::string_view sign);
    void expect_word(std::string_view word);
    void expect_sign(std::string_view sign);

    std::string word(std::string_view expected);       // any word
    std::string in_quotes(std::string_view expected);  // a string in quotes
    std::string name(std::string_view expected);
    std::int64_t integer(std::string_view expected, std::int64_t least = 0,
                         std::int64_t most = kLargest);
    std::int32_t index(std::string_view expected, std::int64_t least = 0);  // 32 bits
    double real(std::string_view expected);
    // "r12", or "r-" for none (−1); below `count`.
    std::int32_t id(char letter, std::size_t count, std::string_view expected);
    std::int32_t some_id(char letter, std::size_t count, std::string_view expected);  // not none

    // "3" or "3..9", the ends in any order.
    struct Range {
        std::int64_t first = 0;
        std::int64_t last = 0;
    };
    Range range(std::string_view expected);

    template <typename Enum>
    Enum one_of(std::string_view expected, std::optional<Enum> (*find)(std::string_view)) {
        if (peek().kind == TokenKind::word)
            if (const std::optional<Enum> found = find(peek().text)) {
                ++next_;
                return *found;
            }
        fail(expected);
    }

  private:
    std::vector<Token> tokens_;
    std::size_t next_ = 0;
};

// The parts of a plan, in the order of its text.
Block read_block(Reader& reader, const Mesh& mesh, std::int32_t number);
Program read_program(Reader& reader, const Plan& plan, std::int32_t number);

}  // namespace orrery::plan
