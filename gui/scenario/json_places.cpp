#include "gui/scenario/json_places.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace orrery::gui {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;  // as the reader of scenarios

std::string escaped(const std::string& key) {
    std::string text;
    for (const char c : key)
        text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    return text;
}

// Walks the text once. What a number or a word is, only its end matters.
class Scanner {
  public:
    explicit Scanner(std::string_view text) : text_(text) {}

    std::map<std::string, JsonPlace> run() {
        skip_space();
        value("", at_, 0);
        return std::move(places_);
    }

  private:
    bool value(const std::string& pointer, std::size_t key, int depth) {
        if (at_ >= text_.size() || depth > kDeepest) return false;
        const std::size_t begin = at_;
        bool whole = true;
        if (text_[at_] == '{')
            whole = members(pointer, depth);
        else if (text_[at_] == '[')
            whole = elements(pointer, depth);
        else if (text_[at_] == '"')
            whole = skip_string();
        else
            whole = skip_word();
        if (whole) places_[pointer] = {key, begin, at_};
        return whole;
    }

    bool members(const std::string& pointer, int depth) {
        ++at_;
        skip_space();
        if (take('}')) return true;
        do {
            skip_space();
            const std::size_t key = at_;
            if (at_ >= text_.size() || text_[at_] != '"' || !skip_string()) return false;
            const json name = json::parse(text_.substr(key, at_ - key), nullptr, false);
            skip_space();
            if (!name.is_string() || !take(':')) return false;
            skip_space();
            if (!value(pointer + '/' + escaped(name.get<std::string>()), key, depth + 1))
                return false;
            skip_space();
        } while (take(','));
        return take('}');
    }

    bool elements(const std::string& pointer, int depth) {
        ++at_;
        skip_space();
        if (take(']')) return true;
        std::size_t number = 0;
        do {
            skip_space();
            if (!value(pointer + '/' + std::to_string(number++), at_, depth + 1)) return false;
            skip_space();
        } while (take(','));
        return take(']');
    }

    // And comments, as the reader of scenarios does.
    void skip_space() {
        while (at_ < text_.size()) {
            if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
                ++at_;
            else if (text_.substr(at_, 2) == "//")
                at_ = std::min(text_.find('\n', at_), text_.size());
            else if (text_.substr(at_, 2) == "/*")
                at_ = std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 2;
            else
                return;
        }
    }
    bool take(char wanted) {
        if (at_ >= text_.size() || text_[at_] != wanted) return false;
        ++at_;
        return true;
    }
    bool skip_string() {
        for (++at_; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\n') return false;
            if (text_[at_] == '\\')
                ++at_;
            else if (text_[at_] == '"')
                return ++at_, true;
        }
        return false;
    }
    bool skip_word() {
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               std::string_view(" \t\r\n,]}[{:\"").find(text_[at_]) == std::string_view::npos)
            ++at_;
        return at_ > begin;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::map<std::string, JsonPlace> places_;
};

// The white space before the object's first member, or that of its own line and two spaces more.
std::string space_before_members(std::string_view text, const JsonPlace& object) {
    const std::size_t first = text.find_first_not_of(" \t\r\n", object.begin + 1);
    if (first + 1 < object.end && first > object.begin + 1)
        return std::string(text.substr(object.begin + 1, first - object.begin - 1));
    return " ";
}

std::string with_member(std::string_view text, const JsonPlace& object, const std::string& key,
                        const std::string& value) {
    const std::string member = json(key).dump() + ": " + value;
    const std::size_t last = text.find_last_not_of(" \t\r\n", object.end - 2);
    std::string result(text.substr(0, last + 1));
    if (text[last] != '{') result += ',';
    result += space_before_members(text, object) + member;
    if (text[last] == '{') result += ' ';
    return result + std::string(text.substr(last + 1));
}

}  // namespace

std::map<std::string, JsonPlace> json_places(std::string_view text) {
    return Scanner(text).run();
}

