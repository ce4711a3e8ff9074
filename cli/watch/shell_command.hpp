// A command line of the user's that goes on beside this program, in a process group of its own,
// which ends with it.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

namespace orrery::cli {

enum class ShellOutput { piped, on_stderr };

class ShellCommand {
  public:
    // Starts /bin/sh -c `text` with these variables besides our own; its input is empty. Throws
    // UsageError where that fails.
    ShellCommand(std::string text, const std::map<std::string, std::string>& variables,
                 ShellOutput output);
    ~ShellCommand();  // kills what is left of it
    ShellCommand(ShellCommand&& other) noexcept;
    ShellCommand& operator=(ShellCommand&&) = delete;

    const std::string& text() const { return text_; }
    int output() const { return output_; }  // to read from, where piped
    // Nothing while it goes on; 128 + the signal that ended it.
    std::optional<int> exit_code();

  private:
    std::string text_;
    pid_t process_ = -1;  // −1: has been waited for
    int output_ = -1;
    std::optional<int> exit_code_;
};

}  // namespace orrery::cli
