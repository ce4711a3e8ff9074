// orrery schema: what may stand in a scenario, for editors and for people.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/completed_values.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/jobs/read_jobs.hpp"
#include "plan/scenario/schema.hpp"
#include "plan/scenario/suggest.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kFewNames = 8;

struct Found {
    std::string path;
    const plan::KeySpec* key = nullptr;
};

// The key at this path, or every one that is called or known by this name.
std::vector<Found> found_by(const std::string& wanted) {
    if (const plan::KeySpec* key = plan::key_at(wanted)) return {{wanted, key}};
    std::vector<Found> found;
    plan::for_each_key(
        plan::scenario_schema(), "", [&](const std::string& path, const plan::KeySpec& key) {
            if (path.find('[') != std::string::npos) return;  // told with the list
            const auto& names = key.aliases;
            if (key.name == wanted || std::find(names.begin(), names.end(), wanted) != names.end())
                found.push_back({path, &key});
        });
    return found;
}

std::string help_with(const std::string& wanted) {
    std::vector<std::string> paths;
    plan::for_each_key(
        plan::scenario_schema(), "",
        [&](const std::string& path, const plan::KeySpec&) { paths.push_back(path); });
    const std::string meant = plan::nearest(wanted, paths);
    if (!meant.empty()) return fmt::format("did you mean {}?", meant);
    const std::size_t dot = wanted.rfind('.');
    const std::string name = dot == std::string::npos ? wanted : wanted.substr(dot + 1);
    std::vector<std::string> names;
    for (const std::string& path : paths)
        names.push_back(path.substr(path.rfind('.') + 1));
    const std::string close = plan::nearest(name, names);
    if (!close.empty()) return fmt::format("did you mean {}?", found_by(close).front().path);
    std::vector<std::string> having = paths;
    std::erase_if(having, [&](const std::string& path) {
        return path.find(wanted) == std::string::npos || path.find('[') != std::string::npos;
    });
    std::string near;
    for (const std::string& path :
         plan::by_distance(wanted, having.empty() ? paths : having, kFewNames))
        near += (near.empty() ? "" : ", ") + path;
    return "nearest: " + near;
}

void line(const std::string& head, const std::string& text, std::string& out) {
    if (text.empty()) return;
    out += "  " + wrapped(head + text, kColumns, 4, 2) + '\n';
}

std::string described(const Found& found) {
    const plan::KeySpec& key = *found.key;
    std::string out = found.path + '\n';
    line("", std::string(key.help), out);
    line("value: ", plan::values_text(key), out);
    line("default: ", key.required ? "none, it must be there" : key.initial, out);
    line("only ", std::string(key.where), out);
    std::string others;
    for (const std::string_view alias : key.aliases)
        others += (others.empty() ? "" : ", ") + std::string(alias);
    line("elsewhere called ", others, out);
    if (key.keys.empty()) return out;
    out += key.type == plan::KeyType::list ? "  keys of its entries:\n" : "  keys:\n";
    TextTable table({Align::left, Align::left});
    for (const plan::KeySpec& below : key.keys)
        table.add({"  " + std::string(below.name), plan::values_text(below)});
    return out + table.text();
}

class Schema : public Subcommand {
  public:
    std::string name() const override { return "schema"; }
    std::string summary() const override {
        return "Print the JSON Schema of scenarios, or explain a key of theirs";
    }
    std::vector<std::string> examples() const override {
        return {"schema > orrery.schema.json", "schema layout.zero_stage", "schema tp",
                "schema --jobs > jobs.schema.json"};
    }

    void declare(CLI::App& app) override {
        app.add_option("KEY", key_, "A key by its path, its name, or what another stack calls it")
            ->option_text("KEY")
            ->check(completed_by(WordSource::keys));
        app.add_flag("--jobs", jobs_, "The JSON Schema of files for orrery jobs");
    }

    int run(Console& console) override {
        if (jobs_ && !key_.empty())
            throw UsageError("--jobs prints the whole schema; KEY is one of a scenario");
        if (key_.empty()) {
            console.out << (jobs_ ? plan::jobs_json_schema() : plan::json_schema());
            return kExitOk;
        }
        const std::vector<Found> found = found_by(key_);
        if (found.empty())
            throw UsageError(fmt::format("{}: no key of a scenario; {}", key_, help_with(key_)));
        for (std::size_t i = 0; i < found.size(); ++i)
            console.out << (i > 0 ? "\n" : "") << described(found[i]);
        return kExitOk;
    }

  private:
    std::string key_;
    bool jobs_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> schema_command() {
    return std::make_unique<Schema>();
}

}  // namespace orrery::cli
