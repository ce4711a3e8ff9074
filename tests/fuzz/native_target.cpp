// Native traces, *.orrery: as bytes, and as the frames inside, packed with checksums that are
// right, so that what is behind them is reached. A trace that is read can be written, reads back
// the same, and every view of it works.
#include "plan/check.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/fuzz/traces.hpp"
#include "tests/trace/native_container.hpp"
#include "trace/formats/native.hpp"

namespace orrery::fuzz {
namespace {

std::string written(const trace::Trace& trace) {
    static const trace::TestFolder folder;
    const std::string path = folder.file("fuzz.orrery");
    trace::write_native(trace, path);
    return trace::bytes_of_file(path);
}

void run_file(std::string_view input) {
    const MemoryFile file(input);
    trace::Trace trace;
    try {
        trace = trace::read_native(file.path());
    } catch (const trace::TraceFileError& fault) {
        ORRERY_CHECK(fault.fault() == trace::TraceFault::unreadable, fault.what());
        return;
    }
    ORRERY_CHECK(trace::read_native(MemoryFile(written(trace)).path()) == trace,
                 "what was written reads to another trace");
    check_views(trace);
}

// Input: per frame its code (4 bytes), index (1), size (2, little-endian), content.
std::string frames_of(const trace::Container& container) {
    std::string bytes;
    for (const auto& frame : container.frames)
        bytes += frame.code + trace::little_endian(frame.index, 1) +
                 trace::little_endian(frame.raw.size(), 2) + frame.raw;
    return bytes;
}

void run_frames(std::string_view input) {
    constexpr std::size_t kFrameHead = 7;
    trace::Container container;
    container.head = std::string("\x89ORRERY\n\1\0\0\0\0\0\0\0", 16);
    while (input.size() >= kFrameHead) {
        const std::string head(input.substr(0, kFrameHead));
        const std::string raw(input.substr(kFrameHead, trace::little_endian(head, 5, 2)));
        container.frames.push_back({head.substr(0, 4), trace::little_endian(head, 4, 1), raw, 0});
        input.remove_prefix(kFrameHead + raw.size());
    }
    run_file(container.file());
}

std::vector<std::string> file_seeds() {
    return {written(simulated_trace({"layout.global_batch_size=2"})),
            written(simulated_trace({"layout.pipeline_parallel=2", "layout.tensor_parallel=2"}))};
}

std::vector<std::string> frame_seeds() {
    std::vector<std::string> seeds = file_seeds();
    for (std::string& seed : seeds)
        seed = frames_of(trace::Container::of(seed));
    return seeds;
}

}  // namespace

const Target kNativeTrace = {"native_trace", 16384, run_file, file_seeds};
const Target kNativeFrames = {"native_frames", 32768, run_frames, frame_seeds};

}  // namespace orrery::fuzz
