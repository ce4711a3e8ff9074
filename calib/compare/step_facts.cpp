#include "calib/compare/step_facts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "trace/recorded_inputs.hpp"

namespace orrery::compare {
namespace {

using trace::elements_of;
using trace::Inputs;
using trace::inputs_of;
using trace::kNoSpan;
using trace::RecordedArguments;
using trace::RecordedKind;
using trace::RecordedProcess;
using trace::RecordedSpan;
using trace::RecordedTrace;
using trace::tensors_of;

std::int64_t rows_before_last(const Dims& dims) {
    return std::accumulate(dims.begin(), dims.end() - 1, std::int64_t{1}, std::multiplies<>());
}

// What an operator of PyTorch is, by parts of its name; the first that fits decides. Of operators
// that call each other the outermost counts: aten::linear says that it is forward work, and the
// aten::mm that it calls does not.
enum class Role : std::uint8_t {
    none,
    linear,
    matmul,
    product,
    batched,
    attention,
    norm,
    root,  // of which a norm of single operations has one
    lookup,
    activation,
    loss,
    softmax,
    dropout,
    rotary,
    experts,
    message,
    gradient_norm,
    accumulate,
    step
};

struct RoleRule {
    std::string_view text;
    Role role;
};
constexpr std::array kRoles = {
    RoleRule{"_c10d_functional", Role::none},  // c10d's own operator within says more
    RoleRule{"c10d_functional", Role::none},
    RoleRule{"evaluate_function", Role::none},
    RoleRule{"copy_bucket_to_grad", Role::none},
    RoleRule{"attention", Role::attention},
    RoleRule{"flash_attn", Role::attention},
    RoleRule{"grouped_mm", Role::experts},
    RoleRule{"aten::topk", Role::experts},
    RoleRule{"aten::linear", Role::linear},
    RoleRule{"aten::matmul", Role::matmul},
    RoleRule{"aten::addmm", Role::product},
    RoleRule{"aten::baddbmm", Role::batched},
    RoleRule{"aten::bmm", Role::batched},
    RoleRule{"aten::mm", Role::product},
    RoleRule{"aten::_scaled_mm", Role::product},
    RoleRule{"layer_norm", Role::norm},
    RoleRule{"rms_norm", Role::norm},
    RoleRule{"aten::rsqrt", Role::root},
    RoleRule{"aten::embedding", Role::lookup},
    RoleRule{"gelu", Role::activation},
    RoleRule{"silu", Role::activation},
    RoleRule{"aten::relu", Role::activation},
    RoleRule{"cross_entropy", Role::loss},
    RoleRule{"log_softmax", Role::loss},
    RoleRule{"softmax", Role::softmax},
    RoleRule{"aten::dropout", Role::dropout},
    RoleRule{"native_dropout", Role::dropout},
    RoleRule{"rotary", Role::rotary},
    RoleRule{"rope", Role::rotary},
    RoleRule{"aten::view_as_complex", Role::rotary},
    RoleRule{"aten::neg", Role::rotary},  // a half of each head, before it is turned
    RoleRule{"_foreach_norm", Role::gradient_norm},
    RoleRule{"linalg_vector_norm", Role::gradient_norm},
    RoleRule{"AccumulateGrad", Role::accumulate},
    RoleRule{"aten::_fused_adam", Role::step},
};

Role role_of(std::string_view name) {
    const auto found = std::find_if(kRoles.begin(), kRoles.end(), [&](const RoleRule& rule) {
        return name.find(rule.text) != std::string_view::npos;
    });
    if (found != kRoles.end()) return found->role;
    return is_communication(kind_of_name(name, false)) ? Role::message : Role::none;
}

ActivationWord activation_named(std::string_view name) {
    if (name.find("gelu") != std::string_view::npos) return ActivationWord::gelu;
    if (name.find("silu") != std::string_view::npos) return ActivationWord::silu;
    if (name.find("swiglu") != std::string_view::npos) return ActivationWord::silu;
    if (name.find("relu") != std::string_view::npos) return ActivationWord::relu;
    return ActivationWord::unknown;
}

bool says_backward(std::string_view name) {
    return name.find("backward") != std::string_view::npos ||
           name.find("Backward") != std::string_view::npos ||
           name.find("bwd") != std::string_view::npos;
}

constexpr std::string_view kOptimizerStep = "Optimizer.step#";

class Gatherer {
  public:
    Gatherer(const RecordedTrace& trace, const RecordedRank& rank, StepFacts& out)
        : trace_(trace),
          // Where no step is named, work began before the first kernel ran.
          step_(rank.steps_named ? rank.steps[rank.typical] : RecordedWindow{0, trace.end + 1}),
          out_(out),
          inputs_(trace.arguments.size()) {
        roles_.reserve(trace.names.size());
        for (const std::string& name : trace.names) {
            roles_.push_back(role_of(name));
            backward_.push_back(says_backward(name));
        }
    }

