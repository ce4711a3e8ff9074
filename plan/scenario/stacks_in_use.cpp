#include "plan/scenario/stacks_in_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::plan {
namespace {

namespace fs = std::filesystem;

// What stands under "offload.optimizer" of a layout; null: nothing, so that its default holds.
const Json* value_at(const Json& layout, const std::string& key) {
    const Json* at = &layout;
    for (std::size_t start = 0; start <= key.size();) {
        const std::size_t dot = std::min(key.find('.', start), key.size());
        const auto found = at->find(key.substr(start, dot - start));
        if (found == at->end()) return nullptr;
        at = &*found;
        start = dot + 1;
    }
    return at;
}

// "zero_stage 1, schedule zb-v": values of a layout that are not among those which a stack has.
std::string lacking(const Json& layout, const Json& has) {
    std::string lacks;
    for (const auto& [key, values] : has.items()) {
        const Json* value = value_at(layout, key);
        if (value == nullptr || std::find(values.begin(), values.end(), *value) != values.end())
            continue;
        const std::string text = value->is_string()   ? value->get<std::string>()
                                 : value->is_object() ? "of a file"
                                                      : value->dump();
        lacks += fmt::format("{}{} {}", lacks.empty() ? "" : ", ", key, text);
    }
    return lacks;
}

std::optional<StackInUse> stack_of(const std::string& path, const Json& layout,
                                   const Files& files) {
    StackInUse stack{fs::path(path).stem().string(), ""};
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    const ParsedJson parsed = text ? parse_json(*text, path) : ParsedJson{};
    if (!text || !parsed.errors.empty()) {
        stack.lacks = "its preset cannot be read";
        return stack;
    }
    const auto in_use = parsed.value.find("in_use");
    if (in_use == parsed.value.end()) return std::nullopt;
    stack.lacks = lacking(layout, in_use->value("layout", Json::object()));
    return stack;
}

}  // namespace

std::vector<StackInUse> stacks_in_use(const Layout& layout, const std::string& library_dir,
                                      const Files& files) {
    const Json asked = written_layout(layout);
    const std::string folder = (fs::path(library_dir) / "frameworks").string();
    std::vector<StackInUse> stacks;
    for (const std::string& name : files.names(folder)) {
        if (fs::path(name).extension() != ".json") continue;
        if (auto stack = stack_of((fs::path(folder) / name).string(), asked, files))
            stacks.push_back(std::move(*stack));
    }
    return stacks;
}

std::optional<Scenario> in_stack(const Scenario& scenario, const std::string& resolved_json,
                                 const std::string& stack, const std::string& library_dir,
                                 const Files& files) {
    Json changed = Json::parse(resolved_json);
    changed["training"]["framework"] = stack;
    changed["cluster"]["profile"] = scenario.cluster.profile_path;  // found already
    return read_scenario_text(changed.dump(), scenario.source_path, "", {}, library_dir, files)
        .scenario;
}

}  // namespace orrery::plan
