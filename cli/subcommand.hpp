// What a subcommand is. To add one to orrery: write cli/<name>.cpp that defines <name>_command(),
// and name it in ORRERY_SUBCOMMANDS; to orrery-run: see cli/run_subcommands.hpp.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command_files.hpp"
#include "cli/console.hpp"

namespace CLI {
class App;
}

namespace orrery::cli {

// In the order of --help.
#define ORRERY_SUBCOMMANDS(X) \
    X(init)                   \
    X(simulate)               \
    X(explain)                \
    X(report)                 \
    X(search)                 \
    X(sweep)                  \
    X(size)                   \
    X(goodput)                \
    X(watch)                  \
    X(jobs)                   \
    X(list)                   \
    X(schema)                 \
    X(diff)                   \
    X(plan)                   \
    X(schedule)               \
    X(compare)                \
    X(validate)               \
    X(fit)                    \
    X(constants)              \
    X(launch)                 \
    X(convert)                \
    X(import)                 \
    X(import_trace)           \
    X(hang)                   \
    X(commands)               \
    X(completion)             \
    X(man)

// A wrong combination of arguments that the parser cannot see; exit code 2.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Subcommand {
  public:
    virtual ~Subcommand() = default;

    virtual std::string name() const = 0;
    virtual std::string summary() const = 0;                // one line
    virtual std::vector<std::string> examples() const = 0;  // command lines, for --help
    // Binds the options to members; called once, before run. Those that name files go by files().
    virtual void declare(CLI::App& app) = 0;
    // Whether errors are to be printed on console.out as {"errors": […]} too.
    virtual bool prints_json() const { return false; }
    // Returns an exit code. May throw UsageError and what its program has an exit code for
    // (exit_code_of).
    virtual int run(Console& console) = 0;

    CommandFiles& files() { return files_; }

  private:
    CommandFiles files_;
};

#define ORRERY_DECLARE(name) std::unique_ptr<Subcommand> name##_command();
ORRERY_SUBCOMMANDS(ORRERY_DECLARE)
#undef ORRERY_DECLARE

}  // namespace orrery::cli
