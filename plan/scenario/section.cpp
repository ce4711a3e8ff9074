#include "plan/scenario/section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/scenario/suggest.hpp"

namespace orrery::plan {
namespace {

constexpr std::size_t kMostUnknownNamed = 50;  // one by one; how many more there are is said
constexpr std::ptrdiff_t kMostUnread = 1000;   // of a model as others keep it
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

std::string shown_number(double value) {
    return fmt::format("{}", value);
}

std::string expected_range(const NumberRange& range, double value) {
    if (range.min == range.max) return shown_number(range.min);
    std::string low = (range.open_min ? "more than " : "at least ") + shown_number(range.min);
    if (range.max >= kLargestNumber && value < range.max) return low;
    return low + (range.open_max ? " and less than " : " and at most ") + shown_number(range.max);
}

bool inside(double value, const NumberRange& range) {
    const bool above = range.open_min ? value > range.min : value >= range.min;
    const bool below = range.open_max ? value < range.max : value <= range.max;
    return above && below;
}

// With control characters escaped: the text may go to a terminal.
std::string quoted_key(const std::string& key) {
    return Json(key).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string quoted(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words)
        out += (out.empty() ? "\"" : ", \"") + word + '"';
    return out;
}

}  // namespace

Section::Section(Reading& reading, std::string pointer, std::string field, Null null)
    : reading_(reading), pointer_(std::move(pointer)), field_(std::move(field)), null_(null) {
    const Json* value = reading_.document().find(pointer_);
    if (value == nullptr) return;
    if (value->is_object()) {
        object_ = value;
    } else if (reading_.good_at(pointer_)) {
        reading_.report(
            "S006", pointer_,
            fmt::format("{} must be an object", field_.empty() ? "a scenario" : field_));
    }
}

const Json* Section::find(const std::string& key) const {
    if (object_ == nullptr) return nullptr;
    const auto it = object_->find(key);
    if (it == object_->end()) return nullptr;
    return it->is_null() && null_ == Null::is_absent ? nullptr : &*it;
}

std::string Section::pointer(const std::string& key) const {
    return pointer_ + '/' + pointer_segment(key);
}

const Json* Section::begin(const std::string& key, Presence presence, const std::string& name,
                           const std::string& fallback, KeySpec spec) {
    known(key);
    if (reading_.observer) {
        spec.required = presence == Presence::required;
        spec.initial = fallback;
        reading_.observer(pointer(key), std::move(spec));
    }
    const std::string field = field_ + '.' + (name.empty() ? key : name);
    reading_.remember(field, pointer(key), presence == Presence::optional ? fallback : "");
    const Json* value = find(key);
    if (value == nullptr && presence == Presence::required && exists()) {
        missing_.push_back(key);
        reading_.mark_bad(pointer(key));
    }
    return value;
}

Diagnostic& Section::wrong_type(const std::string& key, const char* expected) {
    Diagnostic& fault =
        reading_.report("S006", pointer(key), fmt::format("{} must be {}", called(key), expected));
    const Json& value = *find(key);
    const std::string what = expected;
    if (value.is_string() && what.find("number") != std::string::npos) {
        const auto number = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
        if (number.is_number()) fault.help.push_back("write it without quotation marks");
        if (value == "auto" && pointer(key).rfind("/layout/", 0) == 0)
            fault.help.push_back(
                "orrery search tries the values of what is \"auto\"; other commands take it for "
                "data_parallel alone");
    } else if (what == "true or false") {
        fault.help.push_back("write true or false, in lower case and without quotation marks");
    }
    return fault;
}

bool Section::integer(const std::string& key, std::int64_t& out, IntegerRange range,
                      Presence presence, const std::string& name) {
    const Json* value = begin(key, presence, name, std::to_string(out),
                              {.type = KeyType::whole_number, .integers = range});
    if (value == nullptr) return false;
    if (!value->is_number()) {
        wrong_type(key, "a whole number");
        return false;
    }
    const double number = value->get<double>();
    if (std::fabs(number) < kExactIntegers && std::floor(number) != number) {
        wrong_type(key, "a whole number");
        return false;
    }
    if (number < static_cast<double>(range.min) || number > static_cast<double>(range.max)) {
        reading_.report("S007", pointer(key),
                        number < static_cast<double>(range.min)
                            ? fmt::format("{} must be at least {}", called(key), range.min)
                            : fmt::format("{} must be at most {}", called(key), range.max));
        return false;
    }
    out = static_cast<std::int64_t>(number);
    return true;
}

bool Section::number(const std::string& key, double& out, NumberRange range, Presence presence,
                     const std::string& name) {
    const Json* value =
        begin(key, presence, name, shown_number(out), {.type = KeyType::number, .numbers = range});
    if (value == nullptr) return false;
    if (!value->is_number()) {
        wrong_type(key, "a number");
        return false;
    }
    const double number = value->get<double>();
    if (!inside(number, range)) {
        reading_.report("S007", pointer(key),
                        fmt::format("{} must be {}", called(key), expected_range(range, number)));
        return false;
    }
    out = number;
    return true;
}

bool Section::boolean(const std::string& key, bool& out, const std::string& name) {
    const Json* value =
        begin(key, Presence::optional, name, out ? "true" : "false", {.type = KeyType::flag});
    if (value == nullptr) return false;
    if (!value->is_boolean()) {
        wrong_type(key, "true or false");
        return false;
    }
    out = value->get<bool>();
    return true;
}

bool Section::text(const std::string& key, std::string& out, Presence presence) {
    const Json* value = begin(key, presence, "", "", {.type = KeyType::text});
    if (value == nullptr) return false;
    if (!value->is_string()) {
        wrong_type(key, "a string");
        return false;
    }
    out = value->get<std::string>();
    if (out.empty() && presence == Presence::required) {
        reading_.report("S007", pointer(key), fmt::format("{} must not be empty", key));
        return false;
    }
    return true;
}

bool Section::said_text(const std::string& key, std::string& out) {
    return text(key, out, has(key) ? Presence::required : Presence::optional);
}

bool Section::integer_or_word(const std::string& key, std::int64_t& out, IntegerRange range,
                              std::string_view word, std::int64_t of_word, Presence presence) {
    const Json* value = find(key);
    if (value != nullptr && value->is_number()) return integer(key, out, range, presence);
    begin(key, presence, "", fmt::format("\"{}\"", word), {.words = {word}});
    if (value == nullptr) {
        if (presence == Presence::optional) out = of_word;
        return false;
    }
    if (*value != word) {
        wrong_type(key, fmt::format("a whole number or \"{}\"", word).c_str());
        return false;
    }
    out = of_word;
    return true;
}

bool Section::word_of(const std::string& key, std::string& out,
                      const std::vector<std::string>& names, const std::string& usual,
                      Presence presence) {
    const Json* value = begin(key, presence, "", usual.empty() ? "" : '"' + usual + '"',
                              {.type = KeyType::word, .words = {names.begin(), names.end()}});
    if (value == nullptr) return false;
    if (value->is_string()) {
        out = value->get<std::string>();
        if (std::find(names.begin(), names.end(), out) != names.end()) return true;
    }
    Diagnostic& fault = reading_.report(
        "S008", pointer(key), fmt::format("{} is not one of the known values", called(key)));
    const std::string meant = value->is_string() ? nearest(out, names) : "";
    if (!meant.empty()) fault.help.push_back(fmt::format("did you mean \"{}\"?", meant));
    fault.help.push_back("known: " + quoted(names));
    return false;
}

bool Section::sound() const {
    return std::all_of(known_.begin(), known_.end(),
                       [this](const std::string& key) { return good(key); });
}

Diagnostic& Section::unknown(const std::string& key, const std::string& meant) {
    const std::string where = field_.empty() ? "a scenario" : field_;
    const auto otherwise = std::find_if(elsewhere_.begin(), elsewhere_.end(),
                                        [&](const auto& one) { return one.first == key; });
    if (otherwise != elsewhere_.end()) {
        Diagnostic& fault = reading_.report("S004", pointer(key),
                                            fmt::format("{} means nothing here", called(key)));
        fault.help.push_back(fmt::format("it is a key {}", otherwise->second));
        return fault;
    }
    Diagnostic& fault = reading_.report("S004", pointer(key),
                                        fmt::format("{} has no key {}", where, quoted_key(key)));
    const std::string elsewhere = part_of_key(key);
    if (!meant.empty()) {
        fault.help.push_back(fmt::format("did you mean \"{}\"?", meant));
        reading_.mark_bad(pointer(meant));
        forget_missing(meant);
    } else if (!elsewhere.empty() && elsewhere != field_) {
        fault.help.push_back(fmt::format("\"{}\" is a key of {}", key, elsewhere));
    } else {
        fault.help.push_back("known: " + quoted(known_));
    }
    return fault;
}

bool Section::reads(const std::string& key) const {
    return std::find(known_.begin(), known_.end(), key) != known_.end();
}

bool Section::is_known(const std::string& key) const {
    return reads(key) || std::find(tolerated_.begin(), tolerated_.end(), key) != tolerated_.end();
}

void Section::forget_missing(const std::string& key) {
    missing_.erase(std::remove(missing_.begin(), missing_.end(), key), missing_.end());
}

void Section::report_further(std::size_t unknown_keys) {
    if (unknown_keys <= kMostUnknownNamed) return;
    reading_.report(
        "S004", pointer_,
        fmt::format("{} has {} further keys that are not known",
                    field_.empty() ? "a scenario" : field_, unknown_keys - kMostUnknownNamed));
}

void Section::report_missing() {
    for (const std::string& key : missing_) {
        const std::string where = field_.empty() ? "the scenario" : field_;
        reading_.report("S005", pointer(key), fmt::format("{} needs the key \"{}\"", where, key));
    }
}

void Section::finish() {
    if (!exists()) return;
    std::size_t strange = 0;
    for (const auto& [key, value] : object_->items()) {
        if (is_known(key)) continue;
        if (strange++ < kMostUnknownNamed) unknown(key, nearest(key, known_));
    }
    report_further(strange);
    report_missing();
}

void Section::finish_tolerant() {
    if (!exists()) return;
    std::vector<std::string> absent;
    for (const std::string& key : known_) {
        if (object_->find(key) == object_->end()) absent.push_back(key);
    }
    // So many that nobody reads are no model's, and each is compared with all that are read.
    std::ptrdiff_t unread = 0;
    for (const auto& [key, value] : object_->items())
        unread += is_known(key) ? 0 : 1;
    if (unread > kMostUnread) return finish();
    std::size_t strange = 0;
    for (const auto& [key, value] : object_->items()) {
        if (is_known(key)) continue;
        const std::string meant = nearest(key, absent);
        const bool set = reading_.document().set_by_itself(pointer(key));
        if (meant.empty() && !set) {
            reading_.unread.push_back(pointer(key));
            continue;
        }
        if (strange++ < kMostUnknownNamed)
            unknown(key, meant.empty() ? nearest(key, known_) : meant);
    }
    report_further(strange);
    report_missing();
}

}  // namespace orrery::plan
