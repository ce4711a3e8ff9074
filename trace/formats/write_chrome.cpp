// From the trace to JSON, event by event: nothing but the event under way and the names of one rank
// is held in memory.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "trace/atomic_file.hpp"
#include "trace/formats/chrome.hpp"
#include "trace/formats/rank_view.hpp"
#include "trace/formats/tables.hpp"
#include "trace/formats/transfers.hpp"
#include "trace/sound.hpp"

namespace orrery::trace {
namespace {

using namespace viewer;

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;
constexpr int kStepPid = 0;

class ChromeWriter {
  public:
    ChromeWriter(const Trace& trace, const std::string& path)
        : trace_(trace),
          clock_(trace),
          transfers_(transfers_of(trace)),
          pids_(process_ids(trace)),
          file_(path) {}

    void run() {
        put("{}{},\n\"traceEvents\":[\n", kChromeBegin,
            tables_text(trace_, pids_, clock_.origin_ps()));
        put_process(kStepPid, "step", 0);
        put_thread(kStepPid, 1, "step");
        put(",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":1,{},\"name\":\"step\",\"args\":{{\"origin\":\"{}"
            "\"}}}}",
            kStepPid, span(trace_.step_start, trace_.step_end),
            trace_.origin == Origin::predicted ? "predicted" : "measured");
        for (std::size_t t = 0; t < trace_.tracks.size(); ++t)
            put_rank(t);
        put("\n]}}");  // and no line feed: a file that is cut anywhere is no JSON
        file_.append({out_.data(), out_.size()});
        file_.commit();
    }

  private:
    template <typename... Args>
    void put(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        if (out_.size() < kFlushBytes) return;
        file_.append({out_.data(), out_.size()});
        out_.clear();
    }

    // Microseconds, down to the nanosecond.
    std::string us(std::int64_t ns) const { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }
    std::string span(Picoseconds start, Picoseconds end) const {
        return fmt::format("\"ts\":{},\"dur\":{}", us(clock_.ns(start)),
                           us(clock_.ns(end) - clock_.ns(start)));
    }

    void put_process(int pid, const std::string& name, std::size_t order) {
        put("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}",
            first_ ? "" : ",\n", pid, display_text(name));
        first_ = false;
        put(",\n{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_sort_index\","
            "\"args\":{{\"sort_index\":{}}}}}",
            pid, order);
    }
    void put_thread(int pid, std::size_t tid, const std::string& name) {
        put(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\","
            "\"args\":{{\"name\":{}}}}}",
            pid, tid, display_text(name));
        put(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_sort_index\","
            "\"args\":{{\"sort_index\":{}}}}}",
            pid, tid, tid);
    }

    void put_rank(std::size_t t) {
        const Track& track = trace_.tracks[t];
        const RankView view = rank_view(trace_, track);
        put_process(pids_[t], view.name, t + 1);
        names_.clear();
        for (std::size_t lane = 0; lane < view.lanes.size(); ++lane) {
            put_thread(pids_[t], lane + 1, view.lanes[lane].name);
            for (const Slice& slice : view.lanes[lane].slices) {
                if (view.lanes[lane].of_actions)
                    put_action(t, lane + 1, slice);
                else
                    put_op(t, lane + 1, slice);
            }
        }
        for (const MemoryChange& change : view.memory)
            put(",\n{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":\"planned memory\","
                "\"args\":{{\"bytes\":{}}}}}",
                pids_[t], us(clock_.ns(change.at)), change.live_bytes);
    }

    void put_action(std::size_t t, std::size_t tid, const Slice& slice) {
        const ProgramOps& program = program_of(trace_.tracks[t]);
        const auto step = static_cast<std::size_t>(slice.index);
        put(",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},{},\"name\":{},\"cat\":\"action\","
            "\"args\":{{\"live_bytes\":{}}}}}",
            pids_[t], tid, span(slice.start, slice.end),
            display_text(to_text(program.actions[step])), program.live_bytes[step]);
    }

