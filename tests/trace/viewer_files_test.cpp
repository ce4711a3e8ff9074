// What Perfetto and Chrome files show of simulated steps, by decoders of the tests' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/ir/action.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "tests/trace/native_container.hpp"
#include "tests/trace/shown_trace.hpp"
#include "trace/formats/trace_file.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

using theory::Sets;

struct Case {
    const char* name;
    Sets sets;
    bool unfolded = false;
};

std::vector<Case> cases() {
    return {
        {"1f1b",
         {"layout.tensor_parallel=2", "layout.pipeline_parallel=4", "layout.data_parallel=2",
          "training.optimizer.clip_norm=1"}},
        {"interleaved",
         {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2", "layout.schedule=interleaved",
          "layout.global_batch_size=4", "layout.recompute=full"}},
        {"ZeRO-3", {"layout.zero_stage=3", "layout.data_parallel=4"}},
        {"unfolded",
         {"layout.tensor_parallel=2", "layout.pipeline_parallel=2", "layout.data_parallel=2",
          "layout.global_batch_size=4", "training.launch_us=5"},
         true},
    };
}

sim::Prediction predicted(const Case& of) {
    const plan::Scenario scenario = theory::scenario(of.sets);
    return sim::simulate(scenario, sim::load_profiles(scenario.cluster), {of.unfolded},
                         "{\"case\": \"" + std::string(of.name) + "\"}");
}

Shown shown(const std::string& path) {
    const std::string bytes = bytes_of_file(path);
    return path.ends_with(".json") ? ChromeDecoder().run(bytes) : PerfettoDecoder().run(bytes);
}

// Runs check(trace's prediction, what the file shows) for each case and both formats.
template <typename Check>
void for_each_file(Check check) {
    const TestFolder folder;
    for (const Case& of : cases()) {
        const sim::Prediction prediction = predicted(of);
        ASSERT_EQ(prediction.stuck, "");
        for (const char* file : {"t.pftrace", "t.json"}) {
            SCOPED_TRACE(std::string(of.name) + ", " + file);
            write_trace(prediction.trace, folder.file(file));
            const Shown view = shown(folder.file(file));
            ASSERT_EQ(view.ranks.size(), prediction.trace.tracks.size());
            check(prediction, view);
        }
    }
}

const ProgramOps& program_of(const Trace& trace, const Track& track) {
    return trace.programs[static_cast<std::size_t>(track.program)];
}

bool is_op(const ShownSlice& slice) {
    return slice.numbers.count("op_id") == 1;
}

TEST(ViewerFiles, HoldEachEventOnceWithWhatItIs) {
    for_each_file([](const sim::Prediction& prediction, const Shown& view) {
        const Trace& trace = prediction.trace;
        for (std::size_t t = 0; t < view.ranks.size(); ++t) {
            const Track& track = trace.tracks[t];
            const ProgramOps& program = program_of(trace, track);
            std::set<std::int64_t> seen;
            for (const ShownTrack& lane : view.ranks[t].tracks)
                for (const ShownSlice& slice : lane.slices) {
                    if (!is_op(slice)) continue;
                    const std::int64_t id = slice.numbers.at("op_id");
                    ASSERT_TRUE(seen.insert(id).second) << id;
                    const auto i = static_cast<std::size_t>(id);
                    const OpName& op = trace.op_of(track, i);
                    ASSERT_LT(i, track.events.size());
                    const Event event = track.events[i];
                    EXPECT_EQ(lane.name, plan::name(op.stream));
                    const bool exchange = op.kind == plan::OpKind::exchange;
                    EXPECT_EQ(slice.categories, exchange ? "exchange"
                                                         : std::string(plan::name(op.kind)) + "," +
                                                               std::string(plan::name(op.phase)));
                    EXPECT_EQ(slice.texts.at("action"), to_text(program.actions[program.step[i]]));
                    EXPECT_EQ(slice.texts.at("block"), op.block);
                    EXPECT_TRUE(slice.name.starts_with(slice.texts.at("action")));
                    EXPECT_EQ(slice.numbers.at("ready_ps"), event.ready);
                    EXPECT_EQ(slice.numbers.at("start_ps"), event.start);
                    EXPECT_EQ(slice.numbers.at("end_ps"), event.end);
                    EXPECT_EQ(slice.begin_ns, event.start / 1000);
                    EXPECT_EQ(slice.end_ns, event.end / 1000);
                    EXPECT_EQ(slice.texts.count("waited_for"), event.blocker == kNothing ? 0U : 1U);
                }
            EXPECT_EQ(seen.size(), track.events.size());
        }
    });
}

