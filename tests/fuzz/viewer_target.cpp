// Traces in the formats of timeline viewers, as bytes: one that is read can be written, reads back
// the same, and every view of it works.
#include "plan/check.hpp"
#include "tests/fuzz/targets.hpp"
#include "tests/fuzz/traces.hpp"
#include "tests/trace/native_container.hpp"
#include "trace/formats/chrome.hpp"
#include "trace/formats/perfetto.hpp"

namespace orrery::fuzz {
namespace {

using Write = void (*)(const trace::Trace&, const std::string&);
using Read = trace::Trace (*)(std::string_view, const std::string&);

template <Write write>
std::string written(const trace::Trace& trace) {
    static const trace::TestFolder folder;
    const std::string path = folder.file("fuzz.trace");
    write(trace, path);
    return trace::bytes_of_file(path);
}

template <Write write, Read read>
void run(std::string_view input) {
    constexpr std::string_view kName = "fuzz.trace";
    trace::Trace trace;
    try {
        trace = read(input, std::string(kName));
    } catch (const trace::TraceFileError& fault) {
        ORRERY_CHECK(fault.fault() == trace::TraceFault::unreadable, fault.what());
        ORRERY_CHECK(std::string_view(fault.what()).substr(0, kName.size()) == kName, fault.what());
        return;
    }
    ORRERY_CHECK(read(written<write>(trace), "written") == trace,
                 "what was written reads to another trace");
    check_views(trace);
}

template <Write write>
std::vector<std::string> seeds() {
    std::vector<std::string> texts;
    for (const char* layout : {"layout.data_parallel=2", "layout.pipeline_parallel=2"}) {
        const std::vector<std::string> sets = {"model.n_layer=2", "layout.global_batch_size=2",
                                               layout};
        texts.push_back(written<write>(simulated_trace(sets)));
    }
    return texts;
}

using trace::read_chrome, trace::read_perfetto, trace::write_chrome, trace::write_perfetto;

}  // namespace

const Target kPerfettoTrace = {"perfetto_trace", 65536, run<write_perfetto, read_perfetto>,
                               seeds<write_perfetto>};
const Target kChromeTrace = {"chrome_trace", 65536, run<write_chrome, read_chrome>,
                             seeds<write_chrome>};

}  // namespace orrery::fuzz