    void run(const RecordedRank& rank) {
        for (const RecordedProcess& process : trace_.processes)
            if (!process.is_device || is_of_ops(process)) take_ops(process);
        if (!any_message_) take_named_messages();
        if (!any_work_) take_kernels(rank);
        if (!any_message_) take_kernel_messages();
        std::stable_sort(out_.facts.begin(), out_.facts.end(),
                         [](const StepFact& a, const StepFact& b) { return a.at < b.at; });
        say_dtype();
    }

  private:
    // A device's spans that are ops of a plan say as much as operators.
    bool is_of_ops(const RecordedProcess& process) const {
        return std::any_of(process.arguments.begin(), process.arguments.end(), [&](auto number) {
            return number != kNoSpan && trace_.arguments[number].op_kind.has_value();
        });
    }

    struct Open {
        trace::Picoseconds end;
        Role role;
        std::size_t fact;  // into facts
    };

    void take_ops(const RecordedProcess& process) {
        std::vector<std::vector<Open>> open(process.lanes.size());
        for (std::uint32_t i = 0; i < process.spans.size(); ++i) {
            const RecordedSpan& span = process.spans[i];
            if (span.start < step_.start || span.start >= step_.end) continue;
            if (trace_.names[span.name].starts_with(kOptimizerStep)) say_optimizer(span);
            out_.has_backward = out_.has_backward || span.phase == plan::Phase::backward;
            const RecordedArguments* arguments = arguments_of(process, i);
            if (arguments != nullptr && arguments->op_kind) {
                take_planned(span, *arguments, *arguments->op_kind, number_of(process, i));
                continue;
            }
            if (span.kind != RecordedKind::op && !process.is_device) continue;
            std::vector<Open>& lane = open[span.lane];
            while (!lane.empty() && lane.back().end <= span.start)
                lane.pop_back();
            Role role = roles_[span.name];
            // What c10d records beside its operator.
            if (role == Role::none && arguments != nullptr && !arguments->collective.empty())
                role = Role::message;
            if (!lane.empty()) {
                within(lane.back(), span, role, process, i);
                continue;
            }
            if (role == Role::none) continue;
            const std::size_t before = out_.facts.size();
            take(span, role, process, i);
            if (out_.facts.size() == before) continue;  // it said nothing: what it calls may
            lane.push_back({span.end, role, before});
        }
    }

