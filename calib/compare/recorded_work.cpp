#include "calib/compare/recorded_work.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "trace/recorded_inputs.hpp"

namespace orrery::compare {
namespace {

using trace::kNoSpan;
using trace::Picoseconds;
using trace::RecordedKind;
using trace::RecordedProcess;
using trace::RecordedSpan;
using trace::RecordedTrace;

struct Rule {
    std::string_view text;
    WorkKind kind;
};

// Kernels, by parts of their names; the first that fits decides. NCCL (ncclDevKernel_AllReduce_…,
// ncclKernel_…) and RCCL; cuBLAS and cuBLASLt (ampere_bf16_s16816gemm_…, sm90_xmma_gemm_…,
// nvjet_…), CUTLASS, rocBLAS (Cijk_…); FlashAttention (flash_fwd_kernel, flash_bwd_…), cuDNN's
// (cudnn_generated_fort_native_sdpa_…), xFormers' (fmha_cutlassF_…); PyTorch's native kernels
// (at::native::…), Apex's and Transformer Engine's; Inductor's (triton_…), whose names list what
// they have fused.
constexpr std::array kKernelRules = {
    Rule{"AllReduce", WorkKind::all_reduce},
    Rule{"AllGather", WorkKind::all_gather},
    Rule{"ReduceScatter", WorkKind::reduce_scatter},
    Rule{"AllToAll", WorkKind::all_to_all},
    Rule{"SendRecv", WorkKind::send_receive},
    Rule{"ncclDevKernel_Broadcast", WorkKind::broadcast},
    Rule{"ncclKernel_Broadcast", WorkKind::broadcast},
    Rule{"Memcpy HtoD", WorkKind::copy},
    Rule{"Memcpy DtoH", WorkKind::copy},
    Rule{"Memcpy", WorkKind::elementwise},
    Rule{"Memset", WorkKind::elementwise},
    Rule{"flash_bwd", WorkKind::attention_backward},
    Rule{"flash_fwd", WorkKind::attention},
    Rule{"fmha_cutlassB", WorkKind::attention_backward},
    Rule{"fmha_cutlassF", WorkKind::attention},
    Rule{"flash_bprop", WorkKind::attention_backward},
    Rule{"flash_fprop", WorkKind::attention},
    Rule{"fmha_bwd", WorkKind::attention_backward},
    Rule{"fmha_fwd", WorkKind::attention},
    Rule{"FlashAttnBwd", WorkKind::attention_backward},
    Rule{"FlashAttnFwd", WorkKind::attention},
    Rule{"multi_tensor_apply", WorkKind::optimizer},
    Rule{"FusedAdam", WorkKind::optimizer},
    Rule{"adam", WorkKind::optimizer},
    Rule{"layer_norm", WorkKind::norm},
    Rule{"LayerNorm", WorkKind::norm},
    Rule{"rms_norm", WorkKind::norm},
    Rule{"rmsnorm", WorkKind::norm},
    Rule{"RMSNorm", WorkKind::norm},
    Rule{"ln_fwd", WorkKind::norm},
    Rule{"ln_bwd", WorkKind::norm},
    Rule{"nll_loss", WorkKind::loss},
    Rule{"cross_entropy", WorkKind::loss},
    Rule{"CrossEntropy", WorkKind::loss},
    Rule{"embedding", WorkKind::embedding},
    Rule{"indexSelect", WorkKind::embedding},
    Rule{"cunn_SoftMax", WorkKind::loss},  // over a vocabulary
    Rule{"softmax", WorkKind::softmax},
    Rule{"SoftMax", WorkKind::softmax},
    Rule{"Softmax", WorkKind::softmax},
    Rule{"dropout", WorkKind::dropout},
    Rule{"gelu", WorkKind::activation},
    Rule{"Gelu", WorkKind::activation},
    Rule{"GELU", WorkKind::activation},
    Rule{"silu", WorkKind::activation},
    Rule{"swiglu", WorkKind::activation},
    Rule{"relu", WorkKind::activation},
    Rule{"splitKreduce", WorkKind::elementwise},  // sums the parts of a product
    Rule{"gemm", WorkKind::gemm},
    Rule{"Gemm", WorkKind::gemm},
    Rule{"GEMM", WorkKind::gemm},
    Rule{"nvjet", WorkKind::gemm},
    Rule{"cutlass", WorkKind::gemm},
    Rule{"Cijk_", WorkKind::gemm},
    Rule{"gemv", WorkKind::gemm},
    Rule{"triton_", WorkKind::elementwise},
    Rule{"elementwise", WorkKind::elementwise},
    Rule{"reduce_kernel", WorkKind::elementwise},
    Rule{"Reduce", WorkKind::elementwise},
    Rule{"CatArray", WorkKind::elementwise},
    Rule{"copy", WorkKind::elementwise},
    Rule{"fill", WorkKind::elementwise},
    Rule{"at::native::", WorkKind::elementwise},
};

// Operators of PyTorch that call no other, and what its process groups record.
constexpr std::array kOperatorRules = {
    Rule{"all_reduce", WorkKind::all_reduce},
    Rule{"allreduce", WorkKind::all_reduce},
    Rule{"reduce_scatter", WorkKind::reduce_scatter},
    Rule{"all_gather", WorkKind::all_gather},
    Rule{"allgather", WorkKind::all_gather},
    Rule{"all_to_all", WorkKind::all_to_all},
    Rule{"alltoall", WorkKind::all_to_all},
    Rule{"gloo:send", WorkKind::send_receive},
    Rule{"gloo:recv", WorkKind::send_receive},
    Rule{"c10d::send", WorkKind::send_receive},
    Rule{"c10d::recv", WorkKind::send_receive},
    Rule{"broadcast", WorkKind::broadcast},
    Rule{"attention_backward", WorkKind::attention_backward},
    Rule{"_for_cpu_backward", WorkKind::attention_backward},
    Rule{"attention", WorkKind::attention},
    Rule{"aten::mm", WorkKind::gemm},
    Rule{"aten::addmm", WorkKind::gemm},
    Rule{"aten::bmm", WorkKind::gemm},
    Rule{"aten::baddbmm", WorkKind::gemm},
    Rule{"aten::_scaled_mm", WorkKind::gemm},
    Rule{"aten::_grouped_mm", WorkKind::gemm},
    Rule{"aten::linear", WorkKind::gemm},
    Rule{"mkldnn", WorkKind::gemm},
    Rule{"layer_norm", WorkKind::norm},
    Rule{"rms_norm", WorkKind::norm},
    Rule{"nll_loss", WorkKind::loss},
    Rule{"cross_entropy", WorkKind::loss},
    Rule{"embedding", WorkKind::embedding},
    Rule{"index_select", WorkKind::embedding},
    Rule{"log_softmax", WorkKind::loss},
    Rule{"softmax", WorkKind::softmax},
    Rule{"dropout", WorkKind::dropout},
    Rule{"bernoulli", WorkKind::dropout},
    Rule{"gelu", WorkKind::activation},
    Rule{"silu", WorkKind::activation},
    Rule{"relu", WorkKind::activation},
    Rule{"_fused_adam", WorkKind::optimizer},
    Rule{"aten::_foreach", WorkKind::optimizer},
    Rule{"aten::addcdiv", WorkKind::optimizer},
    Rule{"aten::addcmul", WorkKind::optimizer},
    Rule{"aten::lerp", WorkKind::optimizer},
    Rule{"aten::", WorkKind::elementwise},
    Rule{"Backward0", WorkKind::elementwise},  // nodes of autograd
    Rule{"AccumulateGrad", WorkKind::elementwise},
};

template <std::size_t n>
WorkKind first_of(const std::array<Rule, n>& rules, std::string_view name) {
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) {
        return name.find(rule.text) != std::string_view::npos;
    });
    return found == rules.end() ? WorkKind::other : found->kind;
}

