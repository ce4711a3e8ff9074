// orrery plan: what each rank will do, without when.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/exit_code.hpp"
#include "cli/scenario_input.hpp"
#include "cli/subcommand.hpp"
#include "plan/build/build_plan.hpp"
#include "plan/ir/text.hpp"

namespace orrery::cli {
namespace {

class Plan : public Subcommand {
  public:
    std::string name() const override { return "plan"; }
    std::string summary() const override {
        return "Print what each rank does in a step: blocks, memory, actions";
    }
    std::vector<std::string> examples() const override {
        return {"plan scenarios/runs/tiny-gpt.json",
                "plan run.json --rank 24 --set layout.schedule=gpipe"};
    }

    void declare(CLI::App& app) override {
        input_.declare(app);
        rank_option_ =
            app.add_option("--rank", rank_, "Only the program of this global rank")->type_name("N");
    }

    int run(Console& console) override {
        const plan::ReadResult read = input_.read(console, false);
        if (!read.scenario) return exit_code_of(read);
        const plan::Plan plan = plan::build_plan(*read.scenario);
        if (rank_option_->count() == 0) {
            console.out << plan::to_text(plan);
            return kExitOk;
        }
        if (rank_ < 0 || rank_ >= plan.mesh.ranks())
            throw UsageError(fmt::format("--rank {}: this layout has ranks 0 to {}", rank_,
                                         plan.mesh.ranks() - 1));
        const std::int64_t pipeline_rank = plan.mesh.coordinates(rank_).pipeline;
        console.out << plan::to_text(plan, static_cast<std::int32_t>(pipeline_rank));
        return kExitOk;
    }

  private:
    ScenarioInput input_;
    const CLI::Option* rank_option_ = nullptr;
    plan::Rank rank_ = 0;
};

}  // namespace

std::unique_ptr<Subcommand> plan_command() {
    return std::make_unique<Plan>();
}

}  // namespace orrery::cli
