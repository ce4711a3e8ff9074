#include "runtime/streams/issued_ops.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "plan/ir/kinds.hpp"

namespace orrery::runtime {
namespace {

std::int64_t time_of_issue() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace

void IssuedOps::use(StreamDriver* driver) {
    const std::lock_guard lock(mutex_);
    driver_ = driver;
    begun_.clear();
    streams_.clear();
    moved_ = true;
}

void IssuedOps::begin(const BoundOp& bound, std::int64_t step) {
    const std::lock_guard lock(mutex_);
    if (begun_.empty()) ask({bound.op, nullptr, step, std::chrono::steady_clock::now()});
    begun_.push_back({recorder_.begin_issue(bound, step, time_of_issue()), bound.op, step});
}

void IssuedOps::issued(Stream stream, Event mark) {
    const std::lock_guard lock(mutex_);
    OfStream& given = streams_[stream.handle];
    const std::int64_t at = begun_.empty() ? 0 : time_of_issue();
    for (const Issued& op : begun_) {
        recorder_.issued(op.number, at);
        given.ops.push_back(op);
    }
    moved_ = true;
    given.unmarked += begun_.size();
    begun_.clear();
    if (mark.handle != nullptr) add_mark(given, mark);
    answered();
}

void IssuedOps::ask(const Asked& asked) {
    const std::lock_guard lock(asked_mutex_);
    asked_ = asked;
}

void IssuedOps::ask(const char* what, std::int64_t step) {
    ask({nullptr, what, step, std::chrono::steady_clock::now()});
}

void IssuedOps::answered() {
    const std::lock_guard lock(asked_mutex_);
    asked_.reset();
}

void IssuedOps::ask_again() {
    const std::lock_guard lock(asked_mutex_);
    if (asked_) asked_->since = std::chrono::steady_clock::now();
}

std::optional<IssuedOps::Asking> IssuedOps::asking() const {
    const std::lock_guard lock(asked_mutex_);
    if (!asked_) return std::nullopt;
    return Asking{asked_->op != nullptr ? told({0, asked_->op, asked_->step})
                                        : fmt::format("{} of step {} on rank {}", asked_->what,
                                                      asked_->step, recorder_.rank()),
                  asked_->since};
}

void IssuedOps::marked(Stream stream, Event mark) {
    const std::lock_guard lock(mutex_);
    add_mark(streams_[stream.handle], mark);
}

void IssuedOps::add_mark(OfStream& stream, Event mark) {
    stream.marks.push_back({mark, stream.unmarked});
    stream.unmarked = 0;
    moved_ = true;
}

void IssuedOps::end_through_first_mark(OfStream& stream) {
    const std::int64_t at = time_of_issue();
    for (std::size_t op = 0; op < stream.marks.front().ops; ++op) {
        recorder_.end(stream.ops.front().number, at);
        stream.ops.pop_front();
    }
    stream.marks.pop_front();
    moved_ = true;
}

void IssuedOps::end_what_has_passed(OfStream& stream) {
    while (!stream.marks.empty() && driver_->passed(stream.marks.front().event))
        end_through_first_mark(stream);
}

std::string IssuedOps::told(const Issued& op) const {
    return fmt::format("{} of {} on rank {} in step {}", plan::name(op.op->kind()), op.op->label,
                       recorder_.rank(), op.step);
}

// What an op waits for was issued before it, so that the first of all waits for none of the others.
// Between it and its mark there may be more.
std::optional<std::string> IssuedOps::stands_still(std::chrono::steady_clock::time_point now,
                                                   std::chrono::milliseconds allowed,
                                                   bool excused) {
    const std::lock_guard lock(mutex_);
    if (frozen_ || driver_ == nullptr) return std::nullopt;
    if (std::exchange(moved_, false) || excused) still_since_ = now;
    if (now - still_since_ <= allowed / 2 || now - looked_ < kLooksEvery) return std::nullopt;
    looked_ = now;
    const OfStream* first = nullptr;
    for (auto& [handle, stream] : streams_) {
        end_what_has_passed(stream);
        if (stream.marks.empty() || stream.marks.front().ops == 0) continue;
        if (first == nullptr || stream.ops.front().number < first->ops.front().number)
            first = &stream;
    }
    if (std::exchange(moved_, false) || first == nullptr) still_since_ = now;
    if (now - still_since_ <= allowed) return std::nullopt;
    const std::size_t among = first->marks.front().ops;
    const std::string begins = told(first->ops.front());
    return among == 1 ? begins
                      : fmt::format("{} or one of the {} ops behind it", begins, among - 1);
}

void IssuedOps::passed(Event mark) {
    const std::lock_guard lock(mutex_);
    if (frozen_) return;
    for (auto& [handle, stream] : streams_) {
        const auto found =
            std::find_if(stream.marks.begin(), stream.marks.end(),
                         [&](const Mark& each) { return each.event.handle == mark.handle; });
        for (auto marks = found == stream.marks.end() ? 0 : found - stream.marks.begin() + 1;
             marks > 0; --marks)
            end_through_first_mark(stream);
    }
}

void IssuedOps::freeze() {
    const std::lock_guard lock(mutex_);
    if (frozen_ || driver_ == nullptr) return;
    frozen_ = true;
    try {
        for (auto& [handle, stream] : streams_)
            end_what_has_passed(stream);
    } catch (const std::exception&) {  // a device that has failed says nothing more
    }
}

}  // namespace orrery::runtime
