// orrery hang: where a job of PyTorch hangs, from the flight recorders of its ranks.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv_output.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/subcommand.hpp"
#include "cli/text_table.hpp"
#include "plan/exit_code.hpp"
#include "trace/flight_findings.hpp"
#include "trace/formats/flight_dump.hpp"

namespace orrery::cli {
namespace {

using HangJson = nlohmann::ordered_json;
using trace::FlightFault;
using trace::FlightFinding;
using trace::FlightFindings;

constexpr std::size_t kMostPlaces = 16;

// "0-3, 7": ascending.
std::string rank_ranges(const std::vector<std::int64_t>& ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
            ++end;
        text += text.empty() ? "" : ", ";
        text +=
            end - i > 2 ? fmt::format("{}-{}", ranks[i], ranks[end - 1]) : std::to_string(ranks[i]);
        i = end - i > 2 ? end : i + 1;
    }
    return text;
}

std::string ranks_text(const std::vector<std::int64_t>& ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + rank_ranges(ranks);
}

class Hang : public Subcommand {
  public:
    std::string name() const override { return "hang"; }
    std::string summary() const override {
        return "Say where a job of PyTorch hangs, from its NCCL flight recorders";
    }
    std::vector<std::string> examples() const override {
        return {"hang nccl_trace_rank_*.json", "hang nccl_trace_rank_*.json --json"};
    }

    void declare(CLI::App& app) override {
        files().reads(app.add_option("FILES", dumps_,
                                     "Dumps of PyTorch's flight recorder as JSON, one a rank")
                          ->required()
                          ->option_text(" "));
        app.add_flag("--json", json_, "Print one JSON object");
        csv_.declare(app, files(),
                     {{"summary", "", "suspects,without_dump", true},
                      {"findings", "/findings", "fault,group"},
                      {"calls", "/findings/*/calls", "group,op,sizes"},
                      {"ranks", "/ranks", "rank,file"}});
    }

    bool prints_json() const override { return json_; }

    int run(Console& console) override {
        std::vector<trace::FlightDump> dumps;
        std::map<std::int64_t, std::string> file_of;
        for (const std::string& file : dumps_) {
            dumps.push_back(trace::read_flight_dump(file));
            const auto [other, is_new] = file_of.emplace(dumps.back().rank, file);
            if (!is_new)
                throw UsageError(fmt::format("{} and {} are both of rank {}", other->second, file,
                                             dumps.back().rank));
        }
        const FlightFindings findings = trace::find_hang(dumps);
        console.out << (json_ ? json_of(findings) : text_of(findings, console));
        csv_.write([&] { return json_of(findings); });
        return kExitOk;
    }

  private:
    static std::string group_text(const FlightFindings& all, const std::string& group) {
        const auto found = all.groups.find(group);
        if (found == all.groups.end()) return fmt::format("group {}", group);
        const std::string& description = found->second.description;
        return fmt::format("group {}{} ({})", group, description.empty() ? "" : " " + description,
                           ranks_text(found->second.ranks));
    }

    static std::string text_of(const FlightFindings& all, const Console& console) {
        std::string text = console.bold(headline(all)) + '\n';
        text += labelled("dumps", fmt::format("{} of {} ranks", all.places.size(),
                                              all.places.size() + all.without_dump.size()));
        if (!all.without_dump.empty())
            text += labelled("without one", ranks_text(all.without_dump) +
                                                ": ended before the others, or wrote it elsewhere");
        for (const FlightFinding& finding : all.findings)
            text += finding_text(all, finding, console);
        return text + places_text(all, console);
    }

    static std::string headline(const FlightFindings& all) {
        if (all.findings.empty()) return "no rank waits for another in any collective";
        if (all.suspects.empty())
            return "ranks wait, and none of them alone is at fault: a link, a device, or an order "
                   "of groups that differs";
        return fmt::format("{} {} for", ranks_text(all.suspects),
                           all.suspects.size() == 1 ? "is waited" : "are waited");
    }

