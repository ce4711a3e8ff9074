// orrery calibrate: times what the backend does on this machine, or takes what nccl-tests timed on
// a cluster, and writes the profile that simulate reads.
#include <filesystem>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "calib/fit/curve_json.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/import_collectives.hpp"
#include "calib/fit/write_profile.hpp"
#include "calib/measure/cpu_profile.hpp"
#include "cli/exit_code.hpp"
#include "cli/fit_report.hpp"
#include "cli/program.hpp"
#include "cli/run/process_memory.hpp"
#include "cli/run/subcommands.hpp"
#include "cli/scenario_input.hpp"

namespace orrery::cli {
namespace {

class Calibrate : public Subcommand {
  public:
    std::string name() const override { return kCalibrate.name; }
    std::string summary() const override { return kCalibrate.summary; }
    std::vector<std::string> examples() const override {
        return {kCalibrate.example,
                "calibrate --backend cpu --ranks 4 --threads-per-rank 2 -o my-machine.json",
                "calibrate --import all_reduce.txt all_gather.json --profile "
                "profiles/h100-sxm.json -o my-h100.json"};
    }

    void declare(CLI::App& app) override {
        app.add_option("-o,--output", output_path_, "The profile; replaced when all is measured")
            ->required()
            ->type_name("FILE");
        auto* backend = app.add_option("--backend", backend_, "What runs the kernels: cpu")
                            ->type_name("NAME")
                            ->check(CLI::IsMember({"cpu"}));
        app.add_option("--ranks", options_.ranks,
                       "Ranks that are busy at once (default: as many as there are cores for)")
            ->type_name("N")
            ->check(CLI::Range(1, 1024))
            ->needs(backend);
        app.add_option("--threads-per-rank", options_.threads_per_rank,
                       "Threads of each rank's kernels (default: 1)")
            ->type_name("N")
            ->check(CLI::Range(1, 1024))
            ->needs(backend);
        app.add_option("--device", options_.device,
                       "Name of the device, which a cluster asks for (default: cpu-core)")
            ->type_name("NAME")
            ->needs(backend);
        auto* import =
            app.add_option("--import", import_.paths,
                           "Instead of timing: outputs of nccl-tests, as printed or of its -J")
                ->type_name("FILE")
                ->excludes(backend);
        auto* profile = app.add_option("--profile", import_.profile_path,
                                       "With --import: the profile whose collectives they replace")
                            ->type_name("FILE")
                            ->needs(import);
        import->needs(profile);
        app.add_option("--collective", import_.collective,
                       "With --import: of outputs that do not say theirs")
            ->type_name("NAME")
            ->check(CLI::IsMember({"all_reduce", "all_gather", "reduce_scatter"}))
            ->needs(import);
    }

    int run(Console& console) override {
        const bool imports = !import_.paths.empty();
        if (!imports && backend_.empty())
            throw UsageError("one of --backend and --import is required");
        try {
            return imports ? import_timings(console) : measure(console);
        } catch (const fit::FitStorageError& error) {
            console.err << "orrery calibrate: " << error.what() << '\n';
            return kExitStorage;
        }
    }

  private:
    int measure(Console& console) {
        options_.version = kVersion;
        options_.scenarios_dir = library_folder();
        measure::Calibration calibration =
            measure::measure_cpu_profile(options_, [&](const std::string& what) {
                console.err << "timing " << what << '\n' << std::flush;
            });
        console.err << "measuring the memory of processes\n" << std::flush;
        calibration.profile["process"] = process_json(
            measure_processes(), calibration.profile["provenance"][0].get<std::string>());
        fit::FitReport report{options_.device, calibration.families, {}};
        report.collectives =
            fit::collective_reports(fit::write_profile(calibration.profile, output_path_));
        print(report, console);
        return kExitOk;
    }

    int import_timings(Console& console) {
        import_.version = kVersion;
        import_.output_path = output_path_;
        // As a scenario names it, where there is no such file here.
        const std::filesystem::path shipped =
            std::filesystem::path(library_folder()) / import_.profile_path;
        if (!std::filesystem::exists(import_.profile_path) && std::filesystem::exists(shipped))
            import_.profile_path = shipped;
        const fit::ImportReport report = fit::import_collectives(import_);
        print(report.fit, console);
        console.out << "\nimported\n";
        for (const std::string& run : report.runs)
            console.out << "  " << run << '\n';
        if (!report.left.empty())
            console.out << fmt::format(
                "\nno longer measured, now priced by the algorithms' constants: {}\n",
                fmt::join(report.left, ", "));
        return kExitOk;
    }

    void print(const fit::FitReport& report, Console& console) const {
        console.out << output_path_ << ": profile of " << report.device << '\n'
                    << fit_report_text(report);
    }

    std::string backend_;
    std::string output_path_;
    measure::CalibrationOptions options_;
    fit::ImportInputs import_;
};

}  // namespace

std::unique_ptr<Subcommand> calibrate_command() {
    return std::make_unique<Calibrate>();
}

}  // namespace orrery::cli
