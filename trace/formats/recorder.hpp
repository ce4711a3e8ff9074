// From events of a recorded trace, as they come, to lanes of spans: which process and lane each is
// of, how deep it lies in others, who launched it. Internal to trace/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/recorded.hpp"

namespace orrery::trace {

// What an event says of itself; empty: nothing.
struct RecordedEvent {
    std::string phase, category, name;  // "X", "kernel"
    std::string process, thread;        // numbers or words
    // Whole microseconds, and picoseconds besides: a time since 1970 does not fit picoseconds.
    std::optional<std::pair<std::int64_t, std::int64_t>> start;
    std::optional<std::pair<std::int64_t, std::int64_t>> duration;
    std::optional<std::int64_t> stream, correlation;  // of "args"
    std::string given_name, labels;                   // of "args", of what names a process
    std::optional<std::int64_t> sort_index;
    RecordedArguments arguments;
};

class Recorder {
  public:
    explicit Recorder(bool with_arguments = false) : with_arguments_(with_arguments) {}

    // Empty, or what is wrong with the event.
    std::string add(const RecordedEvent& event);
    RecordedTrace finish();

  private:
    struct Lane {
        std::string name;
        std::int64_t sort = 0;
        bool is_stream = false;
    };
    struct Process {
        std::string name, labels;
        std::int64_t sort = 0;
        bool is_device = false;
        std::map<std::string, std::uint32_t> lane_of;
        std::vector<Lane> lanes;
        std::vector<RecordedSpan> spans;
        std::vector<std::int64_t> correlations;  // by span; −1: none
        std::vector<std::uint32_t> arguments;    // by span, where they are kept
    };
    struct Partner {
        std::uint32_t process = kNoSpan, span = kNoSpan;
    };

    Process& process_of(const std::string& name);
    std::uint32_t lane_of(Process& process, const std::string& thread);
    std::uint32_t name_of(const std::string& name);
    void name_thing(const RecordedEvent& event);
    std::string add_span(const RecordedEvent& event);
    void begin_at_zero(RecordedTrace& trace);
    std::uint32_t arguments_of(const RecordedArguments& arguments);
    static void sort_spans(Process& process);
    void nest(RecordedTrace& trace, std::size_t number);
    void join_partners(RecordedTrace& trace);
    static void join_group_calls(RecordedTrace& trace);
    RecordedProcess dressed(Process& process, const std::string& id) const;

    std::map<std::string, std::uint32_t> process_of_;
    std::vector<std::pair<std::string, Process>> processes_;
    std::unordered_map<std::string, std::uint32_t> name_of_;
    std::vector<std::string> names_;
    bool with_arguments_;
    std::map<RecordedArguments, std::uint32_t> number_of_;
    std::vector<RecordedArguments> arguments_;
    std::vector<std::vector<std::int64_t>> correlations_;  // of the finished, by process and span
    std::optional<std::int64_t> base_us_;
    std::uint64_t left_out_ = 0;
};

}  // namespace orrery::trace