std::int64_t rows_of(const std::vector<std::int64_t>& dims) {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < dims.size(); ++i)
        rows *= dims[i];
    return rows;
}

// Bytes of an element by the names that PyTorch gives its types, of tensors and in C++.
double bytes_of_type(std::string_view type) {
    constexpr std::string_view kNamespace = "c10::";
    if (type.starts_with(kNamespace)) type.remove_prefix(kNamespace.size());
    for (const auto& [text, bytes] : {std::pair<std::string_view, double>{"Double", 8},
                                      {"double", 8},
                                      {"Long", 8},
                                      {"long", 8},
                                      {"float", 4},
                                      {"int", 4},
                                      {"BFloat16", 2},
                                      {"Half", 2},
                                      {"Float8", 1},
                                      {"Byte", 1},
                                      {"Char", 1},
                                      {"Bool", 1},
                                      {"Float", 4},
                                      {"Int", 4}})
        if (type.starts_with(text)) return bytes;
    return 0;
}

bool says_what(WorkKind kind) {
    return kind != WorkKind::elementwise && kind != WorkKind::other;
}

// Of the host, for what was issued before: no work of its own.
bool waits(std::string_view name) {
    return name.ends_with("::wait_tensor");
}

// Handed to a process group, which says itself when it did it.
bool is_group_call(const RecordedSpan& span) {
    return span.kind == RecordedKind::op && span.partner != kNoSpan;
}

