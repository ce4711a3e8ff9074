// orrery calibrate: times what the backend does on this machine, or takes what nccl-tests timed on
// a cluster, and writes the profile that simulate reads.
#include <chrono>
#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "calib/compare/self_calibration.hpp"
#include "calib/fit/curve_json.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/import_collectives.hpp"
#include "calib/fit/write_profile.hpp"
#include "calib/measure/collective_sections.hpp"
#include "calib/measure/cpu_profile.hpp"
#include "calib/measure/device_machine.hpp"
#include "calib/measure/process_memory.hpp"
#include "cli/csv_output.hpp"
#include "cli/fit_report.hpp"
#include "cli/machine_files.hpp"
#include "cli/output_kinds.hpp"
#include "cli/run/calibrate_ranks.hpp"
#include "cli/run/for_backends.hpp"
#include "cli/run/self_calibration_report.hpp"
#include "cli/run/trace_calibration_report.hpp"
#include "cli/run_subcommands.hpp"
#include "cli/scenario_input.hpp"
#include "plan/exit_code.hpp"
#include "runtime/backends/registry.hpp"
#include "trace/atomic_file.hpp"
#include "trace/program_version.hpp"

namespace orrery::cli {
namespace {

class Calibrate : public Subcommand {
  public:
    std::string name() const override { return kCalibrate.name; }
    std::string summary() const override { return kCalibrate.summary; }
    std::vector<std::string> examples() const override {
        return {kCalibrate.example,
                "calibrate --this-machine",
                "calibrate --backend cpu --ranks 4 --threads-per-rank 2 -o my-machine.json",
                "calibrate --backend cuda --base profiles/h100-sxm.json -o my-gpu.json",
                "calibrate --backend cuda --ranks 8 --nccl-tests all.txt -o my-node.json",
                "calibrate --import all_reduce.txt all_gather.json --profile "
                "profiles/h100-sxm.json -o my-h100.json",
                "calibrate --runs my-runs.json",
                "calibrate --from-trace measured.orrery"};
    }

    void declare(CLI::App& app) override {
        CLI::Option* output = files()
                                  .writes(app, "-o,--output", output_, profile_output(),
                                          "The profile; replaced when all is measured")
                                  ->type_name("FILE");
        auto* own = app.add_flag("--this-machine", own_,
                                 "Short, and kept in the user's cache folder: the profile "
                                 "this-machine of scenarios")
                        ->excludes(output);
        auto* backend = app.add_option("--backend", backend_,
                                       fmt::format("What runs the kernels: {}",
                                                   fmt::join(runtime::backend_names(), ", ")))
                            ->type_name("NAME")
                            ->check(CLI::IsMember(runtime::backend_names()))
                            ->excludes(own);
        ranks_ = app.add_option("--ranks", options_.ranks,
                                "Ranks that are busy at once: on cores (default: as many as there "
                                "are cores for), or on GPUs, a process each, between which "
                                "communication is timed (default: one, without)")
                     ->type_name("N")
                     ->check(CLI::Range(1, 1024))
                     ->needs(backend);
        threads_ = app.add_option("--threads-per-rank", options_.threads_per_rank,
                                  "Of CPU ranks: threads of each one's kernels (default: 1)")
                       ->type_name("N")
                       ->check(CLI::Range(1, 1024));
        per_gpu_ = app.add_option("--ranks-per-gpu", at_.ranks_per_gpu,
                                  "With --ranks: so many on each GPU, to see that it works; their "
                                  "times say nothing")
                       ->type_name("N")
                       ->check(CLI::Range(1, 64))
                       ->needs(ranks_);
        files()
            .writes(app, "--nccl-tests", tables_, nccl_table_output(),
                    "With several ranks: also what nccl-tests would print of all_reduce, "
                    "all_gather and reduce_scatter between them")
            ->type_name("FILE")
            ->needs(backend);
        seconds_ = app.add_option("--seconds", limit_s_,
                                  "With --backend cuda: how long it may take; what there is no "
                                  "time for is left out, and the output says what (default: 480)")
                       ->type_name("N")
                       ->check(CLI::Range(60, 86400))
                       ->needs(backend);
        app.add_option("--device", device_,
                       "Name of the device, which a cluster asks for (default: cpu-core, or "
                       "that of the GPU: h100-sxm)")
            ->type_name("NAME")
            ->needs(backend);
        base_ = app.add_option("--base", base_path_,
                               "With --backend cuda: a profile that has what is not measured: "
                               "collectives, overlap, peaks, links")
                    ->type_name("FILE")
                    ->needs(backend);
        files().reads(base_, [this] { return std::vector{shipped_or_own(base_path_)}; });
        auto* import =
            app.add_option("--import", import_.paths,
                           "Instead of timing: outputs of nccl-tests, as printed or of its -J")
                ->type_name("FILE")
                ->excludes(backend)
                ->excludes(own);
        auto* profile = app.add_option("--profile", import_.profile_path,
                                       "With --import: the profile whose collectives they replace")
                            ->type_name("FILE")
                            ->needs(import);
        import->needs(profile);
        files().reads(import);
        files().reads(profile,
                      [this] { return std::vector{shipped_or_own(import_.profile_path)}; });
        auto* runs = app.add_option("--runs", runs_path_,
                                    "Measured steps of one's own, records as validate reads them: "
                                    "how constants of stack and cluster shift, and what it helps")
                         ->type_name("FILE")
                         ->excludes(backend)
                         ->excludes(own)
                         ->excludes(import)
                         ->excludes(output);
        files().reads(runs);
        auto* from_trace =
            app.add_option("--from-trace", trace_path_,
                           "A measured step, of train --trace or import-trace --output: "
                           "constants of its stack and links")
                ->type_name("TRACE")
                ->excludes(backend)
                ->excludes(own)
                ->excludes(import)
                ->excludes(runs)
                ->excludes(output);
        files().reads(from_trace);
        app.add_option("--set", sets_,
                       "With --from-trace: override a key of the trace's scenario; repeatable")
            ->type_name("KEY=VALUE")
            ->needs(from_trace);
        app.add_flag("--json", json_, "With --runs or --from-trace: the constants as JSON");
        csv_.declare(app, files(),
                     {{"constants", "/constants", "key,before,after"},
                      {"families", "/families", "family,measured_s,modelled_s"}});
        app.add_option("--collective", import_.collective,
                       "With --import: of outputs that do not say theirs")
            ->type_name("NAME")
            ->check(CLI::IsMember({"all_reduce", "all_gather", "reduce_scatter"}))
            ->needs(import);
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (!runs_path_.empty()) return shift_to_runs(console);
        if (!trace_path_.empty()) return take_from_trace(console);
        if (json_) throw UsageError("--json needs --runs or --from-trace");
        if (csv_.wanted()) throw UsageError("--csv needs --runs or --from-trace");
        const bool imports = !import_.paths.empty();
        if (!imports && backend_.empty() && !own_)
            throw UsageError(
                "one of --this-machine, --backend, --import, --runs and "
                "--from-trace is required");
        if (output_.empty() && !own_) throw UsageError("--output is required");
        if (threads_->count() > 0 && !own_ && (backend_.empty() || !times_ranks(row())))
            throw UsageError(for_backends("--threads-per-rank", times_ranks) +
                             " and --this-machine");
        if (own_) return measure_this_machine(console);
        if (imports) return import_timings(console);
        return times_ranks(row()) ? measure_cpu(console) : measure_device(console);
    }

