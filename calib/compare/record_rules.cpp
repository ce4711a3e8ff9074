#include "calib/compare/record_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "calib/compare/record_words.hpp"
#include "calib/compare/stack_population.hpp"

namespace orrery::compare {

using nlohmann::json;

namespace {

bool same(const json& value, const json& other) {
    if (value.is_string() && other.is_string())
        return same_word(value.get<std::string>(), other.get<std::string>());
    return value == other;
}

bool is_in(const json& value, const json& list) {
    return std::any_of(list.begin(), list.end(), [&](const json& one) { return same(value, one); });
}

bool contains(const json& value, const json& part) {
    if (part.is_array())
        return std::any_of(part.begin(), part.end(),
                           [&](const json& one) { return contains(value, one); });
    return value.is_string() && holds_words(value.get<std::string>(), part.get<std::string>());
}

const json* stated(const json& record, const std::string& path) {
    const json::json_pointer pointer(path);
    if (!record.contains(pointer) || record.at(pointer).is_null()) return nullptr;
    return &record.at(pointer);
}

bool meets(const json& condition, const json& record) {
    const json* found = stated(record, condition.at("path").get<std::string>());
    if (condition.contains("absent"))
        return (found == nullptr) == condition.at("absent").get<bool>();
    if (condition.contains("lacks"))
        return found == nullptr || !contains(*found, condition.at("lacks"));
    if (found == nullptr) return false;
    const json& value = *found;
    if (condition.contains("equals")) return same(value, condition.at("equals"));
    if (condition.contains("one_of")) return is_in(value, condition.at("one_of"));
    if (condition.contains("contains")) return contains(value, condition.at("contains"));
    if (!value.is_number()) return false;
    if (condition.contains("at_least"))
        return value.get<double>() >= condition.at("at_least").get<double>();
    return value.get<double>() <= condition.at("at_most").get<double>();
}

}  // namespace

bool RecordRules::holds(const json& rule) {
    const json& conditions = rule.at("when");
    if (!std::all_of(conditions.begin(), conditions.end(),
                     [&](const json& condition) { return meets(condition, record_); }))
        return false;
    if (without_fits_ && rule.contains("fitted_to") &&
        fitted_to(rule.at("fitted_to").get<std::vector<std::string>>(),
                  record_.value("source", "")))
        return false;
    if (rule.contains("skip")) throw Skip(rule.at("skip").get<std::string>());
    for (const json& condition : conditions)
        settled_.insert(condition.at("path").get<std::string>());
    return true;
}

const json* RecordRules::first(const char* list) {
    for (const json& rule : rules_.at(list))
        if (holds(rule)) return &rule;
    return nullptr;
}

std::vector<const json*> RecordRules::all(const char* list) {
    std::vector<const json*> found;
    for (const json& rule : rules_.at(list))
        if (holds(rule)) found.push_back(&rule);
    return found;
}

const json* RecordRules::fact(const std::string& path) {
    const json* found = stated(record_, path);
    if (found != nullptr) settled_.insert(path);
    return found;
}

std::string shown(const json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

bool states(const json& object, const char* key) {
    const auto it = object.find(key);
    return it != object.end() && !it->is_null();
}

std::int64_t whole(const json& object, const char* key, const char* of) {
    if (!states(object, key)) throw Skip(fmt::format("{}.{} is not stated", of, key));
    const json& value = object.at(key);
    // 1.0 is a whole number, too, and so is one that is written as text.
    double number = value.is_number() ? value.get<double>() : 0;
    if (value.is_string()) number = number_in(value.get<std::string>(), 1000).value_or(0);
    if (number < 1 || number > 9'007'199'254'740'992 || number != std::floor(number))
        throw Skip(fmt::format("{}.{} is {}", of, key, value.dump()));
    return static_cast<std::int64_t>(number);
}

std::int64_t whole_or(const json& object, const char* key, const char* of, std::int64_t otherwise) {
    return states(object, key) ? whole(object, key, of) : otherwise;
}

}  // namespace orrery::compare
