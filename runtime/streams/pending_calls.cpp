#include "runtime/streams/pending_calls.hpp"

#include <utility>

namespace orrery::runtime {

Event PendingCalls::mark(Stream stream) {
    if (free_.empty()) free_.push_back(driver_.create_event(false));
    const Event event = free_.back();
    free_.pop_back();
    driver_.record(event, stream);
    return event;
}

void PendingCalls::add(Stream stream, PendingCall call) {
    streams_[stream.handle].push_back(std::move(call));
}

const PendingCall* PendingCalls::advance(Instant now) {
    const PendingCall* late = nullptr;
    for (auto& [stream, calls] : streams_) {
        while (!calls.empty() && driver_.passed(calls.front().after)) {
            free_.push_back(calls.front().before);
            free_.push_back(calls.front().after);
            calls.pop_front();
        }
        if (calls.empty()) continue;
        PendingCall& first = calls.front();
        if (!first.begun && driver_.passed(first.before)) first.begun = now;
        if (late == nullptr && first.begun && now - *first.begun > first.allowed) late = &first;
    }
    return late;
}

const PendingCall* PendingCalls::first_of(PendingCall::Party party) const {
    const PendingCall* found = nullptr;
    for (const auto& [stream, calls] : streams_)
        for (const PendingCall& call : calls)
            if (call.party == party && (found == nullptr || call.number < found->number))
                found = &call;
    return found;
}

const PendingCall* PendingCalls::longest() const {
    const PendingCall* found = nullptr;
    for (const auto& [stream, calls] : streams_) {
        if (calls.empty() || !calls.front().begun) continue;
        if (found == nullptr || *calls.front().begun < *found->begun) found = &calls.front();
    }
    return found;
}

}  // namespace orrery::runtime