  private:
    static constexpr const char* kNeedsRanks = "--nccl-tests needs --ranks of at least 2";

    const runtime::BackendRow& row() const { return runtime::backend_named(backend_); }
    // On ranks of the host that are busy at once; else on a device by itself.
    static bool times_ranks(const runtime::BackendRow& row) { return row.make_driver == nullptr; }

    int measure_cpu(Console& console) {
        if (base_->count() > 0) throw UsageError(for_backends("--base", std::not_fn(times_ranks)));
        for (const CLI::Option* option : {per_gpu_, seconds_})
            if (option->count() > 0)
                throw UsageError(for_backends(option->get_name(), std::not_fn(times_ranks)));
        if (!device_.empty()) options_.device = device_;
        if (!tables_.empty()) write_tables_of_host(console);
        return write(measured_cpu(options_, false, console), output_.path(), output_.typed(),
                     console);
    }

    // What is read meanwhile is the profile before, whole.
    int measure_this_machine(Console& console) {
        const auto path = own_profile_path(options_.threads_per_rank);
        if (!path)
            throw fit::FitStorageError("neither XDG_CACHE_HOME nor HOME says where to keep it");
        std::error_code failed;
        std::filesystem::create_directories(std::filesystem::path(*path).parent_path(), failed);
        measure::CalibrationOptions options = measure::short_calibration();
        options.threads_per_rank = options_.threads_per_rank;
        const measure::Calibration calibration = measured_cpu(options, true, console);
        return write(calibration, *path, *path, console);
    }

    static measure::Calibration measured_cpu(measure::CalibrationOptions options, bool few,
                                             Console& console) {
        options.version = std::string(program_version());
        options.scenarios_dir = library_folder();
        measure::Calibration calibration = measure::measure_cpu_profile(options, teller(console));
        if (!calibration.warning.empty())
            console.err << "orrery calibrate: warning: " << calibration.warning << '\n';
        console.err << "measuring the memory of processes\n" << std::flush;
        calibration.profile["process"] =
            fit::process_json(measure::measure_processes(kTrain.name, options.scenarios_dir, few),
                              calibration.profile["provenance"][0].get<std::string>());
        return calibration;
    }

    int measure_device(Console& console) {
        if (threads_->count() > 0)
            throw UsageError(for_backends(threads_->get_name(), times_ranks));
        at_.command = kCalibrate.name;
        at_.backend = backend_;
        const auto launch = launched_rank(at_);
        const std::int64_t ranks = ranks_of_calibration(launch, options_.ranks);
        if (!tables_.empty() && ranks < 2) throw UsageError(kNeedsRanks);
        if (const std::string lacks = row().lacks(); !lacks.empty()) {
            console.err << "orrery calibrate: " << lacks << '\n';
            return kExitDevice;
        }
        if (ranks > 1 && !launch) return start_ranks_of_calibration(at_, ranks);
        std::ostream nobody(nullptr);  // what rank 0 says, the others need not
        Console silent{console.out, nobody};
        return measure_ranks(ranks, launch && launch->rank > 0 ? silent : console);
    }

