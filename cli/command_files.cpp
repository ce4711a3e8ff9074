#include "cli/command_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/subcommand.hpp"
#include "plan/check.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::cli {
namespace {

namespace fs = std::filesystem;

std::optional<struct stat> status_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    return status;
}

bool same_file(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// A folder that is read stands for the files in it as well.
std::vector<std::string> with_files_in(const std::string& path) {
    std::vector<std::string> all = {path};
    std::error_code failed;
    if (!fs::is_directory(path, failed)) return all;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end;
         entry.increment(failed))
        all.push_back(entry->path().string());
    return all;
}

// What a writer opens: where a link leads, if that is there.
std::string target_of(const std::string& path) {
    std::error_code failed;
    if (!fs::is_symlink(path, failed)) return path;
    const fs::path target = fs::canonical(path, failed);
    return failed ? path : target.string();
}

// Empty where nothing speaks against it. `input` is asked of a file that is there: which one it is
// of those that are read; `word` is what overrides that.
std::string complaint_about(const NamedOutput& output, bool forced, const char* word,
                            const std::function<std::string()>& input) {
    const auto refused = [&](const std::string& why) {
        return fmt::format("{} {}: {}", output.name, output.path, why);
    };
    const Objection objection = objection_to(output.kind, output.path);
    if (!objection.why.empty() && !objection.can_be_forced) return refused(objection.why);
    const auto there = status_of(output.path);
    // A pipe or a terminal has nothing to lose.
    if (!there || forced || (!S_ISREG(there->st_mode) && !S_ISDIR(there->st_mode))) return "";
    if (const std::string found = input(); !found.empty())
        return refused(fmt::format("{}; {} replaces it", found, word));
    if (objection.why.empty()) return "";
    return refused(
        fmt::format("{}; {} {}", objection.why, word,
                    output.kind.is_folder(output.path) ? "writes into it" : "replaces it"));
}

// A search of minutes is no way to learn that there is nowhere to write what it finds. Throws what
// a writer would. Folders of a folder are made with it.
void require_place_for(const OutputKind& kind, const std::string& path) {
    const auto there = status_of(path);
    if (there && !S_ISREG(there->st_mode) && !S_ISDIR(there->st_mode)) return;
    const bool folder = kind.is_folder(path);
    const auto refuse = [&](const std::string& why) {
        throw trace::TraceFileError(trace::TraceFault::storage, path,
                                    (folder ? "cannot be made: " : "cannot be created: ") + why);
    };
    std::error_code failed;
    fs::path place = folder ? fs::path(path) : fs::path(path).parent_path();
    while (folder && place.has_relative_path() && !fs::exists(place, failed))
        place = place.has_filename() ? place.parent_path() : place.parent_path().parent_path();
    if (place.empty()) place = ".";
    if (!fs::is_directory(place, failed))
        refuse(fmt::format("there is no folder {}", place.string()));
    if (::access(place.c_str(), W_OK | X_OK) != 0)
        refuse(fmt::format("{}: {}", place.string(), std::generic_category().message(errno)));
}

}  // namespace

Objection objection_to(const OutputKind& kind, const std::string& path) {
    if (kind.misnamed)
        if (const std::string why = kind.misnamed(path); !why.empty()) return {why};
    const auto there = status_of(path);
    if (!there) return {};
    const bool folder = kind.is_folder(path);
    if (folder && S_ISREG(there->st_mode)) return {"is a file, not a folder"};
    if (!folder && S_ISDIR(there->st_mode)) return {"is a folder, not a file"};
    if (S_ISBLK(there->st_mode)) return {"is a disk, not a file"};
    // A pipe or a terminal has nothing to lose, as has an empty file.
    if (!S_ISREG(there->st_mode) && !S_ISDIR(there->st_mode)) return {};
    if (S_ISREG(there->st_mode) && there->st_size == 0) return {};
    return {kind.foreign(path), true};
}

const std::string& OutputPath::path() const {
    ORRERY_CHECK(typed_.empty() || !target_.empty(), "an output that nobody has cleared");
    return target_;
}

void CommandFiles::reads(const CLI::Option* option) {
    reads(option, [option] { return option->results(); });
}

