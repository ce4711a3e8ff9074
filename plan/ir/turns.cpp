#include "plan/ir/turns.hpp"

#include <algorithm>

#include "plan/check.hpp"

namespace orrery::plan {

std::int32_t turns_of(const Program& program) {
    std::int32_t most = 1;
    for (const Resident& resident : program.residents)
        most = std::max(most, resident.turns);
    return most;
}

Program at_turn(Program program, std::int32_t turn) {
    for (Resident& resident : program.residents) {
        resident.bytes /= resident.turns;
        resident.offset += turn % resident.turns * resident.bytes;
        resident.turns = 1;
    }
    return program;
}

LinkedProgram link_endless(const Plan& plan, const Program& program) {
    // The first steps wait for nothing of those before them; two more look like all that follow.
    constexpr int kAlike = 2;
    const int steps = turns_of(program) + 1 + kAlike;
    LinkedProgram row = link(plan, program, steps);
    const std::size_t of_one = row.size() / static_cast<std::size_t>(steps);
    const auto step_of_row = [&](int step) {
        LinkedProgram one;
        for (std::size_t s = 0; s < kStreams; ++s)
            one.ops_per_stream[s] = row.ops_per_stream[s] / static_cast<std::uint32_t>(steps);
        for (std::size_t id = of_one * static_cast<std::size_t>(step);
             id < of_one * static_cast<std::size_t>(step + 1); ++id) {
            one.op.push_back(row.op[id]);
            one.step.push_back(row.step[id]);
            one.use.push_back(row.use[id]);
            one.first_wait.push_back(static_cast<std::uint32_t>(one.waits.size()));
            for (std::uint32_t w = row.first_wait[id]; w < row.first_wait[id + 1]; ++w) {
                Wait wait = row.waits[w];
                wait.count -=
                    one.ops_per_stream[index_of(wait.stream)] * static_cast<std::uint32_t>(step);
                one.waits.push_back(wait);
            }
        }
        one.first_wait.push_back(static_cast<std::uint32_t>(one.waits.size()));
        return one;
    };
    const auto same_wait = [](const Wait& a, const Wait& b) {
        return a.count == b.count && a.stream == b.stream;
    };
    LinkedProgram last = step_of_row(steps - 1);
    const LinkedProgram before = step_of_row(steps - 2);
    ORRERY_CHECK(last.first_wait == before.first_wait &&
                     std::equal(last.waits.begin(), last.waits.end(), before.waits.begin(),
                                before.waits.end(), same_wait),
                 "steps of a row wait alike");
    return last;
}

}  // namespace orrery::plan
