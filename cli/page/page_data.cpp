// The page's data. The timeline's times are whole units of a power of ten picoseconds, each box as
// its length alone, since boxes follow one another without gaps.
#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/page/page_sections.hpp"
#include "trace/timeline_boxes.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBoxes = 60'000;
constexpr std::size_t kMostStays = 20'000;
constexpr trace::Picoseconds kMostUnits = 10'000'000;  // of the step

trace::Picoseconds unit_of(trace::Picoseconds span) {
    trace::Picoseconds unit = 1;
    while (span / unit > kMostUnits)
        unit *= 10;
    return unit;
}

// Shares of a box in percent, by paint: few of them differ, so that each is said once.
class Mixes {
  public:
    std::size_t number_of(const trace::TimelineBox& box) {
        std::array<int, trace::kPaints> percent{};
        const double whole = static_cast<double>(box.to - box.from);
        for (std::size_t paint = 0; paint < trace::kPaints; ++paint)
            percent[paint] =
                static_cast<int>(100 * static_cast<double>(box.time[paint]) / whole + 0.5);
        const auto [place, is_new] = numbers_.emplace(percent, all_.size());
        if (is_new) all_.push_back(percent);
        return place->second;
    }
    const std::vector<std::array<int, trace::kPaints>>& all() const { return all_; }

  private:
    std::map<std::array<int, trace::kPaints>, std::size_t> numbers_;
    std::vector<std::array<int, trace::kPaints>> all_;
};

class TimelineData {
  public:
    explicit TimelineData(const trace::Trace& trace)
        : trace_(trace),
          boxes_(trace::timeline_boxes(trace, kMostBoxes)),
          unit_(unit_of(trace.step_end - trace.step_start)) {}

    Json make(const std::vector<PathStay>& stays) {
        Json rows = Json::array();
        for (const trace::TimelineRow& row : boxes_.rows)
            rows.push_back(row_json(row));
        return {{"unit_ps", unit_},
                {"units", units(trace_.step_end)},
                {"resolution_s", sim::to_seconds(boxes_.resolution)},
                {"mixes", mixes_.all()},
                {"rows", std::move(rows)},
                {"path", path_json(stays)}};
    }

  private:
    std::int64_t units(trace::Picoseconds at) const { return (at - trace_.step_start) / unit_; }

    // "boxes": length, number of its action in "actions" or −1, number of its mix, of each.
    Json row_json(const trace::TimelineRow& row) {
        const trace::ProgramOps& program =
            trace_.programs[static_cast<std::size_t>(row.track->program)];
        std::map<std::int32_t, std::size_t> numbers;
        Json actions = Json::array();
        std::vector<std::int64_t> boxes;
        boxes.reserve(3 * row.boxes.size());
        for (const trace::TimelineBox& box : row.boxes) {
            boxes.push_back(units(box.to) - units(box.from));
            std::int64_t number = -1;
            if (box.step >= 0) {
                const auto [place, is_new] = numbers.emplace(box.step, numbers.size());
                number = static_cast<std::int64_t>(place->second);
                if (is_new)
                    actions.push_back(
                        trace::to_text(program.actions[static_cast<std::size_t>(box.step)]));
            }
            boxes.push_back(number);
            boxes.push_back(static_cast<std::int64_t>(mixes_.number_of(box)));
        }
        return {{"pipeline_rank", program.pipeline_rank},
                {"rank", row.track->rank},
                {"actions", std::move(actions)},
                {"boxes", std::move(boxes)}};
    }

    // Row, begin and end of each stay of the critical path on one rank.
    Json path_json(const std::vector<PathStay>& stays) const {
        std::vector<std::int64_t> path;
        const std::size_t every = stays.size() / kMostStays + 1;
        for (std::size_t i = 0; i < stays.size(); i += every) {
            const std::int32_t program =
                trace_.tracks[static_cast<std::size_t>(stays[i].track)].program;
            const auto row = std::find_if(
                boxes_.rows.begin(), boxes_.rows.end(),
                [&](const trace::TimelineRow& one) { return one.track->program == program; });
            path.push_back(row - boxes_.rows.begin());
            path.push_back(units(stays[i].from));
            path.push_back(units(stays[i].to));
        }
        return path;
    }

    const trace::Trace& trace_;
    const trace::TimelineBoxes boxes_;
    const trace::Picoseconds unit_;
    Mixes mixes_;
};

// What explain says; the scenario is in simulate's already, and where the path runs in the
// timeline.
Json explain_json(const Explanation& explanation) {
    Json json = Json::parse(explanation_json(explanation));
    json.erase("scenario");
    json["critical_path"].erase("stays");
    return json;
}

}  // namespace

std::string page_data(const PageInput& input) {
    const Explanation& explanation = input.explanation;
    Json json;
    json["simulate"] = Json::parse(report_json(explanation.report));
    json["explain"] = explain_json(explanation);
    json["goodput"] = input.run != nullptr ? Json::parse(goodput_json(*input.run)) : Json();
    json["search"] = input.search != nullptr ? Json::parse(search_json(*input.search)) : Json();
    json["timeline"] =
        TimelineData(explanation.report.prediction.trace).make(stays_of(explanation.path));
    std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    // Within an element of HTML "</script" would end it; JSON has another way to say "<".
    std::string safe;
    safe.reserve(text.size());
    for (const char c : text)
        if (c == '<')
            safe += "\\u003c";
        else
            safe += c;
    return safe;
}

}  // namespace orrery::cli