// The innermost span of a lane around each span. Of operators that call each other the innermost
// that says what it is counts as the work, with all that it calls; where none does, the innermost.
class Ancestors {
  public:
    Ancestors(const RecordedTrace& trace, const RecordedProcess& process) {
        std::vector<std::vector<std::uint32_t>> open(process.lanes.size());
        parent_.assign(process.spans.size(), kNoSpan);
        for (std::uint32_t i = 0; i < process.spans.size(); ++i) {
            const RecordedSpan& span = process.spans[i];
            std::vector<std::uint32_t>& lane = open[span.lane];
            while (!lane.empty() && process.spans[lane.back()].end <= span.start)
                lane.pop_back();
            if (!lane.empty() && process.spans[lane.back()].end >= span.end)
                parent_[i] = lane.back();
            lane.push_back(i);
        }
        if (process.is_device) return;
        // Those within come after those around them.
        std::vector<bool> calls_work(process.spans.size()), calls(process.spans.size());
        is_work_.assign(process.spans.size(), false);
        for (std::uint32_t i = static_cast<std::uint32_t>(process.spans.size()); i-- > 0;) {
            const RecordedSpan& span = process.spans[i];
            if (span.kind != RecordedKind::op) {
                if (parent_[i] != kNoSpan && calls_work[i]) calls_work[parent_[i]] = true;
                continue;
            }
            const std::string& name = trace.names[span.name];
            const bool says = says_what(kind_of_name(name, false));
            is_work_[i] =
                !calls_work[i] && (says || !calls[i]) && !waits(name) && !is_group_call(span);
            if (parent_[i] == kNoSpan) continue;
            calls[parent_[i]] = true;
            if (says || calls_work[i]) calls_work[parent_[i]] = true;
        }
        // What lies within work is part of it.
        std::vector<bool> within(process.spans.size());
        for (std::uint32_t i = 0; i < process.spans.size(); ++i) {
            within[i] = parent_[i] != kNoSpan && (within[parent_[i]] || is_work_[parent_[i]]);
            if (within[i]) is_work_[i] = false;
        }
    }
    std::uint32_t parent(std::uint32_t span) const { return parent_[span]; }
    bool is_work(std::uint32_t span) const { return is_work_[span]; }

  private:
    std::vector<std::uint32_t> parent_;
    std::vector<bool> is_work_;  // of operators
};

constexpr std::string_view kProfilerStep = "ProfilerStep#";

// What programs call a step that they mark themselves, by NVTX or record_function; without its
// number, signs and capitals. In this order, since an iteration may be marked around its steps.
constexpr std::array<std::string_view, 9> kStepWords = {
    "iteration",          "iter",       "train iteration",
    "training iteration", "train iter", "training step",
    "train step",         "trainstep",  "step"};

// "Step_12", "train step: 12" and "iteration#12" as "step", "train step" and "iteration".
std::string words_of(std::string_view name) {
    std::string words;
    for (const char c : name) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (letter)
            words += static_cast<char>(c | 0x20);
        else if (!words.empty() && words.back() != ' ')
            words += ' ';
    }
    if (!words.empty() && words.back() == ' ') words.pop_back();
    return words;
}

// Spans of names that fit, of the first thread that has any: hosts before devices, one after
// another, none within the one before.
template <typename Fits>
std::vector<RecordedWindow> windows_of(const RecordedTrace& trace, const Fits& fits) {
    std::vector<bool> fitting;
    for (const std::string& name : trace.names)
        fitting.push_back(fits(std::string_view(name)));
    for (const bool of_device : {false, true})
        for (const RecordedProcess& process : trace.processes) {
            if (process.is_device != of_device) continue;
            std::vector<RecordedWindow> steps;
            std::uint32_t lane = 0;
            for (const RecordedSpan& span : process.spans) {
                if (!fitting[span.name] || span.end <= span.start) continue;
                if (steps.empty()) lane = span.lane;
                if (span.lane != lane || (!steps.empty() && span.start < steps.back().end))
                    continue;
                steps.push_back({span.start, span.end});
            }
            if (!steps.empty()) return steps;
        }
    return {};
}

