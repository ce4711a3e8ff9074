#include "plan/scenario/import/sheet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "plan/scenario/import/reasons.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::plan::imports {
namespace {

constexpr double kLargestWhole = 9'007'199'254'740'992;  // 2^53: doubles still count by ones
constexpr std::size_t kNeighbours = 2;
constexpr int kMostExplained = 50;  // unknown keys for which known ones are looked for
constexpr const char* kUnsettled = "what it stands for is not settled in this file";
constexpr const char* kOwnDefault = "Orrery's default";

std::string lower(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

std::optional<double> parsed(const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || !std::isfinite(value)) return std::nullopt;
    return value;
}

std::optional<double> as_number(const Json& value) {
    if (value.is_number()) return value.get<double>();
    return value.is_string() ? parsed(value.get_ref<const std::string&>()) : std::nullopt;
}

bool matches(const std::string& pattern, const std::string& key) {
    if (!pattern.empty() && pattern.back() == '*')
        return key.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
    return pattern == key;
}

const Row* row_of(std::span<const Row> rows, const std::string& key) {
    const auto at =
        std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return key == row.key; });
    if (at != rows.end()) return &*at;
    const auto begins = std::find_if(rows.begin(), rows.end(),
                                     [&](const Row& row) { return matches(row.key, key); });
    return begins == rows.end() ? nullptr : &*begins;
}

// Whether two values are one: "1" of a command line is 1.
bool same(const Json& left, const Json& right) {
    if (left == right) return true;
    const auto a = as_number(left), b = as_number(right);
    return a && b && *a == *b;
}

}  // namespace

bool is_utf8(std::string_view text) {
    try {
        Json(text).dump();
        return true;
    } catch (const Json::type_error&) {
        return false;
    }
}

Sheet::Sheet(std::string file, std::vector<Setting> settings, Imported& out, bool automatic)
    : file_(std::move(file)), out_(out), automatic_(automatic) {
    std::map<std::string_view, std::size_t> last_of;
    for (std::size_t i = 0; i < settings.size(); ++i)
        last_of[settings[i].key] = i;
    for (std::size_t i = 0; i < settings.size(); ++i) {
        const Setting& setting = settings[i];
        if (last_of[setting.key] != i) {
            out_.ignored.push_back(
                {setting.key, setting.value, "given again further on, and the last one counts"});
        } else {
            place_.emplace(setting.key, settings_.size());
            settings_.push_back(setting);
        }
    }
}

const Setting* Sheet::last(const std::string& key) const {
    const auto at = place_.find(key);
    return at == place_.end() ? nullptr : &settings_[at->second];
}

const Setting* Sheet::find(Keys keys) {
    const Setting* found = nullptr;
    for (const char* key : keys) {
        known_.insert(key);
        const Setting* setting = last(key);
        if (setting == nullptr) continue;
        used_.insert(key);
        if (found != nullptr && !same(found->value, setting->value))
            report("I004", key, fmt::format("{} and {} differ", found->key, key)).arithmetic =
                fmt::format("{} = {}, {} = {}", found->key, found->value.dump(), key,
                            setting->value.dump());
        found = setting;
    }
    return found;
}

Diagnostic& Sheet::report(const char* code, const std::string& key, const std::string& message) {
    Diagnostic fault;
    fault.code = code;
    fault.file = file_;
    fault.message = message;
    if (const Setting* setting = last(key)) {
        fault.line = setting->line;
        fault.column = 1;
        if (setting->line == 0) fault.pointer = setting->key;
        fault.value = setting->value.dump();
    }
    out_.errors.push_back(std::move(fault));
    return out_.errors.back();
}

// Once, however often it is asked for.
void Sheet::wrong(const Setting& setting, const std::string& expected) {
    if (!wrong_.insert(setting.key).second) return;
    if (setting.open) {
        report("I003", setting.key,
               fmt::format("the value of {} is not settled in this file", setting.key))
            .help.push_back("give the number itself, or assign the variable above the command");
        return;
    }
    report("I002", setting.key, fmt::format("{} takes {}", setting.key, expected));
}

std::optional<double> Sheet::number(Keys keys) {
    const Setting* setting = find(keys);
    if (setting == nullptr) return std::nullopt;
    const auto value = as_number(setting->value);
    if (is_auto(*setting)) return std::nullopt;
    if (!value || setting->open) {
        wrong(*setting, "a number");
        return std::nullopt;
    }
    return value;
}

