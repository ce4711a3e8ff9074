// The files of a subcommand: what it reads, what it writes, and the one place that says whether it
// may write there. Without --force it may not onto a file that it reads, by whatever name, nor onto
// one that is not of the output's own kind. Asked before run(), so that a refusal costs nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace orrery::cli {

// What an output is, and how one is known.
struct OutputKind {
    bool folder = false;
    // What speaks against replacing the file (or writing into the folder) that stands at a path:
    // "is no trace of orrery"; empty: it is of this kind.
    std::function<std::string(const std::string& path)> foreign;
    // What is wrong with a path itself, whatever stands there; may be null.
    std::function<std::string(const std::string& path)> misnamed = nullptr;
    // Of what may be either, whether it is a folder at a path; null: `folder` says it of all.
    std::function<bool(const std::string& path)> folder_at = nullptr;

    bool is_folder(const std::string& path) const { return folder_at ? folder_at(path) : folder; }
};

// What speaks against writing an output to a path, apart from what is read; empty: nothing.
struct Objection {
    std::string why;
    bool can_be_forced = false;
};
Objection objection_to(const OutputKind& kind, const std::string& path);

// A path to write to. Nobody gets at it before CommandFiles::clear() has let it pass.
class OutputPath {
  public:
    bool empty() const { return typed_.empty(); }
    const std::string& typed() const { return typed_; }  // for messages
    // Where to write: of a symbolic link what it leads to. An error of ours where it is not clear.
    const std::string& path() const;

  private:
    friend class CommandFiles;
    std::string typed_;
    std::string target_;  // empty: not clear
};

// An output that no option names: a key of the scenario, or a default.
struct NamedOutput {
    std::string name;  // "run.checkpoint.path"
    std::string path;
    OutputKind kind;
};

// Where to write an output that is no option of a command: of a symbolic link what it leads to.
// Throws UsageError where something speaks against it: one of `read` stands there, or what is not
// of its kind; what `overwrite` permits all the same.
std::string cleared_path(const NamedOutput& output, const std::vector<std::string>& read,
                         bool overwrite);

class CommandFiles {
  public:
    using Paths = std::function<std::vector<std::string>()>;

    // Each takes the options of one subcommand; asked for when these have been parsed.

    // The values of `option` are files or folders that are read.
    void reads(const CLI::Option* option);
    // These are, which they lead to: other files that they name, a file of the library.
    void reads(const CLI::Option* option, Paths all);

    // Adds the option of an output; with the first one --force.
    CLI::Option* writes(CLI::App& app, const std::string& names, OutputPath& output,
                        OutputKind kind, const std::string& help);
    // Outputs that no option names; --force is there already.
    void writes(std::function<std::vector<NamedOutput>()> named);

    // Throws UsageError with all that is refused; where an option's folder is not there, or may not
    // be written, what its writer would throw.
    void clear();

    // What has been declared: for tests, and for the shell that completes words.
    std::vector<const CLI::Option*> inputs() const;
    std::vector<const CLI::Option*> outputs() const;
    // Those among outputs() that are folders.
    std::vector<const CLI::Option*> folders() const;

  private:
    struct Input {
        const CLI::Option* option;
        Paths all;
    };
    struct Output {
        const CLI::Option* option;
        OutputPath* path;
        OutputKind kind;
    };

    std::string complaint_about(const NamedOutput& output) const;
    std::string input_at(const std::string& path) const;

    std::vector<Input> inputs_;
    std::vector<Output> outputs_;
    std::function<std::vector<NamedOutput>()> named_;
    bool force_ = false;
};

}  // namespace orrery::cli
