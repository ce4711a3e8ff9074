#include "plan/scenario/document.hpp"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

namespace orrery::plan {
namespace {

constexpr std::size_t kLongestValueKept = 1000;

}  // namespace

Document::Document(Json root, std::string name, std::string folder)
    : root_(std::move(root)), name_(std::move(name)) {
    sources_[""] = {Source::Kind::file, name_, std::move(folder)};
}

// Through objects by names that stand in the pointer as they are; the library takes the rest.
const Json* Document::find(const std::string& pointer) const {
    const Json* value = &root_;
    for (std::size_t begin = 0; begin < pointer.size();) {
        const std::size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
        const std::string_view name(pointer.data() + begin + 1, end - begin - 1);
        if (pointer[begin] != '/' || !value->is_object() ||
            name.find('~') != std::string_view::npos) {
            const Json::json_pointer where(pointer);
            return root_.contains(where) ? &root_.at(where) : nullptr;
        }
        const auto found = value->find(name);
        if (found == value->end()) return nullptr;
        value = &*found;
        begin = end;
    }
    return value;
}

void Document::put(const std::string& pointer, Json value, Source source) {
    root_[Json::json_pointer(pointer)] = std::move(value);
    const std::string below = pointer + '/';
    for (auto it = sources_.lower_bound(below);
         it != sources_.end() && it->first.compare(0, below.size(), below) == 0;) {
        it = sources_.erase(it);
    }
    sources_[pointer] = std::move(source);
}

std::map<std::string, Source>::const_iterator Document::entry(const std::string& pointer) const {
    std::string at = pointer;
    for (;;) {
        const auto it = sources_.find(at);
        if (it != sources_.end()) return it;
        at.resize(at.rfind('/'));  // ends at "", which always has a source
    }
}

const Source& Document::source(const std::string& pointer) const {
    return entry(pointer)->second;
}

bool Document::set_by_itself(const std::string& pointer) const {
    const auto it = sources_.find(pointer);
    return it != sources_.end() && it->second.kind == Source::Kind::set;
}

std::vector<std::string> Document::sets_at(const std::string& pointer) const {
    std::vector<std::string> texts;
    for (const auto& [at, source] : sources_) {
        const bool within = at == pointer || at.rfind(pointer + '/', 0) == 0;
        if (within && source.kind == Source::Kind::set) texts.push_back(source.text);
    }
    return texts;
}

std::vector<std::string> Document::given() const {
    std::vector<std::string> pointers;
    const std::function<void(const Json&, const std::string&)> walk =
        [&](const Json& value, const std::string& pointer) {
            if (source(pointer).kind == Source::Kind::preset) return;
            if (!value.is_object()) {
                pointers.push_back(pointer);
                return;
            }
            for (const auto& [key, inner] : value.items())
                walk(inner, pointer + '/' + pointer_segment(key));
        };
    walk(root_, "");
    return pointers;
}

void Document::locate(const std::string& pointer, const std::string& fallback,
                      Diagnostic& out) const {
    const auto& [base, source] = *entry(pointer);
    const bool set = source.kind == Source::Kind::set;
    out.file = set ? name_ : source.text;
    out.pointer = set ? pointer : pointer.substr(base.size());
    const Json* value = find(pointer);
    if (value == nullptr) {
        out.value = fallback;
        out.origin = fallback.empty() ? "" : "default";
        return;
    }
    out.value =
        shortened(value->dump(-1, ' ', false, Json::error_handler_t::replace), kLongestValueKept);
    switch (source.kind) {
        case Source::Kind::file:
            out.origin = "file " + source.text;
            break;
        case Source::Kind::preset:
            out.origin = "preset " + source.text;
            break;
        case Source::Kind::set:
            out.origin = "from --set " + source.text;
            break;
    }
}

}  // namespace orrery::plan
