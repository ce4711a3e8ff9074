#include "trace/formats/recorder.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "trace/recorded_inputs.hpp"

namespace orrery::trace {
namespace {

constexpr std::int64_t kPsPerUs = 1'000'000;
constexpr std::int64_t kMostUs = 4'000'000'000'000;  // 46 days, in picoseconds well below 2^63
constexpr std::int64_t kNoCorrelation = -1;

// Kineto's categories (libkineto, ActivityType.cpp); the older names of each as well.
struct Category {
    std::string_view name;
    RecordedKind kind;
    bool of_device;
};
constexpr std::array<Category, 16> kCategories = {{
    {"kernel", RecordedKind::kernel, true},
    {"Kernel", RecordedKind::kernel, true},
    {"gpu_memcpy", RecordedKind::copy, true},
    {"Memcpy", RecordedKind::copy, true},
    {"gpu_memset", RecordedKind::copy, true},
    {"Memset", RecordedKind::copy, true},
    {"gpu_user_annotation", RecordedKind::annotation, true},
    {"cpu_op", RecordedKind::op, false},
    {"cpu_instant_event", RecordedKind::other, false},
    {"Operator", RecordedKind::op, false},
    {"operator", RecordedKind::op, false},
    {"cuda_runtime", RecordedKind::call, false},
    {"cuda_driver", RecordedKind::call, false},
    {"Runtime", RecordedKind::call, false},
    {"user_annotation", RecordedKind::annotation, false},
    {"python_function", RecordedKind::op, false},
}};

// NCCL names its kernels so, those that send and receive with the word.
RecordedKind kind_of_kernel(std::string_view name) {
    if (!name.starts_with("nccl")) return RecordedKind::kernel;
    return name.find("SendRecv") != std::string_view::npos ? RecordedKind::transfer
                                                           : RecordedKind::communication;
}

// What Gloo's process groups of PyTorch do, which they record as ranges: on threads of their own,
// or from when a message was posted until it was through, across what its thread went on to do.
constexpr std::string_view kGloo = "gloo:";
// The operators that hand such work to a process group.
constexpr std::string_view kGroupCalls = "c10d::";

RecordedKind kind_of_gloo(std::string_view name) {
    return name.starts_with("gloo:send") || name.starts_with("gloo:recv")
               ? RecordedKind::transfer
               : RecordedKind::communication;
}

// Whether an operator of a process group can have issued what Gloo did. Gloo has no reduce-scatter
// of its own for every type, and sums up all of it.
bool may_issue(std::string_view call, std::string_view done) {
    struct Pair {
        std::string_view done, call;
    };
    constexpr std::array<Pair, 9> kPairs = {{{"all_reduce", "allreduce"},
                                             {"all_reduce", "reduce_scatter"},
                                             {"reduce_scatter", "reduce_scatter"},
                                             {"all_gather", "allgather"},
                                             {"all_to_all", "alltoall"},
                                             {"broadcast", "broadcast"},
                                             {"send", "send"},
                                             {"recv", "recv"},
                                             {"reduce", "::reduce_"}}};
    done.remove_prefix(kGloo.size());
    return std::any_of(kPairs.begin(), kPairs.end(), [&](const Pair& pair) {
        return done.starts_with(pair.done) && call.find(pair.call) != std::string_view::npos;
    });
}

// Whether one of the call's buffers is as large as what was sent; true where a side does not say.
bool are_of_one_size(const RecordedTrace& trace, const RecordedProcess& process, std::uint32_t call,
                     std::uint32_t done) {
    const RecordedArguments* buffers = arguments_of(trace, process, call);
    const RecordedArguments* sent = arguments_of(trace, process, done);
    if (buffers == nullptr || sent == nullptr) return true;
    const Inputs all = inputs_of(buffers->input_dims);
    const std::vector<Dims> tensors = tensors_of(inputs_of(sent->input_dims));
    if (tensors_of(all).empty() || tensors.empty()) return true;
    return std::any_of(all.begin(), all.end(), [&](const std::vector<Dims>& input) {
        return elements_of(input) == elements_of(tensors);
    });
}

bool is_launched(RecordedKind kind) {
    return kind == RecordedKind::kernel || kind == RecordedKind::communication ||
           kind == RecordedKind::transfer || kind == RecordedKind::copy;
}

}  // namespace

std::optional<plan::Phase> phase_named(std::string_view name) {
    if (name.starts_with("autograd::engine::evaluate_function")) return plan::Phase::backward;
    if (name.starts_with("Optimizer.step#")) return plan::Phase::optimizer;
    return std::nullopt;
}

Recorder::Process& Recorder::process_of(const std::string& name) {
    const auto [found, is_new] =
        process_of_.emplace(name, static_cast<std::uint32_t>(processes_.size()));
    if (is_new) processes_.emplace_back(name, Process{});
    return processes_[found->second].second;
}

std::uint32_t Recorder::lane_of(Process& process, const std::string& thread) {
    const auto [found, is_new] =
        process.lane_of.emplace(thread, static_cast<std::uint32_t>(process.lanes.size()));
    if (is_new) process.lanes.emplace_back();
    return found->second;
}

std::uint32_t Recorder::name_of(const std::string& name) {
    const auto [found, is_new] = name_of_.emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return found->second;
}

void Recorder::name_thing(const RecordedEvent& event) {
    if (event.process.empty()) return;
    Process& process = process_of(event.process);
    if (event.name == "process_name") process.name = event.given_name;
    if (event.name == "process_labels") process.labels = event.labels;
    if (event.name == "process_sort_index") process.sort = event.sort_index.value_or(0);
    if (event.thread.empty()) return;
    if (event.name == "thread_name")
        process.lanes[lane_of(process, event.thread)].name = event.given_name;
    if (event.name == "thread_sort_index")
        process.lanes[lane_of(process, event.thread)].sort = event.sort_index.value_or(0);
}

std::string Recorder::add(const RecordedEvent& event) {
    if (event.phase == "M") {
        name_thing(event);
        return "";
    }
    if (event.phase == "X") return add_span(event);
    if (event.phase.empty()) return "expected \"ph\", the kind of the event";
    // Arrows say again what the arguments of their ends do. Counters and instants are left out.
    const bool is_arrow = event.phase == "s" || event.phase == "t" || event.phase == "f";
    if (!is_arrow) ++left_out_;
    return "";
}

std::string Recorder::add_span(const RecordedEvent& event) {
    if (!event.start) return "expected \"ts\", a number of microseconds";
    if (!base_us_) base_us_ = event.start->first;
    // A span that had not ended when the trace did has no duration.
    const auto [long_us, long_ps] =
        event.duration.value_or(std::pair<std::int64_t, std::int64_t>());
    const std::int64_t since = event.start->first - *base_us_;
    if (since > kMostUs || since < -kMostUs || long_us > kMostUs)
        return "expected a time within 46 days of the first";
    if (long_us < 0 || long_ps < 0) return "expected \"dur\" to be no less than 0";
    const auto category =
        std::find_if(kCategories.begin(), kCategories.end(),
                     [&](const Category& known) { return known.name == event.category; });
    const bool known = category != kCategories.end();
    Process& process = process_of(event.process);
    RecordedSpan span;
    const bool of_gloo = known && category->kind == RecordedKind::annotation &&
                         !category->of_device && event.name.starts_with(kGloo);
    span.lane = lane_of(process, of_gloo ? event.thread + " gloo" : event.thread);
    if (known && category->of_device) {
        process.is_device = true;
        process.lanes[span.lane].is_stream = event.stream.has_value();
    }
    span.start = since * kPsPerUs + event.start->second;
    span.end = span.start + long_us * kPsPerUs + long_ps;
    span.name = name_of(event.name);
    if (known) span.kind = category->kind;
    if (span.kind == RecordedKind::kernel) span.kind = kind_of_kernel(event.name);
    if (of_gloo) span.kind = kind_of_gloo(event.name);
    process.spans.push_back(span);
    process.correlations.push_back(event.correlation.value_or(kNoCorrelation));
    if (with_arguments_) process.arguments.push_back(arguments_of(event.arguments));
    return "";
}

std::uint32_t Recorder::arguments_of(const RecordedArguments& arguments) {
    if (!arguments.any()) return kNoSpan;
    const auto [found, is_new] =
        number_of_.emplace(arguments, static_cast<std::uint32_t>(arguments_.size()));
    if (is_new) arguments_.push_back(arguments);
    return found->second;
}

void Recorder::sort_spans(Process& process) {
    std::vector<std::uint32_t> order(process.spans.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        const RecordedSpan &x = process.spans[a], &y = process.spans[b];
        if (x.start != y.start) return x.start < y.start;
        if (x.end != y.end) return x.end > y.end;
        return x.lane != y.lane ? x.lane < y.lane : a < b;
    });
    std::vector<RecordedSpan> spans(order.size());
    std::vector<std::int64_t> correlations(order.size());
    std::vector<std::uint32_t> arguments(process.arguments.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        spans[i] = process.spans[order[i]];
        correlations[i] = process.correlations[order[i]];
        if (!arguments.empty()) arguments[i] = process.arguments[order[i]];
    }
    process.arguments = std::move(arguments);
    process.spans = std::move(spans);
    process.correlations = std::move(correlations);
}

