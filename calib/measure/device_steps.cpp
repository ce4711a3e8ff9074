#include "calib/measure/device_steps.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "plan/check.hpp"
#include "runtime/comm/threads/thread_world.hpp"
#include "runtime/executor/performer.hpp"
#include "runtime/launch/communicator_plane.hpp"

namespace orrery::measure {
namespace {

using runtime::BoundOp;
using runtime::BoundProgram;

class SamplingDevice final : public runtime::Device {
  public:
    SamplingDevice(const BoundProgram& program, runtime::Communicator& alone,
                   std::unique_ptr<runtime::StreamDriver> driver, std::int64_t cache_bytes,
                   const DeviceSampling& sampling, runtime::GpuMonitor* monitor,
                   SampleCounts& counts)
        : program_(program),
          driver_(std::move(driver)),
          arena_(driver_->allocate(program.arena_bytes)),
          timer_(*driver_, {arena_ + program.workspace.offset, program.workspace.bytes},
                 cache_bytes, sampling, monitor, counts),
          performer_(program, alone, arena_, timer_.kernels()),
          times_(program.ops.size()) {}

    // Times follow one another without gaps.
    void run(const runtime::StepInputs& inputs) override {
        std::int64_t now = 0;
        for (std::size_t id = 0; id < times_.size(); ++id) {
            const BoundOp& bound = program_.ops[id];
            ORRERY_CHECK(!plan::is_communication(bound.op->kind()),
                         "one rank communicates with nobody");
            const auto perform = [&](runtime::Kernels& kernels) {
                performer_.perform(bound, inputs, kernels);
            };
            const double us =
                plan::flops(*bound.op) > 0 ? timer_.once_us(perform) : timer_.cold_us(perform);
            times_[id] = {now, now + std::llround(us * 1e3)};
            now = times_[id].end;
        }
        timer_.drain();
    }

    std::span<const runtime::OpTime> times() const override { return times_; }
    void read(std::int64_t offset, std::span<std::byte> into) const override {
        driver_->read(arena_ + offset, into);
    }
    void write(std::int64_t offset, std::span<const std::byte> from) override {
        driver_->write(arena_ + offset, from);
    }

  private:
    const BoundProgram& program_;
    std::unique_ptr<runtime::StreamDriver> driver_;
    std::byte* arena_;
    DeviceTimer timer_;
    runtime::Performer performer_;
    std::vector<runtime::OpTime> times_;
};

class SamplingSeat final : public runtime::RankSeat {
  public:
    using MakeDevice = std::function<std::unique_ptr<runtime::Device>(const BoundProgram&,
                                                                      runtime::Communicator&)>;

    SamplingSeat(runtime::Communicator& alone, MakeDevice make)
        : alone_(alone), control_(alone), make_(std::move(make)) {}

    plan::Rank rank() const override { return alone_.rank(); }
    runtime::ControlPlane& control() override { return control_; }
    std::unique_ptr<runtime::Device> make_device(const BoundProgram& program,
                                                 const std::string&) override {
        return make_(program, alone_);
    }

  private:
    runtime::Communicator& alone_;
    runtime::CommunicatorPlane control_;
    MakeDevice make_;
};

}  // namespace

void SamplingBackend::run_ranks(const plan::Mesh& mesh,
                                const std::function<void(runtime::RankSeat&)>& body) {
    ORRERY_CHECK(mesh.ranks() == 1, "a kernel is timed on one device");
    runtime::run_ranks(mesh, {}, [&](plan::Rank, runtime::Communicator& alone) {
        SamplingSeat seat(
            alone, [&](const BoundProgram& program, runtime::Communicator& communicator) {
                return std::make_unique<SamplingDevice>(program, communicator, make_driver_(),
                                                        cache_bytes_, sampling_, monitor_, counts_);
            });
        body(seat);
    });
}

// For first weights, which the host draws.
int SamplingBackend::threads_per_rank() const {
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace orrery::measure
