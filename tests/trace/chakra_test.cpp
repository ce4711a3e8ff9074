// Chakra execution traces of plans: what stands in the files is what the plan says.
#include "trace/formats/chakra.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "tests/trace/chakra_file.hpp"
#include "trace/describe_plan.hpp"

namespace orrery::trace {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using plan::GroupKind;
using plan::OpKind;
using plan::Rank;
using testing::HasSubstr;

// Node and collective types of et_def.proto.
constexpr int kComp = 4, kSend = 5, kReceive = 6, kCollective = 7;

std::string folder_of(const std::string& name) {
    std::string folder = testing::TempDir() + "/chakra_" + name;
    fs::remove_all(folder);
    return folder;
}

std::vector<Rank> ranks_of(const plan::Plan& plan) {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < plan.mesh.ranks(); ++rank)
        ranks.push_back(rank);
    return ranks;
}

using Files = std::vector<std::vector<ChakraFileNode>>;

Files files_in(const std::string& folder, const std::vector<Rank>& ranks) {
    Files files;
    for (const Rank rank : ranks)
        files.push_back(chakra_nodes(fmt::format("{}/rank.{}.et", folder, rank)));
    return files;
}

struct Case {
    const char* name;
    theory::Sets sets;
    const char* text = theory::kGpt;
};

// Pipelines, rings, sharded states, shared embeddings.
const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {"one", {}},
        {"grid",
         {"layout.tensor_parallel=2", "layout.pipeline_parallel=2", "layout.data_parallel=2",
          "layout.sequence_parallel=true", "layout.global_batch_size=8"}},
        {"interleaved",
         {"layout.pipeline_parallel=2", "layout.virtual_pipeline=2",
          "layout.schedule=interleaved"}},
        {"ring", {"layout.context_parallel=4", "layout.data_parallel=2"}},
        {"zero", {"layout.data_parallel=4", "layout.zero_stage=3"}},
        {"tied",
         {"layout.pipeline_parallel=4", "layout.data_parallel=2",
          "model.tie_word_embeddings=true"}}};
    return all;
}

class ChakraOfPlan : public testing::TestWithParam<std::size_t> {
  protected:
    ChakraOfPlan()
        : plan_(theory::plan_of(cases()[GetParam()].sets, cases()[GetParam()].text)),
          folder_(folder_of(cases()[GetParam()].name)) {
        write_chakra(plan_, ranks_of(plan_), nullptr, folder_);
        files_ = files_in(folder_, ranks_of(plan_));
    }

    // Calls use(op) for each op that a rank's steps issue.
    template <typename Use>
    void each_op(Rank rank, const Use& use) const {
        const plan::Program& program = plan_.program_of(rank);
        for (const plan::Step& step : program.steps)
            if (step.procedure >= 0)
                for (const plan::BlockUse& of :
                     program.procedures[static_cast<std::size_t>(step.procedure)].uses)
                    for (const plan::Op& op : plan_.blocks[static_cast<std::size_t>(of.block)].ops)
                        use(op);
    }

    plan::Plan plan_;
    std::string folder_;
    Files files_;
};

TEST_P(ChakraOfPlan, HasItsCollectivesAndWork) {
    for (const Rank rank : ranks_of(plan_)) {
        std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, double>> planned,
            written;
        double flops = 0, written_flops = 0;
        std::int64_t computed = 0, written_computed = 0;
        each_op(rank, [&](const plan::Op& op) {
            flops += plan::flops(op);
            if (!plan::is_communication(op.kind()) && !plan::is_copy(op.kind())) ++computed;
            if (!plan::is_communication(op.kind()) || op.is<plan::Shift>()) return;
            auto& [count, bytes] =
                planned[{std::string(plan::name(op.group)), std::string(plan::name(op.kind()))}];
            ++count;
            bytes += static_cast<double>(plan::message_bytes(op));
        });
        for (const ChakraFileNode& node : files_[static_cast<std::size_t>(rank)]) {
            if (node.type == kComp) {
                ++written_computed;
                EXPECT_GE(node.numbers.at("num_ops"), 1) << "simulators divide by it";
                if (node.numbers.at("num_ops") > 1)
                    written_flops += static_cast<double>(node.numbers.at("num_ops"));
                EXPECT_GE(node.numbers.at("tensor_size"), 0);
            }
            if (node.type != kCollective) continue;
            auto& [count, bytes] = written[{node.texts.at("group"), node.texts.at("op_kind")}];
            ++count;
            // A rank hands its share to a gather; nccl-tests counts what all hand.
            const bool gathers = node.numbers.at("comm_type") == 2;
            bytes += static_cast<double>(node.numbers.at("comm_size")) *
                     (gathers ? static_cast<double>(node.numbers.at("group_size")) : 1);
        }
        EXPECT_EQ(written, planned) << "rank " << rank;
        EXPECT_EQ(written_computed, computed);
        EXPECT_DOUBLE_EQ(written_flops, flops);
    }
}