    // Of what an operator calls that counts: the sizes of its message, and how attention is made.
    void within(const Open& around, const RecordedSpan& span, Role role,
                const RecordedProcess& process, std::uint32_t i) {
        if (around.role == Role::attention && role == Role::softmax && !out_.facts.empty())
            if (auto* attention = std::get_if<AttentionFact>(&out_.facts.back().what))
                attention->fused = false;
        What& what = out_.facts[around.fact].what;
        // A distributed tensor's operator names the whole, and the one that it calls the share.
        if (auto* product = std::get_if<ProductFact>(&what);
            product != nullptr && role == Role::product) {
            const RecordedArguments* arguments = arguments_of(process, i);
            const auto shape = arguments == nullptr
                                   ? std::nullopt
                                   : product_shape(trace_.names[span.name], arguments->input_dims);
            if (shape && shape->batch == 1) product->shape = *shape;
        }
        if (role != Role::message || !std::holds_alternative<MessageFact>(what)) return;
        MessageFact inner = message(span, process, i);
        auto& outer = std::get<MessageFact>(what);
        if (outer.elements < 0) outer.elements = inner.elements;
        if (outer.bytes < 0) outer.bytes = inner.bytes;
        if (outer.group == 0) outer.group = inner.group;
    }

    std::uint32_t number_of(const RecordedProcess& process, std::uint32_t span) const {
        return process.arguments.empty() ? kNoSpan : process.arguments[span];
    }
    const RecordedArguments* arguments_of(const RecordedProcess& process,
                                          std::uint32_t span) const {
        const std::uint32_t number = number_of(process, span);
        return number == kNoSpan ? nullptr : &trace_.arguments[number];
    }
    const Inputs& inputs(std::uint32_t number) {
        static const Inputs kEmpty;
        if (number == kNoSpan) return kEmpty;
        if (!inputs_[number]) inputs_[number] = inputs_of(trace_.arguments[number].input_dims);
        return *inputs_[number];
    }

    void say_optimizer(const RecordedSpan& span) {
        const std::string_view name =
            std::string_view(trace_.names[span.name]).substr(kOptimizerStep.size());
        out_.optimizer = name.substr(0, name.find('.'));
    }

    void add(const RecordedSpan& span, plan::Phase phase, What what) {
        out_.facts.push_back({span.start, phase, std::move(what)});
    }

    // Forward work that is issued within backward is done again.
    static plan::Phase forward_or_again(const RecordedSpan& span) {
        return span.phase == plan::Phase::backward ? plan::Phase::recompute : span.phase;
    }
    plan::Phase phase_by_name(const RecordedSpan& span) const {
        if (span.phase == plan::Phase::optimizer) return span.phase;
        return backward_[span.name] ? plan::Phase::backward : forward_or_again(span);
    }

    void take(const RecordedSpan& span, Role role, const RecordedProcess& process,
              std::uint32_t i) {
        const std::uint32_t number = number_of(process, i);
        const Inputs& all = inputs(number);
        const std::vector<Dims> tensors = tensors_of(all);
        switch (role) {
            case Role::linear:
            case Role::matmul:
            case Role::product:
                return take_product(span, role, tensors, number);
            case Role::batched:
                any_work_ = true;
                if (!tensors.empty() && !tensors.back().empty()) last_batched_ = tensors;
                return;
            case Role::attention:
                return take_attention(span, all);
            case Role::norm:
                if (tensors.empty() || tensors[0].empty()) return;
                if (backward_[span.name]) return;
                return add(span, phase_by_name(span),
                           NormFact{rows_before_last(tensors[0]), tensors[0].back(),
                                    trace_.names[span.name].find("rms") != std::string::npos});
            case Role::root:
                // x · rsqrt(mean(x²) + ε): over the last dimension, of which one is left.
                if (tensors.empty() || tensors[0].size() < 2 || tensors[0].back() != 1) return;
                return add(span, phase_by_name(span),
                           NormFact{rows_before_last(tensors[0]), 0, true});
            case Role::lookup:
                return take_lookup(span, tensors);
            case Role::activation: {
                if (backward_[span.name] || tensors.empty()) return;
                const std::int64_t width = tensors[0].back();
                const bool gates = trace_.names[span.name].find("swiglu") != std::string::npos;
                return add(span, phase_by_name(span),
                           ActivationFact{activation_named(trace_.names[span.name]), width,
                                          gates ? width / 2 : width});
            }
            case Role::loss:
                if (backward_[span.name] || tensors.empty() || tensors[0].size() < 2) return;
                return add(span, phase_by_name(span),
                           LossFact{rows_before_last(tensors[0]), tensors[0].back()});
            case Role::softmax:
                return take_softmax(span, tensors);
            case Role::dropout:
                return add(span, phase_by_name(span), SignFact{Sign::dropout});
            case Role::rotary:
                if (tensors.empty() || tensors[0].size() < 3) return;
                return add(span, phase_by_name(span), SignFact{Sign::rotary});
            case Role::experts:
                return add(span, phase_by_name(span), SignFact{Sign::experts});
            case Role::gradient_norm:
                if (tensors.empty() || span.phase == plan::Phase::backward) return;
                return add(span, span.phase, SignFact{Sign::gradient_norm});
            case Role::accumulate:
                for (const Dims& dims : tensors)
                    add(span, plan::Phase::backward, ParameterFact{dims});
                return;
            case Role::step:
                if (all.empty()) return;
                for (const Dims& dims : all[0])
                    add(span, plan::Phase::optimizer, ParameterFact{dims});
                return;
            case Role::message:
                any_message_ = true;
                return add(span, span.phase, message(span, process, i));
            case Role::none:
                return;
        }
    }

