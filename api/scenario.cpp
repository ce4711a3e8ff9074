#include "api/content.hpp"
#include "trace/program_version.hpp"

namespace orrery {
inline namespace v1 {
namespace {

cli::ScenarioInput quiet_input(std::string file, const std::vector<std::string>& overrides) {
    cli::ScenarioInput input;
    input.file = std::move(file);
    input.sets = overrides;
    input.own_profile = cli::OwnProfile::find;
    return input;
}

void require_sound(const cli::ScenarioInput& input) {
    const plan::ReadResult& read = input.content();
    if (!read.scenario) throw_invalid(read.unreadable, read.errors);
}

template <typename Content>
Scenario read_now(cli::ScenarioInput input) {
    return with_our_errors([&] {
        auto content = std::make_shared<Content>();
        content->input = std::move(input);
        content->diagnostics = typed(content->input.content().errors);
        return Access::value<Scenario>(std::move(content));
    });
}

}  // namespace

std::string version() {
    return std::string(program_version());
}

std::string library_folder() {
    return cli::library_folder();
}

Scenario::Scenario(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

Scenario Scenario::from_file(const std::string& path, const std::vector<std::string>& overrides) {
    return read_now<Content>(quiet_input(path, overrides));
}

Scenario Scenario::from_text(std::string_view text, const std::vector<std::string>& overrides,
                             const std::string& name) {
    cli::ScenarioInput input = quiet_input(name, overrides);
    input.given = std::string(text);
    return read_now<Content>(std::move(input));
}

Scenario Scenario::with(const std::vector<std::string>& overrides) const {
    cli::ScenarioInput input = quiet_input(content_->input.file, content_->input.sets);
    input.given = content_->input.given;
    input.sets.insert(input.sets.end(), overrides.begin(), overrides.end());
    return read_now<Content>(std::move(input));
}

const std::vector<Diagnostic>& Scenario::diagnostics() const {
    return content_->diagnostics;
}

const std::vector<std::string>& Scenario::overrides() const {
    return content_->input.sets;
}

std::string Scenario::resolved() const {
    require_sound(content_->input);
    return content_->input.content().resolved_json;
}

std::string Scenario::text() const {
    return with_our_errors([&] {
        require_sound(content_->input);
        return content_->input.assembled();
    });
}

}  // namespace v1
}  // namespace orrery
