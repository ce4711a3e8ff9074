// How a key of a scenario is declared: once, with the member of the struct that it fills, what it
// may be, and what it means. Readers and the writer go through the tables of these;
// scenario_schema() shows them to everybody else. Internal to plan/scenario.
//
//     Keys<HostMemory> keys = {
//         number<&HostMemory::bandwidth_GBps>("bandwidth_GBps", "Rate of a device's …", kPositive)
//             .in("GB/s")
//             .required()};
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "plan/scenario/section.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::plan {

template <typename T>
struct Key {
    KeySpec spec;
    // From section[key], which is not always spec.name: a flag of a preset stands in "value". True
    // where something sound stands there. Null: counted as known, and read by its part's reader.
    using Read = bool(Section&, const std::string& key, const KeySpec&, Presence, T&);
    Read* read = nullptr;
    // Null: its part's writer has it.
    Json (*write)(const KeySpec&, const T&) = nullptr;
    // Of what was read before it; null: always. Where it does not apply it is not known.
    bool (*applies)(const T&) = nullptr;
    bool (*demanded)(const T&) = nullptr;  // besides spec.required
    bool (*written)(const T&) = nullptr;   // null: always
    bool has_default = true;

    Key in(std::string_view unit) && { return spec.unit = unit, std::move(*this); }
    Key required() && { return spec.required = true, std::move(*this); }
    Key required_if(bool (*is)(const T&)) && { return demanded = is, std::move(*this); }
    Key non_empty() && { return spec.non_empty = true, std::move(*this); }
    Key also(std::vector<std::string_view> aliases) && {
        return spec.aliases = std::move(aliases), std::move(*this);
    }
    // What else may stand there; of a whole number without a reader of its own 0 is what it means.
    Key or_word(std::string_view word) && { return spec.words = {word}, std::move(*this); }
    // Of a choice: these words alone.
    Key of_words(std::vector<std::string_view> words) && {
        return spec.words = std::move(words), std::move(*this);
    }
    Key where(std::string_view text, bool (*is)(const T&) = nullptr) && {
        return spec.where = text, applies = is, std::move(*this);
    }
    Key written_if(bool (*is)(const T&)) && { return written = is, std::move(*this); }
    Key read_by(Read* reader) && { return read = reader, std::move(*this); }
    Key written_by(Json (*writer)(const KeySpec&, const T&)) && {
        return write = writer, std::move(*this);
    }
    // Neither read nor written by the table.
    Key by_itself() && { return read = nullptr, write = nullptr, std::move(*this); }
    Key initially(std::string json) && { return spec.initial = std::move(json), std::move(*this); }
    // An absent one is not any value of its own: nothing is said, or another key decides.
    Key unset() && { return has_default = false, std::move(*this); }
    // Its object may have other keys, too.
    Key open() && { return spec.open = true, std::move(*this); }
    Key of_numbers(NumberRange range) && { return spec.numbers = range, std::move(*this); }
    Key of_entries(KeyType type) && { return spec.of = type, std::move(*this); }
};

template <typename T>
using Keys = std::vector<Key<T>>;

// Of a way through members: the struct that it begins in.
template <typename Member, typename... Further>
struct Path;
template <typename Class, typename Value, typename... Further>
struct Path<Value Class::*, Further...> {
    using Owner = Class;
};
template <auto... path>
using OwnerOf = typename Path<decltype(path)...>::Owner;

template <auto first, auto... rest, typename T>
decltype(auto) member(T& object) {
    return ((object.*first).*....*rest);
}

template <auto... path>
Key<OwnerOf<path...>> count(std::string_view name, std::string_view help, IntegerRange range = {}) {
    using T = OwnerOf<path...>;
    Key<T> key{{.name = name, .type = KeyType::whole_number, .integers = range, .help = help}};
    key.read = [](Section& section, const std::string& at, const KeySpec& spec, Presence presence,
                  T& out) {
        auto& to = member<path...>(out);
        std::int64_t value = to;
        const bool read = spec.words.empty() ? section.integer(at, value, spec.integers, presence)
                                             : section.integer_or_word(at, value, spec.integers,
                                                                       spec.words[0], 0, presence);
        to = static_cast<std::remove_reference_t<decltype(to)>>(value);
        return read;
    };
    key.write = [](const KeySpec& spec, const T& from) {
        const auto value = static_cast<std::int64_t>(member<path...>(from));
        return value == 0 && !spec.words.empty() ? Json(spec.words[0]) : Json(value);
    };
    return key;
}