    void take_product(const RecordedSpan& span, Role role, const std::vector<Dims>& tensors,
                      std::uint32_t number) {
        any_work_ = true;
        const std::string& name = trace_.names[span.name];
        ProductFact fact;
        fact.eight_bit = name.find("_scaled_mm") != std::string::npos;
        if (role == Role::matmul) {
            // Of a matrix of weights; else what it calls says what it is.
            if (tensors.size() < 2 || tensors[1].size() != 2 || tensors[0].empty()) return;
            if (tensors[0].back() != tensors[1][0]) return;
            fact.shape = {rows_before_last(tensors[0]), tensors[1][1], tensors[1][0]};
        } else {
            if (number == kNoSpan) {
                // Sizes are not recorded; that it ran is.
                return add(span, role == Role::linear ? forward_or_again(span) : span.phase, fact);
            }
            const RecordedArguments& arguments = trace_.arguments[number];
            const auto shape =
                product_shape(arguments.op.empty() ? name : arguments.op, arguments.input_dims);
            if (!shape) return;
            fact.shape = *shape;
            const bool adds = name.find("addmm") != std::string::npos;
            fact.bias = adds || (role == Role::linear && tensors.size() > 2);
            if (adds) role = Role::linear;  // autograd's own products add nothing
        }
        note_type(number);
        add(span, role == Role::product ? span.phase : forward_or_again(span), fact);
    }

    // Queries first, then keys: [batch, heads, tokens, head] of PyTorch's own front, else
    // [batch, tokens, heads, head].
    void take_attention(const RecordedSpan& span, const Inputs& all) {
        any_work_ = true;
        if (backward_[span.name]) return;
        AttentionFact fact;
        const std::string& name = trace_.names[span.name];
        if (all.size() >= 2 && !all[0].empty() && !all[1].empty()) {
            const Dims &q = all[0][0], &k = all[1][0];
            if (q.size() < 3 || k.size() != q.size()) return;
            const bool heads_first = name.find("scaled_dot_product") != std::string::npos;
            const std::size_t last = q.size() - 1;
            fact.head_dim = q[last];
            const std::size_t heads = heads_first ? last - 2 : last - 1,
                              tokens = heads_first ? last - 1 : last - 2;
            fact.heads = q[heads];
            fact.kv_heads = k[heads];
            fact.tokens = q[tokens];
            fact.batch = q.size() > 3 ? q[0] : 1;
        } else if (kind_of_name(name, false) != WorkKind::attention || !all.empty()) {
            return;  // a module of this name, which calls the operator
        }
        add(span, phase_by_name(span), fact);
    }

