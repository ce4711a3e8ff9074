// Rules of the types that the optimizer's states are kept in.
#include <fmt/format.h>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {
namespace {

constexpr char kFirst[] = "training.optimizer.exp_avg_dtype";
constexpr char kSecond[] = "training.optimizer.exp_avg_sq_dtype";
constexpr char kMain[] = "training.optimizer.main_params_dtype";

void refuse(Reading& reading, const char* field, const char* message, std::string arithmetic,
            const char* help) {
    Diagnostic& fault = reading.report_field("S036", field, message);
    fault.arithmetic = std::move(arithmetic);
    fault.help.push_back(help);
}

// Main parameters are beside weights of 16 bits.
void check_main(Reading& reading, const Scenario& scenario) {
    const Training& training = scenario.training;
    const StateType main = training.optimizer.main_parameters;
    if (!reading.good({kMain, "training.precision"}) || main == StateType::same) return;
    if (training.precision == Precision::fp32)
        return refuse(reading, kMain, "weights of 32 bits are their own main parameters",
                      "training.precision = fp32", "leave main_params_dtype out");
    if (main != StateType::none) return;
    if (reading.good({"layout.staleness"}) && scenario.layout.staleness > 0)
        refuse(reading, kMain, "steps under way compute with copies of the main parameters",
               fmt::format("layout.staleness = {}", scenario.layout.staleness),
               "main_params_dtype \"fp32\" or \"fp16\", or staleness 0");
    if (reading.good({"training.fp8_param_gather"}) && training.fp8.parameters)
        refuse(reading, kMain, "weights of eight bits are too coarse to be stepped themselves",
               "training.fp8_param_gather = true",
               "main_params_dtype \"fp32\" or \"fp16\", or fp8_param_gather false");
}

}  // namespace

void check_optimizer_states(Reading& reading, const Scenario& scenario) {
    const Training& training = scenario.training;
    const Optimizer& optimizer = training.optimizer;
    if (reading.good({"training.precision"}) && training.precision == Precision::fp64) {
        for (const auto& [field, type] : {std::pair{kFirst, optimizer.first_moment},
                                          std::pair{kSecond, optimizer.second_moment},
                                          std::pair{kMain, optimizer.main_parameters}})
            if (reading.good({field}) && type != StateType::same)
                return refuse(reading, field, "in fp64 all states are of 64 bits",
                              "training.precision = fp64",
                              "leave the types of the optimizer's states out");
    }
    check_main(reading, scenario);
    if (!reading.good({kFirst, kSecond, kMain, "layout.optimizer_post_validation"}) ||
        !scenario.layout.optimizer_post_validation)
        return;
    const bool main_differs = training.precision != Precision::fp32 &&
                              optimizer.main_parameters != StateType::none &&
                              optimizer.main_parameters != optimizer.first_moment;
    if (optimizer.first_moment != optimizer.second_moment || main_differs)
        refuse(reading, kFirst, "what a step that may be taken back copies is of one type",
               "layout.optimizer_post_validation = true",
               "one type for all states, or optimizer_post_validation false");
}

}  // namespace orrery::plan
