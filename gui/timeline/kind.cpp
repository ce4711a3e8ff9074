#include "gui/timeline/kind.hpp"

#include "cli/report_sections.hpp"

namespace orrery::gui {

using trace::Account;
using trace::Paint;

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
    switch (account) {
        case Account::compute:
        case Account::recompute:
        case Account::optimizer:
            return std::nullopt;
        case Account::exposed_tensor:
            return Kind::exposed_tensor;
        case Account::exposed_context:
            return Kind::exposed_context;
        case Account::exposed_expert:
            return Kind::exposed_expert;
        case Account::exposed_data:
            return Kind::exposed_data;
        case Account::exposed_pipeline:
            return Kind::exposed_pipeline;
        case Account::bubble:
            return Kind::bubble;
        case Account::imbalance:
            return Kind::imbalance;
        case Account::launch:
            return Kind::launch;
        case Account::other:
            break;
    }
    return Kind::other;
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
    switch (kind) {
        case Kind::forward:
        case Kind::backward:
        case Kind::input_gradient:
        case Kind::weight_gradient:
            return Account::compute;
        case Kind::recompute:
            return Account::recompute;
        case Kind::optimizer:
            return Account::optimizer;
        case Kind::exposed_tensor:
            return Account::exposed_tensor;
        case Kind::exposed_context:
            return Account::exposed_context;
        case Kind::exposed_expert:
            return Account::exposed_expert;
        case Kind::exposed_data:
            return Account::exposed_data;
        case Kind::exposed_pipeline:
            return Account::exposed_pipeline;
        case Kind::bubble:
            return Account::bubble;
        case Kind::imbalance:
            return Account::imbalance;
        case Kind::launch:
            return Account::launch;
        case Kind::other:
        case Kind::collective:
        case Kind::transfer:
        case Kind::copy:
            break;
    }
    return Account::other;
}

bool is_waiting(Kind kind) {
    return kind >= Kind::exposed_tensor && kind <= Kind::other;
}

std::string text_of(Kind kind) {
    switch (kind) {
        case Kind::forward:
            return "forward";
        case Kind::backward:
            return "backward";
        case Kind::input_gradient:
            return "input gradient";
        case Kind::weight_gradient:
            return "weight gradient";
        case Kind::collective:
            return "collective";
        case Kind::transfer:
            return "pipeline transfer";
        case Kind::copy:
            return "copy between tiers of memory";
        default:
            return cli::account_text(account_of(kind));
    }
}

}  // namespace orrery::gui