std::vector<RecordedWindow> named_steps(const RecordedTrace& trace, const std::string& range) {
    if (!range.empty())
        return windows_of(trace, [&](std::string_view name) { return name.starts_with(range); });
    std::vector<RecordedWindow> steps =
        windows_of(trace, [](std::string_view name) { return name.starts_with(kProfilerStep); });
    for (const std::string_view word : kStepWords)
        if (steps.empty())
            steps =
                windows_of(trace, [&](std::string_view name) { return words_of(name) == word; });
    return steps;
}

class Reader {
  public:
    Reader(const RecordedTrace& trace, RecordedRank& rank) : trace_(trace), rank_(rank) {
        for (const RecordedProcess& process : trace.processes)
            ancestors_.emplace_back(trace, process);
        for (const RecordedProcess& process : trace.processes)
            for (const RecordedSpan& span : process.spans)
                has_device_ = has_device_ || (process.is_device && is_kernel(span));
    }

    void take(const RecordedWindow& step) {
        for (std::uint32_t p = 0; p < trace_.processes.size(); ++p) {
            const RecordedProcess& process = trace_.processes[p];
            if (process.is_device != has_device_) continue;
            for (std::uint32_t s = 0; s < process.spans.size(); ++s)
                if (counts(p, s) && within(step, p, s)) rank_.work.push_back(item(p, s));
        }
        std::stable_sort(rank_.work.begin(), rank_.work.end(),
                         [](const WorkItem& a, const WorkItem& b) { return a.start < b.start; });
    }
    bool has_device() const { return has_device_; }

  private:
    static bool is_kernel(const RecordedSpan& span) {
        return span.kind == RecordedKind::kernel || span.kind == RecordedKind::copy ||
               is_message(span);
    }
    bool counts(std::uint32_t p, std::uint32_t s) const {
        const RecordedSpan& span = trace_.processes[p].spans[s];
        if (has_device_) return is_kernel(span);
        return (ancestors_[p].is_work(s) || is_message(span)) && span.end > span.start;
    }
    static bool is_message(const RecordedSpan& span) {
        return span.kind == RecordedKind::communication || span.kind == RecordedKind::transfer;
    }
    // Of the step whose host launched it.
    bool within(const RecordedWindow& step, std::uint32_t p, std::uint32_t s) const {
        const RecordedSpan* span = &trace_.processes[p].spans[s];
        if (span->partner_process != kNoSpan)
            span = &trace_.processes[span->partner_process].spans[span->partner];
        return span->start >= step.start && span->start < step.end;
    }
    WorkItem item(std::uint32_t p, std::uint32_t s) const {
        const RecordedSpan& span = trace_.processes[p].spans[s];
        // What launched it.
        const bool launched = span.partner_process != kNoSpan;
        const std::uint32_t process = launched ? span.partner_process : p;
        std::uint32_t at = launched ? span.partner : s;
        const RecordedSpan& launch = trace_.processes[process].spans[at];
        WorkItem item;
        item.start = span.start;
        item.end = span.end;
        item.name = span.name;
        item.phase = span.phase;
        // Of what a process group did its call says what it was for.
        const std::string& name = trace_.names[has_device_ ? span.name : launch.name];
        item.kind = kind_of_name(name, has_device_);
        if (const auto* own = arguments_of(trace_, trace_.processes[p], s); own != nullptr) {
            if (own->op_kind)
                item.kind = work_kind(*own->op_kind);
            else if (item.kind == WorkKind::other && !own->collective.empty())
                item.kind = kind_of_name(own->collective, false);
        }
        // An optimizer made of single operations is one all the same.
        if (item.phase == plan::Phase::optimizer && !is_communication(item.kind) &&
            item.kind != WorkKind::copy)
            item.kind = WorkKind::optimizer;
        if (!has_device_ && item.kind == WorkKind::send_receive) {
            item.way =
                name.find("recv") == std::string::npos ? MessageWay::sent : MessageWay::received;
            // A message may be through before its call has come to record it.
            item.start = launch.start;
        }
        if (is_communication(item.kind)) {
            // What was done names its tensor's type, and its call all buffers.
            if (!has_device_) say_message(process, at, p, s, item);
            if (item.message_bytes == 0) say_message(p, s, p, s, item);
        }
        // What launched it, and the operators around that.
        for (; at != kNoSpan; at = ancestors_[process].parent(at)) {
            const trace::RecordedArguments* arguments =
                arguments_of(trace_, trace_.processes[process], at);
            if (arguments == nullptr) continue;
            if (is_communication(item.kind) && item.message_bytes == 0)
                say_message(process, at, process, at, item);
            if (item.kind == WorkKind::gemm && !item.product)
                item.product = product_shape(
                    arguments->op.empty() ? trace_.names[trace_.processes[process].spans[at].name]
                                          : arguments->op,
                    arguments->input_dims);
        }
        return item;
    }
    // By the buffers that one span names, and the type that the same or another does.
    void say_message(std::uint32_t p, std::uint32_t s, std::uint32_t typed_process,
                     std::uint32_t typed, WorkItem& item) const {
        const auto* buffers = arguments_of(trace_, trace_.processes[p], s);
        const auto* type = arguments_of(trace_, trace_.processes[typed_process], typed);
        if (buffers == nullptr || type == nullptr) return;
        const MessageSize size = message_size(item.kind, *buffers);
        item.message_bytes = std::max(0.0, size.elements) * bytes_of_type(type->dtype);
        item.group_size = size.group;
    }

