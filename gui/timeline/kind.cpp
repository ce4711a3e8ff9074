#include "gui/timeline/kind.hpp"

#include <string_view>

#include "cli/report_sections.hpp"

namespace orrery::gui {

using trace::Account;
using trace::Paint;

namespace {

struct KindRow {
    Kind kind;
    Account account;  // that its time counts to
    bool waits;
    std::string_view text;  // empty: the account's own
};

// In the order of Kind. The first that waits of an account is what its waiting is shown as.
constexpr std::array<KindRow, kKinds> kRows = {{
    {Kind::forward, Account::compute, false, "forward"},
    {Kind::recompute, Account::recompute, false, ""},
    {Kind::backward, Account::compute, false, "backward"},
    {Kind::input_gradient, Account::compute, false, "input gradient"},
    {Kind::weight_gradient, Account::compute, false, "weight gradient"},
    {Kind::optimizer, Account::optimizer, false, ""},
    {Kind::exposed_tensor, Account::exposed_tensor, true, ""},
    {Kind::exposed_context, Account::exposed_context, true, ""},
    {Kind::exposed_expert, Account::exposed_expert, true, ""},
    {Kind::exposed_data, Account::exposed_data, true, ""},
    {Kind::exposed_pipeline, Account::exposed_pipeline, true, ""},
    {Kind::bubble, Account::bubble, true, ""},
    {Kind::imbalance, Account::imbalance, true, ""},
    {Kind::launch, Account::launch, true, ""},
    {Kind::other, Account::other, true, ""},
    {Kind::collective, Account::other, false, "collective"},
    {Kind::transfer, Account::other, false, "pipeline transfer"},
    {Kind::copy, Account::other, false, "copy between tiers of memory"},
    {Kind::host, Account::other, false, "host"},
    {Kind::idle, Account::other, true, "idle"},
    {Kind::half, Account::other, false, "half as long or less"},
    {Kind::shorter, Account::other, false, "shorter"},
    {Kind::little_shorter, Account::other, false, "a little shorter"},
    {Kind::as_long, Account::other, false, "as long"},
    {Kind::little_longer, Account::other, false, "a little longer"},
    {Kind::longer, Account::other, false, "longer"},
    {Kind::twice, Account::other, false, "twice as long or more"},
    {Kind::alone, Account::other, false, "in this step alone"},
}};

constexpr bool is_in_order() {
    for (std::size_t i = 0; i < kKinds; ++i)
        if (kRows[i].kind != static_cast<Kind>(i)) return false;
    return true;
}
static_assert(is_in_order());

const KindRow& row_of(Kind kind) {
    return kRows[static_cast<std::size_t>(kind)];
}

}  // namespace

Kind kind_of(Paint work) {
    switch (work) {
        case Paint::forward:
            return Kind::forward;
        case Paint::recompute:
            return Kind::recompute;
        case Paint::backward:
            return Kind::backward;
        case Paint::input:
            return Kind::input_gradient;
        case Paint::weight:
            return Kind::weight_gradient;
        case Paint::optimizer:
            return Kind::optimizer;
        case Paint::exposed:
        case Paint::bubble:
        case Paint::idle:
            break;
    }
    return Kind::other;
}

std::optional<Kind> waiting_kind(Account account) {
    for (const KindRow& row : kRows)
        if (row.waits && row.account == account) return row.kind;
    return std::nullopt;
}

Kind kind_of(const trace::OpName& op, Paint gradient) {
    if (op.kind == plan::OpKind::exchange) return Kind::transfer;
    if (plan::is_communication(op.kind)) return Kind::collective;
    if (plan::is_copy(op.kind)) return Kind::copy;
    switch (op.phase) {
        case plan::Phase::forward:
            return Kind::forward;
        case plan::Phase::backward:
            return kind_of(gradient);
        case plan::Phase::recompute:
            return Kind::recompute;
        case plan::Phase::optimizer:
            break;
    }
    return Kind::optimizer;
}

Account account_of(Kind kind) {
    return row_of(kind).account;
}

bool is_waiting(Kind kind) {
    return row_of(kind).waits;
}

Kind turned_round(Kind kind) {
    if (!is_difference(kind) || kind == Kind::alone) return kind;
    // From half as long to twice as long, the middle is as long.
    return static_cast<Kind>(2 * static_cast<int>(Kind::as_long) - static_cast<int>(kind));
}

bool is_empty(Kind kind) {
    return kind == Kind::bubble || kind == Kind::idle;
}

std::string text_of(Kind kind) {
    const KindRow& row = row_of(kind);
    return row.text.empty() ? cli::account_text(row.account) : std::string(row.text);
}

}  // namespace orrery::gui