template <auto... path>
Key<OwnerOf<path...>> number(std::string_view name, std::string_view help, NumberRange range = {}) {
    using T = OwnerOf<path...>;
    Key<T> key{{.name = name, .type = KeyType::number, .numbers = range, .help = help}};
    key.read = [](Section& section, const std::string& at, const KeySpec& spec, Presence presence,
                  T& out) {
        return section.number(at, member<path...>(out), spec.numbers, presence);
    };
    key.write = [](const KeySpec&, const T& from) { return plain(member<path...>(from)); };
    return key;
}

template <auto... path>
Key<OwnerOf<path...>> flag(std::string_view name, std::string_view help) {
    using T = OwnerOf<path...>;
    Key<T> key{{.name = name, .type = KeyType::flag, .help = help}};
    key.read = [](Section& section, const std::string& at, const KeySpec&, Presence, T& out) {
        return section.boolean(at, member<path...>(out));
    };
    key.write = [](const KeySpec&, const T& from) { return Json(member<path...>(from)); };
    return key;
}

template <auto... path>
Key<OwnerOf<path...>> text(std::string_view name, std::string_view help) {
    using T = OwnerOf<path...>;
    Key<T> key{{.name = name, .type = KeyType::text, .help = help}};
    key.read = [](Section& section, const std::string& at, const KeySpec& spec, Presence presence,
                  T& out) {
        std::string& to = member<path...>(out);
        if (spec.non_empty) return section.said_text(at, to);
        return section.text(at, to, presence);
    };
    key.write = [](const KeySpec&, const T& from) { return Json(member<path...>(from)); };
    key.written = [](const T& from) { return !member<path...>(from).empty(); };
    return key;
}

// A text that is one of the words, kept as it is.
template <auto... path>
Key<OwnerOf<path...>> word(std::string_view name, std::string_view help,
                           std::vector<std::string_view> words) {
    Key<OwnerOf<path...>> key = text<path...>(name, help);
    key.spec.type = KeyType::word;
    key.spec.words = std::move(words);
    key.read = [](Section& section, const std::string& at, const KeySpec& spec, Presence presence,
                  auto& out) {
        std::string& to = member<path...>(out);
        return section.word_of(at, to, {spec.words.begin(), spec.words.end()}, to, presence);
    };
    return key;
}

// A value that has words for it: an enum's of Spelling, or a bool's, the word for false first.
template <typename Value>
std::optional<Value> value_of_word(std::string_view text, const std::vector<std::string_view>& of) {
    if constexpr (std::is_same_v<Value, bool>) {
        if (text == of[0] || text == of[1]) return text == of[1];
        return std::nullopt;
    } else {
        return value_spelled<Value>(text);
    }
}

template <typename Value>
std::string_view word_for(Value value, const std::vector<std::string_view>& of) {
    if constexpr (std::is_same_v<Value, bool>)
        return of[value ? 1 : 0];
    else
        return spelling(value);
}

template <auto... path>
Key<OwnerOf<path...>> choice(std::string_view name, std::string_view help,
                             std::vector<std::string_view> words) {
    using T = OwnerOf<path...>;
    using Value = std::remove_cvref_t<decltype(member<path...>(std::declval<T&>()))>;
    Key<T> key{{.name = name, .type = KeyType::word, .words = std::move(words), .help = help}};
    key.read = [](Section& section, const std::string& at, const KeySpec& spec, Presence presence,
                  T& out) {
        Value& to = member<path...>(out);
        const std::string_view usual = word_for(to, spec.words);
        const bool listed =
            std::find(spec.words.begin(), spec.words.end(), usual) != spec.words.end();
        std::string read;
        if (!section.word_of(at, read, {spec.words.begin(), spec.words.end()},
                             listed ? std::string(usual) : "", presence))
            return false;
        to = *value_of_word<Value>(read, spec.words);
        return true;
    };
    key.write = [](const KeySpec& spec, const T& from) {
        return Json(word_for(member<path...>(from), spec.words));
    };
    return key;
}

