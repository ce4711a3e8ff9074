// The header of a native trace file, read from its JSON. Internal to trace/.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/formats/frame_reader.hpp"
#include "trace/trace.hpp"

namespace orrery::trace::native {

struct NativeHeader {
    Origin origin = Origin::predicted;
    Picoseconds step_start = 0, step_end = 0;
    std::uint64_t ops = 0, programs = 0, tracks = 0, events = 0;  // counts; not yet to be believed
    StorageFacts storage;
    // By index in the file: what the file's names mean here.
    std::vector<plan::OpKind> kinds;
    std::vector<plan::Phase> phases;
    std::vector<plan::Stream> streams;
    std::vector<plan::GroupKind> groups;
};

// Throws TraceFileError (unreadable).
NativeHeader read_header(const UnpackedFrame& frame);

}  // namespace orrery::trace::native
