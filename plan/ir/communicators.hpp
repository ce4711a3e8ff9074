// Which communicators of a library of collectives a plan asks for. It alone says so: the runtime
// makes these and no others, and the simulator counts what they take.
#pragma once

#include <bitset>
#include <vector>

#include "plan/ir/plan.hpp"

namespace orrery::plan {

using GroupSet = std::bitset<kGroupKinds>;

// Of each rank of one program.
struct Communicators {
    GroupSet groups;  // of several members, which ops of the plan name
    // With the next rank round the ring of the pipeline and with the one before, of three ranks or
    // more, where transfers travel between the two. A plan may have a stream for either, and calls
    // on one communicator wait for each other. Other transfers travel in the pipeline's group.
    bool after = false, before = false;

    std::int64_t count() const {
        return static_cast<std::int64_t>(groups.count()) + (after ? 1 : 0) + (before ? 1 : 0);
    }
    bool operator==(const Communicators&) const = default;
};

// A transfer between pipeline ranks, of so many, on the side of the first.
void add_transfer(Communicators& of, std::int32_t rank, std::int32_t peer, std::int32_t ranks);

// Of each program. All members of a group have its communicator, or none has.
std::vector<Communicators> communicators_of(const Plan& plan);

// Groups that ops of its blocks name, of one member, too; transfers are no op's.
GroupSet groups_named(const Plan& plan, const Program& program);

// By program: names groups for all that have members of them, where one of these names them, and
// leaves out those of one member.
void agree_on_groups(const Mesh& mesh, std::vector<Communicators>& of_programs);

}  // namespace orrery::plan