    // Of scores: attention in single operations.
    void take_softmax(const RecordedSpan& span, const std::vector<Dims>& tensors) {
        if (backward_[span.name] || tensors.empty() || last_batched_.empty()) return;
        const Dims& scores = tensors[0];
        if (scores.size() < 3 || scores.back() != scores[scores.size() - 2]) return;
        AttentionFact fact;
        fact.fused = false;
        fact.tokens = scores.back();
        fact.heads = fact.kv_heads = scores.size() > 3 ? scores[1] : 0;
        fact.batch = scores.size() > 3 ? scores[0] : 0;
        fact.head_dim = last_batched_.front().back();
        if (scores.size() == 3) fact.batch = -scores[0];  // sequences × heads, not told apart
        add(span, phase_by_name(span), fact);
    }

    void take_lookup(const RecordedSpan& span, const std::vector<Dims>& tensors) {
        if (backward_[span.name] || tensors.size() < 2 || tensors[0].size() != 2) return;
        const Dims& numbers = tensors[1];
        LookupFact fact;
        fact.table_rows = tensors[0][0];
        fact.width = tensors[0][1];
        fact.looked_up = static_cast<std::int64_t>(elements_of({numbers}));
        fact.sequences = numbers.size() > 1 ? numbers[0] : 0;
        add(span, phase_by_name(span), fact);
    }

    MessageFact message(const RecordedSpan& span, const RecordedProcess& process, std::uint32_t i) {
        const std::string& name = trace_.names[span.name];
        const RecordedArguments* arguments = arguments_of(process, i);
        MessageFact fact;
        fact.kind = kind_of_name(name, false);
        fact.receives = name.find("recv") != std::string::npos;
        if (arguments == nullptr) return fact;
        if (!is_communication(fact.kind)) {
            fact.kind = kind_of_name(arguments->collective, false);
            fact.receives = arguments->collective.find("recv") != std::string::npos;
        }
        const MessageSize size = message_size(fact.kind, *arguments);
        fact.elements = size.elements;
        fact.group = size.group;
        return fact;
    }

    // Gloo's own threads, of which PyTorch says what they do as ranges.
    void take_named_messages() {
        for (const RecordedProcess& process : trace_.processes)
            for (std::uint32_t i = 0; i < process.spans.size(); ++i) {
                const RecordedSpan& span = process.spans[i];
                const std::string& name = trace_.names[span.name];
                if (process.is_device || span.start < step_.start || span.start >= step_.end)
                    continue;
                if (!name.starts_with("gloo:") && !name.starts_with("nccl:")) continue;
                if (!is_communication(kind_of_name(name, false))) continue;
                any_message_ = true;
                add(span, span.phase, message(span, process, i));
            }
    }

    void take_kernels(const RecordedRank& rank) {
        for (const WorkItem& item : rank.work) {
            RecordedSpan span;
            span.start = item.start;
            if (item.kind == WorkKind::gemm)
                add(span, item.phase, ProductFact{item.product.value_or(ProductShape{}), false});
            if (item.kind == WorkKind::attention) add(span, item.phase, AttentionFact{});
            out_.has_backward = out_.has_backward || item.phase == plan::Phase::backward ||
                                item.kind == WorkKind::attention_backward;
        }
    }

    // Of kernels, at the time at which the host launched them, as operators are.
    void take_kernel_messages() {
        for (const RecordedProcess& process : trace_.processes)
            for (std::uint32_t i = 0; process.is_device && i < process.spans.size(); ++i) {
                const RecordedSpan& kernel = process.spans[i];
                const WorkKind kind = kind_of_name(trace_.names[kernel.name], true);
                if (!is_communication(kind)) continue;
                RecordedSpan issued = kernel;
                if (kernel.partner_process != kNoSpan)
                    issued.start =
                        trace_.processes[kernel.partner_process].spans[kernel.partner].start;
                if (issued.start < step_.start || issued.start >= step_.end) continue;
                MessageFact fact = message(kernel, process, i);
                fact.kind = kind;
                add(issued, kernel.phase, fact);
            }
    }

