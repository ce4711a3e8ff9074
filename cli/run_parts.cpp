#include "cli/run_parts.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace orrery::cli {

// Steps that count are parted as the accounts of one step are.
std::vector<RunPart> run_parts(const GoodputReport& report) {
    using sim::RunAccount;
    using trace::Account;
    const sim::StepPrediction& step = report.prediction.step;
    const auto seconds = [&](RunAccount account) {
        return report.goodput.seconds[static_cast<std::size_t>(account)];
    };
    const double steps = seconds(RunAccount::steps);
    double computing = 0, exposed = 0, bubble = 0;
    for (std::size_t a = 0; a < trace::kAccounts; ++a) {
        const auto account = static_cast<Account>(a);
        const double share = step.breakdown_s[a] / step.time_s;
        if (account == Account::compute || account == Account::recompute ||
            account == Account::optimizer)
            computing += share;
        else if (account == Account::bubble)
            bubble += share;
        else if (trace::is_exposed(account))
            exposed += share;
    }
    std::vector<RunPart> parts = {
        {"steps: computing", steps * computing, RunAccount::steps, Account::compute},
        {"steps: exposed communication", steps * exposed, RunAccount::steps,
         Account::exposed_tensor},
        {"steps: pipeline bubble", steps * bubble, RunAccount::steps, Account::bubble},
        {"steps: the rest", steps * std::max(0.0, 1 - computing - exposed - bubble),
         RunAccount::steps, Account::other}};
    for (const RunAccount account :
         {RunAccount::data, RunAccount::saving, RunAccount::lost_work, RunAccount::detection,
          RunAccount::diagnosis, RunAccount::restart, RunAccount::waiting, RunAccount::degraded})
        parts.push_back({words_of(account), seconds(account), account});
    std::erase_if(parts, [](const RunPart& part) { return part.seconds <= 0; });
    return parts;
}

nlohmann::ordered_json run_parts_json(const GoodputReport& report) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const RunPart& part : run_parts(report))
        json.push_back({{"part", part.name}, {"days", part.seconds / kDay}});
    return json;
}

}  // namespace orrery::cli