std::optional<JsonPlace> nearest_place(std::string_view text, const std::string& pointer) {
    const std::map<std::string, JsonPlace> places = json_places(text);
    for (std::string way = pointer;; way.resize(way.rfind('/'))) {
        if (const auto found = places.find(way); found != places.end()) return found->second;
        if (way.find('/') == std::string::npos) return std::nullopt;
    }
}

std::optional<std::string> with_setting(std::string_view text, const std::string& key,
                                        const std::string& value) {
    if (json::parse(text, nullptr, false, true).is_discarded()) return std::nullopt;
    const json parsed = json::parse(value, nullptr, false);
    std::string written = parsed.is_discarded() ? json(value).dump() : value;
    const std::map<std::string, JsonPlace> places = json_places(text);
    std::string pointer;
    for (std::size_t begin = 0; begin <= key.size();) {
        const std::size_t end = std::min(key.find('.', begin), key.size());
        const std::string part = key.substr(begin, end - begin);
        const JsonPlace& around = places.at(pointer);
        if (text[around.begin] != '{') return std::nullopt;
        const auto found = places.find(pointer + '/' + escaped(part));
        if (found == places.end()) {
            // What lies deeper comes into being around the value.
            std::vector<std::string> deeper;
            for (std::size_t at = end; at < key.size();) {
                const std::size_t next = std::min(key.find('.', at + 1), key.size());
                deeper.push_back(key.substr(at + 1, next - at - 1));
                at = next;
            }
            for (auto name = deeper.rbegin(); name != deeper.rend(); ++name)
                written = "{ " + json(*name).dump() + ": " + written + " }";
            return with_member(text, around, part, written);
        }
        pointer = found->first;
        if (end == key.size()) {
            std::string result(text);
            return result.replace(found->second.begin, found->second.end - found->second.begin,
                                  written);
        }
        begin = end + 1;
    }
    return std::nullopt;
}

std::optional<std::string> with_content_of_reference(
    std::string_view text, const std::string& key,
    const std::function<std::optional<std::string>(const std::string& reference)>& read) {
    const std::map<std::string, JsonPlace> places = json_places(text);
    std::string pointer;
    for (std::size_t begin = 0; begin < key.size();) {
        const std::size_t end = key.find('.', begin);
        if (end == std::string::npos) return std::nullopt;  // the value itself
        pointer += '/' + escaped(key.substr(begin, end - begin));
        begin = end + 1;
        const auto found = places.find(pointer);
        if (found == places.end()) return std::nullopt;
        const std::string_view value =
            text.substr(found->second.begin, found->second.end - found->second.begin);
        if (value.front() != '"') continue;
        const std::optional<std::string> content = read(json::parse(value).get<std::string>());
        if (!content) return std::nullopt;
        const auto object = nlohmann::ordered_json::parse(*content, nullptr, false, true);
        if (!object.is_object()) return std::nullopt;
        // As deep as the reference stood.
        std::string written = object.dump(2);
        const std::size_t depth =
            static_cast<std::size_t>(std::count(pointer.begin(), pointer.end(), '/'));
        for (std::size_t at = written.find('\n'); at != std::string::npos;
             at = written.find('\n', at + 1))
            written.insert(at + 1, 2 * depth, ' ');
        std::string result(text);
        return result.replace(found->second.begin, value.size(), written);
    }
    return std::nullopt;
}

std::optional<std::string> without_setting(std::string_view text, const std::string& key) {
    if (json::parse(text, nullptr, false, true).is_discarded()) return std::nullopt;
    std::string pointer = '/' + key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const std::map<std::string, JsonPlace> places = json_places(text);
    const auto found = places.find(pointer);
    std::string result(text);
    if (found == places.end()) return result;
    // With its comma: the one behind it, or of the last member the one before.
    std::size_t begin = found->second.key, end = found->second.end;
    const std::size_t next = text.find_first_not_of(" \t\r\n", end);
    const std::size_t before = text.find_last_not_of(" \t\r\n", begin - 1);
    if (next != std::string_view::npos && text[next] == ',') {
        end = std::min(text.find_first_not_of(" \t\r\n", next + 1), text.size());
    } else {
        begin = text[before] == ',' ? before : before + 1;
    }
    return result.erase(begin, end - begin);
}

}  // namespace orrery::gui