TEST(ViewerFiles, OverlapNothingWithinATrack) {
    for_each_file([](const sim::Prediction&, const Shown& view) {
        for (const ShownRank& rank : view.ranks)
            for (const ShownTrack& lane : rank.tracks) {
                std::int64_t free_from = 0;
                for (const ShownSlice& slice : lane.slices) {
                    ASSERT_GE(slice.begin_ns, free_from) << lane.name << ' ' << slice.name;
                    ASSERT_GE(slice.end_ns, slice.begin_ns);
                    free_from = slice.end_ns;
                }
                EXPECT_TRUE(
                    std::is_sorted(lane.counts.begin(), lane.counts.end(),
                                   [](const auto& a, const auto& b) { return a.first < b.first; }));
            }
    });
}

TEST(ViewerFiles, OrderRanksAndTheirTracks) {
    for_each_file([](const sim::Prediction& prediction, const Shown& view) {
        std::int64_t order = -1;
        for (std::size_t t = 0; t < view.ranks.size(); ++t) {
            const ShownRank& rank = view.ranks[t];
            const Track& track = prediction.trace.tracks[t];
            EXPECT_GT(rank.order, order);
            order = rank.order;
            EXPECT_EQ(rank.pid, track.rank + 1);
            const std::string alike = track.represents() > 1
                                          ? " · x" + std::to_string(track.represents()) + " alike"
                                          : "";
            EXPECT_EQ(rank.name,
                      "rank " + std::to_string(track.rank) + " · pipeline " +
                          std::to_string(program_of(prediction.trace, track).pipeline_rank) +
                          alike);
            ASSERT_GE(rank.tracks.size(), 3U);
            EXPECT_EQ(rank.tracks[0].name, "actions");
            EXPECT_EQ(rank.tracks[1].name, "compute");
            EXPECT_EQ(rank.tracks.back().name, "planned memory");
            for (std::size_t i = 1; i < rank.tracks.size(); ++i)
                EXPECT_GT(rank.tracks[i].order, rank.tracks[i - 1].order);
        }
    });
}

// Compute is one stream, and all its ops belong to actions.
TEST(ViewerFiles, ShowActionsThatSpanTheirComputeOps) {
    for_each_file([](const sim::Prediction& prediction, const Shown& view) {
        for (std::size_t t = 0; t < view.ranks.size(); ++t) {
            std::map<std::string, std::pair<std::int64_t, std::int64_t>> spans;  // by action
            for (const ShownSlice& op : view.ranks[t].tracks[1].slices) {
                auto [span, is_new] =
                    spans.try_emplace(op.texts.at("action"), op.begin_ns, op.end_ns);
                if (!is_new) span->second.second = op.end_ns;
            }
            std::map<std::string, std::pair<std::int64_t, std::int64_t>> actions;
            for (const ShownSlice& action : view.ranks[t].tracks[0].slices)
                EXPECT_TRUE(actions.try_emplace(action.name, action.begin_ns, action.end_ns).second)
                    << action.name;
            EXPECT_EQ(actions, spans);
            EXPECT_FALSE(actions.empty());
        }
        EXPECT_EQ(view.step.begin_ns, prediction.trace.step_start / 1000);
        EXPECT_EQ(view.step.end_ns, prediction.trace.step_end / 1000);
    });
}

// What the slices of a group add up to is what the report says of it: its ops follow each other
// on one stream.
TEST(ViewerFiles, AddUpToTheReportsCommunication) {
    for_each_file([](const sim::Prediction& prediction, const Shown& view) {
        std::map<std::string, double> busy_s;
        double ranks = 0;
        for (std::size_t t = 0; t < view.ranks.size(); ++t) {
            const auto weight = static_cast<double>(prediction.trace.tracks[t].represents());
            ranks += weight;
            for (const ShownTrack& lane : view.ranks[t].tracks)
                for (const ShownSlice& slice : lane.slices)
                    if (slice.texts.count("group") == 1)
                        busy_s[slice.texts.at("group")] +=
                            weight * 1e-12 *
                            static_cast<double>(slice.numbers.at("end_ps") -
                                                slice.numbers.at("start_ps"));
        }
        const auto report = [&](Account account) {
            return prediction.communication[static_cast<std::size_t>(account)].busy_s;
        };
        EXPECT_NEAR(busy_s["tensor"] / ranks, report(Account::exposed_tensor), 1e-12);
        EXPECT_NEAR((busy_s["pipeline"] + busy_s["embedding"]) / ranks,
                    report(Account::exposed_pipeline), 1e-12);
    });
}