    // An op of a plan, as Chakra traces of Orrery's have it.
    void take_planned(const RecordedSpan& span, const RecordedArguments& arguments,
                      plan::OpKind kind, std::uint32_t number) {
        using plan::OpKind;
        any_work_ = true;
        const std::vector<Dims> tensors = tensors_of(inputs(number));
        const Dims first = tensors.empty() ? Dims{} : tensors[0];
        const auto put = [&](What what) { add(span, span.phase, std::move(what)); };
        switch (kind) {
            case OpKind::gemm:
                if (const auto shape = product_shape(arguments.op, arguments.input_dims)) {
                    note_type(number);
                    put(ProductFact{*shape});
                }
                return;
            case OpKind::activated_gemm:
                // Backward reads what its function was taken of besides.
                put(SignFact{Sign::epilogue});
                if (const auto shape = product_shape(arguments.op, arguments.input_dims)) {
                    note_type(number);
                    put(ProductFact{*shape});
                    if (span.phase != plan::Phase::backward)
                        put(ActivationFact{ActivationWord::gelu, shape->n, shape->n});
                }
                return;
            case OpKind::residual_gemm:
                put(SignFact{Sign::residual_epilogue});
                if (tensors.size() > 2 && tensors[2].size() == 2)
                    put(AdditionFact{first[0], tensors[2][0]});
                if (const auto shape = product_shape(arguments.op, arguments.input_dims)) {
                    note_type(number);
                    put(ProductFact{*shape});
                }
                return;
            case OpKind::bias_gradient_gemm:
                put(SignFact{Sign::bias_epilogue});
                if (const auto shape = product_shape(arguments.op, arguments.input_dims)) {
                    note_type(number);
                    put(ProductFact{*shape});
                    put(SignFact{Sign::bias_gradient, shape->m});
                }
                return;
            case OpKind::attention:
            case OpKind::attention_block:
                return take_planned_attention(span, arguments, first);
            case OpKind::softmax: {
                // Over scores of [sequences × heads, tokens, tokens], or with both apart.
                if (first.size() < 3) return;
                AttentionFact fact;
                fact.fused = false;
                fact.tokens = first.back();
                fact.batch = first.size() > 3 ? first[0] : -first[0];
                fact.heads = fact.kv_heads = first.size() > 3 ? first[1] : 0;
                return put(fact);
            }
            case OpKind::norm:
                if (first.size() == 2) put(NormFact{first[0], first[1], tensors.size() < 3});
                return;
            case OpKind::qk_norm:
                return put(SignFact{Sign::head_norm});
            case OpKind::rope:
                return put(SignFact{Sign::rotary});
            case OpKind::embedding:
                if (tensors.size() > 1 && tensors[1].size() == 2)
                    put(LookupFact{tensors[1][0], tensors[1][1],
                                   static_cast<std::int64_t>(elements_of({first})), 0});
                return;
            case OpKind::residual_add:
                if (tensors.size() > 1 && tensors[1].size() == 2)
                    put(AdditionFact{first[0], tensors[1][0]});
                return;
            case OpKind::residual_norm: {
                // An RMSNorm has one statistic of each row, a LayerNorm two.
                const std::vector<Dims> out = tensors_of(inputs_of(arguments.output_dims));
                if (out.size() < 3 || out[2].empty()) return;
                if (tensors.size() < 2 || first.size() != 2 || tensors[1].size() != 2) return;
                put(SignFact{Sign::added_norm});
                put(AdditionFact{first[0], tensors[1][0]});
                return put(NormFact{first[0], first[1], out[2].back() == 1});
            }
            case OpKind::activation: {
                const std::vector<Dims> out = tensors_of(inputs_of(arguments.output_dims));
                if (first.empty() || out.empty() || out[0].empty()) return;
                return put(ActivationFact{activation_named(trace_.names[span.name]), first.back(),
                                          out[0].back()});
            }
            case OpKind::cross_entropy:
            case OpKind::cross_entropy_max:
                if (first.size() == 2) put(LossFact{first[0], first[1]});
                return;
            case OpKind::dropout:
                return put(SignFact{Sign::dropout});
            case OpKind::bias_gradient:
                return put(SignFact{Sign::bias_gradient, first.empty() ? 0 : first.back()});
            case OpKind::gradient_norm:
                return put(SignFact{Sign::gradient_norm});
            case OpKind::route:
            case OpKind::grouped_gemm:
                return put(SignFact{Sign::experts});
            case OpKind::adamw:
                return put(SignFact{Sign::parameter_step,
                                    static_cast<std::int64_t>(elements_of({first}))});
            case OpKind::shift:
                return put(SignFact{Sign::context_ring});
            default:
                if (!plan::is_communication(kind)) return;
                any_message_ = true;
                put(planned_message(arguments, kind));
        }
    }

