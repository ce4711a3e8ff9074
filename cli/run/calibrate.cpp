// orrery calibrate: times what the backend does on this machine and writes the profile that
// simulate reads.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "calib/fit/curve_json.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/write_profile.hpp"
#include "calib/measure/cpu_profile.hpp"
#include "cli/exit_code.hpp"
#include "cli/fit_report.hpp"
#include "cli/program.hpp"
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
                "calibrate --backend cpu --ranks 4 --threads-per-rank 2 -o my-machine.json"};
    }

    void declare(CLI::App& app) override {
        app.add_option("--backend", backend_, "What runs the kernels: cpu")
            ->required()
            ->type_name("NAME")
            ->check(CLI::IsMember({"cpu"}));
        app.add_option("-o,--output", output_path_, "The profile; replaced when all is measured")
            ->required()
            ->type_name("FILE");
        app.add_option("--ranks", options_.ranks,
                       "Ranks that are busy at once (default: as many as there are cores for)")
            ->type_name("N")
            ->check(CLI::Range(1, 1024));
        app.add_option("--threads-per-rank", options_.threads_per_rank,
                       "Threads of each rank's kernels (default: 1)")
            ->type_name("N")
            ->check(CLI::Range(1, 1024));
        app.add_option("--device", options_.device,
                       "Name of the device, which a cluster asks for (default: cpu-core)")
            ->type_name("NAME");
    }

    int run(Console& console) override {
        options_.version = kVersion;
        options_.scenarios_dir = library_folder();
        const measure::Calibration calibration =
            measure::measure_cpu_profile(options_, [&](const std::string& what) {
                console.err << "timing " << what << '\n' << std::flush;
            });
        fit::FitReport report{options_.device, calibration.families, {}};
        try {
            report.collectives =
                fit::collective_reports(fit::write_profile(calibration.profile, output_path_));
        } catch (const fit::FitStorageError& error) {
            console.err << "orrery calibrate: " << error.what() << '\n';
            return kExitStorage;
        }
        console.out << output_path_ << ": profile of " << report.device << '\n'
                    << fit_report_text(report);
        return kExitOk;
    }

  private:
    std::string backend_;
    std::string output_path_;
    measure::CalibrationOptions options_;
};

}  // namespace

std::unique_ptr<Subcommand> calibrate_command() {
    return std::make_unique<Calibrate>();
}

}  // namespace orrery::cli
