// orrery convert: a trace in another format, and what it holds in short.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/output_kinds.hpp"
#include "cli/quantity.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "cli/trace_excerpt.hpp"
#include "plan/exit_code.hpp"
#include "trace/busy.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

constexpr double kPsPerSecond = 1e12;

class Convert : public Subcommand {
  public:
    std::string name() const override { return "convert"; }
    std::string summary() const override {
        return "Write a trace in another format, say what it holds";
    }
    std::vector<std::string> examples() const override {
        return {"convert step.orrery step.pftrace", "convert step.json step.orrery",
                "convert step.orrery step.pftrace --ranks 0-7 --max-size 200M"};
    }

    void declare(CLI::App& app) override {
        files().reads(
            app.add_option("IN", in_, "A trace that orrery wrote, of any of these formats")
                ->required()
                ->option_text(" "));
        files()
            .writes(app, "OUT", out_, trace_output(),
                    "Where to: *.orrery, *.pftrace (Perfetto), *.json (Chrome)")
            ->required()
            ->option_text(" ");
        excerpt_.declare(app);
    }

    int run(Console& console) override {
        excerpt_.check(out_.typed());
        const trace::Trace trace = trace::read_trace(in_);
        excerpt_.write(trace, out_, name(), console);
        console.out << summary_text(trace, console);
        return kExitOk;
    }

  private:
    static std::string summary_text(const trace::Trace& trace, const Console& console) {
        std::int64_t events = 0;
        double ranks = 0;
        for (const trace::Track& track : trace.tracks) {
            events += static_cast<std::int64_t>(track.events.size());
            ranks += static_cast<double>(track.represents());
        }
        const double step_s = static_cast<double>(trace.step_end - trace.step_start) / kPsPerSecond;
        std::string text = fmt::format(
            "{} step of {}: {} of {} ranks, {} events\n\n",
            trace.origin == trace::Origin::predicted ? "predicted" : "measured",
            seconds_text(step_s), whole_text(static_cast<std::int64_t>(trace.tracks.size())),
            whole_text(static_cast<std::int64_t>(ranks)), whole_text(events));
        text += console.bold("busy time of the streams, mean over ranks") + '\n';
        TextTable table({Align::left, Align::right, Align::right});
        const auto busy_s = trace::mean_busy(trace);
        for (std::size_t s = 0; s < plan::kStreams; ++s)
            if (busy_s[s] > 0)
                table.add({std::string(plan::name(static_cast<plan::Stream>(s))),
                           seconds_text(busy_s[s]),
                           step_s > 0 ? percent_text(busy_s[s] / step_s) : ""});
        return text + table.text();
    }

    std::string in_;
    OutputPath out_;
    TraceExcerpt excerpt_;
};

}  // namespace

std::unique_ptr<Subcommand> convert_command() {
    return std::make_unique<Convert>();
}

}  // namespace orrery::cli
