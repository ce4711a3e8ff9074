#include "plan/scenario/reading.hpp"

#include <algorithm>
#include <utility>

namespace orrery::plan {

void Reading::remember(const std::string& field, const std::string& pointer,
                       const std::string& fallback) {
    fields_[field] = {pointer, fallback};
}

std::string Reading::pointer_of(const std::string& field) const {
    const auto it = fields_.find(field);
    if (it != fields_.end()) return it->second.pointer;
    std::string pointer = "/" + field;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    return pointer;
}

std::string Reading::shown(const std::string& field) const {
    std::string name = pointer_of(field).substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    return name;
}

Diagnostic& Reading::report(const char* code, const std::string& pointer, std::string message) {
    Diagnostic fault;
    fault.code = code;
    fault.message = std::move(message);
    if (explains) document_.locate(pointer, "", fault);
    mark_bad(pointer);
    errors_.push_back(std::move(fault));
    return errors_.back();
}

Diagnostic& Reading::report_field(const char* code, const std::string& field, std::string message) {
    Diagnostic& fault = report(code, pointer_of(field), std::move(message));
    if (!explains) return fault;
    const auto it = fields_.find(field);
    const bool absent = document_.find(pointer_of(field)) == nullptr;
    if (absent && it != fields_.end() && !it->second.fallback.empty()) {
        fault.value = it->second.fallback;
        fault.origin = "default";
    }
    return fault;
}

bool Reading::good(std::initializer_list<const char*> fields) const {
    if (bad_.empty()) return true;
    return std::all_of(fields.begin(), fields.end(),
                       [this](const char* field) { return good_at(pointer_of(field)); });
}

bool Reading::good_at(std::string pointer) const {
    for (; !pointer.empty(); pointer.resize(pointer.rfind('/'))) {
        if (bad_.count(pointer) != 0) return false;
    }
    return bad_.count("") == 0;
}

}  // namespace orrery::plan
