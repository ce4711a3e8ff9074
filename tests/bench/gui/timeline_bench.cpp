// The desktop application on a large trace, drawn offscreen at 1920 × 1080. Shape of the input: a
// 1F1B step of 64 stages with a track each, 480 micro-batches, 41 layers of 4 ops: 10 M events
// (tests/trace/pipeline_trace.hpp).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <QApplication>
#include <QImage>

#include "gui/timeline/overlaid_lanes.hpp"
#include "gui/timeline/selection.hpp"
#include "gui/window/timeline_view.hpp"
#include "tests/trace/native_container.hpp"
#include "tests/trace/pipeline_trace.hpp"
#include "trace/formats/native.hpp"

namespace orrery::gui {
namespace {

constexpr trace::PipelineShape kShape{64, 480, 41};
constexpr double kEvents = 64. * 2 * 480 * 41 * 4 + 63. * 2 * 480;

void need_application() {
    static int argc = 1;
    static char name[] = "bench";
    static char* argv[] = {name, nullptr};
    qputenv("QT_QPA_PLATFORM", "offscreen");
    static const QApplication application(argc, argv);
}

// Resident memory also has what the allocator has taken back and kept.
double allocated_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

// Of this thread, which paints.
double processor_ms() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

const std::string& ten_million_events() {
    static const trace::TestFolder folder;
    static const std::string path = [] {
        std::string made = folder.file("t.orrery");
        trace::write_native(trace::pipeline_trace(kShape), made);
        return made;
    }();
    return path;
}

std::shared_ptr<const Timeline> opened() {
    return std::make_shared<const Timeline>(
        std::make_shared<const trace::Trace>(trace::read_native(ten_million_events())));
}

// Reading the file and laying out its rows.
void open_ten_million_events(benchmark::State& state) {
    ten_million_events();
    for (auto _ : state) {
        const double before = allocated_bytes();
        const std::shared_ptr<const Timeline> timeline = opened();
        state.counters["bytes_per_event"] = (allocated_bytes() - before) / kEvents;
        if (timeline->ranks().size() != 64) state.SkipWithError("ranks are missing");
    }
}
BENCHMARK(open_ten_million_events)->Unit(benchmark::kMillisecond)->Iterations(1);

// Zooming in and out at many places of the step, panning between; all ranks are seen.
void frames_of_ten_million_events(benchmark::State& state) {
    need_application();
    TimelineView view;
    view.resize(1920, 1080);
    view.show();
    view.show_timeline(opened(), false);
    QImage screen(1920, 1080, QImage::Format_RGB32);
    const Stretch all = view.timeline()->limits();
    std::vector<double> frames, processor;  // ms
    const auto frame = [&] {
        const auto begin = std::chrono::steady_clock::now();
        const double began = processor_ms();
        view.viewport()->render(&screen);
        processor.push_back(processor_ms() - began);
        frames.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                .count());
    };
    const auto act = [&](std::size_t action, int times) {
        for (int i = 0; i < times; ++i) {
            view.timeline_actions()[action]->trigger();
            frame();
        }
    };
    constexpr std::size_t zoom_in = 0, zoom_out = 1, move_left = 2, move_right = 3, whole_step = 5;
    frame();  // draws the overview on top for the first time
    state.counters["first_ms"] = frames.front();
    for (auto _ : state) {
        frames.clear();
        processor.clear();
        for (int place = -6; place < 6; ++place) {
            act(whole_step, 1);
            act(zoom_in, 4);
            act(place < 0 ? move_left : move_right, std::abs(place));  // of all, 5 % each
            for (int steps = 0; steps < 6; ++steps) {
                act(zoom_in, 3);
                act(move_right, 1);
            }
            act(zoom_out, 18);
        }
    }
    std::sort(frames.begin(), frames.end());
    std::sort(processor.begin(), processor.end());
    state.counters["frames"] = static_cast<double>(frames.size());
    state.counters["median_ms"] = frames[frames.size() / 2];
    state.counters["p99_ms"] = frames[frames.size() * 99 / 100];
    state.counters["worst_ms"] = frames.back();
    // What others on the machine take is not in these.
    state.counters["median_processor_ms"] = processor[processor.size() / 2];
    state.counters["p99_processor_ms"] = processor[processor.size() * 99 / 100];
    state.counters["worst_processor_ms"] = processor.back();
    if (view.scene().view.limits() != all) state.SkipWithError("another timeline");
}
BENCHMARK(frames_of_ten_million_events)->Unit(benchmark::kMillisecond)->Iterations(1);

// An area over everything.
void aggregate_of_ten_million_events(benchmark::State& state) {
    const std::shared_ptr<const Timeline> timeline = opened();
    Area area{timeline->limits(), {}};
    for (std::size_t rank = 0; rank < timeline->ranks().size(); ++rank)
        area.ranks.push_back(rank);
    for (auto _ : state) {
        const Aggregate aggregate = aggregate_of(*timeline, area);
        Picoseconds sum = 0;
        for (const KindTime& kind : aggregate.kinds)
            sum += kind.time;
        if (sum != aggregate.selected) state.SkipWithError("does not sum to the selected time");
    }
}
BENCHMARK(aggregate_of_ten_million_events)->Unit(benchmark::kMicrosecond);

// A step held against itself: aligning both, which is done beside the window, and laying the one
// over the rows of the other, which is done a row or two at each paint.
void overlay_of_ten_million_events(benchmark::State& state) {
    const std::shared_ptr<const Timeline> timeline = opened();
    const Rows rows(*timeline);
    for (auto _ : state) {
        const auto begin = std::chrono::steady_clock::now();
        const auto alignment =
            std::make_shared<const trace::Alignment>(timeline->trace(), timeline->trace());
        const std::chrono::duration<double, std::milli> aligned =
            std::chrono::steady_clock::now() - begin;
        state.counters["align_ms"] = aligned.count();
        OverlaidLanes lanes(
            *timeline,
            std::make_shared<const Counterparts>(timeline, timeline, alignment, trace::Side::a),
            false);
        double slowest = 0;
        for (const Row& row : rows.all()) {
            const auto before = std::chrono::steady_clock::now();
            lanes.make(row);
            const std::chrono::duration<double, std::milli> made =
                std::chrono::steady_clock::now() - before;
            slowest = std::max(slowest, made.count());
            if (lanes.made(row)->lane.spans().empty()) state.SkipWithError("nothing lies over it");
        }
        state.counters["slowest_row_ms"] = slowest;
    }
}
BENCHMARK(overlay_of_ten_million_events)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace orrery::gui