std::optional<std::int64_t> Sheet::whole(Keys keys) {
    const Setting* setting = find(keys);
    if (setting == nullptr) return std::nullopt;
    const auto value = as_number(setting->value);
    if (is_auto(*setting)) return std::nullopt;
    if (!value || setting->open || *value != std::floor(*value) ||
        std::abs(*value) > kLargestWhole) {
        wrong(*setting, "a whole number");
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*value);
}

std::optional<bool> Sheet::boolean(Keys keys) {
    const Setting* setting = find(keys);
    if (setting == nullptr) return std::nullopt;
    if (is_auto(*setting)) return std::nullopt;
    if (setting->open && setting->key[0] == '-') {
        // A flag, and behind it what a variable may bring.
        out_.unsupported.push_back({setting->value.dump(), nullptr, kUnsettled});
        return true;
    }
    if (!setting->value.is_boolean()) {
        wrong(*setting, setting->key[0] == '-' ? "no value" : "true or false");
        return std::nullopt;
    }
    return setting->value.get<bool>();
}

std::optional<std::string> Sheet::text(Keys keys) {
    const Setting* setting = find(keys);
    if (setting == nullptr || is_auto(*setting)) return std::nullopt;
    if (!setting->value.is_string() || setting->open) {
        wrong(*setting, "one word");
        return std::nullopt;
    }
    return setting->value.get<std::string>();
}

std::optional<std::string> Sheet::word(Keys keys, const std::vector<std::string>& words) {
    const auto said = text(keys);
    if (!said) return std::nullopt;
    for (const std::string& known : words)
        if (lower(known) == lower(*said)) return known;
    report("I002", find(keys)->key, fmt::format("{} is not a value of {}", *said, find(keys)->key))
        .help.push_back(fmt::format("{}: {}", find(keys)->key, fmt::join(words, ", ")));
    return std::nullopt;
}

void Sheet::write(const std::string& to, Json value, const std::string& from, bool usual,
                  const std::string& note) {
    std::string pointer = '/' + to;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    out_.scenario[Json::json_pointer(pointer)] = value;
    out_.mapped.push_back({from, to, std::move(value), usual, note});
}

void Sheet::put(const std::string& to, Json value, const std::string& from,
                const std::string& note) {
    write(to, std::move(value), from, false, note);
}

void Sheet::put_usual(const std::string& to, Json value, const std::string& from,
                      const std::string& note) {
    write(to, std::move(value), from, true, note);
}

Json Sheet::copy(const Direct& direct) {
    out_.asked.push_back({direct.key, direct.to, direct.usual != nullptr});
    const Setting* setting = find({direct.key});
    if (automatic({direct.key})) {
        miss(direct.to, fmt::format("{} is \"auto\"", direct.key), kOwnDefault);
        return nullptr;
    }
    if (setting == nullptr) {
        if (direct.usual == nullptr) return nullptr;
        Json usual = Json::parse(direct.usual);
        if (direct.kind == Direct::Kind::number) usual = plain(usual.get<double>());
        put_usual(direct.to, usual, direct.key);
        return usual;
    }
    Json value;
    switch (direct.kind) {
        case Direct::Kind::whole:
            if (const auto read = whole({direct.key})) value = *read;
            break;
        case Direct::Kind::number:
            if (const auto read = number({direct.key})) value = plain(*read);
            break;
        case Direct::Kind::flag:
            if (const auto read = boolean({direct.key})) value = *read;
            break;
        case Direct::Kind::text:
            if (const auto read = text({direct.key})) value = *read;
            break;
    }
    if (!value.is_null()) put(direct.to, value, direct.key);
    return value;
}

void Sheet::copy(std::span<const Direct> all) {
    for (const Direct& direct : all)
        copy(direct);
}

bool Sheet::automatic(Keys keys) {
    const Setting* setting = find(keys);
    return setting != nullptr && is_auto(*setting);
}

void Sheet::leave(std::vector<Left>& list, const std::string& key, const std::string& why,
                  Changes changes) {
    known_.insert(key);
    used_.insert(key);
    if (const Setting* setting = last(key)) list.push_back({key, setting->value, why, changes});
}

