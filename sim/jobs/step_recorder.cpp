#include "sim/jobs/step_recorder.hpp"

#include <algorithm>

namespace orrery::sim {

double StepRecord::exposed_s() const {
    using trace::Account;
    double sum = 0;
    for (const Account account :
         {Account::exposed_tensor, Account::exposed_context, Account::exposed_expert,
          Account::exposed_data, Account::exposed_pipeline})
        sum += accounts[static_cast<std::size_t>(account)];
    return sum;
}

StepRecorder::StepRecorder(const Machine& machine, const trace::Trace& empty)
    : machine_(machine), empty_(empty), accounts_(empty, machine.repetitions) {
    if (machine.following == 0) return;
    for (const EngineTrack& track : machine.input.tracks)
        kept_.events.emplace_back(
            machine.input.linked[static_cast<std::size_t>(track.program)].size());
}

void StepRecorder::ended(TrackId track, std::uint32_t op, std::uint32_t /*number*/,
                         const trace::Event& event) {
    const auto t = static_cast<std::size_t>(track);
    if (machine_.following > 0)
        kept_.events[t][op] = event;
    else
        accounts_.ended(t, op, event);
}

StepRecord StepRecorder::finish() {
    StepRecord record;
    if (machine_.following == 0) {
        record.length = accounts_.step_end() - accounts_.step_start() + machine_.tail;
        record.run = accounts_.step_end() + machine_.tail;
        record.accounts = trace::mean_accounts(empty_, accounts_.finish());
        return record;
    }
    const StepWindow window = step_window(machine_, kept_);
    trace::Trace trace = empty_;
    trace.step_start = window.start;
    trace.step_end = window.end;
    for (std::size_t t = 0; t < kept_.events.size(); ++t) {
        for (const trace::Event& event : kept_.events[t])
            record.run = std::max(record.run, event.end);
        trace.tracks[t].events = kept_.events[t];
    }
    record.length = window.end - window.start;
    record.accounts = trace::mean_accounts(trace, trace::sums_of(trace));
    return record;
}

}  // namespace orrery::sim
