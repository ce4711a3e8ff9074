#include "runtime/streams/repeated_work.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery::runtime {
namespace {

// A pass of a layer: its block, for a micro-batch.
auto pass_of(const BoundOp& bound) {
    return std::tuple(bound.block, bound.layer, bound.micro_batch);
}

bool is_of_layer(const BoundOp& bound) {
    return bound.layer >= 0 && bound.op->stream == plan::Stream::compute &&
           !plan::is_communication(bound.op->kind()) && !plan::is_copy(bound.op->kind());
}

// What ops that repeat themselves ask for follows from these.
using Asked = std::vector<std::tuple<const plan::Op*, bool, std::vector<std::int64_t>>>;

Asked asked_by(const BoundProgram& program, const std::vector<std::uint32_t>& ops) {
    Asked asked;
    for (const std::uint32_t id : ops) {
        const BoundOp& bound = program.ops[id];
        std::vector<std::int64_t> places = {bound.bucket};
        for (const auto& operands : {bound.reads, bound.writes})
            for (const Operand& operand : operands)
                places.push_back(operand.offset);
        asked.emplace_back(bound.op, bound.accumulates, std::move(places));
    }
    return asked;
}

}  // namespace

RepeatedWork::RepeatedWork(const BoundProgram& program, const StreamSchedule& schedule,
                           StreamDriver& driver, const std::function<bool(const BoundOp&)>& repeats)
    : driver_(driver), run_of_(program.ops.size(), -1), within_(program.ops.size()) {
    std::vector<std::uint32_t> open;
    const auto close = [&] {
        if (open.size() > 1) {
            run_of_[open.front()] = static_cast<std::int32_t>(runs_.size());
            for (std::size_t i = 1; i < open.size(); ++i)
                within_[open[i]] = true;
            runs_.push_back({open});
        }
        open.clear();
    };
    const Validation& validation = program.validation;
    for (std::uint32_t id = 0; id < program.ops.size(); ++id) {
        if (id == validation.first || id == validation.end) close();
        const BoundOp& bound = program.ops[id];
        if (bound.op->stream != plan::Stream::compute) continue;
        const bool fits = is_of_layer(bound) && repeats(bound);
        const bool goes_on = !open.empty() && pass_of(bound) == pass_of(program.ops[open.back()]) &&
                             schedule.waits(id).empty();
        if (!fits || !goes_on) close();
        if (fits) open.push_back(id);
        if (schedule.marked(id)) close();
    }
    close();
    std::map<Asked, std::size_t> first;
    for (std::size_t i = 0; i < runs_.size(); ++i)
        runs_[i].first_alike = first.emplace(asked_by(program, runs_[i].ops), i).first->second;
}

std::size_t RepeatedWork::kept() const {
    return static_cast<std::size_t>(std::count_if(
        runs_.begin(), runs_.end(), [](const Run& run) { return run.work.has_value(); }));
}

std::span<const std::uint32_t> RepeatedWork::issued_with(std::uint32_t id) const {
    if (run_of_[id] < 0) return {};
    return runs_[static_cast<std::size_t>(run_of_[id])].ops;
}

bool RepeatedWork::issue(std::uint32_t id, Stream stream,
                         const std::function<void(std::uint32_t)>& put) {
    if (run_of_[id] < 0) return false;
    Run& run = runs_[static_cast<std::size_t>(run_of_[id])];
    const auto put_all = [&] {
        for (const std::uint32_t op : run.ops)
            put(op);
    };
    if (!run.issued) {  // it allocates and loads what it needs
        put_all();
        run.issued = true;
        return true;
    }
    std::optional<KeptWork>& work = runs_[run.first_alike].work;
    if (!work) work = driver_.keep(stream, put_all);
    driver_.launch(stream, *work);
    return true;
}

}  // namespace orrery::runtime