void Sheet::ignore(const std::string& key, const std::string& why) {
    leave(out_.ignored, key, why);
}

void Sheet::refuse(const std::string& key, const std::string& why, Changes changes) {
    leave(out_.unsupported, key, why, changes);
}

void Sheet::miss(const std::string& to, const std::string& why, const std::string& otherwise) {
    out_.missing.push_back({to, why, otherwise});
}

void Sheet::state(const std::string& key, const std::string& what) {
    if (const auto size = has(key) ? whole({key.c_str()}) : std::nullopt)
        out_.stated.push_back({key, what, *size});
}

std::vector<std::string> Sheet::neighbours(const std::string& key) const {
    return by_distance(key, {known_.begin(), known_.end()}, kNeighbours);
}

void Sheet::settle_one(const Setting& setting, std::span<const Row> ignored,
                       std::span<const Row> unsupported) {
    if (const Row* row = row_of(ignored, setting.key)) {
        ignore(setting.key, row->why);
        return;
    }
    const Row* row = row_of(unsupported, setting.key);
    const char* const harmless = row == nullptr ? harmless_by_name(setting.key) : nullptr;
    if (harmless != nullptr) {
        ignore(setting.key, fmt::format("not known; by its name: {}", harmless));
    } else if (row == nullptr) {
        std::string why = "not known";
        if (++strangers_ <= kMostExplained)
            why += fmt::format("; nearest: {}", fmt::join(neighbours(setting.key), ", "));
        out_.unsupported.push_back({setting.key, setting.value, why});
    } else if (is_auto(setting)) {
        ignore(setting.key, "\"auto\": set by the program that reads this file");
    } else if (row->neutral != nullptr && same(setting.value, Json::parse(row->neutral))) {
        ignore(setting.key, "at this value it changes nothing");
    } else {
        refuse(setting.key, row->why, row->changes);
    }
}

void Sheet::settle_undecided(const Setting& setting, const std::string& condition,
                             std::span<const Row> ignored, std::span<const Row> unsupported,
                             Changes otherwise) {
    const Row* const row = row_of(ignored, setting.key);
    const Row* const left = row_of(unsupported, setting.key);
    const char* harmless = row != nullptr ? row->why : nullptr;
    if (row == nullptr && left == nullptr) harmless = harmless_by_name(setting.key);
    const bool neutral = left != nullptr && left->neutral != nullptr &&
                         same(setting.value, Json::parse(left->neutral));
    if (harmless != nullptr || neutral)
        out_.ignored.push_back(
            {setting.key, setting.value,
             fmt::format("{}; {}", condition,
                         neutral ? "at this value it changes nothing" : harmless)});
    else
        out_.unsupported.push_back({setting.key, setting.value,
                                    condition + ": whether it holds is not settled in this file",
                                    left != nullptr ? left->changes : otherwise});
}

// Whether the report speaks of it: "--a, --b" names two.
bool Sheet::named(const std::string& key) const {
    const auto part_of_name = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    for (const Mapped& one : out_.mapped) {
        for (std::size_t at = one.from.find(key); at != std::string::npos;
             at = one.from.find(key, at + 1)) {
            const std::size_t end = at + key.size();
            const bool begins = at == 0 || !part_of_name(one.from[at - 1]);
            if (begins && (end == one.from.size() || !part_of_name(one.from[end]))) return true;
        }
    }
    const auto is_it = [&](const Left& left) { return left.key == key; };
    return std::any_of(out_.ignored.begin(), out_.ignored.end(), is_it) ||
           std::any_of(out_.unsupported.begin(), out_.unsupported.end(), is_it) ||
           std::any_of(out_.missing.begin(), out_.missing.end(),
                       [&](const Missing& one) { return one.why.find(key) != std::string::npos; });
}

void Sheet::settle(std::span<const Row> ignored, std::span<const Row> unsupported) {
    for (const auto& rows : {ignored, unsupported})
        for (const Row& row : rows)
            if (std::string_view(row.key).back() != '*') known_.insert(row.key);
    for (const Setting& setting : settings_) {
        if (used_.count(setting.key) == 0)
            settle_one(setting, ignored, unsupported);
        else if (!failed() && !named(setting.key))
            ignore(setting.key, "read with others; by itself it changes nothing here");
    }
}

}  // namespace orrery::plan::imports
