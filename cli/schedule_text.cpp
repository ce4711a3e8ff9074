#include "cli/schedule_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/schedule/vocabulary.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t makespan(const plan::Timeline& timeline) {
    std::int64_t last = 0;
    for (const auto& row : timeline)
        if (!row.empty()) last = std::max(last, row.back().end);
    return last;
}

std::int64_t busy(const std::vector<plan::TimedAction>& row) {
    std::int64_t units = 0;
    for (const plan::TimedAction& timed : row)
        units += timed.end - timed.begin;
    return units;
}

std::vector<std::int32_t> stages_of(const plan::StagePlacement& placement, std::size_t rank) {
    std::vector<std::int32_t> stages;
    for (std::int32_t stage = 0; stage < placement.stages(); ++stage)
        if (placement.rank_of(stage) == static_cast<std::int32_t>(rank)) stages.push_back(stage);
    return stages;
}

std::string list(const std::vector<std::int32_t>& numbers) {
    std::string text;
    for (const std::int32_t number : numbers)
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    return text;
}

// A cell for each unit; of B, which takes two, the second is drawn out.
std::vector<std::string> cells_of(const std::vector<plan::TimedAction>& row, std::int64_t units) {
    std::vector<std::string> cells;
    const auto fill = [&cells](std::int64_t to, const std::string& text) {
        cells.resize(std::max(cells.size(), static_cast<std::size_t>(to)), text);
    };
    for (const plan::TimedAction& timed : row) {
        if (timed.begin == timed.end) continue;
        fill(timed.begin, ".");
        cells.push_back(to_text(timed.action));
        fill(timed.end, std::string(cells.back().size(), '-'));
    }
    fill(units, ".");
    return cells;
}

class Picture {
  public:
    Picture(const plan::Timeline& timeline, std::int64_t units)
        : units_(static_cast<std::size_t>(units)),
          label_(fmt::format("rank {}", timeline.size() - 1).size()) {
        for (const auto& row : timeline) {
            rows_.push_back(cells_of(row, units));
            for (const std::string& cell : rows_.back())
                width_ = std::max(width_, cell.size());
        }
    }

    std::size_t label() const { return label_; }

    std::string drawn(int columns, bool whole) const {
        const std::size_t room =
            std::max<std::size_t>(1, (static_cast<std::size_t>(columns) - label_) / (width_ + 1));
        const std::size_t parts = (units_ + room - 1) / room;
        if (parts == 1) return part(0, units_);
        std::string out;
        for (std::size_t number = 0; number < parts; ++number) {
            const bool left_out = !whole && parts > kMostParts && number >= 2 && number + 1 < parts;
            if (left_out && number == 2)
                out += fmt::format("… {} units more; --whole draws them\n\n", (parts - 3) * room);
            if (left_out) continue;
            const std::size_t from = number * room, to = std::min(from + room, units_);
            out += fmt::format("units {} to {}\n{}{}", from, to - 1, part(from, to),
                               to < units_ ? "\n" : "");
        }
        return out;
    }

  private:
    static constexpr std::size_t kMostParts = 4;

    std::string part(std::size_t from, std::size_t to) const {
        std::string out;
        for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
            std::string line = fmt::format("{:<{}}", fmt::format("rank {}", rank), label_);
            for (std::size_t unit = from; unit < to; ++unit)
                line += fmt::format(" {:<{}}", rows_[rank][unit], width_);
            out += line.erase(line.find_last_not_of(' ') + 1) + '\n';
        }
        return out;
    }

    std::size_t units_;
    std::size_t label_;
    std::size_t width_ = 1;
    std::vector<std::vector<std::string>> rows_;  // by rank, a cell for each unit
};

}  // namespace

std::string schedule_text(const ScheduleView& view, int columns, bool whole) {
    const plan::Timeline timeline = unit_timeline(view.schedule);
    const plan::Schedule layers = without_pieces(view.schedule);
    const std::int64_t units = makespan(timeline);
    const Picture picture(timeline, units);
    const std::size_t ranks = timeline.size();
    std::string out = fmt::format("{}: {} rank{}, {} stages, {} micro-batches, {} units of time\n",
                                  view.name, ranks, ranks == 1 ? "" : "s",
                                  view.schedule.placement.stages(), view.micro_batches, units);
    out += "F, I and W take one unit each, B two, transfers none; a dot is an idle unit\n";
    if (view.schedule.placement.pieces() > 0)
        out += fmt::format(
            "passes over the vocabulary, stages {} to {}, take none and are not "
            "drawn\n",
            view.schedule.placement.stages(),
            view.schedule.placement.stages() + 2 * view.schedule.placement.pieces() - 1);
    out += '\n';
    const std::size_t label = picture.label();
    out += picture.drawn(columns, whole);
    out += fmt::format("\n{:<{}}  {:>6}  {:>7}  {:>9}  stages\n", "", label, "idle", "bubble",
                       "in flight");
    std::int64_t idle = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t idle_here = units - busy(timeline[rank]);
        idle += idle_here;
        out += fmt::format(
            "{:<{}}  {:>6}  {:>5.1f} %  {:>9}  {}\n", fmt::format("rank {}", rank), label,
            idle_here, 100.0 * static_cast<double>(idle_here) / static_cast<double>(units),
            most_in_flight(layers.grid[rank]), list(stages_of(view.schedule.placement, rank)));
    }
    out += fmt::format("{:<{}}  {:>6}  {:>5.1f} %\n", "all", label, idle,
                       100.0 * static_cast<double>(idle) /
                           static_cast<double>(units * static_cast<std::int64_t>(ranks)));
    return out;
}

std::string schedule_json(const ScheduleView& view) {
    const plan::Timeline timeline = unit_timeline(view.schedule);
    const plan::Schedule layers = without_pieces(view.schedule);
    const std::int64_t units = makespan(timeline);
    Json ranks = Json::array();
    std::int64_t idle = 0;
    for (std::size_t rank = 0; rank < timeline.size(); ++rank) {
        const std::int64_t idle_here = units - busy(timeline[rank]);
        idle += idle_here;
        Json actions = Json::array();
        for (const plan::TimedAction& timed : timeline[rank])
            actions.push_back({{"action", to_text(timed.action)}, {"begin", timed.begin}});
        ranks.push_back({{"rank", rank},
                         {"stages", stages_of(view.schedule.placement, rank)},
                         {"idle_units", idle_here},
                         {"in_flight", most_in_flight(layers.grid[rank])},
                         {"actions", std::move(actions)}});
    }
    const auto all = static_cast<double>(units * static_cast<std::int64_t>(timeline.size()));
    return Json{{"schedule", view.name},
                {"stages", view.schedule.placement.stages()},
                {"micro_batches", view.micro_batches},
                {"units", {{"F", 1}, {"I", 1}, {"W", 1}, {"B", 2}}},
                {"total_units", units},
                {"bubble_fraction", static_cast<double>(idle) / all},
                {"ranks", std::move(ranks)},
                {"notes", view.notes}}
               .dump(2) +
           '\n';
}

}  // namespace orrery::cli
