#include "cli/run/self_calibration_report.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery::cli {

std::string self_calibration_text(const compare::SelfCalibration& shifted) {
    std::string text = fmt::format("shifts of {} {}, for --set or a scenario's own keys\n",
                                   shifted.rows, shifted.rows == 1 ? "run" : "runs");
    for (const compare::ShiftedConstant& constant : shifted.constants)
        text +=
            fmt::format("  {} = {:.4g}   (was {:.4g}, known to within {:.0f} %)\n", constant.key,
                        constant.after, constant.before, 100 * (std::exp(constant.sd) - 1));
    text += fmt::format("\nmean error of these runs   {:.1f} % before, {:.1f} % after",
                        shifted.mean_error_before_pct, shifted.mean_error_after_pct);
    if (shifted.rows > 1)
        text += fmt::format(", {:.1f} % each by the others", shifted.mean_error_left_out_pct);
    text += fmt::format("\na run may lie {:.0f} % beside what these say\n",
                        100 * (std::exp(shifted.run_spread) - 1));
    return text;
}

std::string self_calibration_json(const compare::SelfCalibration& shifted) {
    nlohmann::ordered_json constants = nlohmann::ordered_json::array();
    for (const compare::ShiftedConstant& constant : shifted.constants)
        constants.push_back({{"key", constant.key},
                             {"before", constant.before},
                             {"after", constant.after},
                             {"log_sd", constant.sd}});
    return nlohmann::ordered_json{{"rows", shifted.rows},
                                  {"constants", std::move(constants)},
                                  {"run_log_sd", shifted.run_spread},
                                  {"mean_abs_error_before_pct", shifted.mean_error_before_pct},
                                  {"mean_abs_error_after_pct", shifted.mean_error_after_pct},
                                  {"mean_abs_error_left_out_pct", shifted.mean_error_left_out_pct}}
               .dump(2) +
           '\n';
}

}  // namespace orrery::cli
