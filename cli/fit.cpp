// orrery fit: a profile of a device from tables of measurements and a datasheet.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "calib/fit/fit_profile.hpp"
#include "calib/fit/judge_transfer.hpp"
#include "cli/csv_output.hpp"
#include "cli/fit_report.hpp"
#include "cli/output_kinds.hpp"
#include "cli/quantity.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/exit_code.hpp"

namespace orrery::cli {
namespace {

std::string transfer_text(const fit::TransferReport& report) {
    TextTable table({Align::left, Align::right, Align::right, Align::right, Align::right,
                     Align::right, Align::right});
    table.add({"", "rows", "mean", "median", "p95", "bias", "root mean square"});
    for (const fit::TransferredFamily& family : report.families) {
        const sim::HeldOut& errors = family.errors.absolute;
        table.add({family.family, whole_text(errors.rows), percent_text(errors.mean_abs_error),
                   percent_text(errors.median_abs_error), percent_text(errors.p95_abs_error),
                   percent_text(family.errors.bias),
                   percent_text(family.errors.standard_deviation)});
    }
    return "constants of " + report.from + " carried over to " + report.device +
           ", predicted / measured - 1\n" + table.text();
}

std::string transfer_json(const fit::TransferReport& report) {
    nlohmann::ordered_json json = {{"from", report.from},
                                   {"device", report.device},
                                   {"transferred", nlohmann::ordered_json::array()}};
    for (const fit::TransferredFamily& family : report.families) {
        nlohmann::ordered_json row = {{"family", family.family}};
        row.update(fit_errors_json(family.errors));
        json["transferred"].push_back(std::move(row));
    }
    return json.dump(2) + '\n';
}

class Fit : public Subcommand {
  public:
    std::string name() const override { return "fit"; }
    std::string summary() const override {
        return "Make a device profile from tables of measurements and a datasheet";
    }
    std::vector<std::string> examples() const override {
        return {"fit a100.datasheet.json --gemm gemm.csv --output a100.json",
                "fit a100.datasheet.json --attention attention.csv --collectives nccl.csv "
                "--output a100.json",
                "fit a100-40gb.datasheet.json --output a100-40gb.json",
                "fit h100.datasheet.json --gemm gemm.csv --transfer-from a100.json"};
    }

    void declare(CLI::App& app) override {
        CLI::Option* datasheet =
            app.add_option(
                   "DATASHEET", inputs_.datasheet_path,
                   "A profile with what is to be fitted (\"tables\") or carried over (\"like\")")
                ->required()
                ->option_text(" ");
        files().reads(datasheet,
                      [this] { return fit::files_of_datasheet(inputs_.datasheet_path); });
        const auto table = [&](const char* name, std::string& path, const char* help) {
            files().reads(app.add_option(name, path, help)->type_name("CSV"));
        };
        table("--gemm", inputs_.gemm_csv, "Timings of matrix products");
        table("--attention", inputs_.attention_csv, "Timings of attention");
        table("--collectives", inputs_.collectives_csv, "Timings of collectives");
        files()
            .writes(app, "--output", output_, profile_output(),
                    "The profile; replaced when the fit is done")
            ->type_name("FILE");
        files().reads(app.add_option("--transfer-from", transfer_from_,
                                     "Only print how far this profile, scaled, misses the tables")
                          ->type_name("PROFILE"));
        app.add_flag("--json", json_, "Print one JSON object: errors, and the curves");
        csv_.declare(app, files(),
                     {{"families", "/families", "family,fitted_rows"},
                      {"collectives", "/collectives", "collective,ranks,points"},
                      {"transferred", "/transferred", "family,rows"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (transfer_from_.empty() == output_.empty())
            throw UsageError("one of --output and --transfer-from is required");
        if (!transfer_from_.empty()) {
            const fit::TransferReport report = fit::judge_transfer(inputs_, transfer_from_);
            console.out << (json_ ? transfer_json(report) : transfer_text(report));
            csv_.write([&] { return transfer_json(report); });
            return kExitOk;
        }
        inputs_.output_path = output_.path();
        const fit::FitReport report = fit::fit_profile(inputs_);
        const auto json = [&] { return fit_report_json(report).dump(2) + '\n'; };
        if (json_)
            console.out << json();
        else
            console.out << output_.typed() << ": profile of " << report.device << '\n'
                        << fit_report_text(report);
        csv_.write(json);
        return kExitOk;
    }

  private:
    fit::FitInputs inputs_;
    OutputPath output_;
    std::string transfer_from_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> fit_command() {
    return std::make_unique<Fit>();
}

}  // namespace orrery::cli
