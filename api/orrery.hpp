// Orrery as a library: what a training step of a large language model takes, in time, memory and
// money, asked from a program instead of a shell.
//
//     #include <orrery.hpp>
//
//     const auto run = orrery::Scenario::from_file("run.json", {"layout.tensor_parallel=4"});
//     const orrery::Prediction step = orrery::simulate(run);
//     std::cout << step.step_time_s() << " s, " << 100 * step.mfu() << " % MFU\n";
//
// It is the command line without the shell: the same code, the same numbers, the very JSON that
// `orrery simulate --json` and `orrery search --json` print. docs/library.md has examples that run,
// docs/scenario.md the keys, docs/simulate-json.md and docs/search.md the keys of the answers.
//
// What is stable. This header has a semantic version of its own (ORRERY_API_VERSION_*), which is
// that of the CMake package, and whose first number is in the shared library's name. Within one
// first number, programs go on to compile and go on to run with a newer library: functions and
// enumerators are added, none changes, and the structs below keep their members. Keys of the JSON
// may become more. Predictions are not part of that promise: a better model predicts better.
// Standard types cross the border, so a program is built with the C++ library (libstdc++) and the
// string ABI that liborrery was built with.
//
// Threads. Scenario, Prediction and SearchResult are values that never change: copies share what
// they hold, and one object may be used by several threads at once (one that was moved from may
// only be assigned to). Functions may be called from any thread. A search uses all cores by itself.
//
// Errors are exceptions of class Error; those of a scenario carry the list of what is wrong with
// it. A broken invariant of the library itself, which is a bug, prints its place and aborts.
// Nothing is printed otherwise, no signal is caught, no process started, no file written but those
// asked for. Sizes are bytes, times seconds, fractions from 0 to 1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define ORRERY_API_VERSION_MAJOR 1
#define ORRERY_API_VERSION_MINOR 0
#define ORRERY_API_VERSION_PATCH 0

// What the shared library shows; everything else in it is hidden.
#define ORRERY_API __attribute__((visibility("default")))

