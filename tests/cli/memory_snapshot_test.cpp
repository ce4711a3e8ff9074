// simulate --memory-snapshot: Python's own pickle reads it, each piece of memory is taken and given
// back once and lies over no other, and at its highest it is the predicted peak.
#include <array>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/scenario_input.hpp"
#include "plan/assemble/build_plan.hpp"
#include "plan/memory/arena.hpp"
#include "plan/scenario/reader.hpp"
#include "tests/cli/world.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

// Plays the snapshot back as memory_viz does. By device: the highest sum, the bytes at the end, and
// whatever does not fit together.
constexpr const char* kPlayback = R"PY(
import bisect, json, pickle, sys
snapshot = pickle.loads(open(sys.argv[1], 'rb').read())
devices = []
for segment, trace in zip(snapshot['segments'], snapshot['device_traces']):
    live, starts, total, peak, faults, clock, stages, ops = {}, [], 0, 0, [], None, set(), set()
    for event in trace:
        at, size = event['addr'], event['size']
        if clock is not None and event['time_us'] < clock: faults.append('time goes back')
        clock = event['time_us']
        if not event['frames']: faults.append('no frames')
        if event['action'] == 'alloc':
            i = bisect.bisect_left(starts, at)
            if i > 0 and starts[i - 1] + live[starts[i - 1]] > at: faults.append('over the one before')
            if i < len(starts) and at + size > starts[i]: faults.append('over the next')
            if at in live: faults.append('taken twice')
            else: starts.insert(i, at)
            live[at] = size
            total += size
            peak = max(peak, total)
            for frame in event['frames']:
                if 'micro-batch' in frame['name']: stages.add(frame['name'])
            if len(event['frames']) == 3: ops.add(event['frames'][1]['name'])
        elif event['action'] == 'free_completed':
            if live.get(at) != size: faults.append('given back, and never taken')
            total -= live.pop(at, 0)
            starts.remove(at)
    left = {b['address']: b['size'] for b in segment['blocks'] if b['state'] == 'active_allocated'}
    if left != live: faults.append('the segment holds something else at the end')
    if sum(b['size'] for b in segment['blocks']) != segment['total_size']: faults.append('blocks do not fill it')
    devices.append({'peak': peak, 'left': total, 'faults': sorted(set(faults)), 'events': len(trace),
                    'actions': len(stages), 'ops': sorted(ops)})
print(json.dumps(devices))
)PY";

nlohmann::json played_back(const std::string& snapshot) {
    const std::string script = written("play_back.py", kPlayback);
    const std::string command = fmt::format("python3 '{}' '{}' 2>&1", script, snapshot);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr)
        text += part.data();
    const auto result = nlohmann::json::parse(text, nullptr, false);
    EXPECT_FALSE(result.is_discarded()) << text;
    return result;
}

const std::string kRuns = std::string(ORRERY_SOURCE_DIR) + "/scenarios/runs/";

void expect_peaks(const std::string& file, const std::vector<std::string>& sets) {
    const std::string snapshot = testing::TempDir() + "planned.pickle";
    std::filesystem::remove(snapshot);
    std::vector<std::string> args = {"simulate", file, "--memory-snapshot", snapshot};
    for (const std::string& set : sets)
        args.insert(args.end(), {"--set", set});
    const Outcome outcome = run(args);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const plan::ReadResult read = plan::read_scenario(file, sets, library_folder());
    const plan::Plan plan = plan::build_plan(*read.scenario);
    const nlohmann::json devices = played_back(snapshot);
    ASSERT_EQ(devices.size(), plan.programs.size());
    for (std::size_t d = 0; d < devices.size(); ++d) {
        const plan::MemoryPeak peak = plan::memory_peak(plan, plan.programs[d]);
        EXPECT_EQ(devices[d]["peak"], peak.live) << "pipeline rank " << d;
        EXPECT_EQ(devices[d]["faults"], nlohmann::json::array()) << "pipeline rank " << d;
        EXPECT_GT(devices[d]["left"], 0);  // parameters stay
        EXPECT_GT(devices[d]["actions"], 2);
        EXPECT_GT(devices[d]["ops"].size(), 5U);
    }
}

TEST(MemorySnapshot, IsAtItsHighestThePredictedPeak) {
    const std::string gpt = kRuns + "tiny-gpt.json", moe = kRuns + "tiny-moe.json";
    const std::vector<std::pair<std::string, std::vector<std::string>>> all = {
        {gpt, {}},
        {gpt, {"layout.virtual_pipeline=2", "layout.schedule=interleaved"}},
        {gpt, {"layout.schedule=zb-h1"}},
        {gpt, {"layout.recompute=full"}},
        {gpt, {"layout.recompute=selective", "layout.sequence_parallel=true"}},
        {gpt, {"layout.pipeline_parallel=1", "layout.zero_stage=3"}},
        {gpt, {"layout.zero_stage=2", "layout.recompute=every_k"}},
        {gpt, {"training.precision=bf16", "layout.zero_stage=1"}},
        {moe, {}},
        {moe,
         {"layout.overlap_expert_communication=true", "layout.schedule=interleaved",
          "layout.virtual_pipeline=2"}},
    };
    for (const auto& [file, sets] : all) {
        SCOPED_TRACE(file + (sets.empty() ? "" : ' ' + sets.front()));
        expect_peaks(file, sets);
    }
}

TEST(MemorySnapshot, IsWrittenOntoNothingElse) {
    const Outcome named =
        run({"simulate", tiny(), "--memory-snapshot", testing::TempDir() + "a.bin"});
    EXPECT_EQ(named.code, 2);
    EXPECT_NE(named.err.find("the name must end in .pickle"), std::string::npos) << named.err;
    const std::string mine = written("mine.pickle", "\x80\x02}q\x01.");
    EXPECT_EQ(run({"simulate", tiny(), "--memory-snapshot", mine}).code, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
