#include "plan/scenario/import/shell_arithmetic.hpp"

#include <charconv>

namespace orrery::plan::imports {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kDeepest = 64;

bool is_name(char c, bool first) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && c >= '0' && c <= '9');
}

class Expression {
  public:
    Expression(std::string_view text, const ShellVariable& variable)
        : text_(text), variable_(variable) {}

    Number whole() {
        const Number value = either(0);
        peek();
        return at_ == text_.size() ? value : std::nullopt;
    }

  private:
    char peek() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t'))
            ++at_;
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    bool takes(std::string_view operation) {
        peek();
        if (text_.substr(at_, operation.size()) != operation) return false;
        at_ += operation.size();
        return true;
    }

    Number either(int depth) {
        Number left = both(depth);
        while (left && takes("||")) {
            const Number right = both(depth);
            left = right ? Number(*left != 0 || *right != 0) : std::nullopt;
        }
        return left;
    }

    Number both(int depth) {
        Number left = compared(depth);
        while (left && takes("&&")) {
            const Number right = compared(depth);
            left = right ? Number(*left != 0 && *right != 0) : std::nullopt;
        }
        return left;
    }

    Number compared(int depth) {
        const Number left = sum(depth);
        for (const char* operation : {"==", "!=", "<=", ">=", "<", ">"}) {
            if (!left || !takes(operation)) continue;
            const Number right = sum(depth);
            if (!right) return std::nullopt;
            const std::string_view is = operation;
            if (is == "==") return *left == *right;
            if (is == "!=") return *left != *right;
            if (is == "<=") return *left <= *right;
            if (is == ">=") return *left >= *right;
            return is == "<" ? *left < *right : *left > *right;
        }
        return left;
    }

    Number sum(int depth) {
        Number left = product(depth);
        for (char c = peek(); left && (c == '+' || c == '-'); c = peek()) {
            ++at_;
            left = apply(left, c, product(depth));
        }
        return left;
    }

    Number product(int depth) {
        Number left = factor(depth);
        for (char c = peek(); left && (c == '*' || c == '/' || c == '%'); c = peek()) {
            ++at_;
            left = apply(left, c, factor(depth));
        }
        return left;
    }

    static Number apply(Number left, char operation, Number right) {
        if (!left || !right) return std::nullopt;
        std::int64_t out = 0;
        bool beyond = false;
        switch (operation) {
            case '+':
                beyond = __builtin_add_overflow(*left, *right, &out);
                break;
            case '-':
                beyond = __builtin_sub_overflow(*left, *right, &out);
                break;
            case '*':
                beyond = __builtin_mul_overflow(*left, *right, &out);
                break;
            default:
                if (*right == 0 || (*left == INT64_MIN && *right == -1)) return std::nullopt;
                out = operation == '/' ? *left / *right : *left % *right;
        }
        return beyond ? std::nullopt : Number(out);
    }

    Number factor(int depth) {
        if (depth > kDeepest) return std::nullopt;
        const char c = peek();
        if (c == '-') {
            ++at_;
            return apply(0, '-', factor(depth + 1));
        }
        if (c == '(') {
            ++at_;
            const Number inside = either(depth + 1);
            if (peek() != ')') return std::nullopt;
            ++at_;
            return inside;
        }
        if (c >= '0' && c <= '9') return digits();
        return named();
    }

    Number digits() {
        std::size_t end = at_;
        while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9')
            ++end;
        const Number value = parsed(text_.substr(at_, end - at_));
        at_ = end;
        return value;
    }

    // NAME, $NAME or ${NAME}.
    Number named() {
        if (peek() == '$') ++at_;
        const bool braces = at_ < text_.size() && text_[at_] == '{';
        if (braces) ++at_;
        std::string name;
        while (at_ < text_.size() && is_name(text_[at_], name.empty()))
            name += text_[at_++];
        if (braces && (at_ == text_.size() || text_[at_++] != '}')) return std::nullopt;
        if (name.empty()) return std::nullopt;
        const auto value = variable_(name);
        return value ? parsed(*value) : std::nullopt;
    }

    static Number parsed(std::string_view digits) {
        std::int64_t value = 0;
        const char* end = digits.data() + digits.size();
        const auto [at, error] = std::from_chars(digits.data(), end, value);
        return error == std::errc{} && at == end ? Number(value) : std::nullopt;
    }

    std::string_view text_;
    const ShellVariable& variable_;
    std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ShellVariable& variable) {
    return Expression(text, variable).whole();
}

}  // namespace orrery::plan::imports
