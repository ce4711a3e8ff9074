// What the classes of orrery.hpp hold, and how what the rest of the program throws becomes what
// the header promises.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/orrery.hpp"
#include "cli/scenario_input.hpp"
#include "cli/simulation.hpp"
#include "plan/scenario/diagnostic.hpp"

namespace orrery {
inline namespace v1 {

// Read once, when it is made: const functions of an input that has been read change nothing.
struct Scenario::Content {
    cli::ScenarioInput input;
    std::vector<Diagnostic> diagnostics;
};

struct Prediction::Content {
    Content(Scenario of, cli::SimulationQuestion asked, cli::Simulation answer)
        : scenario(std::move(of)), question(std::move(asked)), simulation(std::move(answer)) {}

    Scenario scenario;
    cli::SimulationQuestion question;
    cli::Simulation simulation;
    mutable std::mutex one_at_a_time;  // guards json
    mutable std::string json;          // empty: nobody has asked
};

struct SearchResult::Content {
    explicit Content(Scenario of) : scenario(std::move(of)) {}

    Scenario scenario;
    std::vector<FoundLayout> layouts;
    std::uint64_t evaluated = 0, priced = 0;
    bool interrupted = false;
    double seconds = 0;
    std::string json;
};

struct Access {
    static const Scenario::Content& of(const Scenario& scenario) { return *scenario.content_; }
    using OfPrediction = Prediction::Content;
    using OfSearch = SearchResult::Content;
    template <typename Value, typename Content>
    static Value value(std::shared_ptr<Content> content) {
        return Value(std::move(content));
    }
};

std::vector<Diagnostic> typed(const std::vector<plan::Diagnostic>& diagnostics);

[[noreturn]] void throw_invalid(bool unreadable, const std::vector<plan::Diagnostic>& errors);

// In a handler: what is being handled, as Error.
[[noreturn]] void rethrow_as_error();

template <typename Work>
auto with_our_errors(Work&& work) {
    try {
        return work();
    } catch (...) {
        rethrow_as_error();
    }
}

}  // namespace v1
}  // namespace orrery
