#include "runtime/executor/stepped_runs.hpp"

#include <algorithm>

namespace orrery::runtime {
namespace {

using plan::BucketEntry;
using plan::Cut;

// Calls f(entry, run) for what of each entry lies in the shard that this rank steps, in order.
template <typename F>
void over_stepped(const BoundProgram& program, std::size_t bucket, const F& f) {
    const std::int64_t begin = program.first_stepped(bucket);
    const std::int64_t end = begin + program.stepped(bucket);
    for (const BucketEntry& entry : program.entries[bucket]) {
        const std::int64_t first = std::max(begin, entry.offset);
        const std::int64_t last = std::min(end, entry.offset + entry.elements);
        if (first < last) f(entry, ElementRun{first - begin, last - first});
    }
}

bool goes_on(const ElementRun& before, const ElementRun& run) {
    return before.first + before.elements == run.first;
}

}  // namespace

std::vector<SteppedRun> stepped_runs(const BoundProgram& program, std::size_t bucket,
                                     double decay) {
    std::vector<SteppedRun> runs;
    over_stepped(program, bucket, [&](const BucketEntry& entry, const ElementRun& part) {
        const SteppedRun run{part, decay != 0 && entry.parameter.decays, entry.parameter.sign_rate};
        const bool alike = !runs.empty() && goes_on(runs.back(), run) &&
                           runs.back().decays == run.decays &&
                           runs.back().sign_rate == run.sign_rate;
        if (alike)
            runs.back().elements += run.elements;
        else
            runs.push_back(run);
    });
    return runs;
}

std::vector<ElementRun> counted_runs(const BoundProgram& program, std::size_t bucket) {
    std::vector<ElementRun> runs;
    over_stepped(program, bucket, [&](const BucketEntry& entry, const ElementRun& run) {
        const plan::Parameter& parameter = entry.parameter;
        const bool elsewhere = (parameter.cut == Cut::whole && program.at.tensor > 0) ||
                               (parameter.second_use && program.buckets[bucket].stage > 0);
        if (elsewhere || parameter.sign_rate > 0) return;
        if (!runs.empty() && goes_on(runs.back(), run))
            runs.back().elements += run.elements;
        else
            runs.push_back(run);
    });
    return runs;
}

}  // namespace orrery::runtime
