#include "api/content.hpp"
#include "cli/search_question.hpp"

namespace orrery {
inline namespace v1 {
namespace {

FoundLayout typed_layout(const sim::FoundLayout& found) {
    const sim::Prediction& prediction = found.prediction;
    FoundLayout layout;
    layout.overrides = found.sets;
    layout.step_time_s = prediction.step.time_s;
    layout.interval_s = {prediction.step.low_s, prediction.step.high_s};
    layout.peak_bytes = prediction.memory.worst().peak_bytes;
    layout.fit_probability = prediction.memory.fit_probability;
    layout.mfu = prediction.throughput.mfu;
    layout.tokens_per_s = prediction.throughput.tokens_per_s;
    return layout;
}

cli::SearchQuestion question_of(const SearchOptions& options) {
    cli::SearchQuestion question;
    question.varies = options.vary;
    question.objective = options.objective;
    question.memory_margin_percent = options.memory_margin_percent;
    question.options.top = options.top;
    question.options.least_fit_probability = options.fit_probability;
    question.options.progress = options.pricing;
    question.options.simulating = options.simulating;
    question.options.stop = options.stop;
    return question;
}

}  // namespace

SearchResult search(const Scenario& scenario, const SearchOptions& options) {
    return with_our_errors([&] {
        const cli::ScenarioInput& input = Access::of(scenario).input;
        const cli::SearchAnswer answer = cli::searched(input, question_of(options));
        if (!answer.search.errors.empty())
            throw_invalid(answer.search.unreadable, answer.search.errors);
        auto content = std::make_shared<Access::OfSearch>(scenario);
        content->evaluated = answer.result.evaluated;
        content->priced = answer.result.priced;
        content->interrupted = answer.result.stopped;
        content->seconds = answer.seconds;
        content->json = cli::search_json(answer.report(input, false));
        for (const sim::FoundLayout& found : answer.result.layouts)
            content->layouts.push_back(typed_layout(found));
        return Access::value<SearchResult>(std::move(content));
    });
}

SearchResult::SearchResult(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

const std::vector<FoundLayout>& SearchResult::layouts() const {
    return content_->layouts;
}

Scenario SearchResult::scenario(std::size_t place) const {
    if (place >= content_->layouts.size())
        throw Error(Fault::usage, "layout " + std::to_string(place) + " of " +
                                      std::to_string(content_->layouts.size()) +
                                      ", counted from 0");
    return content_->scenario.with(content_->layouts[place].overrides);
}

std::uint64_t SearchResult::evaluated() const {
    return content_->evaluated;
}

std::uint64_t SearchResult::priced() const {
    return content_->priced;
}

bool SearchResult::interrupted() const {
    return content_->interrupted;
}

double SearchResult::seconds() const {
    return content_->seconds;
}

const std::string& SearchResult::json() const {
    return content_->json;
}

}  // namespace v1
}  // namespace orrery
