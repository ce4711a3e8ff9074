// orrery plan: what each rank will do, without when.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/chakra_output.hpp"
#include "cli/output_kinds.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/exit_code.hpp"
#include "plan/scenario/plan_facts.hpp"
#include "plan/text/json.hpp"
#include "plan/text/plan_file.hpp"
#include "plan/text/text.hpp"
#include "trace/atomic_file.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::cli {
namespace {

class Plan : public Subcommand {
  public:
    std::string name() const override { return "plan"; }
    std::string summary() const override {
        return "Print what each rank does in a step: blocks, memory, actions";
    }
    std::vector<std::string> examples() const override {
        return {"plan scenarios/runs/llama2-7b-a100x8.json",
                "plan run.json --rank 24 --set layout.schedule=gpipe",
                "plan run.json --output run.plan",
                "plan run.json --chakra traces --durations measured.orrery"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app, files());
        rank_option_ =
            app.add_option("--rank", rank_, "Only the program of this global rank")->type_name("N");
        app.add_flag("--text", text_, "Print text, as without this option");
        app.add_flag("--json", json_, "Print one JSON object");
        files()
            .writes(app, "-o,--output", output_, plan_output(),
                    "Write the plan of all ranks to a file, for --plan; print nothing")
            ->type_name("PLAN");
        chakra_.declare(app, files());
        files().reads(app.add_option("--durations", durations_file_,
                                     "With --chakra: a trace of this plan says what its ops take")
                          ->type_name("TRACE"));
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        if (text_ && json_) throw UsageError("--text and --json exclude each other");
        if (!output_.empty() && (text_ || json_ || rank_option_->count() > 0))
            throw UsageError("--output writes the whole plan as text: no --rank, --text or --json");
        chakra_.require_sense();
        if (chakra_.wanted() && (text_ || json_ || rank_option_->count() > 0))
            throw UsageError(
                "--chakra writes files and prints nothing: no --rank (which is for "
                "text; --chakra-ranks says of whom files are), --text or --json");
        if (!chakra_.wanted() && !durations_file_.empty())
            throw UsageError("--durations says what nodes of --chakra take: name its folder");
        const plan::ReadResult read = input_.read(console, json_);
        if (!read.scenario) return exit_code_of(read);
        const plan::Plan plan = plan::build_plan(*read.scenario);
        if (chakra_.wanted()) write_chakra(plan);
        if (chakra_.wanted() && output_.empty()) return kExitOk;
        if (!output_.empty()) {
            trace::write_file(output_.path(),
                              plan::to_text({plan, plan::facts_text(read, input_.assembled())}));
            return kExitOk;
        }
        const std::optional<std::int32_t> only = pipeline_rank(plan);
        if (json_)
            console.out << plan::plan_json(plan, only);
        else
            console.out << (only ? plan::to_text(plan, *only) : plan::to_text(plan));
        return kExitOk;
    }

  private:
    void write_chakra(const plan::Plan& plan) const {
        if (durations_file_.empty()) return chakra_.write(plan, nullptr);
        const trace::Trace priced = trace::read_trace(durations_file_);
        chakra_.write(plan, &priced, durations_file_);
    }

    // Of --rank; ranks of one pipeline position share a program.
    std::optional<std::int32_t> pipeline_rank(const plan::Plan& plan) const {
        if (rank_option_->count() == 0) return std::nullopt;
        if (rank_ < 0 || rank_ >= plan.mesh.ranks())
            throw UsageError(fmt::format("--rank {}: this layout has ranks 0 to {}", rank_,
                                         plan.mesh.ranks() - 1));
        return static_cast<std::int32_t>(plan.mesh.coordinates(rank_).pipeline);
    }

    ScenarioInput input_;
    OutputPath output_;
    ChakraOutput chakra_;
    std::string durations_file_;
    const CLI::Option* rank_option_ = nullptr;
    plan::Rank rank_ = 0;
    bool text_ = false;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> plan_command() {
    return std::make_unique<Plan>();
}

}  // namespace orrery::cli
