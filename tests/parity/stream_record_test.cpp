// The flight records of ranks whose ops are put into streams, of runs that end badly.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/parity/host_streams.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using nlohmann::json;
using runtime::StreamBackend;
using runtime::StreamBackendOptions;

struct RecordOfAStreamRun : testing::Test {
    const std::string folder = testing::TempDir() + "stream-record";
    std::string said;
    runtime::FlightRecords records{folder, [this](const std::string& line) { said += line; }};
    StreamBackendOptions options;

    RecordOfAStreamRun() {
        std::filesystem::remove_all(folder);
        options.records = &records;
    }

    json record(plan::Rank rank) const {
        std::ifstream file(folder + "/rank-0000" + std::to_string(rank) + ".json");
        return json::parse(file, nullptr, false);
    }

    static plan::Scenario scenario_of(const std::string& layout) {
        return scenario(kGpt, {layout, "model.n_layer=2"});
    }
};

// A driver that refuses the nth kernel of this kind.
ChangeRequest refusing(std::string kind, int nth) {
    auto left = std::make_shared<int>(nth);
    return [kind = std::move(kind), left](runtime::KernelRequest& request) {
        if (runtime::name(request) == kind && --*left == 0)
            throw runtime::DeviceError("the device has fallen off the bus");
    };
}

TEST_F(RecordOfAStreamRun, HasTheOpThatTheDriverRefused) {
    RunOptions run;
    constexpr int kSteps = 3;
    run.steps = kSteps;
    int updates = 0;
    const plan::Scenario read = scenario_of("layout.micro_batch_size=2");
    StreamBackend counted(host_devices(1,
                                       [&](runtime::KernelRequest& request) {
                                           updates += runtime::name(request) == "adamw";
                                       }),
                          std::nullopt, {});
    run.backend = &counted;
    train(read, run);
    ASSERT_GE(updates, kSteps);
    StreamBackend backend(host_devices(1, refusing("adamw", updates)), std::nullopt, options);
    run.backend = &backend;
    EXPECT_THROW(train(read, run), runtime::DeviceError);
    const json found = record(0);
    ASSERT_TRUE(found.is_object()) << said;
    EXPECT_THAT(found.at("reason").get<std::string>(),
                testing::HasSubstr("the device has fallen off the bus"));
    const json& ops = found.at("ops");
    ASSERT_GT(ops.size(), 10U);
    EXPECT_EQ(ops.back().at("op"), "adamw");
    EXPECT_EQ(ops.back().at("step"), kSteps);
    EXPECT_TRUE(ops.back().at("issued_ns").is_null());
    EXPECT_TRUE(ops.back().at("end_ns").is_null());
    for (std::size_t i = 0; i + 1 < ops.size(); ++i) {
        EXPECT_TRUE(ops[i].at("issued_ns").is_number()) << ops[i];
        EXPECT_TRUE(ops[i].at("step") == kSteps || ops[i].at("end_ns").is_number()) << ops[i];
    }
}

// What is captured is recorded op by op all the same.
TEST_F(RecordOfAStreamRun, HasTheOpsOfLayersThatAreLaunchedAtOnce) {
    std::map<bool, json> labels;
    for (const bool keeps : {false, true}) {
        RunOptions run;
        run.steps = 3;
        run.after_step = [](plan::Rank, const runtime::Device&, const runtime::BoundProgram&,
                            const plan::Program&, std::int64_t step) {
            if (step == 2) throw std::domain_error("enough");
        };
        runtime::FlightRecords own(folder + (keeps ? "-kept" : "-single"),
                                   [](const std::string&) {});
        options.records = &own;
        options.streams.keep_layers = keeps;
        StreamBackend backend(host_devices(1), std::nullopt, options);
        run.backend = &backend;
        EXPECT_THROW(train(scenario_of("layout.micro_batch_size=2"), run), std::domain_error);
        std::ifstream file(own.folder() + "/rank-00000.json");
        const json found = json::parse(file, nullptr, false);
        ASSERT_TRUE(found.is_object());
        for (const json& op : found.at("ops")) {
            EXPECT_TRUE(op.at("end_ns").is_number()) << op;
            labels[keeps].push_back({op.at("label"), op.at("step")});
        }
        std::filesystem::remove_all(own.folder());
    }
    EXPECT_EQ(labels[true], labels[false]);
}

// Whose fifth sum fails.
class BrokenCollectives final : public HostCollectives {
  public:
    explicit BrokenCollectives(bool breaks) : breaks_(breaks) {}
    void all_reduce(Communicator communicator, plan::DType dtype, void* data, std::int64_t elements,
                    runtime::Reduction reduction, runtime::Stream stream) override {
        if (breaks_ && ++calls_ > 4) throw runtime::CollectiveError("the link is down");
        HostCollectives::all_reduce(communicator, dtype, data, elements, reduction, stream);
    }

  private:
    bool breaks_;
    int calls_ = 0;
};

TEST_F(RecordOfAStreamRun, NamesTheCallThatFailedOnEachRank) {
    runtime::DriverSource source = host_devices(2);
    source.collectives = [](int device) {
        return std::make_unique<BrokenCollectives>(device == 1);
    };
    RunOptions run;
    run.steps = 2;
    StreamBackend backend(source, std::nullopt, options);
    run.backend = &backend;
    EXPECT_THROW(train(scenario_of("layout.tensor_parallel=2"), run), runtime::CommunicationError);
    // Rank 0 is in that call, or leaves the one before.
    for (const plan::Rank rank : {0, 1}) {
        const json found = record(rank);
        ASSERT_TRUE(found.is_object()) << said;
        EXPECT_EQ(found.at("rank"), rank);
        EXPECT_EQ(found.at("ranks"), 2);
        const json& last = found.at("ops").back();
        EXPECT_EQ(last.at("op"), "all_reduce");
        EXPECT_EQ(last.at("members"), json::array({0, 1}));
        EXPECT_TRUE(last.at("end_ns").is_null());
    }
    const json failed = record(1);
    EXPECT_THAT(failed.at("reason").get<std::string>(),
                testing::AllOf(testing::HasSubstr(
                                   "rank 1 ended the run: all_reduce of " +
                                   failed.at("ops").back().at("label").get<std::string>() + " in"),
                               testing::HasSubstr("the link is down")));
    EXPECT_EQ(record(0).at("reason"), failed.at("reason"));
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
