#include "plan/scenario/import/shell_branches.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace orrery::plan::imports {
namespace {

using Value = std::vector<ShellWord>;

const Value* value_of(const ShellVariables& variables, const std::string& name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : &at->second;
}

Value words_of(const ShellWord& text, std::size_t from) {
    Value words;
    bool within = false;
    for (const char c : text.text.substr(from)) {
        if (c == ' ' || c == '\t' || c == '\n') {
            within = false;
            continue;
        }
        if (!within) words.push_back({"", text.line, text.open});
        within = true;
        words.back().text += c;
    }
    return words;
}

// The options that `value` has beyond `base`; nothing where it is no such continuation.
std::optional<Value> added(const Value& base, const Value& value) {
    Value more;
    if (value.size() <= 1 && base.size() <= 1) {
        const std::string before = base.empty() ? "" : base[0].text;
        if (value.empty()) return before.empty() ? std::optional(more) : std::nullopt;
        if (value[0].text.compare(0, before.size(), before) != 0) return std::nullopt;
        more = words_of(value[0], before.size());
    } else {
        if (value.size() < base.size() || !std::equal(base.begin(), base.end(), value.begin()))
            return std::nullopt;
        more.assign(value.begin() + static_cast<std::ptrdiff_t>(base.size()), value.end());
    }
    const bool text = value.size() <= 1 && base.size() <= 1;
    if (text && !more.empty() && more[0].text[0] != '-') return std::nullopt;
    return more;
}

// "$TP:8|4": what it may be.
Value either(const std::string& name, const std::vector<const Value*>& values) {
    std::string text = '$' + name;
    std::set<std::string> named;
    int line = 0;
    for (const Value* value : values) {
        if (value == nullptr || value->size() != 1) continue;
        const ShellWord& word = (*value)[0];
        line = word.line;
        if (word.open || word.text.size() > 20 || word.text.find(' ') != std::string::npos ||
            !named.insert(word.text).second)
            continue;
        text += (named.size() == 1 ? ':' : '|') + word.text;
    }
    return {{std::move(text), line, true}};
}

}  // namespace

ShellVariables merged(const ShellVariables& base, const std::vector<ShellVariables>& branches,
                      const std::string& assumed_unset, std::vector<Undecided>& undecided) {
    ShellVariables out;
    std::set<std::string> names;
    for (const ShellVariables& branch : branches)
        for (const auto& [name, value] : branch)
            names.insert(name);
    for (const std::string& name : names) {
        std::vector<const Value*> values;
        for (const ShellVariables& branch : branches)
            values.push_back(value_of(branch, name));
        const auto same = [&](const Value* value) {
            return value != nullptr && values[0] != nullptr && *value == *values[0];
        };
        if (std::all_of(values.begin(), values.end(), same)) {
            out[name] = *values[0];
            continue;
        }
        const Value* before = value_of(base, name);
        if (name == assumed_unset && before == nullptr) {
            const auto set = std::find_if(values.begin(), values.end(),
                                          [](const Value* value) { return value != nullptr; });
            out[name] = **set;
            continue;
        }
        const Value none;
        std::vector<Value> additions;
        for (const Value* value : values) {
            const auto more =
                added(before == nullptr ? none : *before, value == nullptr ? none : *value);
            if (!more) break;
            additions.push_back(*more);
        }
        if (additions.size() < values.size()) {
            out[name] = either(name, values);
            continue;
        }
        out[name] = before == nullptr ? none : *before;
        for (Value& more : additions)
            if (!more.empty()) undecided.push_back({name, more, more[0].line});
    }
    return out;
}

}  // namespace orrery::plan::imports
