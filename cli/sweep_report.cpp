#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>

#include "cli/chart.hpp"
#include "cli/csv_cell.hpp"
#include "cli/json_values.hpp"
#include "cli/quantity.hpp"
#include "cli/search_report.hpp"
#include "cli/sweep.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string plain(double value) {
    return digits_text(value);
}

std::string dollars(double value) {
    return value >= 1e6 ? fmt::format("${:.2f}M", value / 1e6) : fmt::format("${:.0f}", value);
}

std::string days_text(double days) {
    return fmt::format("{} d", digits_text(days));
}

bool sound(const SweepPoint& point) {
    return point.scenario.has_value();
}

std::optional<double> number_of(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// The last part of a key, which tells it from the others of a sweep.
std::string short_key(const std::string& key) {
    return key.substr(key.rfind('.') + 1);
}

Json value_json(const std::string& text) {
    Json value = Json::parse(text, nullptr, false);
    return value.is_discarded() ? Json(text) : value;
}

const SweepPoint* find(const Sweep& sweep, const std::vector<std::string>& values) {
    for (const SweepPoint& point : sweep.points)
        if (point.values == values) return &point;
    return nullptr;
}

std::string subtitle_of(const Sweep& sweep) {
    const auto first = std::find_if(sweep.points.begin(), sweep.points.end(), sound);
    if (first == sweep.points.end()) return file_name(sweep.input.file);
    const plan::Scenario& scenario = *first->scenario;
    return fmt::format("{}{}, on {}; predicted by orrery", scenario.model.name,
                       sweep.searched ? ", the best layout at each point" : "",
                       scenario.cluster.device);
}

ChartPoint chart_point(const Sweep& sweep, double x, const SweepPoint& point) {
    ChartPoint out{x, *sweep.metric.value(point), 0, 0};
    out.low = out.high = out.y;
    // What is in proportion to the step, or to its inverse, has the step's interval.
    const sim::StepPrediction& step = point.prediction.step;
    const std::string_view name = sweep.metric.name;
    if (name == "peak_bytes" || step.time_s <= 0) return out;
    const bool with_time = sweep.metric.less_is_better;
    out.low *= with_time ? step.low_s / step.time_s : step.time_s / step.high_s;
    out.high *= with_time ? step.high_s / step.time_s : step.time_s / step.low_s;
    return out;
}

std::string map_svg(const Sweep& sweep) {
    const Vary &down = sweep.varies[0], &across = sweep.varies[1];
    HeatMap map;
    map.title = fmt::format("{} over {} and {}", sweep.metric.label, short_key(down.key),
                            short_key(across.key));
    map.subtitle = subtitle_of(sweep);
    map.x_label = across.key;
    map.y_label = down.key;
    map.value_label = sweep.metric.label;
    map.less_is_better = sweep.metric.less_is_better;
    map.columns = across.values;
    map.rows = down.values;
    for (const std::string& row : down.values) {
        map.values.emplace_back();
        map.texts.emplace_back();
        for (const std::string& column : across.values) {
            const SweepPoint* point = find(sweep, {row, column});
            std::optional<double> value;
            if (point != nullptr && sound(*point)) value = sweep.metric.value(*point);
            map.texts.back().push_back(value ? sweep.metric.text(*value) : "–");
            map.values.back().push_back(value);
        }
    }
    return heat_map_svg(map);
}

}  // namespace

double place_on_axis(const Sweep& sweep, std::size_t point) {
    return number_of(sweep.points[point].values[0]).value_or(static_cast<double>(point));
}

