// A rank that computes more slowly than its peers is named from the times that devices take, and
// what it makes others wait is not held against them.
#include <chrono>
#include <thread>

#include <gmock/gmock.h>

#include "runtime/train/health.hpp"
#include "tests/parity/run.hpp"

namespace orrery::parity {
namespace ORRERY_TEST_FILE {

using Plant = std::function<double(plan::Rank, double computed_s)>;

// A device whose compute takes as long as the test says; its rank is late for the next step.
class SlowedDevice final : public runtime::Device {
  public:
    SlowedDevice(std::unique_ptr<runtime::Device> device, plan::Rank rank, const Plant& plant)
        : device_(std::move(device)), rank_(rank), plant_(plant) {}

    void run(const runtime::StepInputs& inputs) override {
        device_->run(inputs);
        computed_s_ = plant_(rank_, *device_->computed_s());
        const std::chrono::duration<double> more(computed_s_ - *device_->computed_s());
        if (more.count() > 0) std::this_thread::sleep_for(more);
    }
    void validate() override { device_->validate(); }
    std::span<const runtime::OpTime> times() const override { return device_->times(); }
    std::optional<double> computed_s() const override { return computed_s_; }
    void read(std::int64_t offset, std::span<std::byte> into) const override {
        device_->read(offset, into);
    }
    void write(std::int64_t offset, std::span<const std::byte> from) override {
        device_->write(offset, from);
    }

  private:
    std::unique_ptr<runtime::Device> device_;
    plan::Rank rank_;
    const Plant& plant_;
    double computed_s_ = 0;
};

class SlowedSeat final : public runtime::RankSeat {
  public:
    SlowedSeat(runtime::RankSeat& seat, const Plant& plant) : seat_(seat), plant_(plant) {}
    plan::Rank rank() const override { return seat_.rank(); }
    runtime::ControlPlane& control() override { return seat_.control(); }
    std::unique_ptr<runtime::Device> make_device(const runtime::BoundProgram& program,
                                                 const std::string& offload_path) override {
        return std::make_unique<SlowedDevice>(seat_.make_device(program, offload_path), rank(),
                                              plant_);
    }

  private:
    runtime::RankSeat& seat_;
    const Plant& plant_;
};

class SlowedBackend final : public runtime::Backend {
  public:
    explicit SlowedBackend(Plant plant) : cpu_({}, std::chrono::seconds(60)), plant_(plant) {}
    void run_ranks(const plan::Mesh& mesh,
                   const std::function<void(runtime::RankSeat&)>& body) override {
        cpu_.run_ranks(mesh, [&](runtime::RankSeat& seat) {
            SlowedSeat slowed(seat, plant_);
            body(slowed);
        });
    }
    int threads_per_rank() const override { return cpu_.threads_per_rank(); }

  private:
    runtime::CpuBackend cpu_;
    Plant plant_;
};

std::vector<runtime::HealthNotice> notices_of(const Plant& plant) {
    const plan::Scenario tested =
        scenario(kGpt, {"layout.data_parallel=4", "model.n_layer=1", "training.precision=fp32"});
    SlowedBackend backend(plant);
    RunOptions options;
    options.backend = &backend;
    options.steps = 14;
    runtime::StragglerWatch watch({0, 0, 0, 0}, {0, 0, 0, 0}, {"a", "b", "c", "d"});
    std::vector<runtime::HealthNotice> all;
    options.stepped = [&](const runtime::StepReport& step) {
        EXPECT_EQ(step.computed_s.size(), 4U);
        for (auto& notice : watch.step(step.step, step.computed_s))
            all.push_back(std::move(notice));
    };
    train(tested, options);
    return all;
}

TEST(Stragglers, OneThatIsPlantedIsNamed) {
    const auto notices =
        notices_of([](plan::Rank rank, double) { return rank == 2 ? 0.0026 : 0.002; });
    ASSERT_EQ(notices.size(), 1U);
    EXPECT_EQ(notices[0].rank, 2);
    EXPECT_EQ(notices[0].host, "c");
    EXPECT_EQ(notices[0].step, 10);
    EXPECT_EQ(notices[0].message,
              "rank 2 on c computes 30 % longer than its peers: 0.0026 s of a step, the median of "
              "its 3 peers for the same 0.002 s");
}

TEST(Stragglers, AnEvenRunNamesNobody) {
    EXPECT_TRUE(notices_of([](plan::Rank, double) { return 0.002; }).empty());
}

// With what devices have measured: compute, and not the wait for others.
TEST(Stragglers, OpsTellHowLongTheyTook) {
    RunOptions options;
    options.steps = 3;
    std::vector<runtime::StepReport> steps;
    options.stepped = [&](const runtime::StepReport& step) { steps.push_back(step); };
    const Trained run = train(scenario(kGpt, {"layout.data_parallel=2"}), options);
    for (const runtime::StepReport& step : steps) {
        ASSERT_EQ(step.computed_s.size(), 2U);
        EXPECT_LT(step.computed_s[0], step.time_s) << "which is rank 0's, too";
        EXPECT_GT(step.computed_s[0], 0);
        EXPECT_GT(step.computed_s[1], 0);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::parity