TEST_P(ChakraOfPlan, EverySendHasItsReceive) {
    using Message = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
    std::set<Message> sent, received;
    std::int64_t transfers = 0, shifts = 0, messages = 0;
    for (const Rank rank : ranks_of(plan_)) {
        for (const plan::Step& step : plan_.program_of(rank).steps)
            transfers += static_cast<std::int64_t>(step.transfers.size());
        each_op(rank, [&](const plan::Op& op) { shifts += op.is<plan::Shift>() ? 1 : 0; });
        for (const ChakraFileNode& node : files_[static_cast<std::size_t>(rank)]) {
            if (node.type != kSend && node.type != kReceive) continue;
            ++messages;
            const Message message{node.numbers.at("comm_src"), node.numbers.at("comm_dst"),
                                  node.numbers.at("comm_tag"), node.numbers.at("comm_size")};
            EXPECT_EQ(node.type == kSend ? std::get<0>(message) : std::get<1>(message), rank);
            EXPECT_GT(std::get<3>(message), 0);
            EXPECT_TRUE((node.type == kSend ? sent : received).insert(message).second)
                << "rank " << rank << ": two messages with one tag";
        }
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(messages, transfers + 2 * shifts);
    const std::string name = cases()[GetParam()].name;
    EXPECT_EQ(shifts > 0, name == "ring");
    EXPECT_EQ(transfers > 0, plan_.mesh.pipeline > 1);
}

// Ids grow along every edge, so that no path leads back; and by the edges alone an op comes after
// all that the plan's order says.
TEST_P(ChakraOfPlan, NodesComeAfterWhatThePlanSays) {
    for (const Rank rank : ranks_of(plan_)) {
        const plan::LinkedProgram linked = plan::link(plan_, plan_.program_of(rank));
        const auto& nodes = files_[static_cast<std::size_t>(rank)];
        std::vector<plan::StreamCounts> reached(nodes.size());  // ended when the node has
        plan::StreamCounts issued{};
        std::int64_t last_op = -1;
        for (std::size_t n = 0; n < nodes.size(); ++n) {
            EXPECT_EQ(nodes[n].id, n);
            plan::StreamCounts before{};
            for (const std::uint64_t id : nodes[n].after) {
                ASSERT_LT(id, n);
                plan::join(before, reached[id]);
            }
            const auto op = nodes[n].numbers.at("op");
            const auto stream = static_cast<std::size_t>(nodes[n].numbers.at("stream"));
            if (op != last_op) ++issued[stream];
            last_op = op;
            EXPECT_GE(before[stream] + 1, issued[stream]) << "streams are in order";
            for (std::uint32_t w = linked.first_wait[static_cast<std::size_t>(op)];
                 w < linked.first_wait[static_cast<std::size_t>(op) + 1]; ++w)
                EXPECT_GE(before[plan::index_of(linked.waits[w].stream)], linked.waits[w].count);
            reached[n] = before;
            reached[n][stream] = issued[stream];
        }
        EXPECT_EQ(static_cast<std::size_t>(last_op) + 1, linked.size());
    }
}

// What would deadlock a simulator: members that meet in different orders, or in other sizes.
TEST_P(ChakraOfPlan, MembersOfAGroupMeetAlike) {
    std::ifstream file(folder_ + "/comm_groups.json");
    const auto groups = nlohmann::json::parse(file);
    std::map<std::string, std::map<Rank, std::vector<std::pair<std::int64_t, std::int64_t>>>> met;
    for (const Rank rank : ranks_of(plan_))
        for (const ChakraFileNode& node : files_[static_cast<std::size_t>(rank)])
            if (node.type == kCollective)
                met[node.texts.at("pg_name")][rank].emplace_back(node.numbers.at("comm_type"),
                                                                 node.numbers.at("comm_size"));
    for (const auto& [group, of_rank] : met) {
        EXPECT_NE(group, "0") << "every rank, to ASTRA-sim";
        std::vector<Rank> members;
        for (const auto& [rank, order] : of_rank) {
            members.push_back(rank);
            EXPECT_EQ(order, of_rank.begin()->second) << group << ' ' << rank;
        }
        EXPECT_EQ(groups.at(group).get<std::vector<Rank>>(), members);
    }
}

// Ranks that start whatever may start, collectives when all members are there, messages when both
// ends are, come to their ends.
TEST_P(ChakraOfPlan, NoRankWaitsForEver) {
    std::ifstream file(folder_ + "/comm_groups.json");
    const auto groups = nlohmann::json::parse(file);
    // What a node meets others by: a group and the number of its collective, or a message.
    using Meeting = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;
    std::map<Meeting, std::size_t> there;
    std::vector<std::vector<bool>> counted, ended;
    std::vector<std::vector<Meeting>> meetings;
    for (const auto& nodes : files_) {
        counted.emplace_back(nodes.size());
        ended.emplace_back(nodes.size());
        std::map<std::string, std::int64_t> number;
        auto& of_rank = meetings.emplace_back();
        for (const ChakraFileNode& node : nodes) {
            Meeting meeting;
            if (node.type == kCollective)
                meeting = {node.texts.at("pg_name"), ++number[node.texts.at("pg_name")], 0, 0};
            else if (node.type == kSend || node.type == kReceive)
                meeting = {"", node.numbers.at("comm_src"), node.numbers.at("comm_dst"),
                           node.numbers.at("comm_tag")};
            of_rank.push_back(meeting);
        }
    }
    std::size_t left = 0;
    for (const auto& nodes : files_)
        left += nodes.size();
    for (bool any = true; any;) {
        any = false;
        for (std::size_t r = 0; r < files_.size(); ++r)
            for (const ChakraFileNode& node : files_[r]) {
                const bool ready =
                    std::all_of(node.after.begin(), node.after.end(),
                                [&](std::uint64_t before) { return ended[r][before]; });
                if (ended[r][node.id] || !ready) continue;
                const Meeting& meeting = meetings[r][node.id];
                const bool alone = meeting == Meeting();
                if (!alone && !counted[r][node.id]) ++there[meeting];
                any = any || !counted[r][node.id];
                counted[r][node.id] = true;
                const std::size_t members =
                    node.type == kCollective ? groups.at(std::get<0>(meeting)).size() : 2;
                if (!alone && there[meeting] < members) continue;
                ended[r][node.id] = any = true;
                --left;
            }
    }
    EXPECT_EQ(left, 0U);
}

std::string name_of(const testing::TestParamInfo<std::size_t>& param) {
    return cases()[param.param].name;
}
INSTANTIATE_TEST_SUITE_P(Layouts, ChakraOfPlan, testing::Range(std::size_t{0}, cases().size()),
                         name_of);

struct Simulated {
    plan::Plan plan;
    sim::Prediction prediction;
};

Simulated simulated(const theory::Sets& sets) {
    Simulated out;
    const plan::Scenario scenario = theory::scenario(sets);
    out.plan = plan::build_plan(scenario);
    sim::SimulateOptions how;
    how.plan = &out.plan;
    out.prediction = sim::simulate(scenario, sim::load_profiles(scenario.cluster), how, "");
    return out;
}

// Two steps are simulated here, since the first stages begin one while the last end the other: what
// is written is the one that counts, from its first start on.
TEST(ChakraPrices, AreOfTheStepThatCounts) {
    const Simulated all = simulated({"layout.pipeline_parallel=2", "layout.data_parallel=2",
                                     "layout.zero_stage=1", "training.optimizer.clip_norm=0"});
    const Trace& trace = all.prediction.trace;
    const ChakraPrices prices(all.plan, trace);
    ASSERT_EQ(prices.why_not(), "");
    Picoseconds end = 0;
    const std::string folder = folder_of("priced");
    write_chakra(all.plan, ranks_of(all.plan), &prices, folder);
    const Files files = files_in(folder, ranks_of(all.plan));
    for (const Rank rank : ranks_of(all.plan)) {
        const auto& nodes = files[static_cast<std::size_t>(rank)];
        std::map<std::int64_t, std::int64_t> length_ps, length_us;  // by stream
        for (const ChakraFileNode& node : nodes) {
            for (const std::uint64_t id : node.after)
                EXPECT_LE(
                    nodes[id].numbers.at("start_picos") + nodes[id].numbers.at("duration_picos"),
                    node.numbers.at("start_picos"))
                    << "it starts before what it comes after has ended";
            length_ps[node.numbers.at("stream")] += node.numbers.at("duration_picos");
            length_us[node.numbers.at("stream")] += static_cast<std::int64_t>(node.duration_us);
            // Both ends are rounded.
            EXPECT_NEAR(static_cast<double>(node.duration_us),
                        static_cast<double>(node.numbers.at("duration_picos")) / 1e6, 1);
        }
        const std::vector<Event> events = prices.events_of(rank);
        double busy_ps = 0;
        const plan::LinkedProgram linked = plan::link(all.plan, all.plan.program_of(rank));
        for (std::size_t i = 0; i < linked.size(); ++i)
            if (trace.ops[linked.op[i]].stream == plan::Stream::compute)
                busy_ps += static_cast<double>(events[i].end - events[i].start);
        EXPECT_DOUBLE_EQ(static_cast<double>(length_ps[0]), busy_ps);
        EXPECT_NEAR(static_cast<double>(length_us[0]), busy_ps / 1e6,
                    static_cast<double>(nodes.size()) / 4)
            << "rounding does not add up";
        // The second of two, whose end is the step's.
        EXPECT_EQ(trace.programs[0].op.size(),
                  2 * plan::link(all.plan, all.plan.programs[0]).size());
        for (std::size_t i = 0; i < linked.size(); ++i)
            end = std::max(end, events[i].end);
    }
    EXPECT_LE(end, trace.step_end);
    EXPECT_GT(end, trace.step_start + (trace.step_end - trace.step_start) / 2);
}

TEST(ChakraPrices, OfAnotherPlanAreRefused) {
    const Simulated all = simulated({"layout.pipeline_parallel=2"});
    const plan::Plan other = theory::plan_of({"layout.pipeline_parallel=4"});
    EXPECT_EQ(ChakraPrices(other, all.prediction.trace).why_not(),
              "it has 2 programs, and the plan 4");
    const plan::Plan wider = theory::plan_of({"layout.pipeline_parallel=2", "model.n_embd=1024"});
    EXPECT_EQ(ChakraPrices(wider, all.prediction.trace).why_not(), "its ops are of another plan");
    Trace cut = all.prediction.trace;
    cut.programs[1].op.pop_back();
    EXPECT_THAT(ChakraPrices(all.plan, cut).why_not(),
                HasSubstr("not a whole number of steps of the plan's"));
}

TEST(ChakraFolder, HoldsTheRanksOfTheLastCall) {
    const plan::Plan plan = theory::plan_of({"layout.data_parallel=4"});
    const std::string folder = folder_of("again");
    EXPECT_EQ(write_chakra(plan, {0, 1, 2, 3}, nullptr, folder).files, 4);
    const ChakraWritten written = write_chakra(plan, {1, 3}, nullptr, folder);
    std::set<std::string> names;
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
        names.insert(entry.path().filename());
        if (entry.path().extension() == ".et") bytes += fs::file_size(entry.path());
    }
    EXPECT_EQ(names, (std::set<std::string>{"comm_groups.json", "rank.1.et", "rank.3.et"}));
    EXPECT_EQ(written.bytes, bytes);
    EXPECT_EQ(foreign_to_chakra(folder), "");
    // What is said before anything is written is near what is.
    EXPECT_NEAR(chakra_bytes(plan, {1, 3}) / static_cast<double>(bytes), 1, 0.25);
    std::ofstream(folder + "/rank.x.et") << "mine";
    EXPECT_EQ(foreign_to_chakra(folder), "rank.x.et");
    try {
        write_chakra(plan, {0}, nullptr, folder + "/rank.1.et");
        ADD_FAILURE() << "a file is no folder";
    } catch (const TraceFileError& error) {
        EXPECT_EQ(error.fault(), TraceFault::storage);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::trace