template <auto... path>
Key<OwnerOf<path...>> choice(std::string_view name, std::string_view help) {
    using Value = std::remove_cvref_t<decltype(member<path...>(std::declval<OwnerOf<path...>&>()))>;
    const auto& names = Spelling<Value>::names;
    return choice<path...>(name, help, {names.begin(), names.end()});
}

// A text that nothing keeps, or its part's own code.
template <typename T>
Key<T> passed_text(std::string_view name, std::string_view help) {
    Key<T> key{{.name = name, .type = KeyType::text, .help = help}};
    key.read = [](Section& section, const std::string& at, const KeySpec&, Presence presence, T&) {
        std::string dropped;
        return section.text(at, dropped, presence);
    };
    return key;
}

// Read and written by its part's own code: a part with keys of its own, or what has no member.
template <typename T>
Key<T> own(std::string_view name, KeyType type, std::string_view help,
           std::vector<KeySpec> keys = {}) {
    return {{.name = name, .type = type, .help = help, .keys = std::move(keys)}};
}

// What people note beside figures: where they are from.
template <typename T>
Key<T> source_note() {
    return own<T>("source", KeyType::any, "Where the figures beside it are from");
}

template <typename... Some>
auto joined(std::vector<Some>... some) {
    std::common_type_t<std::vector<Some>...> all;
    (all.insert(all.end(), some.begin(), some.end()), ...);
    return all;
}

// The keys in their order. What depends on a key that is in error is neither read nor unknown.
template <typename T>
void read_keys(Section& section, const Keys<T>& keys, T& out) {
    for (const Key<T>& key : keys) {
        const std::string name(key.spec.name);
        if (key.applies != nullptr && !key.applies(out)) {
            if (section.sound())
                section.means_nothing(name, key.spec.where);
            else
                section.known(name);
            continue;
        }
        const bool required = key.spec.required || (key.demanded != nullptr && key.demanded(out));
        if (key.read != nullptr)
            key.read(section, name, key.spec, required ? Presence::required : Presence::optional,
                     out);
        else if (required)
            section.require(name);
        else
            section.known(name);
    }
}

// A part that has no keys but those of the table. Whether it is there.
template <typename T>
bool read_object(Reading& reading, std::string pointer, std::string field, const Keys<T>& keys,
                 T& out) {
    Section section(reading, std::move(pointer), std::move(field));
    if (!section.exists()) return false;
    read_keys(section, keys, out);
    section.finish();
    return true;
}

// `part` says what stands at a key that has no writer, or nothing.
template <typename T, typename Part>
void write_keys(const Keys<T>& keys, const T& from, Json& out, Part&& part) {
    for (const Key<T>& key : keys) {
        if ((key.applies != nullptr && !key.applies(from)) ||
            (key.written != nullptr && !key.written(from)))
            continue;
        const std::string name(key.spec.name);
        if (key.write != nullptr)
            out[name] = key.write(key.spec, from);
        else if (std::optional<Json> value = part(name))
            out[name] = std::move(*value);
    }
}

template <typename T>
Json written(const Keys<T>& keys, const T& from) {
    Json out = Json::object();
    write_keys(keys, from, out, [](const std::string&) { return std::optional<Json>(); });
    return out;
}

// With the default of each that has one.
template <typename T>
std::vector<KeySpec> specs(const Keys<T>& keys) {
    const auto usual = std::make_unique<T>();  // a large one on the stack gcc 12 warns of, at -O3
    std::vector<KeySpec> out;
    for (const Key<T>& key : keys) {
        out.push_back(key.spec);
        if (key.spec.required || !key.has_default || key.write == nullptr ||
            key.spec.type == KeyType::object || !key.spec.initial.empty())
            continue;
        const Json value = key.write(key.spec, *usual);
        const auto& words = key.spec.words;
        const bool strange = key.spec.type == KeyType::word &&
                             std::find(words.begin(), words.end(), value) == words.end();
        if (value != "" && !strange) out.back().initial = value.dump();
    }
    return out;
}

}  // namespace orrery::plan
