#include "plan/scenario/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>
#include <utility>

namespace orrery::plan {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLongestLineShown = 100;
constexpr std::size_t kLongestNumberShown = 60;
constexpr std::size_t kLongestTextShown = 1000;
constexpr int kNumberOverflow = 406;  // nlohmann's id of out_of_range for a number beyond a double

struct Level {
    Json value;
    std::string key;                       // of the member being read, when value is an object
    std::unordered_set<std::string> keys;  // read so far: the object itself looks one by one
    bool again = false;                    // `key` stands in the object already
};

// Builds the tree as the parser walks the text, so that every fault has its pointer.
class Builder {
  public:
    Builder(std::string_view text, const std::string& file, ParsedJson& out)
        : text_(text), file_(file), out_(out) {}

    bool null() { return add(Json(nullptr)); }
    bool boolean(bool value) { return add(Json(value)); }
    bool number_integer(std::int64_t value) { return add(Json(value)); }
    bool number_unsigned(std::uint64_t value) { return add(Json(value)); }
    bool number_float(double value, const std::string&) { return add(Json(value)); }
    bool string(std::string& value) {
        refuse_nul(value);
        return add(Json(std::move(value)));
    }
    bool binary(Json::binary_t&) { return false; }

    bool start_object(std::size_t) { return open(Json::object()); }
    bool start_array(std::size_t) { return open(Json::array()); }
    bool end_object() { return close(); }
    bool end_array() { return close(); }

    bool key(std::string& name) {
        Level& level = levels_.back();
        level.key = name;
        refuse_nul(name);
        level.again = !level.keys.insert(name).second;
        if (level.again) {
            Diagnostic fault;
            fault.code = "S003";
            fault.file = file_;
            fault.pointer = pointer();
            fault.message = fmt::format("the key {} stands twice in one object", Json(name).dump());
            fault.help.push_back("keep one of the two");
            out_.errors.push_back(std::move(fault));
        }
        return true;
    }

    template <typename Exception>
    bool parse_error(std::size_t position, const std::string& token, const Exception& why) {
        Diagnostic fault;
        fault.file = file_;
        if (why.id == kNumberOverflow) {
            fault.code = "S007";
            fault.pointer = pointer();
            fault.value = shortened(token, kLongestNumberShown);
            fault.message = fmt::format("{} is too large for a number", fault.value);
        } else {
            out_.not_json = true;
            fault.code = "S002";
            locate(start_of(token, position), fault);
            fault.message =
                fmt::format("not valid JSON at line {}, column {}", fault.line, fault.column);
            fault.note = reason(why.what());
            suggest(fault);
        }
        out_.errors.push_back(std::move(fault));
        return false;
    }

    Json take() { return std::move(root_); }

  private:
    // To the system it ends a name, so that another file than the one that is written there would
    // be opened.
    void refuse_nul(const std::string& text) {
        if (text.find('\0') == std::string::npos) return;
        Diagnostic fault;
        fault.code = "S006";
        fault.file = file_;
        fault.pointer = pointer();
        fault.value = shortened(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace),
                                kLongestTextShown);
        fault.message = "a string may not have the character \\u0000";
        out_.errors.push_back(std::move(fault));
    }

    bool too_deep() {
        out_.not_json = true;
        Diagnostic fault;
        fault.code = "S002";
        fault.file = file_;
        fault.message =
            fmt::format("objects and arrays are nested deeper than {} levels", kDeepest);
        out_.errors.push_back(std::move(fault));
        return false;
    }

    bool open(Json value) {
        if (levels_.size() >= kDeepest) return too_deep();
        levels_.push_back({std::move(value), "", {}, false});
        return true;
    }

    bool close() {
        Json value = std::move(levels_.back().value);
        levels_.pop_back();
        return add(std::move(value));
    }

    bool add(Json value) {
        if (levels_.empty()) {
            root_ = std::move(value);
        } else if (levels_.back().value.is_array()) {
            levels_.back().value.push_back(std::move(value));
        } else if (levels_.back().again) {
            levels_.back().value[levels_.back().key] = std::move(value);
        } else {
            auto& members = levels_.back().value.get_ref<Json::object_t&>();
            members.emplace_back(levels_.back().key, std::move(value));
        }
        return true;
    }

