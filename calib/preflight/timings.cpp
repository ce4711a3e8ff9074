#include "calib/preflight/timings.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "calib/measure/timing.hpp"
#include "plan/check.hpp"
#include "runtime/executor/bound_program.hpp"
#include "runtime/kernels/elements.hpp"
#include "runtime/launch/host_names.hpp"
#include "sim/engine/time.hpp"
#include "sim/machine.hpp"

namespace orrery::preflight {
namespace {

// From when the last of those that take part came to it until the last had done it.
struct Meeting {
    std::int64_t came = std::numeric_limits<std::int64_t>::min();
    std::int64_t ended = std::numeric_limits<std::int64_t>::min();

    void join(const runtime::OpTime& time) {
        came = std::max(came, time.begin);
        ended = std::max(ended, time.end);
    }
    double seconds() const { return static_cast<double>(ended - came) * 1e-9; }
};

// Numbers of either sign below one, of which a pattern is repeated.
std::vector<std::byte> random_numbers(plan::DType dtype, std::int64_t bytes) {
    constexpr std::int64_t kPattern = 1 << 20;
    const std::int64_t width = plan::size_bytes(dtype);
    std::vector<std::byte> numbers(static_cast<std::size_t>(bytes));
    std::mt19937_64 bits(1);
    std::uniform_real_distribution<float> number(-1, 1);
    const std::int64_t drawn = std::min(bytes / width, kPattern);
    const runtime::Buffer into{numbers.data(), dtype};
    for (std::int64_t i = 0; i < drawn; ++i) {
        if (dtype == plan::DType::fp64)
            std::memcpy(numbers.data() + i * width, std::array{double{number(bits)}}.data(), 8);
        else
            runtime::store(into, i, number(bits));
    }
    for (std::int64_t done = drawn * width; done < bytes;) {
        const std::int64_t more = std::min(done, bytes - done);
        std::memcpy(numbers.data() + done, numbers.data(), static_cast<std::size_t>(more));
        done += more;
    }
    return numbers;
}

void fill(const PreflightPlan& plan, const runtime::BoundProgram& program,
          runtime::Device& device) {
    for (const std::int32_t id : plan.factors) {
        const plan::Resident& resident = program.residents[static_cast<std::size_t>(id)];
        device.write(resident.offset, random_numbers(plan.sizes.dtype, resident.bytes));
    }
}

using StepTimes = std::vector<runtime::OpTime>;  // by op

void append(const StepTimes& step, std::vector<std::byte>& message) {
    const auto* from = reinterpret_cast<const std::byte*>(step.data());
    message.insert(message.end(), from, from + step.size() * sizeof(runtime::OpTime));
}

// Of one rank's message: step after step.
void take(const std::vector<std::byte>& message, std::size_t ops,
          std::vector<std::vector<StepTimes>>& by_step) {
    ORRERY_CHECK(message.size() == by_step.size() * ops * sizeof(runtime::OpTime),
                 "every rank has performed its program so often");
    for (std::size_t step = 0; step < by_step.size(); ++step) {
        StepTimes& times = by_step[step].emplace_back(ops);
        std::memcpy(times.data(), message.data() + step * ops * sizeof(runtime::OpTime),
                    ops * sizeof(runtime::OpTime));
    }
}

bool says_host_links(const plan::Scenario& scenario) {
    return scenario.cluster.host_memory.bandwidth_GBps > 0;
}

// A step that does nothing but these checks, each of which waits for the one before: what the
// scenario says of training changes nothing of it.
plan::Scenario scenario_of(const plan::Scenario& run, std::int64_t ranks) {
    plan::Scenario scenario = run;
    scenario.layout = {};
    scenario.layout.pipeline_parallel = ranks;
    scenario.training.framework = {};
    scenario.training.cuda_graphs = {};
    scenario.cluster.jitter = {};               // chance is in what is measured
    scenario.training.optimizer.clip_norm = 1;  // steps do not run on into one another
    if (!says_host_links(scenario)) scenario.cluster.host_memory.bandwidth_GBps = 1;
    return scenario;
}

}  // namespace

std::vector<Timing> timings_of(const PreflightPlan& plan,
                               const std::vector<std::vector<runtime::OpTime>>& times) {
    std::map<std::pair<Check, plan::Rank>, std::vector<double>> alone;
    std::map<Pair, Meeting> pairs;
    Meeting all;
    for (std::size_t rank = 0; rank < times.size(); ++rank)
        for (std::size_t op = 0; op < times[rank].size(); ++op) {
            const auto [check, round] = plan.steps[rank][op];
            const runtime::OpTime& time = times[rank][op];
            if (check == Check::sum) {
                all.join(time);
            } else if (check == Check::pair) {
                const auto self = static_cast<plan::Rank>(rank);
                for (const Pair& pair : plan.rounds[static_cast<std::size_t>(round)])
                    if (pair.first == self || pair.second == self) pairs[pair].join(time);
            } else {
                alone[{check, static_cast<plan::Rank>(rank)}].push_back(
                    static_cast<double>(time.end - time.begin) * 1e-9);
            }
        }
    std::vector<Timing> timings;
    for (const auto& [of, seconds] : alone)
        timings.push_back({of.first, of.second, -1, measure::median(seconds)});
    for (const auto& [pair, meeting] : pairs)
        timings.push_back({Check::pair, pair.first, pair.second, meeting.seconds()});
    if (times.size() > 1) timings.push_back({Check::sum, -1, -1, all.seconds()});
    return timings;
}

std::vector<Timing> medians_of(const std::vector<std::vector<Timing>>& steps) {
    if (steps.empty()) return {};
    std::vector<Timing> medians = steps.front();
    for (std::size_t i = 0; i < medians.size(); ++i) {
        std::vector<double> seconds;
        for (const auto& step : steps)
            seconds.push_back(step[i].seconds);
        medians[i].seconds = measure::median(std::move(seconds));
    }
    return medians;
}

Measured measure(const PreflightPlan& plan, runtime::Backend& backend, const Steps& steps,
                 const std::function<void(runtime::ControlPlane&)>& agree) {
    Measured measured;
    backend.run_ranks(plan.plan.mesh, [&](runtime::RankSeat& seat) {
        agree(seat.control());
        std::vector<std::string> hosts = runtime::host_names(seat.control());
        const runtime::BoundProgram program =
            runtime::bind_program(plan.plan, plan.plan.program_of(seat.rank()), seat.rank());
        const std::unique_ptr<runtime::Device> device = seat.make_device(program, "");
        fill(plan, program, *device);
        std::vector<std::byte> own;
        for (int step = 1; step <= steps.warm_ups + steps.counted; ++step) {
            runtime::StepInputs inputs;
            inputs.step = step;
            device->run(inputs);
            if (step > steps.warm_ups)
                append({device->times().begin(), device->times().end()}, own);
        }
        const auto messages = seat.control().gather(own);
        seat.control().finish();
        if (seat.rank() != 0) return;
        std::vector<std::vector<StepTimes>> by_step(static_cast<std::size_t>(steps.counted));
        for (std::size_t rank = 0; rank < messages.size(); ++rank)
            take(messages[rank], plan.steps[rank].size(), by_step);
        std::vector<std::vector<Timing>> timings;
        for (const auto& of_step : by_step)
            timings.push_back(timings_of(plan, of_step));
        measured.timings = medians_of(timings);
        measured.hosts = std::move(hosts);
    });
    return measured;
}

Expected expected(const PreflightPlan& plan, const plan::Scenario& scenario,
                  const sim::Profile& profile) {
    const sim::Machine machine = sim::build_machine(
        plan.plan, scenario_of(scenario, plan.plan.mesh.ranks()), profile, /*unfolded=*/true);
    const sim::EngineResult result = sim::run_engine(machine.input);
    ORRERY_CHECK(result.stuck.empty(), "partners meet in the same order of rounds");
    std::vector<std::vector<runtime::OpTime>> times(plan.steps.size());
    std::map<Check, double> spread;
    Expected expected;
    for (std::size_t track = 0; track < result.events.size(); ++track) {
        const auto rank = static_cast<std::size_t>(machine.classes.members[track].rank);
        const plan::LinkedProgram& linked = machine.input.linked[rank];
        for (std::size_t op = 0; op < result.events[track].size(); ++op) {
            const trace::Event& event = result.events[track][op];
            times[rank].push_back({event.start / 1000, event.end / 1000});
            expected.step_s = std::max(expected.step_s, sim::to_seconds(event.end));
            double& sd = spread[plan.steps[rank][op].check];
            sd = std::max(sd, machine.table_of[track]->prices[linked.op[op]].relative_sd);
        }
    }
    // Messages are priced by their routes, of the same links as sums.
    if (spread.count(Check::sum) > 0) spread[Check::pair] = spread[Check::sum];
    if (!says_host_links(scenario))
        spread[Check::to_host] = spread[Check::from_host] = std::numeric_limits<double>::infinity();
    expected.timings = timings_of(plan, times);
    for (const Timing& timing : expected.timings)
        expected.relative_sd.push_back(spread[timing.check]);
    return expected;
}

}  // namespace orrery::preflight