LineChart sweep_chart(const Sweep& sweep) {
    const Vary& vary = sweep.varies[0];
    LineChart chart;
    chart.title = fmt::format("{} over {}", sweep.metric.label, short_key(vary.key));
    chart.subtitle = subtitle_of(sweep);
    chart.x_label = vary.key;
    chart.y_label = sweep.metric.label;
    ChartLine line{sweep.metric.name, {}};
    for (std::size_t i = 0; i < sweep.points.size(); ++i) {
        const SweepPoint& point = sweep.points[i];
        if (sound(point) && sweep.metric.value(point))
            line.points.push_back(chart_point(sweep, place_on_axis(sweep, i), point));
    }
    std::sort(line.points.begin(), line.points.end(),
              [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    const std::vector<ChartPoint>& points = line.points;
    chart.log_x =
        points.size() > 2 && points.front().x > 0 && points.back().x / points.front().x >= 8;
    chart.lines.push_back(std::move(line));
    return chart;
}

const std::vector<Metric>& metrics() {
    using Point = const SweepPoint&;
    using Value = std::optional<double>;
    static const std::vector<Metric> all = {
        {"step_time_s", "step time, s", true,
         [](Point p) -> Value { return p.prediction.step.time_s; }, seconds_text},
        {"tokens_per_s", "tokens per second", false,
         [](Point p) -> Value { return p.prediction.throughput.tokens_per_s; }, plain},
        {"tokens_per_s_per_gpu", "tokens per second and GPU", false,
         [](Point p) -> Value { return p.prediction.throughput.tokens_per_s_per_gpu; }, plain},
        {"mfu", "MFU", false, [](Point p) -> Value { return p.prediction.throughput.mfu; },
         percent_text},
        {"peak_bytes", "memory of the fullest rank, bytes", true,
         [](Point p) -> Value {
             return static_cast<double>(p.prediction.memory.worst().peak_bytes);
         },
         bytes_text},
        {"days", "days of the run", true, [](Point p) -> Value { return p.prediction.run.days; },
         days_text},
        {"cost_usd", "cost of the run, USD", true,
         [](Point p) -> Value { return p.prediction.run.cost_usd; }, dollars},
        {"energy_mwh", "energy of the run, MWh", true,
         [](Point p) -> Value { return p.prediction.run.energy_mwh; }, plain},
    };
    return all;
}

std::string sweep_text(const Sweep& sweep, const Console& console) {
    std::vector<std::string> head;
    for (const Vary& vary : sweep.varies)
        head.push_back(short_key(vary.key));
    for (const char* name : {"step time", "90 % interval", "MFU", "tokens/s", "peak", "verdict"})
        head.emplace_back(name);
    const bool run =
        std::any_of(sweep.points.begin(), sweep.points.end(),
                    [](const SweepPoint& point) { return point.prediction.run.days.has_value(); });
    if (run) head.insert(head.end(), {"days", "cost"});
    if (sweep.searched)
        for (std::string& cell : layout_heads())
            head.push_back(std::move(cell));
    TextTable table(std::vector<Align>(head.size(), Align::right));
    table.add(std::move(head));
    std::string remarks;
    for (const SweepPoint& point : sweep.points) {
        std::vector<std::string> row = point.values;
        if (!sound(point)) {
            row.emplace_back("-");
            table.add(std::move(row));
            std::string where;
            for (std::size_t i = 0; i < point.values.size(); ++i)
                where +=
                    fmt::format("{}{}={}", i > 0 ? " " : "", sweep.varies[i].key, point.values[i]);
            remarks += fmt::format("  {}: {}\n", where, point.why);
            continue;
        }
        const sim::Prediction& prediction = point.prediction;
        row.push_back(seconds_text(prediction.step.time_s));
        row.push_back(fmt::format("{} to {}", seconds_text(prediction.step.low_s),
                                  seconds_text(prediction.step.high_s)));
        row.push_back(percent_text(prediction.throughput.mfu));
        row.push_back(digits_text(prediction.throughput.tokens_per_s));
        row.push_back(bytes_text(static_cast<double>(prediction.memory.worst().peak_bytes)));
        row.emplace_back(sim::name(prediction.memory.verdict));
        if (run) {
            row.push_back(prediction.run.days ? digits_text(*prediction.run.days) : "");
            row.push_back(prediction.run.cost_usd ? dollars(*prediction.run.cost_usd) : "");
        }
        if (sweep.searched)
            for (std::string& cell : layout_cells(point.scenario->layout))
                row.push_back(std::move(cell));
        table.add(std::move(row));
    }
    std::string text = console.bold(fmt::format(
                           "{} points of {}{}", sweep.points.size(), file_name(sweep.input.file),
                           sweep.searched ? ", the best layout at each" : "")) +
                       '\n' + table.text();
    if (!remarks.empty()) text += '\n' + console.bold("without a prediction") + '\n' + remarks;
    return text;
}

std::string sweep_json(const Sweep& sweep) {
    Json json;
    json["points"] = Json::array();
    for (const SweepPoint& point : sweep.points) {
        Json one;
        for (std::size_t i = 0; i < sweep.varies.size(); ++i)
            one["set"][sweep.varies[i].key] = value_json(point.values[i]);
        if (!sound(point)) {
            one["step_time_s"] = nullptr;
            one["why"] = point.why;
            one["errors"] = Json::array();
            for (const plan::Diagnostic& fault : point.errors)
                one["errors"].push_back({{"code", fault.code}, {"message", fault.message}});
            json["points"].push_back(std::move(one));
            continue;
        }
        const sim::Prediction& prediction = point.prediction;
        one["step_time_s"] = prediction.step.time_s;
        one["interval_s"] = {prediction.step.low_s, prediction.step.high_s};
        one["peak_bytes"] = prediction.memory.worst().peak_bytes;
        one["verdict"] = sim::name(prediction.memory.verdict);
        one["fit_probability"] = prediction.memory.fit_probability;
        one["mfu"] = prediction.throughput.mfu;
        one["tokens_per_s"] = prediction.throughput.tokens_per_s;
        one["tokens_per_s_per_gpu"] = prediction.throughput.tokens_per_s_per_gpu;
        one["gpus"] = prediction.run.gpus;
        one["days"] = or_null(prediction.run.days);
        one["cost_usd"] = or_null(prediction.run.cost_usd);
        one["energy_mwh"] = or_null(prediction.run.energy_mwh);
        if (sweep.searched) {
            one["layout"] = Json::parse(plan::layout_text(point.scenario->layout));
            one["layout_set"] = point.layout;
        }
        json["points"].push_back(std::move(one));
    }
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

namespace {

constexpr std::string_view kLastColumns = "interval_low_s,interval_high_s,verdict,why";

}  // namespace

std::string sweep_csv(const Sweep& sweep) {
    std::string text;
    for (const Vary& vary : sweep.varies)
        text += csv_cell(vary.key) + ',';
    for (const Metric& metric : metrics())
        text += std::string(metric.name) + ',';
    text += std::string(kLastColumns) + '\n';
    for (const SweepPoint& point : sweep.points) {
        for (const std::string& value : point.values)
            text += csv_cell(value) + ',';
        for (const Metric& metric : metrics()) {
            const std::optional<double> value =
                sound(point) ? metric.value(point) : std::optional<double>();
            text += (value ? fmt::format("{}", *value) : "") + ',';
        }
        if (sound(point))
            text += fmt::format("{},{},{},\n", point.prediction.step.low_s,
                                point.prediction.step.high_s,
                                sim::name(point.prediction.memory.verdict));
        else
            text += ",,," + csv_cell(point.why) + '\n';
    }
    return text;
}

bool is_sweep_csv(std::string_view text) {
    return text.substr(0, text.find('\n')).ends_with(kLastColumns);
}

std::string sweep_svg(const Sweep& sweep) {
    return sweep.varies.size() == 1 ? line_chart_svg(sweep_chart(sweep)) : map_svg(sweep);
}

}  // namespace orrery::cli
