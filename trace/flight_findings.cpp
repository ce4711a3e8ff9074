#include "trace/flight_findings.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::trace {
namespace {

// Of these members may bring other sizes: what each sends to each, and what one root has.
bool sizes_may_differ(const std::string& op) {
    for (const char* part : {"all_to_all", "alltoall", "gather", "scatter"}) {
        const std::size_t at = op.find(part);
        if (at == std::string::npos) continue;
        const bool of_all = op.find("all_gather") != std::string::npos ||
                            op.find("allgather") != std::string::npos ||
                            op.find("reduce_scatter") != std::string::npos;
        return !of_all;
    }
    return false;
}

std::string tensors_text(const std::vector<std::string>& dtypes,
                         const std::vector<std::vector<std::int64_t>>& sizes) {
    std::string text;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bool again = i > 0 && i < dtypes.size() && dtypes[i] == dtypes[i - 1];
        text += text.empty() ? "" : ", ";
        if (i < dtypes.size() && !again) text += dtypes[i] + ' ';
        text += fmt::format("[{}]", fmt::join(sizes[i], ", "));
    }
    return text;
}

// What a rank recorded of one collective.
struct Called {
    std::vector<const FlightOp*> ops;  // several where they were issued as one
    bool ended() const {
        return std::all_of(ops.begin(), ops.end(),
                           [](const FlightOp* op) { return op->state == FlightState::completed; });
    }
};

// By number, what each rank called.
using Collectives = std::map<std::int64_t, std::map<std::int64_t, Called>>;

class HangFinder {
  public:
    explicit HangFinder(const std::vector<FlightDump>& dumps) : dumps_(dumps) {}

    FlightFindings run() {
        for (const FlightDump& dump : dumps_)
            take(dump);
        std::set<std::int64_t> without;
        for (const auto& [name, group] : out_.groups)
            for (const std::int64_t rank : group.ranks)
                if (dumped_.count(rank) == 0) without.insert(rank);
        out_.without_dump.assign(without.begin(), without.end());
        std::sort(out_.places.begin(), out_.places.end(),
                  [](const auto& a, const auto& b) { return a.rank < b.rank; });
        for (const auto& [group, collectives] : collectives_)
            find_in(group, collectives);
        suspect();
        return std::move(out_);
    }

  private:
    void take(const FlightDump& dump) {
        dumped_.insert(dump.rank);
        FlightPlace place;
        place.rank = dump.rank;
        place.file = dump.file;
        for (const auto& [name, group] : dump.groups)
            out_.groups.emplace(name, group);
        for (const FlightOp& op : dump.ops) {
            if (!place.waits_in && op.state != FlightState::completed) place.waits_in = op;
            place.last = op;
            if (!op.is_message) collectives_[op.group][op.seq][dump.rank].ops.push_back(&op);
        }
        out_.places.push_back(std::move(place));
    }

    // The last number that a rank has called in a group; nothing: none, as far as is recorded.
    static std::map<std::int64_t, std::int64_t> last_calls(const Collectives& collectives) {
        std::map<std::int64_t, std::int64_t> last;
        for (const auto& [seq, ranks] : collectives)
            for (const auto& [rank, called] : ranks)
                last[rank] = seq;
        return last;
    }

    // The first fault of each sort in a group: those after it follow from it.
    void find_in(const std::string& group, const Collectives& collectives) {
        const auto last = last_calls(collectives);
        std::set<FlightFault> found;
        for (const auto& [seq, ranks] : collectives) {
            FlightFinding finding;
            finding.group = group;
            finding.seq = seq;
            for (const auto& [rank, called] : ranks) {
                finding.calls[call_of(called.ops)].push_back(rank);
                (called.ended() ? finding.ended : finding.waiting).push_back(rank);
            }
            add_absent(group, last, finding);
            const std::optional<FlightFault> fault = fault_of(finding);
            if (!fault || !found.insert(*fault).second) continue;
            finding.fault = *fault;
            out_.findings.push_back(std::move(finding));
        }
    }

    void add_absent(const std::string& group, const std::map<std::int64_t, std::int64_t>& last,
                    FlightFinding& finding) const {
        const auto members = out_.groups.find(group);
        if (members == out_.groups.end()) return;
        for (const std::int64_t rank : members->second.ranks) {
            const auto own = last.find(rank);
            // A buffer holds the last ones alone: what is before them was called.
            if (dumped_.count(rank) == 0)
                finding.unknown.push_back(rank);
            else if (own == last.end() || own->second < finding.seq)
                finding.missing.push_back(rank);
        }
    }

    static std::optional<FlightFault> fault_of(const FlightFinding& finding) {
        std::set<std::string> ops;
        for (const auto& [call, ranks] : finding.calls)
            ops.insert(call.op);
        if (ops.size() > 1) return FlightFault::other_op;
        if (finding.calls.size() > 1 && !sizes_may_differ(*ops.begin()))
            return FlightFault::other_sizes;
        // Enqueued ahead of others is no fault where nobody waits.
        if (!finding.waiting.empty() && (!finding.missing.empty() || !finding.unknown.empty()))
            return FlightFault::missing;
        if (!finding.waiting.empty()) return FlightFault::not_ended;
        return std::nullopt;
    }

    void suspect() {
        std::set<std::int64_t> suspects;
        for (const FlightFinding& finding : out_.findings) {
            if (finding.fault != FlightFault::missing) continue;
            suspects.insert(finding.unknown.begin(), finding.unknown.end());
            for (const std::int64_t rank : finding.missing)
                if (!waits(rank)) suspects.insert(rank);
        }
        for (const FlightFinding& finding : out_.findings) {
            const bool differs =
                finding.fault == FlightFault::other_op || finding.fault == FlightFault::other_sizes;
            if (!suspects.empty() || !differs) continue;
            const auto most = std::max_element(
                finding.calls.begin(), finding.calls.end(),
                [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
            for (const auto& [call, ranks] : finding.calls)
                if (ranks.size() < most->second.size()) suspects.insert(ranks.begin(), ranks.end());
        }
        out_.suspects.assign(suspects.begin(), suspects.end());
    }

    bool waits(std::int64_t rank) const {
        const auto place = std::find_if(out_.places.begin(), out_.places.end(),
                                        [&](const FlightPlace& one) { return one.rank == rank; });
        return place != out_.places.end() && place->waits_in.has_value();
    }

    const std::vector<FlightDump>& dumps_;
    std::set<std::int64_t> dumped_;
    std::map<std::string, Collectives> collectives_;  // by group
    FlightFindings out_;
};

}  // namespace

std::string_view name(FlightState state) {
    constexpr std::array<std::string_view, 3> kStates = {"scheduled", "started", "completed"};
    return kStates[static_cast<std::size_t>(state)];
}

std::string_view name(FlightFault fault) {
    constexpr std::array<std::string_view, 4> kFindings = {"missing", "other_op", "other_sizes",
                                                           "not_ended"};
    return kFindings[static_cast<std::size_t>(fault)];
}

FlightCall call_of(const std::vector<const FlightOp*>& ops) {
    FlightCall call;
    for (const FlightOp* op : ops) {
        call.op += (call.op.empty() ? "" : ", ") + op->name;
        call.sizes += (call.sizes.empty() ? "" : "; ") +
                      tensors_text(op->input_dtypes, op->input_sizes) + " -> " +
                      tensors_text(op->output_dtypes, op->output_sizes);
    }
    return call;
}

FlightFindings find_hang(const std::vector<FlightDump>& dumps) {
    return HangFinder(dumps).run();
}

}  // namespace orrery::trace
