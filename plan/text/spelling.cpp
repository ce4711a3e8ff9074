#include "plan/text/spelling.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace orrery::plan {
namespace {

constexpr std::array<std::string_view, 26> kKeywords = {
    "after",   "as",       "backward",  "block",     "bucket",     "chain",    "end",
    "forward", "none",     "nothing",   "optimizer", "order",      "phase",    "procedure",
    "program", "quantize", "quantized", "recompute", "recomputed", "resident", "reuse",
    "scratch", "stage",    "steps",     "unbound",   "with"};

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

bool is_bare_name(std::string_view name) {
    if (name.empty() || !is_letter(name.front())) return false;
    if (std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end()) return false;
    return std::all_of(name.begin(), name.end(),
                       [](char c) { return is_letter(c) || is_digit(c) || c == '.'; });
}

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

std::string spelled(std::string_view name) {
    return is_bare_name(name) ? std::string(name) : in_quotes(name);
}

std::vector<TensorReference> references_of(const std::vector<Tensor>& tensors) {
    std::map<std::string_view, std::set<Role>> roles;
    for (const Tensor& tensor : tensors)
        roles[tensor.name].insert(tensor.role);
    std::map<std::pair<std::string_view, Role>, std::int64_t> count;
    std::vector<TensorReference> references;
    references.reserve(tensors.size());
    for (const Tensor& tensor : tensors) {
        TensorReference reference{tensor.name, std::nullopt, ++count[{tensor.name, tensor.role}]};
        if (roles[tensor.name].size() > 1) reference.role = tensor.role;
        references.push_back(std::move(reference));
    }
    return references;
}

std::string to_text(const TensorReference& reference) {
    std::string text = spelled(reference.name);
    if (reference.role) text += ':' + std::string(name(*reference.role));
    if (reference.number > 1) text += '#' + std::to_string(reference.number);
    return text;
}

const BlockUse* use_like(const Procedure& procedure, const BlockUse& use) {
    for (const BlockUse& other : procedure.uses)
        if (other.block == use.block && other.layer == use.layer &&
            other.position == use.position && other.bucket == use.bucket)
            return &other;
    return nullptr;
}

Phase usual_phase(const Block& block) {
    std::array<std::size_t, kPhases> count{};
    for (const Op& op : block.ops)
        ++count[static_cast<std::size_t>(op.phase)];
    return static_cast<Phase>(std::max_element(count.begin(), count.end()) - count.begin());
}

UsualBindings::UsualBindings(const Plan& plan, const Program& program)
    : micro_batches_(plan.micro_batches), pipeline_(static_cast<std::int32_t>(plan.mesh.pipeline)) {
    const auto bytes_of = [&](std::int32_t block) -> std::int64_t {
        const auto b = static_cast<std::size_t>(block);
        if (b >= plan.blocks.size() || plan.blocks[b].ops.empty()) return 0;
        return message_bytes(plan.blocks[b].ops.front());
    };
    bytes_ = bytes_of(plan.exchange_block);
    for (const std::int32_t block : plan.statistics)
        statistic_bytes_.push_back(bytes_of(block));
    for (std::size_t i = 0; i < program.procedures.size(); ++i)
        procedures_.emplace(program.procedures[i].name, static_cast<std::int32_t>(i));
    for (std::size_t i = 0; i < program.residents.size(); ++i)
        residents_.emplace(program.residents[i].name, static_cast<std::int32_t>(i));
}

std::int32_t UsualBindings::find(const Index& index, const std::string& name) {
    const auto found = index.find(name);
    return found == index.end() ? -1 : found->second;
}

std::string UsualBindings::procedure_name(const Action& action) const {
    const std::string stage = ' ' + std::to_string(action.stage);
    switch (action.kind) {
        case ActionKind::forward:
            return "forward" + stage;
        case ActionKind::backward:
        case ActionKind::backward_input:
        case ActionKind::backward_weight: {
            const std::string last = action.micro_batch == micro_batches_ - 1 ? "last " : "";
            const char* half = action.kind == ActionKind::backward         ? ""
                               : action.kind == ActionKind::backward_input ? "_input"
                                                                           : "_weight";
            return last + "backward" + half + stage;
        }
        case ActionKind::reduce_grad:
            return "reduce" + stage;
        case ActionKind::reduce_tied:
            return "tied reduction";
        case ActionKind::unscale:
            return "unscale";
        case ActionKind::clip:
            return "clip";
        case ActionKind::offload:
            return "offload" + stage;
        case ActionKind::spill:
            return "spill" + stage;
        case ActionKind::load:
            return "load" + stage;
        case ActionKind::fetch:
            return "fetch" + stage;
        case ActionKind::sum:
            return "sum";
        case ActionKind::validate:
            return "validate";
        default:
            return "optimizer";
    }
}

Step UsualBindings::compute(const Action& action) const {
    Step step;
    step.action = action;
    step.procedure = find(procedures_, procedure_name(action));
    if (!is_compute(action.kind)) return step;
    auto of_action = [&](const char* what, ActionKind kind) {
        return find(residents_, what + to_text(Action{action.stage, kind, action.micro_batch}));
    };
    step.kept = of_action("kept ", ActionKind::forward);
    if (action.kind == ActionKind::backward_input || action.kind == ActionKind::backward_weight)
        step.deferred = of_action("deferred ", ActionKind::backward_input);
    if (action.kind == ActionKind::backward_weight) return step;
    step.stash = of_action("stash ", ActionKind::forward);
    step.output = of_action("sending ", action.kind);
    (action.kind == ActionKind::forward ? step.input : step.received) =
        of_action("received ", ActionKind::recv_f);
    if (action.kind != ActionKind::forward) step.input = of_action("received ", ActionKind::recv_b);
    return step;
}

Transfer UsualBindings::transfer(const Action& action) const {
    auto of_action = [&](const char* what, ActionKind kind) {
        return find(residents_, what + to_text(Action{action.stage, kind, action.micro_batch}));
    };
    Transfer transfer;
    transfer.action = action;
    transfer.peer =
        pipeline_ > 0
            ? (action.stage % pipeline_ + pipeline_ + hop_to_peer(action.kind)) % pipeline_
            : 0;
    transfer.bytes = bytes_;
    if (carries_statistic(action.kind)) {
        const auto number = static_cast<std::size_t>(action.micro_batch);
        transfer.bytes = number < statistic_bytes_.size() ? statistic_bytes_[number] : 0;
        const bool sum = action.kind == ActionKind::recv_sum;
        transfer.resident = find(residents_, (sum ? "sum handed on " : "sum over stages ") +
                                                 std::to_string(action.micro_batch));
        return transfer;
    }
    if (action.kind == ActionKind::send_f) {
        transfer.resident = of_action("sending ", ActionKind::forward);
    } else if (action.kind == ActionKind::send_b) {
        transfer.resident = of_action("sending ", ActionKind::backward);
        if (transfer.resident < 0)
            transfer.resident = of_action("sending ", ActionKind::backward_input);
    } else {
        transfer.resident = find(residents_, "received " + to_text(action));
    }
    return transfer;
}

}  // namespace orrery::plan
