#include "runtime/comm/call.hpp"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::runtime {
namespace {

constexpr std::array<std::string_view, 7> kNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier", "exchange"};

}  // namespace

bool same_call(const Call& a, const Call& b) {
    return a.operation == b.operation && a.dtype == b.dtype && a.elements == b.elements &&
           a.root == b.root && a.reduction == b.reduction;
}

std::string purpose(std::string_view label) {
    return label.empty() ? std::string() : fmt::format(" for \"{}\"", label);
}

std::string describe(const Call& call) {
    std::string text(kNames[static_cast<std::size_t>(call.operation)]);
    if (call.operation == Operation::exchange)
        text += fmt::format(" of {} transfer{}", call.elements, call.elements == 1 ? "" : "s");
    else if (call.operation != Operation::barrier)
        text += fmt::format(" of {} {}", call.elements, plan::name(call.dtype));
    if (call.operation == Operation::broadcast) text += fmt::format(" from member {}", call.root);
    if (call.reduction == Reduction::max) text += " (max)";
    return text + purpose(call.label);
}

std::string describe(const Call& call, std::span<const plan::Rank> members) {
    return fmt::format("{} in its {} group (ranks {})", describe(call), plan::name(call.group),
                       fmt::join(members, " "));
}

}  // namespace orrery::runtime