namespace orrery {
inline namespace v1 {

struct Access;  // the library's own way to what the classes hold

// Of the program that the library belongs to, as `orrery --version` says it: "0.1.0".
ORRERY_API std::string version();

// Where the shipped models, clusters, profiles and runs lie: "<prefix>/share/orrery/scenarios"
// where the library is installed, else the source tree that it was built from.
ORRERY_API std::string library_folder();

// What went wrong, by the exit codes of the program.
enum class Fault : int {
    internal = 1,          // a bug of ours
    usage = 2,             // an argument that is none
    invalid_scenario = 3,  // by its values
    unreadable = 5,        // a file that is missing or corrupt
    device = 6,            // the machine gave no memory, or no thread
    storage = 8,           // what could not be written
    stopped = 130,         // by the caller
};

class ORRERY_API Error : public std::runtime_error {
  public:
    Error(Fault fault, const std::string& message);
    ~Error() override;

    Fault fault() const noexcept { return fault_; }

  private:
    Fault fault_;
};

// One thing that is wrong with a scenario. Codes are listed in docs/errors.md.
struct Diagnostic {
    std::string code;        // "S012"
    std::string file;        // as it was given
    std::string pointer;     // JSON pointer in `file`: "/layout/tensor_parallel"; empty: of no key
    std::string value;       // what stands there, as JSON; empty: nothing does
    std::string origin;      // where that is from: "file run.json", "from --set a.b=1", "default"
    std::string message;     // one sentence, without a full stop
    std::string arithmetic;  // why the rule fails, in numbers; may be empty
    std::string note;        // what else is worth knowing; may be empty
    std::vector<std::string> help;  // what to do, such as the nearest valid values
    int line = 0, column = 0;       // from 1, where `file` is not JSON; else 0
};

// Thrown for a scenario with errors: all of them at once. what() is the text that the command line
// prints; fault() tells a missing file from a wrong value.
class ORRERY_API InvalidScenario : public Error {
  public:
    InvalidScenario(Fault fault, const std::string& message, std::vector<Diagnostic> diagnostics);
    ~InvalidScenario() override;

    const std::vector<Diagnostic>& diagnostics() const noexcept { return *diagnostics_; }

  private:
    std::shared_ptr<const std::vector<Diagnostic>> diagnostics_;  // copying an exception is safe
};

// A scenario file (docs/scenario.md) with values that override it, sound or not.
class ORRERY_API Scenario {
  public:
    // Reads the file and what it refers to. Overrides are "key=value" as `--set` takes them:
    // "layout.tensor_parallel=4". Throws Error (usage) for one without '='; faults of the scenario
    // are in diagnostics(), that there is no such file as well.
    static Scenario from_file(const std::string& path,
                              const std::vector<std::string>& overrides = {});
    // The same of JSON text. `name` is what messages call it; files that the text refers to are
    // looked for from the folder of that name, and nothing is read at the name itself.
    static Scenario from_text(std::string_view text, const std::vector<std::string>& overrides = {},
                              const std::string& name = "scenario.json");
    // This one with more overrides, which win over those that it has.
    Scenario with(const std::vector<std::string>& overrides) const;

    // What is wrong with it, in the order of the file; empty: simulate() takes it. A search also
    // takes one whose layout has keys that are "auto".
    const std::vector<Diagnostic>& diagnostics() const;

    // The overrides that it was given, in that order.
    const std::vector<std::string>& overrides() const;

    // Every key with its value, defaults and presets as well: JSON that is itself a scenario with
    // the same answer. Throws InvalidScenario.
    std::string resolved() const;
    // The scenario as one text, with what it refers to and its overrides in place, that `orrery
    // simulate` and `orrery train` take: what `orrery search --write` writes. Throws
    // InvalidScenario.
    std::string text() const;

  private:
    friend struct Access;
    struct Content;
    explicit Scenario(std::shared_ptr<const Content> content);
    std::shared_ptr<const Content> content_;
};

// By the probability that every rank fits into its device's memory.
enum class Verdict : int {
    fits,    // from 0.9
    tight,   // from one half
    exceeds  // below that
};
ORRERY_API std::string_view name(Verdict verdict);  // "fits", "tight", "exceeds"

// Memory of one pipeline rank at its peak. peak_bytes is the sum of the seven before it.
struct StageMemory {
    std::int64_t parameters_bytes = 0;
    std::int64_t gradients_bytes = 0;
    std::int64_t optimizer_bytes = 0;
    std::int64_t activations_bytes = 0;
    std::int64_t workspace_bytes = 0;
    std::int64_t communication_bytes = 0;
    std::int64_t other_bytes = 0;  // what the plan does not place: allocator, driver, communicators
    std::int64_t peak_bytes = 0;
    std::int64_t capacity_bytes = 0;
    std::string peak_at;  // the action and the op during which it is: "2F5 attention"
};

// How a step is simulated; the defaults are those of `orrery simulate`.
struct SimulateOptions {
    bool unfolded = false;  // every rank by itself instead of one of each class of alike ranks
    std::int64_t draws =
        0;              // also step times of so many draws of stragglers and jitter (in json())
    std::string costs;  // a measured trace that prices its ops; empty: the profile prices all
    // Becomes true while the library works: it throws Error (stopped). May be null.
    const std::atomic<bool>* stop = nullptr;
};

// What one training step takes.
class ORRERY_API Prediction {
  public:
    double step_time_s() const;
    std::pair<double, double> interval_s() const;  // in which nine of ten steps are expected
    // Where the time goes, mean over ranks: "compute", "exposed_tensor", "bubble", …; the values
    // add up to step_time_s().
    std::vector<std::pair<std::string, double>> breakdown_s() const;
    double bubble_fraction() const;

    Verdict verdict() const;
    double fit_probability() const;
    std::int64_t peak_bytes() const;          // of the fullest pipeline rank …
    std::int64_t capacity_bytes() const;      // … and what its device has
    std::vector<StageMemory> stages() const;  // by pipeline rank

    double tokens_per_s() const;
    double tokens_per_s_per_gpu() const;
    double model_tflops_per_gpu() const;
    double mfu() const;         // model FLOPs over the dense peak
    double mfu_causal() const;  // the same with attention counted at half
    double hfu() const;         // all FLOPs that run, over the dense peak

    std::int64_t gpus() const;  // that the layout uses
    // Of the whole run; nothing where the scenario has no number of tokens, price or power.
    std::optional<double> days() const;
    std::optional<double> gpu_hours() const;
    std::optional<double> cost_usd() const;
    std::optional<double> energy_mwh() const;

    // What was simulated.
    const Scenario& scenario() const;
    // Remarks on what was asked, such as a measured trace whose times say nothing.
    const std::vector<std::string>& warnings() const;

    // The object that `orrery simulate --json` prints, byte for byte. The first call simulates what
    // that says besides, such as changes that make it fit, and may take longer than simulate();
    // `stop` as above.
    const std::string& json(const std::atomic<bool>* stop = nullptr) const;

    // Writes the step as a trace, in the format of the path's ending: .orrery, .pftrace (Perfetto)
    // or .json (Chrome); whole or not at all. The step is simulated once more, with every event
    // kept. Throws Error (usage) where something stands there that is no such trace, or that was
    // read, unless `overwrite`; Error (storage) where it cannot be written.
    void write_trace(const std::string& path, bool overwrite = false,
                     const std::atomic<bool>* stop = nullptr) const;

  private:
    friend struct Access;
    struct Content;
    explicit Prediction(std::shared_ptr<const Content> content);
    std::shared_ptr<const Content> content_;
};

// Predicts a step of a scenario. Throws InvalidScenario, and Error for a trace or a profile that
// cannot be read, or where it is stopped. A layout that does not fit is an answer: verdict().
ORRERY_API Prediction simulate(const Scenario& scenario, const SimulateOptions& options = {});

// What a search tries and wants; the defaults are those of `orrery search` (docs/search.md).
struct SearchOptions {
    // "key=values", as `--vary` takes them: "layout.pipeline_parallel=1,2,4",
    // "cluster.nodes=16..64*2". Empty: the keys of the layout that are "auto", else all usual ones.
    std::vector<std::string> vary;
    std::string objective = "step_time";  // tokens_per_s_per_gpu, cost_per_token, energy
    std::size_t top = 10;                 // so many layouts are listed, from 1 to 1,000
    double fit_probability = 0.5;         // what fits at least so probably counts as fitting
    double memory_margin_percent = 0;     // share of the device's memory that stays free, below 100
    // Told what share is done, from 0 to 1, first of pricing, then of simulating the best; from one
    // thread at a time, which need not be the caller's. They must not throw. May be null.
    std::function<void(double done)> pricing;
    std::function<void(double done)> simulating;
    // Becomes true: the search ends with what it has, and interrupted() is true. May be null.
    const std::atomic<bool>* stop = nullptr;
};

// A layout that was simulated in full.
struct FoundLayout {
    // What makes it of the scenario that was searched, complete: for Scenario::with().
    std::vector<std::string> overrides;
    double step_time_s = 0;
    std::pair<double, double> interval_s;
    std::int64_t peak_bytes = 0;  // of the fullest pipeline rank
    double fit_probability = 0;
    double mfu = 0;
    double tokens_per_s = 0;
};

class ORRERY_API SearchResult {
  public:
    // Best first; empty where nothing fits.
    const std::vector<FoundLayout>& layouts() const;
    // The scenario with the layout of this place. Throws Error (usage) where there is none.
    Scenario scenario(std::size_t place = 0) const;

    std::uint64_t evaluated() const;  // combinations that were looked at
    std::uint64_t priced() const;     // of these, layouts that break no rule
    bool interrupted() const;
    double seconds() const;  // that the search took

    // The object that `orrery search --json` prints.
    const std::string& json() const;

  private:
    friend struct Access;
    struct Content;
    explicit SearchResult(std::shared_ptr<const Content> content);
    std::shared_ptr<const Content> content_;
};

// Searches the layouts of a scenario's model on its cluster. Throws InvalidScenario, and Error
// (usage) for options that are none. That nothing fits is an answer: layouts() is empty.
ORRERY_API SearchResult search(const Scenario& scenario, const SearchOptions& options = {});

}  // namespace v1
}  // namespace orrery