    static std::string finding_text(const FlightFindings& all, const FlightFinding& finding,
                                    const Console& console) {
        std::string text = heading(fmt::format("{}, collective {}", group_text(all, finding.group),
                                               whole_text(finding.seq)),
                                   console);
        text += labelled("what", sentence(finding));
        for (const auto& [call, ranks] : finding.calls)
            text += labelled("called",
                             fmt::format("{}  {}  by {}", call.op, call.sizes, ranks_text(ranks)));
        if (!finding.missing.empty()) text += labelled("not there", ranks_text(finding.missing));
        if (!finding.unknown.empty()) text += labelled("not known", ranks_text(finding.unknown));
        if (!finding.waiting.empty()) text += labelled("waiting", ranks_text(finding.waiting));
        if (!finding.ended.empty()) text += labelled("ended on", ranks_text(finding.ended));
        return text;
    }

    static std::string sentence(const FlightFinding& finding) {
        switch (finding.fault) {
            case FlightFault::missing:
                return "some ranks wait in it, and others have not called it";
            case FlightFault::other_op:
                return "ranks called different ops as the same collective";
            case FlightFault::other_sizes:
                return "ranks called it with sizes or types that do not go together";
            case FlightFault::not_ended:
                break;
        }
        return "all ranks called it alike, and it has not ended on all of them";
    }

    static std::string op_text(const trace::FlightOp& op) {
        const trace::FlightCall call = trace::call_of({&op});
        return fmt::format("{} {} of group {}: {}  {}", op.is_message ? "message" : "collective",
                           whole_text(op.seq), op.group, call.op, call.sizes);
    }

    static std::string places_text(const FlightFindings& all, const Console& console) {
        TextTable table({Align::right, Align::left, Align::left});
        std::size_t shown = 0;
        for (const trace::FlightPlace& place : all.places) {
            if (shown++ == kMostPlaces) break;
            if (place.waits_in)
                table.add({std::to_string(place.rank), "waits in", op_text(*place.waits_in)});
            else if (place.last)
                table.add({std::to_string(place.rank), "has ended", op_text(*place.last)});
            else
                table.add({std::to_string(place.rank), "-", "no op is recorded"});
        }
        std::string text = heading("where each rank is", console) + table.text();
        if (all.places.size() > kMostPlaces)
            text +=
                fmt::format("  … and {} more: --json has all\n", all.places.size() - kMostPlaces);
        return text;
    }

    static HangJson op_json(const std::optional<trace::FlightOp>& op) {
        if (!op) return nullptr;
        return {{"group", op->group},
                {"seq", op->seq},
                {"message", op->is_message},
                {"op", op->name},
                {"state", trace::name(op->state)},
                {"input_sizes", op->input_sizes},
                {"output_sizes", op->output_sizes},
                {"input_dtypes", op->input_dtypes},
                {"output_dtypes", op->output_dtypes}};
    }

    static std::string json_of(const FlightFindings& all) {
        HangJson json = {{"suspects", all.suspects},
                         {"without_dump", all.without_dump},
                         {"findings", HangJson::array()},
                         {"ranks", HangJson::array()}};
        for (const FlightFinding& finding : all.findings) {
            HangJson calls = HangJson::array();
            for (const auto& [call, ranks] : finding.calls)
                calls.push_back({{"op", call.op}, {"sizes", call.sizes}, {"ranks", ranks}});
            const auto group = all.groups.find(finding.group);
            const bool known = group != all.groups.end();
            json["findings"].push_back(
                {{"fault", trace::name(finding.fault)},
                 {"group", finding.group},
                 {"description", known ? group->second.description : ""},
                 {"members", known ? HangJson(group->second.ranks) : HangJson(nullptr)},
                 {"seq", finding.seq},
                 {"calls", std::move(calls)},
                 {"waiting", finding.waiting},
                 {"ended", finding.ended},
                 {"missing", finding.missing},
                 {"unknown", finding.unknown}});
        }
        for (const trace::FlightPlace& place : all.places)
            json["ranks"].push_back({{"rank", place.rank},
                                     {"file", place.file},
                                     {"waits_in", op_json(place.waits_in)},
                                     {"last", op_json(place.last)}});
        return json.dump(2, ' ', false, HangJson::error_handler_t::replace) + '\n';
    }

    std::vector<std::string> dumps_;
    CsvOutput csv_;
    bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> hang_command() {
    return std::make_unique<Hang>();
}

}  // namespace orrery::cli