void CommandFiles::reads(const CLI::Option* option, Paths all) {
    inputs_.push_back({option, std::move(all)});
}

CLI::Option* CommandFiles::writes(CLI::App& app, const std::string& names, OutputPath& output,
                                  OutputKind kind, const std::string& help) {
    CLI::Option* option = app.add_option(names, output.typed_, help);
    if (outputs_.empty())
        app.add_flag("--force", force_,
                     "Write also onto a file that is read, or that is of another kind");
    outputs_.push_back({option, &output, std::move(kind)});
    return option;
}

void CommandFiles::writes(std::function<std::vector<NamedOutput>()> named) {
    named_ = std::move(named);
}

// Which input the file is that stands at `path`, as a sentence; empty: none.
std::string CommandFiles::input_at(const std::string& path) const {
    const auto there = status_of(path);
    for (const Input& input : inputs_) {
        if (input.option->count() == 0) continue;
        const std::string name = input.option->get_name();
        const std::vector<std::string> typed = input.option->results();
        for (const std::string& named : input.all())
            for (const std::string& read : with_files_in(named)) {
                const auto status = status_of(read);
                if (!status || !same_file(*status, *there)) continue;
                const bool is_typed = std::find(typed.begin(), typed.end(), read) != typed.end();
                if (read == path)
                    return is_typed ? fmt::format("this is {}, which is read", name)
                                    : fmt::format("{} names this, and it is read", name);
                return is_typed ? fmt::format("this is {} ({}), which is read", read, name)
                                : fmt::format("this is {}, which {} names and which is read", read,
                                              name);
            }
    }
    return "";
}

std::string CommandFiles::complaint_about(const NamedOutput& output) const {
    return cli::complaint_about(output, force_, "--force", [&] { return input_at(output.path); });
}

std::string cleared_path(const NamedOutput& output, const std::vector<std::string>& read,
                         bool overwrite) {
    const std::string complaint = complaint_about(output, overwrite, "overwrite", [&] {
        const auto there = status_of(output.path);
        const bool is_read = std::any_of(read.begin(), read.end(), [&](const std::string& path) {
            const auto status = status_of(path);
            return status && same_file(*status, *there);
        });
        return std::string(is_read ? "this is read" : "");
    });
    if (!complaint.empty()) throw UsageError(complaint);
    return target_of(output.path);
}

void CommandFiles::clear() {
    std::vector<NamedOutput> all;
    for (const Output& output : outputs_)
        if (!output.path->empty())
            all.push_back({output.option->get_name(), output.path->typed_, output.kind});
    if (named_)
        for (NamedOutput& named : named_())
            all.push_back(std::move(named));
    std::vector<std::string> complaints;
    std::map<std::string, std::string> taken;
    for (const NamedOutput& output : all) {
        std::error_code ignored;
        const auto place = fs::weakly_canonical(fs::absolute(output.path, ignored), ignored);
        const auto [other, is_first] = taken.emplace(place.string(), output.name);
        const std::string complaint = is_first
                                          ? complaint_about(output)
                                          : fmt::format("{} {}: {} is written there", output.name,
                                                        output.path, other->second);
        if (!complaint.empty()) complaints.push_back(complaint);
    }
    if (!complaints.empty()) throw UsageError(fmt::format("{}", fmt::join(complaints, "\n  ")));
    for (const Output& output : outputs_) {
        output.path->target_ = target_of(output.path->typed_);
        if (!output.path->empty()) require_place_for(output.kind, output.path->typed_);
    }
}

std::vector<const CLI::Option*> CommandFiles::inputs() const {
    std::vector<const CLI::Option*> options;
    for (const Input& input : inputs_)
        options.push_back(input.option);
    return options;
}

std::vector<const CLI::Option*> CommandFiles::outputs() const {
    std::vector<const CLI::Option*> options;
    for (const Output& output : outputs_)
        options.push_back(output.option);
    return options;
}

std::vector<const CLI::Option*> CommandFiles::folders() const {
    std::vector<const CLI::Option*> options;
    for (const Output& output : outputs_)
        if (output.kind.folder) options.push_back(output.option);
    return options;
}

}  // namespace orrery::cli
