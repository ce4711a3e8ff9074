#include "plan/scenario/import/shell_conditions.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "plan/scenario/import/shell_words.hpp"

namespace orrery::plan::imports {
namespace {

constexpr int kDeepestTest = 64;

bool is_any(std::string_view word, std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* one) { return word == one; });
}

std::optional<std::int64_t> whole(const std::string& text) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && at == end ? std::optional(value) : std::nullopt;
}

// * is any text, ? any character; what failed behind a * is tried one character on.
bool glob(std::string_view pattern, std::string_view text) {
    std::size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            from = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*')
        ++p;
    return p == pattern.size();
}

class Test {
  public:
    Test(const std::vector<ShellWord>& words, bool patterns) : words_(words), patterns_(patterns) {}

    Truth holds() {
        const Truth truth = any(0);
        return at_ == words_.size() ? truth : std::nullopt;
    }

  private:
    bool takes(std::initializer_list<const char*> words) {
        if (at_ >= words_.size() || words_[at_].open || !is_any(words_[at_].text, words))
            return false;
        ++at_;
        return true;
    }

    Truth any(int depth) {
        Truth left = all(depth);
        while (takes({"-o", "||"})) {
            const Truth right = all(depth);
            if (left == true || right == true)
                left = true;
            else if (!left || !right)
                left = std::nullopt;
        }
        return left;
    }

    Truth all(int depth) {
        Truth left = one(depth);
        while (takes({"-a", "&&"})) {
            const Truth right = one(depth);
            if (left == false || right == false)
                left = false;
            else if (!left || !right)
                left = std::nullopt;
        }
        return left;
    }

    Truth one(int depth) {
        if (depth > kDeepestTest || at_ >= words_.size()) return std::nullopt;
        if (takes({"!"})) return negated(one(depth + 1));
        if (takes({"("})) {
            const Truth inside = any(depth + 1);
            return takes({")"}) ? inside : std::nullopt;
        }
        if (at_ + 2 < words_.size() && !words_[at_ + 1].open &&
            is_any(words_[at_ + 1].text, {"=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt",
                                          "-le", "-gt", "-ge", "-ef", "-nt", "-ot"})) {
            at_ += 3;
            return compared(words_[at_ - 3], words_[at_ - 2].text, words_[at_ - 1]);
        }
        const ShellWord& word = words_[at_++];
        if (!word.open && word.text.size() == 2 && word.text[0] == '-' && at_ < words_.size())
            return of_one(word.text, words_[at_++]);
        return word.open ? std::nullopt : Truth(!word.text.empty());
    }

    // Of files and descriptors nothing is known.
    static Truth of_one(const std::string& operation, const ShellWord& word) {
        if (word.open || (operation != "-z" && operation != "-n")) return std::nullopt;
        return word.text.empty() == (operation == "-z");
    }

    Truth compared(const ShellWord& left, const std::string& operation,
                   const ShellWord& right) const {
        if (left.open || right.open) return std::nullopt;
        if (is_any(operation, {"=", "==", "!="})) {
            const Truth same =
                patterns_ ? matches_pattern(left, right) : Truth(left.text == right.text);
            return operation == "!=" ? negated(same) : same;
        }
        const auto a = whole(left.text), b = whole(right.text);
        if (!a || !b) return std::nullopt;
        if (operation == "-eq") return *a == *b;
        if (operation == "-ne") return *a != *b;
        if (operation == "-lt") return *a < *b;
        if (operation == "-le") return *a <= *b;
        if (operation == "-gt") return *a > *b;
        if (operation == "-ge") return *a >= *b;
        return std::nullopt;
    }

    const std::vector<ShellWord>& words_;
    bool patterns_;
    std::size_t at_ = 0;
};

}  // namespace

Truth negated(Truth truth) {
    return truth ? Truth(!*truth) : std::nullopt;
}

Truth test_holds(const std::vector<ShellWord>& words, bool patterns) {
    if (words.empty()) return false;
    return Test(words, patterns).holds();
}

std::string asks_whether_set(const std::vector<ShellWord>& words) {
    const std::size_t first = !words.empty() && words[0].text == "!" ? 1 : 0;
    if (words.size() != first + 2 || !words[first + 1].open) return "";
    if (!is_any(words[first].text, {"-z", "-n"})) return "";
    std::string name = words[first + 1].text.substr(1);
    if (name.size() > 2 && name.front() == '{' && name.back() == '}')
        name = name.substr(1, name.size() - 2);
    return words[first + 1].text[0] == '$' && is_shell_name(name) ? name : "";
}

Truth matches_pattern(const ShellWord& word, const ShellWord& pattern) {
    if (pattern.text == "*") return true;
    if (word.open || pattern.open || pattern.text.find('[') != std::string::npos)
        return std::nullopt;
    return glob(pattern.text, word.text);
}

}  // namespace orrery::plan::imports