    // What is between ranks comes first: then all but rank 0 have done.
    int measure_ranks(std::int64_t ranks, Console& console) {
        const auto start = std::chrono::steady_clock::now();
        measure::DeviceOptions options;
        options.seconds = limit_s_;
        options.device = device_;
        options.version = std::string(program_version());
        options.scenarios_dir = library_folder();
        if (!base_path_.empty()) options.base_path = shipped_or_own(base_path_);
        runtime::SystemLoader loader;
        if (ranks > 1) {
            options.collectives = time_ranks_of_gpus(at_, ranks, loader, options, console);
            if (!options.collectives) return kExitOk;  // rank 0 is another process
            write_tables(options.collectives->timings, options.collectives->library);
            options.seconds -=
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
        return write(
            measure::measure_device_profile(options, row().make_driver, loader, 0, teller(console)),
            output_.path(), output_.typed(), console);
    }

    // Of threads of this process; the profile's collectives are those of whole steps all the same.
    void write_tables_of_host(Console& console) {
        if (options_.ranks < 2) throw UsageError(kNeedsRanks);
        at_.command = kCalibrate.name;
        at_.backend = backend_;
        at_.launcher = "none";
        write_tables(time_ranks_of_host(at_, options_.ranks, console), "");
    }

    void write_tables(const measure::CollectiveTimings& timings, const std::string& nccl) const {
        if (tables_.empty()) return;
        trace::write_file(
            tables_.path(),
            measure::nccl_tables(timings, "orrery " + std::string(program_version()), nccl));
    }

    static std::function<void(const std::string&)> teller(Console& console) {
        return [&](const std::string& what) {
            console.err << "timing " << what << '\n' << std::flush;
        };
    }

    // As a scenario names it, where there is no such file here.
    static std::string shipped_or_own(const std::string& path) {
        const std::filesystem::path shipped = std::filesystem::path(library_folder()) / path;
        return !std::filesystem::exists(path) && std::filesystem::exists(shipped) ? shipped.string()
                                                                                  : path;
    }

    static int write(const measure::Calibration& calibration, const std::string& path,
                     const std::string& called, Console& console) {
        const sim::Profile profile = fit::write_profile(calibration.profile, path);
        print({profile.device, calibration.families, fit::collective_reports(profile)}, called,
              console);
        if (!calibration.notes.empty()) console.out << "\nalso measured\n";
        for (const std::string& note : calibration.notes)
            console.out << "  " << note << '\n';
        return kExitOk;
    }

    int shift_to_runs(Console& console) {
        const compare::SelfCalibration shifted =
            compare::calibrate_to_runs(runs_path_, library_folder());
        console.out << (json_ ? self_calibration_json(shifted) : self_calibration_text(shifted));
        csv_.write([&] { return self_calibration_json(shifted); });
        return kExitOk;
    }

    int take_from_trace(Console& console) {
        const compare::TraceCalibration found =
            compare::calibrate_to_trace(trace_path_, sets_, library_folder());
        console.out << (json_ ? trace_calibration_json(found) : trace_calibration_text(found));
        csv_.write([&] { return trace_calibration_json(found); });
        return kExitOk;
    }

    int import_timings(Console& console) {
        import_.version = std::string(program_version());
        import_.output_path = output_.path();
        import_.profile_path = shipped_or_own(import_.profile_path);
        const fit::ImportReport report = fit::import_collectives(import_);
        print(report.fit, output_.typed(), console);
        console.out << "\nimported\n";
        for (const std::string& run : report.runs)
            console.out << "  " << run << '\n';
        if (!report.kept.empty())
            console.out << fmt::format("\nkept as the profile had them: {}\n",
                                       fmt::join(report.kept, ", "));
        return kExitOk;
    }

    static void print(const fit::FitReport& report, const std::string& called, Console& console) {
        console.out << called << ": profile of " << report.device << '\n'
                    << fit_report_text(report);
    }

    std::string backend_;
    std::string runs_path_;
    std::string trace_path_;
    std::vector<std::string> sets_;
    CsvOutput csv_;
    bool json_ = false;
    OutputPath output_, tables_;
    BackendOptions at_;  // where ranks are that communicate
    double limit_s_ = 480;
    std::string device_;
    std::string base_path_;
    bool own_ = false;
    CLI::Option* ranks_ = nullptr;
    const CLI::Option* per_gpu_ = nullptr;
    const CLI::Option* seconds_ = nullptr;
    const CLI::Option* threads_ = nullptr;
    const CLI::Option* base_ = nullptr;
    measure::CalibrationOptions options_;
    fit::ImportInputs import_;
};

}  // namespace

std::unique_ptr<Subcommand> calibrate_command() {
    return std::make_unique<Calibrate>();
}

}  // namespace orrery::cli
