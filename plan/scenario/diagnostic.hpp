// What is wrong with a scenario, as a value: where it stands, what was found, where that came from,
// the arithmetic that fails and what would be accepted. Codes are stable and listed in
// docs/errors.md; the text is part of the interface and is tested to the byte.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace orrery::plan {

struct Diagnostic {
    std::string code;     // "S012", stable
    std::string file;     // as the user typed it
    std::string pointer;  // JSON pointer inside `file`; empty when the fault has no key
    std::string value;    // the offending value as JSON text; empty when there is none
    std::string
        origin;  // "file run.json", "from --set a.b=1", "default", "preset frameworks/x.json"
    std::string message;            // one sentence, without a full stop
    std::string arithmetic;         // lines that show why the rule fails
    std::string note;               // what else is worth knowing
    std::vector<std::string> help;  // what to do, each a line
    int line = 0;                   // 1-based; 0 unless the file is not valid JSON
    int column = 0;
};

// A fault of a scenario that only shows when it is priced. Whoever throws knows the file, or leaves
// it to who knows the scenario.
class ScenarioError : public std::runtime_error {
  public:
    explicit ScenarioError(Diagnostic diagnostic)
        : std::runtime_error(diagnostic.message), diagnostic_(std::move(diagnostic)) {}

    const Diagnostic& diagnostic() const { return diagnostic_; }

  private:
    Diagnostic diagnostic_;
};

// Text that is shown or kept of a value, whatever its length: the first `longest` bytes, cut
// between characters of UTF-8, and " …" where something is left out.
std::string shortened(const std::string& text, std::size_t longest);

// Of a list that a program made wrong, the first are enough.
constexpr std::size_t kMostDiagnosticsShown = 200;

// One block per diagnostic, a blank line between, and "N errors; nothing was run." at the end, with
// "the first 200 are shown" where there are more. Without colour; ends in a newline. An empty list
// gives an empty string.
std::string format_text(const std::vector<Diagnostic>& diagnostics);

// The same as {"errors": [{code, file, pointer, value, origin, message, …}]}, pretty printed;
// fields that are empty are left out. More than kMostDiagnosticsShown: `errors_left_out` says how
// many are not in the list.
std::string format_json(const std::vector<Diagnostic>& diagnostics);

}  // namespace orrery::plan