// Each span on the first depth of its lane that is free when it begins: one that lies in another
// is below it, and so is one that overlaps its end, which no thread should have, but files do.
void Recorder::nest(RecordedTrace& trace, std::size_t number) {
    RecordedProcess& process = trace.processes[number];
    struct Open {
        Picoseconds end = 0;
        plan::Phase phase = plan::Phase::forward;
    };
    std::vector<std::vector<Open>> open(process.lanes.size());
    for (RecordedSpan& span : process.spans) {
        std::vector<Open>& lane = open[span.lane];
        std::size_t depth = 0;
        while (depth < lane.size() && lane[depth].end > span.start)
            ++depth;
        constexpr std::size_t kDeepest = 65535;  // deeper ones would share a lane of 16 bits
        depth = std::min(depth, kDeepest);
        const std::optional<plan::Phase> own = phase_named(trace.names[span.name]);
        span.phase = own ? *own : depth > 0 ? lane[depth - 1].phase : plan::Phase::forward;
        lane.resize(depth);
        lane.push_back({span.end, span.phase});
        span.depth = static_cast<std::uint16_t>(depth);
        RecordedLane& of_span = process.lanes[span.lane];
        of_span.depths =
            std::max<std::uint16_t>(of_span.depths, static_cast<std::uint16_t>(depth + 1));
    }
}