    static MessageFact planned_message(const RecordedArguments& arguments, plan::OpKind kind) {
        MessageFact fact;
        fact.kind = work_kind(kind);
        fact.receives = arguments.collective.find("recv") != std::string::npos;
        fact.group = std::max<std::int64_t>(0, arguments.group_size);
        const std::int64_t bytes = fact.kind == WorkKind::all_gather
                                       ? std::max(arguments.in_elements, arguments.out_elements)
                                       : arguments.in_elements;
        if (bytes >= 0) fact.bytes = static_cast<double>(bytes);
        return fact;
    }

    // Of [tokens, queries + keys + values] it makes [tokens, heads × head] and, of each sequence
    // and head, a statistic for each token.
    void take_planned_attention(const RecordedSpan& span, const RecordedArguments& arguments,
                                const Dims& packed) {
        const std::vector<Dims> out = tensors_of(inputs_of(arguments.output_dims));
        if (packed.size() != 2 || out.size() < 2 || out[0].size() != 2 || out[1].size() != 3)
            return;
        AttentionFact fact;
        fact.batch = out[1][0];
        fact.heads = out[1][1];
        fact.tokens = out[1][2];
        if (fact.heads <= 0 || out[0][1] % fact.heads != 0) return;
        fact.head_dim = out[0][1] / fact.heads;
        fact.kv_heads = (packed[1] / fact.head_dim - fact.heads) / 2;
        add(span, span.phase, fact);
    }

    void note_type(std::uint32_t number) {
        if (number == kNoSpan) return;
        out_.has_shapes = true;
        const std::string& type = trace_.arguments[number].dtype;
        if (!type.empty()) ++types_[type];
    }
    void say_dtype() {
        const auto most =
            std::max_element(types_.begin(), types_.end(),
                             [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most != types_.end()) out_.dtype = most->first;
    }

    const RecordedTrace& trace_;
    RecordedWindow step_;
    StepFacts& out_;
    std::vector<Role> roles_;                    // by name
    std::vector<bool> backward_;                 // by name
    std::vector<std::optional<Inputs>> inputs_;  // by arguments, once they were asked for
    std::vector<Dims> last_batched_;
    std::map<std::string, std::int64_t> types_;
    bool any_work_ = false, any_message_ = false;
};

}  // namespace

StepFacts step_facts(const RecordedTrace& trace, const RecordedRank& rank) {
    StepFacts facts;
    facts.file = rank.file;
    facts.rank = rank.rank;
    facts.world_size = rank.world_size;
    facts.device = rank.device;
    facts.group_sizes = trace.group_sizes;
    Gatherer(trace, rank, facts).run(rank);
    return facts;
}

}  // namespace orrery::compare
