#include "sim/whatif/fixes.hpp"

#include <algorithm>
#include <tuple>

#include "plan/assemble/build_plan.hpp"
#include "sim/machine.hpp"
#include "sim/whatif/changes.hpp"

namespace orrery::sim {
namespace {

constexpr std::size_t kListed = 3;
constexpr std::size_t kMostKeys = 3;
constexpr std::int64_t kMostTried = 200;
constexpr std::size_t kMostSimulated = 12;  // of those that change as many keys

struct Candidate {
    Fix fix;
    plan::Scenario scenario;
};

class Search {
  public:
    Search(const plan::Scenario& scenario, const Profile& profile, const Prediction& prediction,
           const ReadWith& read_with, const std::function<void()>& trying)
        : now_(scenario),
          profile_(profile),
          prediction_(prediction),
          read_with_(read_with),
          trying_(trying) {}

    FixSearch run() {
        families_ = memory_savers(now_);
        first_fit_.assign(families_.size(), 0);
        for (std::size_t f = 0; f < families_.size(); ++f)
            try_family(f);
        if (fitting_.size() < kListed)
            for (std::size_t a = 0; a < families_.size(); ++a)
                for (std::size_t b = a + 1; b < families_.size(); ++b)
                    try_pair(a, b);
        choose();
        if (!out_.fixes.empty()) out_.closest.reset();
        return std::move(out_);
    }

  private:
    // Values of a family until one fits by itself.
    void try_family(std::size_t f) {
        const Family& family = families_[f];
        std::size_t& i = first_fit_[f];
        for (; i < family.size(); ++i)
            if (try_first_valid(family[i]) == Outcome::fits) break;
    }

    // The mildest pair of values, of those that do not fit by themselves. Where the strongest two
    // do not fit, the others are not tried: they need more memory.
    void try_pair(std::size_t a, std::size_t b) {
        const std::size_t rows = first_fit_[a];
        const std::size_t columns = first_fit_[b];
        if (rows == 0 || columns == 0) return;
        const auto both = [&](std::size_t i, std::size_t j) {
            Alternatives joint;
            for (const auto& one : families_[a][i])
                for (const auto& other : families_[b][j]) {
                    joint.push_back(one);
                    joint.back().insert(joint.back().end(), other.begin(), other.end());
                }
            return joint;
        };
        const std::size_t before = fitting_.size();
        if (try_first_valid(both(rows - 1, columns - 1)) == Outcome::exceeds) return;
        std::vector<Candidate> strongest(fitting_.begin() + static_cast<std::ptrdiff_t>(before),
                                         fitting_.end());
        fitting_.resize(before);
        for (std::size_t sum = 0; sum + 2 < rows + columns; ++sum)
            for (std::size_t i = 0; i <= sum && i < rows; ++i)
                if (sum - i < columns && try_first_valid(both(i, sum - i)) == Outcome::fits) return;
        fitting_.insert(fitting_.end(), strongest.begin(), strongest.end());
    }

    enum class Outcome { invalid, exceeds, fits };

    Outcome try_first_valid(const Alternatives& alternatives) {
        for (const std::vector<Setting>& settings : alternatives) {
            const Outcome outcome = try_settings(settings);
            if (outcome != Outcome::invalid) return outcome;
        }
        return Outcome::invalid;
    }

    Outcome try_settings(const std::vector<Setting>& settings) {
        if (out_.tried >= kMostTried || settings.size() > kMostKeys || repeats_a_key(settings))
            return Outcome::invalid;
        std::optional<plan::Scenario> scenario = read_with_(overrides_of(settings));
        if (!scenario) return Outcome::invalid;
        if (scenario->layout == now_.layout && scenario->training == now_.training)
            return Outcome::invalid;  // nothing that a rank does would change
        if (scenario->cluster.nodes > now_.cluster.nodes &&
            scenario->layout.ranks() <= now_.layout.ranks())
            return Outcome::invalid;  // the new nodes would stand idle
        ++out_.tried;
        trying_();
        for (const Setting& setting : settings)
            if (std::find(out_.keys.begin(), out_.keys.end(), setting.key) == out_.keys.end())
                out_.keys.push_back(setting.key);
        const MemoryPrediction memory =
            predict_memory(plan::build_plan(*scenario), *scenario, profile_);
        const Fix fix{settings, memory.worst().peak_bytes, memory.verdict,
                      scenario->layout.ranks()};
        if (!out_.closest || fix.peak_bytes < out_.closest->peak_bytes) out_.closest = fix;
        if (!helps(memory.verdict)) return Outcome::exceeds;
        fitting_.push_back({fix, std::move(*scenario)});
        return Outcome::fits;
    }

