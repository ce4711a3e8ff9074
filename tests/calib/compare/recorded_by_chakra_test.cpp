// Chakra execution traces as recorded steps: those that we write of a plan, and those that Chakra's
// converter makes of a run of PyTorch.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calib/compare/recorded_match.hpp"
#include "plan/assemble/build_plan.hpp"
#include "sim/prediction.hpp"
#include "tests/theory/theory_scenarios.hpp"
#include "tests/trace/chakra_file.hpp"
#include "trace/formats/chakra.hpp"
#include "trace/formats/recorded_file.hpp"

namespace orrery::compare {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;
using trace::add_attribute;
using trace::chakra_file;

// Written and read back a step has the ops, the shapes and the times of its prediction.
TEST(ChakraOfAPlan, SaysWhatWasPredicted) {
    const plan::Scenario scenario = theory::scenario(
        {"layout.tensor_parallel=2", "layout.pipeline_parallel=2", "layout.data_parallel=2",
         "layout.zero_stage=1", "training.optimizer.clip_norm=0"});
    const plan::Plan plan = plan::build_plan(scenario);
    sim::SimulateOptions how;
    how.plan = &plan;
    const sim::Prediction prediction =
        sim::simulate(scenario, sim::load_profiles(scenario.cluster), how, "");
    const trace::Trace& predicted = prediction.trace;
    const trace::ChakraPrices prices(plan, predicted);
    const std::string folder = testing::TempDir() + "/read_back";
    std::filesystem::remove_all(folder);
    trace::write_chakra(plan, prices.representatives(), &prices, folder);
    for (const trace::Track& track : predicted.tracks) {
        const std::string file = fmt::format("{}/rank.{}.et", folder, track.rank);
        const std::vector<trace::RecordedTrace> traces = trace::read_recorded(file);
        ASSERT_EQ(traces.size(), 1U);
        const RecordedRank rank = recorded_rank(traces.front(), file);
        EXPECT_EQ(rank.rank, track.rank);
        EXPECT_EQ(rank.world_size, 8);
        const RankMatch match = match_rank(rank, plan, predicted, track);
        EXPECT_EQ(match.unmatched, 0);
        EXPECT_EQ(match.by_kind, 0);
        EXPECT_GT(match.by_op, 100);
        for (const KindMatch& kind : match.kinds) {
            EXPECT_EQ(kind.recorded, kind.planned) << name(kind.kind);
            EXPECT_NEAR(kind.measured_s, kind.predicted_s, 1e-11) << name(kind.kind);
        }
        for (const auto& [op, item] : match.ops)
            EXPECT_EQ(rank.work[item].duration(), track.events[op].end - track.events[op].start);
    }
}

// A node of the converter: an operator of the host, or what it launched.
struct Made {
    int id;
    const char* name;
    int type;
    int parent = -1;              // ctrl_deps
    std::vector<int> after = {};  // data_deps
    int duration_us = 0;
    const char* shapes = "";
    std::vector<std::pair<std::string, std::int64_t>> numbers = {};
    const char* group = "";
    const char* values = "";
};

std::string message_of(const Made& node) {
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    writer.add_uint64(1, static_cast<std::uint64_t>(node.id));
    writer.add_string(2, node.name);
    writer.add_enum(3, node.type);
    if (node.parent >= 0) writer.add_packed_uint64(4, &node.parent, &node.parent + 1);
    for (const int id : node.after)  // not packed: as proto2 writes them
        writer.add_uint64(5, static_cast<std::uint64_t>(id));
    writer.add_uint64(7, static_cast<std::uint64_t>(node.duration_us));
    std::string inputs;
    protozero::pbf_writer(inputs).add_string(1, node.values);
    protozero::pbf_writer(inputs).add_string(2, node.shapes);
    writer.add_message(8, inputs);
    for (const auto& [name, value] : node.numbers)
        add_attribute(writer, name, value);
    if (*node.group != '\0') add_attribute(writer, "pg_name", std::string(node.group));
    return bytes;
}

std::string file_of(const std::string& name, const std::vector<Made>& nodes) {
    std::string metadata;
    protozero::pbf_writer(metadata).add_string(1, "0.0.4");
    std::vector<std::string> messages = {metadata};
    for (const Made& node : nodes)
        messages.push_back(message_of(node));
    return chakra_file(name, messages);
}

const std::vector<std::pair<std::string, std::int64_t>> kHost = {{"is_cpu_op", 1}, {"tid", 3}};

std::vector<std::pair<std::string, std::int64_t>> on(
    int stream, std::vector<std::pair<std::string, std::int64_t>> more = {}) {
    more.emplace_back("is_cpu_op", 0);
    more.emplace_back("stream", stream);
    return more;
}

// Stream 7: product 30 µs, norm's gradient 6 µs, a kernel of 4 µs; stream 20: a reduction of 40 µs
// after the product, and a gather of 10 µs.
std::vector<Made> run() {
    return {
        {1,
         "## process_group:init ##",
         1,
         -1,
         {},
         0,
         "",
         kHost,
         "",
         R"(['[{"pg_name": "1", "ranks": [0, 2, 4, 6]}]'])"},
        {2, "aten::mm", 4, -1, {}, 9, "[[64, 32], [32, 16]]", kHost},
        {3, "sm90_xmma_gemm_bf16", 4, 2, {}, 30, "", on(7)},
        {4,
         "autograd::engine::evaluate_function: NativeLayerNormBackward0",
         4,
         -1,
         {2},
         1,
         "",
         kHost},
        {5, "aten::native_layer_norm_backward", 4, 4, {}, 1, "[[64, 16]]", kHost},
        {6, "void at::native::layer_norm_grad_input_kernel", 4, 5, {3}, 6, "", on(7)},
        {7,
         "ncclDevKernel_Generic",
         7,
         4,
         {3},
         40,
         "",
         on(20, {{"comm_type", 0}, {"comm_size", 4096}}),
         "1"},
        {8,
         "ncclDevKernel_Generic",
         7,
         4,
         {7},
         10,
         "",
         on(20, {{"comm_type", 2}, {"comm_size", 1000}}),
         "1"},
        {9, "a kernel of the user's own", 4, -1, {6}, 4, "", on(7)},
    };
}

TEST(ChakraOfPyTorch, IsReadByKindsShapesAndCallers) {
    const std::string file = file_of("linked.2.et", run());
    const RecordedRank rank = recorded_rank(trace::read_recorded(file).front(), file);
    EXPECT_EQ(rank.rank, 2) << "of the file's name";
    ASSERT_EQ(rank.work.size(), 5U);
    const auto item = [&](WorkKind kind) {
        for (const WorkItem& one : rank.work)
            if (one.kind == kind) return one;
        ADD_FAILURE() << name(kind);
        return WorkItem{};
    };
    constexpr trace::Picoseconds kUs = 1'000'000;
    const WorkItem product = item(WorkKind::gemm);
    ASSERT_TRUE(product.product.has_value());
    EXPECT_EQ(product.product->m, 64);
    EXPECT_EQ(product.product->n, 16);
    EXPECT_EQ(product.product->k, 32);
    EXPECT_EQ(product.phase, plan::Phase::forward);
    const WorkItem norm = item(WorkKind::norm);
    EXPECT_EQ(norm.phase, plan::Phase::backward) << "by its caller's caller";
    EXPECT_EQ(norm.start - product.start, 30 * kUs);
    const WorkItem reduction = item(WorkKind::all_reduce);
    EXPECT_EQ(reduction.message_bytes, 4096);
    EXPECT_EQ(reduction.group_size, 4);
    EXPECT_EQ(reduction.start - product.start, 30 * kUs) << "beside the norm";
    EXPECT_EQ(item(WorkKind::all_gather).message_bytes, 4000) << "of all members";
    EXPECT_EQ(rank.names[item(WorkKind::other).name], "a kernel of the user's own");
    // From 0 to 40 µs something computes, and from 40 to 80 µs only communication runs.
    EXPECT_NEAR(rank.compute_s, 40e-6, 1e-12);
    EXPECT_NEAR(rank.exposed_s, 40e-6, 1e-12);
    EXPECT_NEAR(rank.step_s(), 80e-6, 1e-12);
}

TEST(ChakraOfPyTorch, WithoutADeviceIsReadByItsOperators) {
    std::vector<Made> host;
    for (const Made& node : run())
        if (node.numbers == kHost) host.push_back(node);
    const std::string file = file_of("host.et", host);
    const RecordedRank rank = recorded_rank(trace::read_recorded(file).front(), file);
    EXPECT_EQ(rank.rank, -1);
    EXPECT_EQ(rank.device, "");
    EXPECT_NEAR(rank.busy_s[static_cast<std::size_t>(WorkKind::gemm)], 9e-6, 1e-12);
    EXPECT_NEAR(rank.busy_s[static_cast<std::size_t>(WorkKind::norm)], 1e-6, 1e-12);
}

std::string fault_of(const std::string& path) {
    try {
        trace::read_recorded(path);
    } catch (const trace::TraceFileError& error) {
        EXPECT_EQ(error.fault(), trace::TraceFault::unreadable);
        EXPECT_THAT(error.what(), testing::StartsWith(path));
        return error.what();
    }
    return "";
}

TEST(ChakraFile, SaysWhatIsWrongWithIt) {
    std::vector<Made> circle = run();
    circle[2].after = {9};
    EXPECT_THAT(fault_of(file_of("circle.et", circle)),
                HasSubstr("node 3 (sm90_xmma_gemm_bf16) comes after itself, or after one that"));
    std::vector<Made> twice = run();
    twice[3].id = 3;
    EXPECT_THAT(fault_of(file_of("twice.et", twice)), HasSubstr("node 3 has the id of the one at"));
    std::vector<Made> unpriced = run();
    for (Made& node : unpriced)
        node.duration_us = 0;
    EXPECT_THAT(fault_of(file_of("unpriced.et", unpriced)),
                HasSubstr("its nodes say no durations"));
    EXPECT_THAT(fault_of(file_of("empty.et", {})), HasSubstr("it has no nodes"));
    EXPECT_THAT(fault_of(chakra_file("nothing.et", {})), HasSubstr("the file is empty"));
    EXPECT_THAT(fault_of(testing::TempDir() + "/absent.et"), HasSubstr("cannot be opened"));
    EXPECT_THAT(fault_of(chakra_file("other.et", {"", "{\"json\": 1}"})),
                HasSubstr("message 1 is no sound Node"));
}

// Cut anywhere but between nodes, or with a byte of it changed: a message, or a trace.
TEST(ChakraFile, DamagedIsAMessage) {
    std::ifstream in(file_of("sound.et", run()), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    const auto written = [](const std::string& bytes) {
        std::string path = testing::TempDir() + "/damaged.et";
        std::ofstream(path, std::ios::binary) << bytes;
        return path;
    };
    EXPECT_THAT(fault_of(written(whole.substr(0, whole.size() - 1))),
                HasSubstr("the file is cut off or no Chakra trace"));
    for (std::size_t size = 0; size < whole.size(); size += 3)
        fault_of(written(whole.substr(0, size)));
    for (std::size_t at = 0; at < whole.size(); at += 3) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
        fault_of(written(damaged));
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::compare