    std::string pointer() const {
        std::string out;
        for (const Level& level : levels_) {
            out += '/';
            out += level.value.is_array() ? std::to_string(level.value.size())
                                          : pointer_segment(level.key);
        }
        return out;
    }

    // Where the token begins that ends at `position`, a count of bytes read.
    std::size_t start_of(const std::string& token, std::size_t position) const {
        const std::size_t end = std::min(position, text_.size());
        const bool string = token.size() > 1 && token.front() == '"' && token.back() == '"';
        if (string && token.size() <= end) return end - token.size();
        if (position > text_.size() || end == 0) return end;
        std::size_t at = end - 1;
        const auto in_word = [this](std::size_t i) {
            return text_[i] == '_' || std::isalnum(static_cast<unsigned char>(text_[i])) != 0;
        };
        while (at > 0 && in_word(at) && in_word(at - 1))
            --at;
        return at;
    }

    void suggest(Diagnostic& fault) const {
        // No character of UTF-8 begins so, nor is it a control character that texts have.
        const auto first = static_cast<unsigned char>(text_.empty() ? ' ' : text_[0]);
        if (first < '\t' || (first >= 0x80 && first < 0xC0) || first >= 0xF8) {
            fault.arithmetic.clear();
            fault.help.push_back(
                "this is no text; a trace is taken by orrery compare, orrery convert and "
                "--costs");
            return;
        }
        const auto says = [&fault](const char* words) {
            return fault.note.find(words) != std::string::npos;
        };
        if (says("parsing object key - unexpected ','") || says("parsing value - unexpected ','")) {
            fault.help.push_back("there is a comma too many");
        } else if (says("parsing object key - unexpected '}'") ||
                   says("parsing value - unexpected ']'")) {
            fault.help.push_back("no comma may stand before a closing bracket");
        } else if (says("parsing object - unexpected") || says("parsing array - unexpected")) {
            fault.help.push_back("a comma or a closing bracket may be missing before this place");
        } else if (says("invalid literal")) {
            fault.help.push_back("strings need quotation marks; NaN and Infinity are not numbers");
        }
    }

    // The line and column of a byte, and that line with a mark below.
    void locate(std::size_t at, Diagnostic& fault) const {
        const std::size_t newline = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
        const std::size_t start = newline == std::string_view::npos ? 0 : newline + 1;
        fault.line = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + start, '\n'));
        fault.column = 1 + static_cast<int>(at - start);
        std::string line(text_.substr(start, text_.find('\n', start) - start));
        while (!line.empty() && (line.back() == '\r' || line.back() == ' '))
            line.pop_back();
        std::replace(line.begin(), line.end(), '\t', ' ');
        if (line.empty() || line.size() > kLongestLineShown) return;
        fault.arithmetic = line + '\n' + std::string(at - start, ' ') + '^';
    }

    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
    // value - unexpected '}'; expected …" without what precedes the last colon's subject.
    static std::string reason(std::string what) {
        const std::size_t start = what.find("while parsing");
        if (start == std::string::npos) return "";
        what = what.substr(start);
        const std::size_t last_read = what.find("; last read: ");
        if (last_read == std::string::npos) return what;
        const std::size_t expected = what.find("; expected", last_read);
        return what.substr(0, last_read) +
               (expected == std::string::npos ? "" : what.substr(expected));
    }

    std::string_view text_;
    std::string file_;
    ParsedJson& out_;
    std::vector<Level> levels_;
    Json root_;
};

}  // namespace

ParsedJson parse_json(std::string_view text, const std::string& file) {
    ParsedJson out;
    Builder builder(text, file, out);
    const bool complete =
        Json::sax_parse(text.begin(), text.end(), &builder, nlohmann::detail::input_format_t::json,
                        /*strict=*/true, /*ignore_comments=*/true);
    if (complete) {
        out.value = builder.take();
    } else {
        out.incomplete = true;
    }
    return out;
}

std::string pointer_segment(std::string_view key) {
    std::string out;
    for (const char c : key) {
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
    return out;
}

Json plain(double value) {
    constexpr double kLargestWhole = 1e15;
    if (!(value >= 0 && value < kLargestWhole)) return Json(value);
    const auto whole = static_cast<std::int64_t>(value);
    return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

}  // namespace orrery::plan
