#include "gui/scenario/offers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "gui/scenario/json_places.hpp"

namespace orrery::gui {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOfALine = 3;

std::string parent_of(const std::string& pointer) {
    return pointer.substr(0, pointer.rfind('/') == std::string::npos ? 0 : pointer.rfind('/'));
}

// "/layout/zero_stage" as --set takes it.
std::string key_of(const std::string& pointer) {
    std::string key = pointer.substr(std::min<std::size_t>(1, pointer.size()));
    std::replace(key.begin(), key.end(), '/', '.');
    return key;
}

bool of_a_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The values that a help line lists: numbers and quoted words, up to other words.
std::vector<json> values_of(std::string_view line) {
    std::vector<json> values;
    while (!line.empty()) {
        if (line.front() == ' ' || line.front() == ',') {
            line.remove_prefix(1);
        } else if (line.substr(0, 3) == "or ") {
            line.remove_prefix(3);
        } else {
            std::size_t end =
                line.front() == '"' ? line.find('"', 1) + 1 : line.find_first_of(", ");
            if (end == 0 || end > line.size()) end = line.size();
            const json value = json::parse(line.substr(0, end), nullptr, false);
            if (value.is_discarded() || value.is_structured()) break;
            values.push_back(value);
            line.remove_prefix(end);
        }
    }
    return values;
}

// Nearest to what stands there first; words stay as they are listed.
void sort_by_distance(std::vector<json>& values, const std::string& now) {
    const json current = json::parse(now, nullptr, false);
    if (!current.is_number()) return;
    std::stable_sort(values.begin(), values.end(), [&](const json& a, const json& b) {
        const auto distance = [&](const json& value) {
            return value.is_number() ? std::abs(value.get<double>() - current.get<double>())
                                     : 1e300;
        };
        return distance(a) < distance(b);
    });
}

// `did you mean "tensor_parallel"?` of a key that is not known.
std::optional<Offer> renamed(const std::string& text, const plan::Diagnostic& error,
                             const std::string& line) {
    static const std::string kAsks = "did you mean \"";
    if (!line.starts_with(kAsks)) return std::nullopt;
    const std::string name = line.substr(kAsks.size(), line.rfind('"') - kAsks.size());
    const auto places = json_places(text);
    const auto found = places.find(error.pointer);
    if (found == places.end()) return std::nullopt;
    const JsonPlace& place = found->second;
    Offer offer{json(name).dump(), text};
    const bool of_key = error.code == "S004" && place.key < place.begin;
    std::size_t begin = place.begin, end = place.end;
    if (of_key) {
        begin = place.key;
        for (end = begin + 1; end < text.size() && text[end] != '"';)
            end += text[end] == '\\' ? 2 : 1;
        ++end;  // its closing quote
    }
    offer.text.replace(begin, end - begin, json(name).dump());
    return offer;
}

// "or micro_batch_size: 2, 3 or 4 with pipeline_parallel 8".
std::vector<Offer> listed(const std::string& text, const plan::Diagnostic& error,
                          std::string line) {
    if (line.starts_with("or ")) line.erase(0, 3);
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos ||
        !std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), of_a_word))
        return {};
    const std::string name = line.substr(0, colon);
    std::vector<json> values = values_of(std::string_view(line).substr(colon + 2));
    // A value of the key itself, else one of its neighbours.
    const std::string around = parent_of(error.pointer);
    std::string now = error.pointer.ends_with('/' + name) ? error.value : "";
    if (now.empty())
        if (const auto place = json_places(text); place.contains(around + '/' + name))
            now = text.substr(
                place.at(around + '/' + name).begin,
                place.at(around + '/' + name).end - place.at(around + '/' + name).begin);
    sort_by_distance(values, now);
    std::vector<Offer> offers;
    for (const json& value : values)
        if (auto changed = with_setting(text, key_of(around + '/' + name), value.dump()))
            offers.push_back({name + ": " + value.dump(), std::move(*changed)});
    return offers;
}

bool same(const plan::Diagnostic& a, const plan::Diagnostic& b) {
    return a.code == b.code && a.pointer == b.pointer;
}

// Gone, and none has come.
bool mends(const plan::Diagnostic& error, const std::vector<plan::Diagnostic>& before,
           const std::vector<plan::Diagnostic>& after) {
    return std::all_of(after.begin(), after.end(), [&](const plan::Diagnostic& left) {
        const auto is_left = [&](const plan::Diagnostic& other) { return same(left, other); };
        return !same(left, error) && std::any_of(before.begin(), before.end(), is_left);
    });
}

}  // namespace

std::vector<std::vector<Offer>> offers_for(const std::string& text, const std::string& file,
                                           const std::vector<plan::Diagnostic>& errors,
                                           const ReadErrors& read_errors) {
    constexpr std::size_t kMostErrors = 20;  // each offer is read
    std::vector<std::vector<Offer>> offers(errors.size());
    for (std::size_t i = 0; i < errors.size() && i < kMostErrors; ++i) {
        const plan::Diagnostic& error = errors[i];
        if (error.file != file || error.pointer.empty()) continue;
        for (const std::string& line : error.help) {
            std::vector<Offer> proposed = listed(text, error, line);
            if (std::optional<Offer> other = renamed(text, error, line))
                proposed.push_back(std::move(*other));
            std::size_t taken = 0;
            for (Offer& offer : proposed) {
                if (taken == kMostOfALine) break;
                if (!mends(error, errors, read_errors(offer.text))) continue;
                offers[i].push_back(std::move(offer));
                ++taken;
            }
        }
    }
    return offers;
}

}  // namespace orrery::gui
