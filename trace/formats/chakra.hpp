// MLCommons Chakra execution traces (protobuf; Sridharan et al. 2023, "Chakra: Advancing
// performance benchmarking and co-design using standardized execution traces"): a file a rank, of
// length-delimited messages: GlobalMetadata, then a Node for each op, with what it comes after.
// ASTRA-sim and others simulate them; PyTorch's runs are converted to them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/ir/mesh.hpp"
#include "plan/ir/plan.hpp"
#include "trace/recorded.hpp"
#include "trace/trace.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::trace {

// The files of a folder: rank.0.et, rank.1.et, … and, last, the groups.
inline constexpr std::string_view kChakraPrefix = "rank.";
inline constexpr std::string_view kChakraEnding = ".et";
inline constexpr std::string_view kChakraGroups = "comm_groups.json";

// What a trace says of how long the ops of a plan take: the step in it that counts.
class ChakraPrices {
  public:
    // Both must outlive it. why_not(): empty, or in what the trace is of another plan.
    ChakraPrices(const plan::Plan& plan, const Trace& trace);

    const std::string& why_not() const { return why_not_; }
    // Whether some rank stands for this one, or it for itself.
    bool knows(plan::Rank rank) const { return track_of(rank) != nullptr; }
    // The events of a known rank's step by op id.
    std::vector<Event> events_of(plan::Rank rank) const;
    // When the step's first op starts, which is time 0 of what is written.
    Picoseconds start() const { return start_; }
    // Ranks that stand for others, and those that stand for themselves.
    std::vector<plan::Rank> representatives() const;

  private:
    const Track* track_of(plan::Rank rank) const;  // nullptr: none
    std::size_t first_event(const Track& track) const;

    const Trace& trace_;
    std::vector<std::size_t> ops_of_program_;  // of one step
    std::size_t step_ = 0;                     // which of those in the trace counts
    Picoseconds start_ = 0;
    std::string why_not_;
};

struct ChakraWritten {
    std::int64_t files = 0;
    std::uint64_t nodes = 0, bytes = 0;
};

// Writes the files of these ranks into a folder, which is made where it is not there, and takes
// away those of other ranks that an earlier call left; the groups, of all ranks, come last, so that
// a folder without them is not whole. `prices` may be null: nodes then say no times. Throws
// TraceFileError (storage).
ChakraWritten write_chakra(const plan::Plan& plan, const std::vector<plan::Rank>& ranks,
                           const ChakraPrices* prices, const std::string& folder);

// About how many bytes the files of these ranks have.
double chakra_bytes(const plan::Plan& plan, const std::vector<plan::Rank>& ranks);

// The name of a file in a folder that write_chakra does not write; empty: there is none.
std::string foreign_to_chakra(const std::string& folder);

// What the nodes of a file took, on the streams of a device; where they say no starts, each starts
// when those that it comes after, and those before it on its stream, have ended. Of a trace of
// PyTorch that ran without a device the operators of the host are the work. Throws TraceFileError
// (unreadable) with the byte at which the file is wrong, or what it lacks.
RecordedTrace read_chakra(const std::string& path);

// By the ending of its name.
bool is_chakra_name(const std::string& path);

}  // namespace orrery::trace