// By the number that a call and what it launches share. Of several calls with one number, as of one
// that wraps another, the innermost is the last to begin.
void Recorder::join_partners(RecordedTrace& trace) {
    std::unordered_map<std::int64_t, Partner> calls;
    for (std::uint32_t p = 0; p < trace.processes.size(); ++p)
        for (std::uint32_t s = 0; s < trace.processes[p].spans.size(); ++s)
            if (correlations_[p][s] > 0 && trace.processes[p].spans[s].kind == RecordedKind::call)
                calls[correlations_[p][s]] = {p, s};
    for (std::uint32_t p = 0; p < trace.processes.size(); ++p)
        for (std::uint32_t s = 0; s < trace.processes[p].spans.size(); ++s) {
            RecordedSpan& span = trace.processes[p].spans[s];
            if (!is_launched(span.kind)) continue;
            const auto call = calls.find(correlations_[p][s]);
            if (call == calls.end()) continue;
            RecordedSpan& launch = trace.processes[call->second.process].spans[call->second.span];
            span.partner_process = call->second.process;
            span.partner = call->second.span;
            span.phase = launch.phase;
            if (launch.partner != kNoSpan) continue;  // of a graph the first
            launch.partner_process = p;
            launch.partner = s;
        }
}

// Each after the first call before it that can have issued it and has issued nothing yet: a process
// group does what it is told in that order. Of calls on buffers of other sizes none is taken.
void Recorder::join_group_calls(RecordedTrace& trace) {
    for (std::uint32_t p = 0; p < trace.processes.size(); ++p) {
        std::vector<RecordedSpan>& spans = trace.processes[p].spans;
        std::vector<std::uint32_t> calls;  // that have issued nothing yet, by start
        for (std::uint32_t s = 0; s < spans.size(); ++s) {
            RecordedSpan& span = spans[s];
            const std::string& name = trace.names[span.name];
            if (span.kind == RecordedKind::op && name.starts_with(kGroupCalls)) calls.push_back(s);
            if (!is_launched(span.kind) || !name.starts_with(kGloo)) continue;
            const auto call = std::find_if(calls.begin(), calls.end(), [&](std::uint32_t one) {
                return may_issue(trace.names[spans[one].name], name) &&
                       are_of_one_size(trace, trace.processes[p], one, s);
            });
            if (call == calls.end()) continue;
            span.partner_process = spans[*call].partner_process = p;
            span.partner = *call;
            span.phase = spans[*call].phase;
            spans[*call].partner = s;
            calls.erase(call);
        }
    }
}

