#include "trace/formats/memory_snapshot.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "trace/formats/pickle_writer.hpp"
#include "trace/memory_events.hpp"

namespace orrery::trace {
namespace {

constexpr Picoseconds kPsPerMicrosecond = 1'000'000;
constexpr std::string_view kMark = "orrery";  // first key of a snapshot of ours

// When each step begins, never before the one before it; its number where no track says so.
std::vector<std::int64_t> begins_of(const Trace& trace, const plan::Program& program) {
    std::vector<std::int64_t> begins(program.steps.size());
    const auto track =
        std::find_if(trace.tracks.begin(), trace.tracks.end(), [&](const Track& one) {
            return trace.programs[static_cast<std::size_t>(one.program)].pipeline_rank ==
                   program.pipeline_rank;
        });
    if (track == trace.tracks.end() || track->events.empty()) {
        for (std::size_t s = 0; s < begins.size(); ++s)
            begins[s] = static_cast<std::int64_t>(s);
        return begins;
    }
    const ProgramOps& ops = trace.programs[static_cast<std::size_t>(track->program)];
    constexpr auto kUnknown = std::numeric_limits<std::int64_t>::max();
    std::fill(begins.begin(), begins.end(), kUnknown);
    for (std::size_t i = 0; i < track->events.size(); ++i)
        if (ops.step[i] < begins.size())
            begins[ops.step[i]] =
                std::min(begins[ops.step[i]], track->events[i].start / kPsPerMicrosecond);
    std::int64_t latest = trace.step_start / kPsPerMicrosecond;
    for (std::int64_t& begin : begins)
        begin = latest = begin == kUnknown ? latest : std::max(latest, begin);
    return begins;
}

class Snapshot {
  public:
    std::string run(const plan::Plan& plan, const Trace& trace) && {
        std::vector<std::vector<MemoryEvent>> devices;
        for (const plan::Program& program : plan.programs)
            devices.push_back(memory_events(plan, program));
        out_.begin_dictionary();
        key(kMark);
        out_.text("planned memory, a device for each pipeline rank");
        key("segments");
        out_.begin_list();
        for (std::size_t d = 0; d < devices.size(); ++d)
            segment(devices[d], d);
        out_.end_list();
        key("device_traces");
        out_.begin_list();
        for (std::size_t d = 0; d < devices.size(); ++d)
            device(devices[d], begins_of(trace, plan.programs[d]));
        out_.end_list();
        key("allocator_settings");
        out_.begin_dictionary();
        key("PYTORCH_CUDA_ALLOC_CONF");
        out_.text("");
        pair("max_split_size", -1);
        key("expandable_segments");
        out_.truth(false);
        out_.end_dictionary();
        out_.end_dictionary();
        return std::move(out_).finish();
    }

  private:
    void key(std::string_view name) { out_.text(std::string(name)); }
    void pair(std::string_view name, std::int64_t value) {
        key(name);
        out_.number(value);
    }

    // The bytes up to the last one that is ever taken, and what is left in them at the end.
    void segment(const std::vector<MemoryEvent>& events, std::size_t device) {
        std::map<std::int64_t, const MemoryEvent*> left;
        std::int64_t end = kArenaBase, held = 0;
        for (const MemoryEvent& event : events) {
            end = std::max(end, event.address + event.bytes);
            if (event.takes)
                left[event.address] = &event;
            else
                left.erase(event.address);
        }
        for (const auto& [address, event] : left)
            held += event->bytes;
        out_.begin_dictionary();
        pair("device", static_cast<std::int64_t>(device));
        pair("address", kArenaBase);
        pair("total_size", end - kArenaBase);
        for (const char* name : {"allocated_size", "active_size", "requested_size"})
            pair(name, held);
        pair("stream", 0);
        key("segment_type");
        out_.text("large");
        key("blocks");
        out_.begin_list();
        std::int64_t at = kArenaBase;
        for (const auto& [address, event] : left) {
            if (address > at) block(at, address - at, nullptr);
            block(address, event->bytes, event);
            at = address + event->bytes;
        }
        if (end > at) block(at, end - at, nullptr);
        out_.end_list();
        out_.end_dictionary();
    }

    void block(std::int64_t address, std::int64_t bytes, const MemoryEvent* event) {
        out_.begin_dictionary();
        pair("address", address);
        pair("size", bytes);
        pair("requested_size", bytes);
        key("state");
        out_.text(event != nullptr ? "active_allocated" : "inactive");
        key("frames");
        frames(event != nullptr ? event->frames : std::vector<MemoryFrame>{});
        out_.end_dictionary();
    }

    void device(const std::vector<MemoryEvent>& events, const std::vector<std::int64_t>& begins) {
        std::map<std::int64_t, std::uint32_t> stacks;  // of what is taken, by address
        out_.begin_list();
        for (const MemoryEvent& event : events) {
            const std::int64_t at = begins[static_cast<std::size_t>(event.step)];
            if (event.takes) {
                entry("alloc", event, at);
                frames(event.frames);
                stacks[event.address] = last_stack_;
                out_.end_dictionary();
                continue;
            }
            for (const char* action : {"free_requested", "free_completed"}) {
                entry(action, event, at);
                out_.again(stacks[event.address]);
                out_.end_dictionary();
            }
        }
        out_.end_list();
    }

    // All but its frames, which come next.
    void entry(const char* action, const MemoryEvent& event, std::int64_t at) {
        out_.begin_dictionary();
        key("action");
        out_.text(action);
        pair("addr", event.address);
        pair("size", event.bytes);
        pair("stream", 0);
        pair("time_us", at);
        key("frames");
    }

    void frames(const std::vector<MemoryFrame>& all) {
        out_.begin_list();
        for (const MemoryFrame& frame : all) {
            out_.begin_dictionary();
            key("name");
            out_.text(frame.name);
            key("filename");
            out_.text(frame.file);
            pair("line", frame.line);
            out_.end_dictionary();
        }
        out_.end_list();
        last_stack_ = out_.keep();
    }

    PickleWriter out_;
    std::uint32_t last_stack_ = 0;
};

}  // namespace

std::string memory_snapshot(const plan::Plan& plan, const Trace& trace) {
    return Snapshot().run(plan, trace);
}

bool is_memory_snapshot(std::string_view text) {
    // A dictionary whose first key is the mark: its length, and it.
    return text.substr(0, 16).find(kMark) != std::string_view::npos && text.starts_with("\x80\x02");
}

}  // namespace orrery::trace
