// Device profiles: JSON text to a profile or a ProfileError, and a profile that is read prices ops.
#include "sim/cost/profile.hpp"

#include "plan/check.hpp"
#include "sim/network/collective_table.hpp"
#include "sim/prediction.hpp"
#include "tests/fuzz/memory_files.hpp"
#include "tests/fuzz/reading.hpp"
#include "tests/fuzz/targets.hpp"

namespace orrery::fuzz {
namespace {

void price_with(const sim::Profile& profile) {
    static const plan::Scenario scenario = *read_checked(kSmallScenario, {}).scenario;
    try {
        const sim::Prediction prediction = sim::simulate(scenario, profile, {}, "");
        ORRERY_CHECK(prediction.stuck.empty(), prediction.stuck);
        ORRERY_CHECK(prediction.step.time_s > 0, "no time passes");
    } catch (const sim::ProfileError&) {
        // It has no curve for what the plan needs, or takes hours for an op, and says so.
    }
}

void run_profile(std::string_view input) {
    sim::Profile profile;
    try {
        profile = sim::parse_profile(std::string(input), "fuzz.json");
    } catch (const sim::ProfileError& fault) {
        ORRERY_CHECK(std::string_view(fault.what()).substr(0, 9) == "fuzz.json", fault.what());
        return;
    }
    price_with(profile);
}

void run_collectives(std::string_view input) {
    try {
        const sim::CollectiveTable table = sim::parse_collectives(std::string(input), "fuzz.json");
        ORRERY_CHECK(!table.ring.empty(), "no ring");
        for (const sim::CollectiveCurve& curve : table.curves) {
            ORRERY_CHECK(table.find(curve.collective, curve.ranks) != nullptr, "a curve is lost");
            double before = 0;
            for (double bytes = 1; bytes < 1e12; bytes *= 8) {
                const double seconds = sim::interpolate(curve.points, bytes);
                ORRERY_CHECK(seconds >= before, "more bytes take less time");
                before = seconds;
            }
        }
    } catch (const sim::ProfileError& fault) {
        ORRERY_CHECK(std::string_view(fault.what()).substr(0, 9) == "fuzz.json", fault.what());
    }
}

std::vector<std::string> profile_seeds() {
    std::vector<std::string> seeds;
    for (const auto& [path, text] : shipped_profile_texts())
        seeds.push_back(text);
    return seeds;
}

std::vector<std::string> collectives_seeds() {
    std::vector<std::string> seeds;
    for (const std::string& text : profile_seeds())
        seeds.push_back(sim::parse_profile(text, "shipped").collectives_json);
    return seeds;
}

}  // namespace

const Target kProfile = {"profile", 65536, run_profile, profile_seeds};
const Target kCollectives = {"collectives", 32768, run_collectives, collectives_seeds};

}  // namespace orrery::fuzz