std::set<std::string> parts_of(const std::string& action) {
    std::set<std::string> parts;
    for (std::size_t at = 0; at < action.size();) {
        const std::size_t end = std::min(action.find('+', at), action.size());
        parts.insert(action.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

TEST(ViewerFiles, DrawAnArrowFromEachSendToItsReceive) {
    for_each_file([](const sim::Prediction& prediction, const Shown& view) {
        struct End {
            const ShownSlice* slice;
            std::int64_t rank;
        };
        std::map<std::uint64_t, End> from, to;
        std::size_t transfers = 0;
        for (std::size_t t = 0; t < view.ranks.size(); ++t)
            for (const ShownTrack& lane : view.ranks[t].tracks)
                for (const ShownSlice& slice : lane.slices) {
                    if (!is_op(slice)) continue;
                    const bool exchange = slice.categories.starts_with("exchange");
                    const std::string& action = slice.texts.at("action");
                    const bool sends = exchange && action.find("SEND") != std::string::npos;
                    const bool receives = exchange && action.find("RECV") != std::string::npos;
                    EXPECT_EQ(!slice.arrows_out.empty(), sends) << action;
                    EXPECT_EQ(!slice.arrows_in.empty(), receives) << action;
                    transfers += exchange ? parts_of(action).size() : 0;
                    const std::int64_t rank = prediction.trace.tracks[t].rank;
                    for (const std::uint64_t id : slice.arrows_out)
                        EXPECT_TRUE(from.try_emplace(id, End{&slice, rank}).second);
                    for (const std::uint64_t id : slice.arrows_in)
                        EXPECT_TRUE(to.try_emplace(id, End{&slice, rank}).second);
                }
        EXPECT_EQ(from.size(), to.size());
        EXPECT_EQ(from.size(), transfers / 2);  // as many sends as receives
        for (const auto& [id, sender] : from) {
            ASSERT_EQ(to.count(id), 1U);
            const End& receiver = to.at(id);
            // A transfer is one for both its ends.
            EXPECT_EQ(sender.slice->begin_ns, receiver.slice->begin_ns);
            EXPECT_EQ(sender.slice->end_ns, receiver.slice->end_ns);
            EXPECT_NE(sender.rank, receiver.rank);
            bool matches = false;
            for (const std::string& part : parts_of(sender.slice->texts.at("action"))) {
                auto action = plan::parse_action(part);
                ASSERT_TRUE(action.has_value());
                if (!plan::is_send(action->kind)) continue;
                const bool forward = action->kind == plan::ActionKind::send_f;
                action->kind = forward ? plan::ActionKind::recv_f : plan::ActionKind::recv_b;
                action->stage += forward ? 1 : -1;
                matches |=
                    parts_of(receiver.slice->texts.at("action")).count(plan::to_text(*action)) == 1;
            }
            EXPECT_TRUE(matches) << sender.slice->name << " -> " << receiver.slice->name;
        }
    });
}

TEST(ViewerFiles, CountMemoryUpToThePlansPeak) {
    for_each_file([](const sim::Prediction& prediction, const Shown& view) {
        for (std::size_t t = 0; t < view.ranks.size(); ++t) {
            const ProgramOps& program = program_of(prediction.trace, prediction.trace.tracks[t]);
            std::int64_t most = 0;
            for (const auto& [ns, bytes] : view.ranks[t].tracks.back().counts)
                most = std::max(most, bytes);
            const sim::StageMemory& stage =
                prediction.memory.stages[static_cast<std::size_t>(program.pipeline_rank)];
            std::int64_t planned = 0;
            for (const std::int64_t bytes : stage.bytes)
                planned += bytes;
            EXPECT_EQ(most, planned);
        }
    });
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