    bool helps(Verdict verdict) const {
        return verdict == Verdict::fits ||
               (verdict == Verdict::tight && prediction_.memory.verdict == Verdict::exceeds);
    }

    static bool repeats_a_key(const std::vector<Setting>& settings) {
        for (std::size_t i = 0; i < settings.size(); ++i)
            for (std::size_t j = i + 1; j < settings.size(); ++j)
                if (settings[i].key == settings[j].key) return true;
        return false;
    }

    auto rank_before_time(const Fix& fix) const {
        return std::make_tuple(fix.settings.size(), fix.verdict == Verdict::tight,
                               fix.gpus > now_.layout.ranks());
    }

    // Simulates those with the fewest keys, then those with one more, until enough are known.
    void choose() {
        std::stable_sort(fitting_.begin(), fitting_.end(),
                         [&](const Candidate& a, const Candidate& b) {
                             return rank_before_time(a.fix) < rank_before_time(b.fix);
                         });
        std::size_t simulated = 0;
        for (std::size_t i = 0; i < fitting_.size(); ++i) {
            const bool next_size =
                i > 0 && fitting_[i].fix.settings.size() != fitting_[i - 1].fix.settings.size();
            if (next_size && out_.fixes.size() >= kListed) break;
            if (next_size) simulated = 0;
            if (simulated++ < kMostSimulated) simulate_step(fitting_[i]);
        }
        std::stable_sort(out_.fixes.begin(), out_.fixes.end(), [&](const Fix& a, const Fix& b) {
            return std::make_pair(rank_before_time(a), a.step_time_s) <
                   std::make_pair(rank_before_time(b), b.step_time_s);
        });
        if (out_.fixes.size() > kListed) out_.fixes.resize(kListed);
    }

    void simulate_step(const Candidate& candidate) {
        trying_();
        const plan::Plan plan = plan::build_plan(candidate.scenario);
        const Machine machine = build_machine(plan, candidate.scenario, profile_, false);
        const EngineResult result = run_engine(machine.input);
        if (!result.stuck.empty()) return;
        const StepWindow window = step_window(machine, result);
        Fix fix = candidate.fix;
        fix.step_time_s = to_seconds(window.end - window.start);
        fix.step_time_ratio = fix.step_time_s / prediction_.step.time_s;
        out_.fixes.push_back(std::move(fix));
    }

    const plan::Scenario& now_;
    const Profile& profile_;
    const Prediction& prediction_;
    const ReadWith& read_with_;
    const std::function<void()>& trying_;
    std::vector<Family> families_;
    std::vector<std::size_t> first_fit_;  // by family: its first value that fits alone, or its size
    std::vector<Candidate> fitting_;
    FixSearch out_;
};

}  // namespace

std::vector<std::string> overrides_of(const std::vector<Setting>& settings) {
    std::vector<std::string> overrides;
    overrides.reserve(settings.size());
    for (const Setting& setting : settings)
        overrides.push_back(setting.key + "=" + setting.value);
    return overrides;
}

FixSearch find_fixes(const plan::Scenario& scenario, const Profile& profile,
                     const Prediction& prediction, const ReadWith& read_with,
                     const std::function<void()>& trying) {
    if (prediction.memory.verdict == Verdict::fits) return {};
    return Search(scenario, profile, prediction, read_with, trying).run();
}

}  // namespace orrery::sim