    void put_op(std::size_t t, std::size_t tid, const Slice& slice) {
        const Track& track = trace_.tracks[t];
        const auto i = static_cast<std::size_t>(slice.index);
        const OpName& op = trace_.op_of(track, i);
        put(",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},{},\"name\":{},\"cat\":\"{}\",\"args\":{{",
            pids_[t], tid, span(slice.start, slice.end), name_of(track, i),
            fmt::join(categories_of(op), ","));
        put_times(track, i);
        put_description(track, i, op);
        put("}}}}");
        put_flows(transfers_.sent[t], slice, "s", pids_[t], tid);
        put_flows(transfers_.received[t], slice, "f", pids_[t], tid);
    }

    void put_times(const Track& track, std::size_t i) {
        const Event event = track.events[i];
        put("\"op_id\":{},\"ready_ps\":{},\"start_ps\":{},\"end_ps\":{}", i, event.ready,
            event.start, event.end);
        if (event.blocker >= 0)
            put(",\"blocker\":{},\"waited_for\":{}", event.blocker,
                name_of(track, static_cast<std::size_t>(event.blocker)));
        else if (event.blocker == kHost)
            put(",\"blocker\":{},\"waited_for\":{}", event.blocker,
                display_text(waited_for(trace_, track, i)));
        if (event.late_track >= 0)
            put(",\"late_track\":{},\"late_rank\":{}", event.late_track,
                trace_.tracks[static_cast<std::size_t>(event.late_track)].rank);
    }

    void put_description(const Track& track, std::size_t i, const OpName& op) {
        const ProgramOps& program = program_of(track);
        put(",\"action\":{}", display_text(to_text(program.actions[program.step[i]])));
        if (program.layer[i] >= 0) put(",\"layer\":{}", program.layer[i]);
        put(",\"block\":{}", display_text(op.block));
        if (op.group != plan::GroupKind::none) put(",\"group\":\"{}\"", plan::name(op.group));
        if (op.flops != 0) put(",\"flops\":{}", op.flops);
        if (op.bytes != 0) put(",\"bytes\":{}", op.bytes);
        if (op.sent_bytes != 0) put(",\"sent_bytes\":{}", op.sent_bytes);
    }

    // An arrow leaves at the start and arrives at the middle: both lie inside the slices, and send
    // and receive, which start together, are in order.
    void put_flows(const std::vector<TransferEnd>& ends, const Slice& slice, const char* phase,
                   int pid, std::size_t tid) {
        for (auto end = std::lower_bound(ends.begin(), ends.end(), TransferEnd{slice.index, 0});
             end != ends.end() && end->first == slice.index; ++end) {
            const bool leaves = *phase == 's';
            const std::int64_t start = clock_.ns(slice.start), stop = clock_.ns(slice.end);
            put(",\n{{\"ph\":\"{}\",{}\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{},"
                "\"name\":\"transfer\",\"cat\":\"transfer\"}}",
                phase, leaves ? "" : "\"bp\":\"e\",", end->second, pid, tid,
                us(leaves ? start : start + (stop - start) / 2));
        }
    }

    const ProgramOps& program_of(const Track& track) const {
        return trace_.programs[static_cast<std::size_t>(track.program)];
    }

    // As JSON, of an op of the rank under way; a step and an op of the plan have one name.
    const std::string& name_of(const Track& track, std::size_t i) {
        const ProgramOps& program = program_of(track);
        const auto [entry, is_new] =
            names_.try_emplace(std::uint64_t{program.step[i]} << 32 | std::uint64_t{program.op[i]});
        if (is_new) entry->second = display_text(slice_name(trace_, program, i));
        return entry->second;
    }

    const Trace& trace_;
    ViewerClock clock_;
    Transfers transfers_;
    std::vector<std::int32_t> pids_;
    native::AtomicFile file_;
    fmt::memory_buffer out_;
    std::unordered_map<std::uint64_t, std::string> names_;
    bool first_ = true;
};

}  // namespace

void write_chrome(const Trace& trace, const std::string& path) {
    check_sound(trace);
    ChromeWriter(trace, path).run();
}

}  // namespace orrery::trace
