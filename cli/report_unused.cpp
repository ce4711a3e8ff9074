// The keys of the scenario that its prediction does not depend on, with the reason.
#include <map>

#include "cli/report_sections.hpp"

namespace orrery::cli {

std::string unused_text(const ReportInput& input, const Console& console) {
    std::vector<std::string> reasons;  // in the order of the scenario
    std::map<std::string, std::string> keys;
    for (const sim::UnusedKey& key : input.unused) {
        if (key.words) continue;
        std::string& list = keys[key.why];
        if (list.empty()) reasons.push_back(key.why);
        list += (list.empty() ? "" : ", ") + key.pointer;
    }
    if (reasons.empty()) return "";
    std::string text = heading("keys that change nothing here", console);
    for (const std::string& why : reasons)
        text += labelled("unused", keys[why] + ": " + why);
    return text;
}

}  // namespace orrery::cli
