#include "calib/compare/trace_differences.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/scenario/differing_keys.hpp"
#include "trace/joining.hpp"

namespace orrery::compare {
namespace {

using trace::OpName;
using trace::ProgramOps;
using trace::same_op;
using trace::Trace;

std::string op_text(const OpName& op) {
    std::string text = fmt::format("{} {} {}", op.block, plan::name(op.kind), op.label);
    return op.flops > 0 ? fmt::format("{}, {} FLOP", text, op.flops)
                        : fmt::format("{}, {} bytes", text, op.bytes);
}

void compare_number(const std::string& what, std::int64_t predicted, std::int64_t measured,
                    std::vector<std::string>& out) {
    if (predicted != measured)
        out.push_back(fmt::format("{}: predicted {}, measured {}", what, predicted, measured));
}

// Where two lists part.
void compare_actions(const std::string& rank, const ProgramOps& predicted,
                     const ProgramOps& measured, std::vector<std::string>& out) {
    const auto& a = predicted.actions;
    const auto& b = measured.actions;
    const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (in_a == a.end() && in_b == b.end()) return;
    out.push_back(fmt::format("{}: action {} of {}: predicted {}, measured {} of {}", rank,
                              in_a - a.begin(), a.size(),
                              in_a == a.end() ? "none" : trace::to_text(*in_a),
                              in_b == b.end() ? "none" : trace::to_text(*in_b), b.size()));
}

void compare_ops(const std::string& rank, const Trace& predicted, const Trace& measured,
                 std::size_t program, std::vector<std::string>& out) {
    const ProgramOps& a = predicted.programs[program];
    const ProgramOps& b = measured.programs[program];
    const std::size_t first_a = trace::first_of_last_step(a);
    const std::size_t first_b = trace::first_of_last_step(b);
    const std::size_t size = a.op.size() - first_a;
    compare_number(rank + ": ops", static_cast<std::int64_t>(size),
                   static_cast<std::int64_t>(b.op.size() - first_b), out);
    if (size != b.op.size() - first_b) return;
    std::size_t first = size;
    std::size_t unequal = 0;
    for (std::size_t i = size; i-- > 0;)
        if (!same_op(predicted.ops[a.op[first_a + i]], measured.ops[b.op[first_b + i]])) {
            first = i;
            ++unequal;
        }
    if (unequal > 0)
        out.push_back(fmt::format("{}: {} of {} ops differ, first op {}: predicted {}; measured {}",
                                  rank, unequal, size, first,
                                  op_text(predicted.ops[a.op[first_a + first]]),
                                  op_text(measured.ops[b.op[first_b + first]])));
}

// Every rank of the measured run has a track of its own.
void compare_ranks(const Trace& predicted, const Trace& measured, std::vector<std::string>& out) {
    std::int64_t ranks = 0;
    for (const trace::Track& track : predicted.tracks)
        ranks += track.represents();
    std::vector<std::int64_t> found;
    for (const trace::Track& track : measured.tracks)
        found.push_back(track.rank);
    std::sort(found.begin(), found.end());
    compare_number("ranks", ranks, static_cast<std::int64_t>(found.size()), out);
    for (std::size_t r = 0; r < found.size(); ++r) {
        if (found[r] == static_cast<std::int64_t>(r)) continue;
        out.push_back(fmt::format("measured rank {}: has no track of its own", r));
        break;
    }
}

std::vector<std::string> plan_differences(const Trace& predicted, const Trace& measured) {
    std::vector<std::string> out;
    compare_number("pipeline ranks", static_cast<std::int64_t>(predicted.programs.size()),
                   static_cast<std::int64_t>(measured.programs.size()), out);
    compare_ranks(predicted, measured, out);
    const std::size_t programs = std::min(predicted.programs.size(), measured.programs.size());
    for (std::size_t p = 0; p < programs; ++p) {
        const std::string rank = fmt::format("pipeline rank {}", p);
        compare_actions(rank, predicted.programs[p], measured.programs[p], out);
        compare_ops(rank, predicted, measured, p, out);
    }
    return out;
}

// Parts of a scenario that a plan follows from.
bool shapes_the_plan(const std::string& pointer) {
    constexpr std::array<std::string_view, 3> kParts = {"/model", "/layout", "/training"};
    return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
        return pointer == part || pointer.rfind(std::string(part) + '/', 0) == 0;
    });
}

// What programs other than ours wrote of the scenario is no matter: plans are compared op by op.
bool is_object(const std::string& text) {
    return nlohmann::json::parse(text, nullptr, false).is_object();
}

std::string or_none(const std::string& text) {
    return text.empty() ? "none" : text;
}

}  // namespace

std::vector<std::string> differences_of(const Trace& predicted, const Trace& measured) {
    std::vector<std::string> plans = plan_differences(predicted, measured);
    if (plans.empty()) return plans;
    std::vector<std::string> all;
    if (is_object(predicted.scenario_json) && is_object(measured.scenario_json))
        for (const plan::KeyDifference& key :
             plan::differing_keys(predicted.scenario_json, measured.scenario_json))
            if (shapes_the_plan(key.pointer))
                all.push_back(fmt::format("{}: predicted {}, measured {}", key.pointer,
                                          or_none(key.a), or_none(key.b)));
    all.insert(all.end(), plans.begin(), plans.end());
    return all;
}

}  // namespace orrery::compare