    const RecordedTrace& trace_;
    RecordedRank& rank_;
    std::vector<Ancestors> ancestors_;
    bool has_device_ = false;
};

// In which one of these intervals at least lies; they are sorted by their starts.
double union_s(const std::vector<RecordedWindow>& intervals) {
    Picoseconds sum = 0, end = INT64_MIN;
    for (const RecordedWindow& one : intervals) {
        sum += std::max<Picoseconds>(0, one.end - std::max(one.start, end));
        end = std::max(end, one.end);
    }
    return static_cast<double>(sum) / trace::kPsPerSecond;
}

void sum_up(RecordedRank& rank) {
    std::vector<RecordedWindow> compute, all;
    Picoseconds first = INT64_MAX, last = 0;
    for (const WorkItem& item : rank.work) {
        rank.busy_s[static_cast<std::size_t>(item.kind)] +=
            static_cast<double>(item.duration()) / trace::kPsPerSecond;
        all.push_back({item.start, item.end});
        if (!is_communication(item.kind)) compute.push_back(all.back());
        first = std::min(first, item.start);
        last = std::max(last, item.end);
    }
    rank.compute_s = union_s(compute);
    const double any = union_s(all);
    rank.exposed_s = any - rank.compute_s;
    rank.idle_s = std::max(0.0, rank.step_s() - any);
}

}  // namespace

std::string_view name(WorkKind kind) {
    static constexpr std::array<std::string_view, kWorkKinds> names = {
        "gemm",         "attention",      "attention_backward",
        "norm",         "softmax",        "loss",
        "embedding",    "activation",     "dropout",
        "optimizer",    "elementwise",    "all_reduce",
        "all_gather",   "reduce_scatter", "all_to_all",
        "send_receive", "broadcast",      "copy",
        "other"};
    return names[static_cast<std::size_t>(kind)];
}

WorkKind kind_of_name(std::string_view name, bool of_device) {
    return of_device ? first_of(kKernelRules, name) : first_of(kOperatorRules, name);
}

WorkKind work_kind(plan::OpKind kind) {
    using plan::OpKind;
    switch (kind) {
        case OpKind::gemm:
        case OpKind::activated_gemm:
        case OpKind::residual_gemm:
        case OpKind::bias_gradient_gemm:
        case OpKind::batched_gemm:
        case OpKind::grouped_gemm:
            return WorkKind::gemm;
        case OpKind::attention:
        case OpKind::attention_block:
            return WorkKind::attention;
        case OpKind::attention_backward:
        case OpKind::attention_block_backward:
            return WorkKind::attention_backward;
        case OpKind::norm:
        case OpKind::norm_backward:
        case OpKind::residual_norm:
        case OpKind::qk_norm:
        case OpKind::qk_norm_backward:
        case OpKind::qk_norm_sums:
            return WorkKind::norm;
        case OpKind::softmax:
        case OpKind::softmax_backward:
            return WorkKind::softmax;
        case OpKind::cross_entropy_max:
        case OpKind::cross_entropy_sum:
        case OpKind::cross_entropy_join:
        case OpKind::cross_entropy:
        case OpKind::cross_entropy_backward:
        case OpKind::cross_entropy_rescale:
            return WorkKind::loss;
        case OpKind::embedding:
        case OpKind::embedding_backward:
            return WorkKind::embedding;
        case OpKind::activation:
        case OpKind::activation_backward:
        case OpKind::expert_activation:
        case OpKind::expert_activation_backward:
            return WorkKind::activation;
        case OpKind::dropout:
        case OpKind::dropout_backward:
            return WorkKind::dropout;
        case OpKind::adamw:
        case OpKind::gradient_norm:
            return WorkKind::optimizer;
        case OpKind::all_reduce:
            return WorkKind::all_reduce;
        case OpKind::broadcast:
            return WorkKind::broadcast;
        case OpKind::all_gather:
            return WorkKind::all_gather;
        case OpKind::reduce_scatter:
            return WorkKind::reduce_scatter;
        case OpKind::all_to_all:
        case OpKind::all_to_all_v:
            return WorkKind::all_to_all;
        case OpKind::shift:
        case OpKind::exchange:
            return WorkKind::send_receive;
        default:
            return plan::is_copy(kind) ? WorkKind::copy : WorkKind::elementwise;
    }
}

