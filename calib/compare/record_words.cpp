#include "calib/compare/record_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace orrery::compare {
namespace {

using nlohmann::json;

bool is_letter_or_digit(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 128;
}

char small(char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// A text without what spellings differ in, and at which of its characters a word begins.
struct Compact {
    std::string text;
    std::vector<bool> begins;
};

Compact compact(const std::string& text, const std::string& keep) {
    Compact out;
    bool begins = true;
    for (const char c : text) {
        const bool kept = keep.find(c) != std::string::npos;
        if (is_letter_or_digit(c) || kept) {
            out.text += small(c);
            out.begins.push_back(begins || kept);
        }
        begins = !is_letter_or_digit(c);
    }
    return out;
}

// Digits, a point and at most one sign in front.
std::optional<double> plain_number(const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, fault] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    if (fault != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
    return value;
}

// Commas that stand before groups of three digits, and spaces.
std::string without_separators(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const auto is_digit = [&](std::size_t at) {
            return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
        };
        const bool thousands = (c == ',' || c == '_') && i > 0 && is_digit(i - 1) &&
                               is_digit(i + 1) && is_digit(i + 2) && is_digit(i + 3) &&
                               !is_digit(i + 4);
        if (!thousands && c != ' ') out += c;
    }
    return out;
}

// The word of the list that `text` spells; of several, the first.
std::optional<std::string> known_word(const std::string& text, const json& list) {
    for (const auto& [word, spellings] : list.items()) {
        if (same_word(text, word)) return word;
        for (const json& spelling : spellings)
            if (same_word(text, spelling.get<std::string>())) return word;
    }
    return std::nullopt;
}

// Words of which the rules have another list: their names are known without a list of spellings.
std::optional<std::string> known_name(const std::string& text, const json& names) {
    for (const auto& [name, what] : names.items())
        if (same_word(text, name)) return name;
    return std::nullopt;
}

void read_word(json& value, const std::string& path, const json& rules) {
    if (!value.is_string()) return;
    const std::string text = value.get<std::string>();
    std::optional<std::string> word;
    if (path == "/gpu") word = known_name(text, rules.at("devices"));
    if (path == "/layout/precision") word = known_name(text, rules.at("precisions"));
    if (path == "/model/vocab") word = known_name(text, rules.at("vocabularies"));
    const json& words = rules.at("words");
    if (!word && words.contains(path)) word = known_word(text, words.at(path));
    if (word) value = *word;
}

// Facts that are whole numbers are read as such, "yes" and "no" of a fact without words as truth.
void read_value(json& value, const std::string& path, const json& rules) {
    if (!value.is_string() || rules.at("words").contains(path)) return;
    const std::string text = value.get<std::string>();
    if (path == "/model/vocab" && rules.at("vocabularies").contains(text)) return;
    const bool of_tokens = path == "/model/seq_len" || path == "/model/vocab";
    if (const std::optional<double> number = number_in(text, of_tokens ? 1024 : 1000)) {
        if (*number == std::floor(*number) && std::fabs(*number) < 1e15)
            value = static_cast<std::int64_t>(*number);
        else
            value = *number;
        return;
    }
    for (const char* yes : {"yes", "true", "on", "enabled"})
        if (same_word(text, yes)) value = true;
    for (const char* no : {"no", "false", "off", "disabled", "none"})
        if (same_word(text, no)) value = false;
}

}  // namespace

bool same_word(const std::string& one, const std::string& other) {
    return compact(one, "").text == compact(other, "").text;
}

bool holds_words(const std::string& text, const std::string& part) {
    static const std::string kKept = ".()";
    const Compact whole = compact(text, kKept);
    const std::string sought = compact(part, kKept).text;
    for (std::size_t at = whole.text.find(sought); at != std::string::npos;
         at = whole.text.find(sought, at + 1))
        if (at == whole.text.size() || whole.begins[at]) return true;
    return false;
}

std::optional<double> number_in(const std::string& text, double thousand) {
    std::string digits = without_separators(text);
    if (!digits.empty() && digits.front() == '~') digits.erase(0, 1);
    if (const std::size_t slash = digits.find('/'); slash != std::string::npos) {
        const std::optional<double> above = plain_number(digits.substr(0, slash));
        const std::optional<double> below = plain_number(digits.substr(slash + 1));
        if (!above || !below || *below == 0) return std::nullopt;
        return *above / *below;
    }
    if (digits.empty()) return std::nullopt;
    double unit = 1;
    const char last = small(digits.back());
    if (last == 'k') unit = thousand;
    if (last == 'm') unit = thousand * thousand;
    if (last == 'b') unit = 1e9;
    if (unit != 1) digits.pop_back();
    const std::optional<double> number = plain_number(digits);
    return number ? std::optional<double>(*number * unit) : std::nullopt;
}

json read_by_meaning(const json& record, const json& rules) {
    json read = record;
    for (const char* key : {"gpu", "gpus", "gpus_per_node", "kind", "memory_kind"})
        if (read.contains(key)) {
            const std::string path = std::string("/") + key;
            read_word(read[key], path, rules);
            read_value(read[key], path, rules);
        }
    for (const char* part : {"model", "layout"}) {
        if (!read.contains(part) || !read[part].is_object()) continue;
        static const std::string kStated = "_stated";  // as printed, beside what is read of it
        for (auto& [key, value] : read[part].items()) {
            if (rules.at("without_effect").at(part).contains(key)) continue;
            if (key.size() > kStated.size() &&
                key.compare(key.size() - kStated.size(), kStated.size(), kStated) == 0)
                continue;
            const std::string path = std::string("/") + part + "/" + key;
            read_word(value, path, rules);
            read_value(value, path, rules);
        }
    }
    return read;
}

}  // namespace orrery::compare