RecordedProcess Recorder::dressed(Process& process, const std::string& id) const {
    RecordedProcess made;
    made.is_device = process.is_device;
    const std::string name = process.name.empty() ? "process " + id : process.name + ' ' + id;
    made.name = process.labels.empty() ? name : fmt::format("{} · {}", process.labels, name);
    // By their own order, then by their numbers or names.
    std::vector<std::pair<std::string, std::uint32_t>> order(process.lane_of.begin(),
                                                             process.lane_of.end());
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
        if (process.lanes[a.second].sort != process.lanes[b.second].sort)
            return process.lanes[a.second].sort < process.lanes[b.second].sort;
        return a.first.size() != b.first.size() ? a.first.size() < b.first.size()
                                                : a.first < b.first;
    });
    std::vector<std::uint32_t> place(process.lanes.size());
    for (const auto& [thread, number] : order) {
        place[number] = static_cast<std::uint32_t>(made.lanes.size());
        const Lane& lane = process.lanes[number];
        RecordedLane shown;
        if (!lane.name.empty())
            shown.name = lane.name;
        else
            shown.name = fmt::format("{} {}", lane.is_stream ? "stream" : "thread", thread);
        made.lanes.push_back(std::move(shown));
    }
    made.spans = std::move(process.spans);
    made.arguments = std::move(process.arguments);
    for (RecordedSpan& span : made.spans)
        span.lane = place[span.lane];
    return made;
}

void Recorder::begin_at_zero(RecordedTrace& trace) {
    Picoseconds first = INT64_MAX;
    for (const RecordedProcess& process : trace.processes)
        for (const RecordedSpan& span : process.spans)
            first = std::min(first, span.start);
    for (RecordedProcess& process : trace.processes)
        for (RecordedSpan& span : process.spans) {
            span.start -= first;
            span.end -= first;
            trace.end = std::max(trace.end, span.end);
        }
}

RecordedTrace Recorder::finish() {
    RecordedTrace trace;
    trace.names = std::move(names_);
    trace.arguments = std::move(arguments_);
    trace.left_out = left_out_;
    // Of what is only named nothing is shown.
    std::erase_if(processes_, [](const auto& process) { return process.second.spans.empty(); });
    std::stable_sort(processes_.begin(), processes_.end(), [](const auto& a, const auto& b) {
        if (a.second.is_device != b.second.is_device) return a.second.is_device;
        return a.second.sort < b.second.sort;
    });
    for (auto& [id, process] : processes_) {
        sort_spans(process);
        correlations_.push_back(std::move(process.correlations));
        trace.processes.push_back(dressed(process, id));
    }
    begin_at_zero(trace);
    for (std::size_t p = 0; p < trace.processes.size(); ++p)
        nest(trace, p);
    join_partners(trace);
    join_group_calls(trace);
    return trace;
}

}  // namespace orrery::trace