MessageSize message_size(WorkKind kind, const trace::RecordedArguments& arguments) {
    MessageSize size;
    size.group = std::max<std::int64_t>(0, arguments.group_size);
    if (arguments.in_elements >= 0) {
        size.elements = static_cast<double>(
            kind == WorkKind::all_gather ? std::max(arguments.in_elements, arguments.out_elements)
                                         : arguments.in_elements);
        return size;
    }
    std::vector<double> buffers;
    for (const auto& input : trace::inputs_of(arguments.input_dims))
        if (!input.empty()) buffers.push_back(trace::elements_of(input));
    if (buffers.empty()) return size;
    // A gather's members hold what it makes, and a scatter's what it takes; their number is how
    // often one is in the other.
    const auto [least, most] = std::minmax_element(buffers.begin(), buffers.end());
    size.elements = *most;
    const bool parts = kind == WorkKind::all_gather || kind == WorkKind::reduce_scatter;
    if (parts && buffers.size() > 1 && *least > 0 && size.group == 0)
        size.group = static_cast<std::int64_t>(*most / *least);
    return size;
}

std::optional<ProductShape> product_shape(std::string_view op, std::string_view input_dims) {
    auto dims = trace::tensors_of(trace::inputs_of(std::string(input_dims)));
    const bool adds = op == "aten::addmm" || op == "aten::baddbmm";
    if (adds && !dims.empty()) dims.erase(dims.begin());
    if (dims.size() < 2) return std::nullopt;
    const auto& a = dims[0];
    const auto& b = dims[1];
    if (op == "aten::linear" && b.size() == 2 && a.size() >= 1 && a.back() == b[1])
        return ProductShape{rows_of(a), b[0], b[1]};
    if ((op == "aten::mm" || op == "aten::addmm" || op == "aten::_scaled_mm") && a.size() == 2 &&
        b.size() == 2 && a[1] == b[0])
        return ProductShape{a[0], b[1], a[1]};
    if ((op == "aten::bmm" || op == "aten::baddbmm") && a.size() == 3 && b.size() == 3 &&
        a[2] == b[1])
        return ProductShape{a[1], b[2], a[2], a[0]};
    return std::nullopt;
}

double RecordedRank::step_s() const {
    return static_cast<double>(steps[typical].duration()) / trace::kPsPerSecond;
}

RecordedRank recorded_rank(const RecordedTrace& trace, const std::string& file,
                           const std::string& step_range) {
    RecordedRank rank;
    rank.file = file;
    rank.rank = trace.rank;
    rank.world_size = trace.world_size;
    rank.steps = named_steps(trace, step_range);
    rank.steps_named = !rank.steps.empty();
    if (!rank.steps_named) rank.steps.push_back({0, trace.end + 1});
    // The first step warms caches up.
    std::vector<std::size_t> order;
    for (std::size_t i = rank.steps.size() > 2 ? 1 : 0; i < rank.steps.size(); ++i)
        order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return rank.steps[a].duration() < rank.steps[b].duration();
    });
    rank.typical = order[(order.size() - 1) / 2];
    Reader reader(trace, rank);
    reader.take(rank.steps[rank.typical]);
    if (!rank.steps_named && !rank.work.empty()) {
        RecordedWindow& whole = rank.steps.front();
        whole = {rank.work.front().start, rank.work.front().end};
        for (const WorkItem& item : rank.work)
            whole.end = std::max(whole.end, item.end);
    }
    if (reader.has_device())
        rank.device = trace.device.empty() ? "a device that is not named" : trace.device;
    rank.names = trace.names;
    sum_up(rank);
    return rank;
}

}  // namespace orrery::compare
