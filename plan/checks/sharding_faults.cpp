#include "plan/checks/sharding_faults.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

namespace orrery::plan {
namespace {

using Faults = std::vector<std::string>;

std::int64_t bytes_of(const Block& block, Role role) {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : block.tensors)
        if (tensor.role == role) bytes += tensor.bytes();
    return bytes;
}

bool has(const Block& block, OpKind kind) {
    return std::any_of(block.ops.begin(), block.ops.end(),
                       [&](const Op& op) { return op.kind() == kind; });
}

// One program's steps in order: which bucket each piece of shared memory holds.
class Walk {
  public:
    Walk(const Plan& plan, const Program& program, Faults& faults)
        : plan_(plan), program_(program), faults_(faults), known_(program.procedures.size()) {}

    void run() {
        for (const Step& step : program_.steps) {
            if (step.procedure < 0) continue;
            const auto number = static_cast<std::size_t>(step.procedure);
            const std::vector<BlockUse>& uses = program_.procedures[number].uses;
            const std::vector<OfUse>& known = look_at(number);
            for (std::size_t u = 0; u < uses.size(); ++u)
                if (uses[u].bucket >= 0) visit(step, uses[u], known[u]);
            if (step.action.kind == ActionKind::step) gathered_.clear();  // of the old values
        }
        for (const auto& [slot, bucket] : unreduced_)
            fault(resident(slot).name + " ends with gradients that nobody reduced");
        check_sums();
    }

  private:
    const Resident& resident(std::int32_t id) const {
        return program_.residents[static_cast<std::size_t>(id)];
    }
    const Bucket& bucket(std::int32_t id) const {
        return program_.buckets[static_cast<std::size_t>(id)];
    }
    void fault(const std::string& text) {
        faults_.push_back("pipeline rank " + std::to_string(program_.pipeline_rank) + ": " + text);
    }

    // What a use does, whatever the step.
    struct OfUse {
        struct Read {
            std::int32_t at = -1;  // resident
            std::int64_t bytes = 0;
            bool own = false;  // a bucket of the use's keeps its parameters there
        };
        std::int32_t gathers_to = -1;         // resident
        std::int32_t copies_from = -1;        // what a copy of a bucket's reads …
        std::int32_t copies_to = -1;          // … and where it writes parameters
        std::vector<Read> reads;              // of a part's parameters
        std::vector<std::int32_t> gradients;  // residents where no bucket of the use's keeps them
        bool scatters = false;
    };

    const std::vector<OfUse>& look_at(std::size_t procedure) {
        std::optional<std::vector<OfUse>>& known = known_[procedure];
        if (known) return *known;
        known.emplace();
        for (const BlockUse& use : program_.procedures[procedure].uses) {
            OfUse& of = known->emplace_back();
            if (use.bucket >= 0) look_at(use, of);
        }
        return *known;
    }

    void look_at(const BlockUse& use, OfUse& of) {
        const Block& block = plan_.blocks[static_cast<std::size_t>(use.block)];
        for (const Op& op : block.ops)
            if (op.kind() == OpKind::all_reduce || op.kind() == OpKind::reduce_scatter)
                sums_[use.bucket].insert(op.group);
        const std::int32_t parameters = place_of(use, block, Role::parameter);
        if (use.position < 0) of.copies_from = place_of(use, block, Role::source);
        if (parameters >= 0 && parameters != bucket(use.bucket).parameters &&
            has(block, OpKind::all_gather) && bytes_of(block, Role::parameter_shard) > 0)
            of.gathers_to = parameters;
        else if (of.copies_from >= 0)
            of.copies_to = parameters;
        else if (use.position >= 0)
            of.reads = parameters_of(use, block);
        of.gradients = places_of(use, block, is_accumulator);
        look_at_sources(use, block);
        std::erase_if(of.gradients, [&](std::int32_t at) { return is_held(use, at); });
        of.scatters = has(block, OpKind::reduce_scatter);
    }

    void look_at_sources(const BlockUse& use, const Block& block) {
        if (has(block, OpKind::sum_sources)) summed_.insert(use.bucket);
        if (use.position < 0) return;
        for (const Tensor& tensor : block.tensors)
            if (tensor.role == Role::source_gradient)
                for (const std::int32_t of : buckets_of(use))
                    if (bucket(of).experts) apart_.insert(of);
    }

    void visit(const Step& step, const BlockUse& use, const OfUse& of) {
        if (of.gathers_to >= 0) gathered_[of.gathers_to] = use.bucket;
        if (of.copies_to >= 0) copy(use, of);
        for (const OfUse::Read& read : of.reads)
            check_parameters(step, use, read);
        for (const std::int32_t gradients : of.gradients) {
            if (use.position >= 0)
                fill(step, use, gradients);
            else if (of.scatters)
                reduce(use, of.copies_from >= 0 ? of.copies_from : gradients);
        }
    }

    void copy(const BlockUse& use, const OfUse& of) {
        const auto found = gathered_.find(of.copies_from);
        if (found == gathered_.end() || found->second != use.bucket)
            fault("bucket " + std::to_string(use.bucket) + " is copied from " +
                  resident(of.copies_from).name + ", which does not hold it");
        gathered_[of.copies_to] = use.bucket;
    }

    // nullptr: the use is of no part.
    const StagePart* part_of(const BlockUse& use) const {
        if (use.position < 0) return nullptr;
        for (const Stage& stage : program_.stages)
            if (stage.index == bucket(use.bucket).stage)
                return &stage.parts[static_cast<std::size_t>(use.position)];
        return nullptr;
    }

    // The use's bucket, and the other one of its part or the same again.
    std::array<std::int32_t, 2> buckets_of(const BlockUse& use) const {
        const StagePart* const part = part_of(use);
        if (part == nullptr || part->other_bucket < 0) return {use.bucket, use.bucket};
        return {use.bucket, part->other_bucket};
    }

    // The bucket whose gradients a part's use has in a resident.
    std::int32_t filled_by(const BlockUse& use, std::int32_t at) const {
        const auto& tensors = plan_.blocks[static_cast<std::size_t>(use.block)].tensors;
        const Block& forward = plan_.blocks[static_cast<std::size_t>(part_of(use)->forward)];
        for (std::size_t t = 0; t < use.slots.size(); ++t) {
            if (!is_accumulator(tensors[t].role) || use.slots[t].resident != at) continue;
            for (const DeclaredParameter& declared : forward.parameters)
                if (forward.tensors[static_cast<std::size_t>(declared.tensor)].name ==
                    tensors[t].name)
                    for (const std::int32_t of : buckets_of(use))
                        if (bucket(of).takes(declared.spec)) return of;
        }
        return use.bucket;
    }

    // Whether it is where a bucket of the use keeps gradients.
    bool is_held(const BlockUse& use, std::int32_t gradients) const {
        const std::array<std::int32_t, 2> own = buckets_of(use);
        return std::any_of(own.begin(), own.end(),
                           [&](std::int32_t of) { return bucket(of).gradients == gradients; });
    }

    // The residents that a use has tensors of such a role in, each once, in order.
    static std::vector<std::int32_t> places_of(const BlockUse& use, const Block& block,
                                               bool (*of_role)(Role)) {
        std::vector<std::int32_t> places;
        for (std::size_t t = 0; t < use.slots.size(); ++t)
            if (of_role(block.tensors[t].role) && use.slots[t].resident >= 0)
                places.push_back(use.slots[t].resident);
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        return places;
    }

    // The resident that a use has tensors of this role in, −1: it touches none.
    static std::int32_t place_of(const BlockUse& use, const Block& block, Role role) {
        for (std::size_t t = 0; t < use.slots.size(); ++t)
            if (block.tensors[t].role == role && use.slots[t].resident >= 0)
                return use.slots[t].resident;
        return -1;
    }

    std::vector<OfUse::Read> parameters_of(const BlockUse& use, const Block& block) const {
        std::vector<OfUse::Read> reads;
        const auto is_parameter = [](Role role) { return role == Role::parameter; };
        for (const std::int32_t at : places_of(use, block, is_parameter)) {
            OfUse::Read& read = reads.emplace_back();
            read.at = at;
            read.own = keeps_parameters(use, at);
            for (std::size_t t = 0; t < use.slots.size(); ++t)
                if (block.tensors[t].role == Role::parameter && use.slots[t].resident == at)
                    read.bytes += block.tensors[t].bytes();
        }
        return reads;
    }

    // Whether it is where a bucket of the use keeps parameters.
    bool keeps_parameters(const BlockUse& use, std::int32_t at) const {
        const std::array<std::int32_t, 2> own = buckets_of(use);
        return std::any_of(own.begin(), own.end(),
                           [&](std::int32_t of) { return bucket(of).parameters == at; });
    }

    // What a part reads lies in its buckets' own memory, or has been gathered where it looks.
    void check_parameters(const Step& step, const BlockUse& use, const OfUse::Read& read) {
        const auto part = [&] {
            return to_text(step.action) + ' ' +
                   plan_.blocks[static_cast<std::size_t>(use.block)].name;
        };
        if (resident(read.at).bytes < read.bytes)
            fault(part() + " reads more parameters than " + resident(read.at).name + " holds");
        else if (!read.own && !has_been_gathered(use, read.at))
            fault(part() + " uses bucket " + std::to_string(use.bucket) + ", which " +
                  resident(read.at).name + " does not hold");
    }

    // A tied embedding may have been gathered for its other use.
    bool has_been_gathered(const BlockUse& use, std::int32_t at) const {
        const auto found = gathered_.find(at);
        return found != gathered_.end() && keeps_parameters(use, bucket(found->second).parameters);
    }

    void fill(const Step& step, const BlockUse& use, std::int32_t at) {
        const auto found = unreduced_.find(at);
        if (found == unreduced_.end()) {
            unreduced_[at] = filled_by(use, at);
            return;
        }
        if (found->second == filled_by(use, at)) return;
        fault(to_text(step.action) + " overwrites the gradients of bucket " +
              std::to_string(found->second) + " in " + resident(at).name);
        found->second = filled_by(use, at);
    }

    void reduce(const BlockUse& use, std::int32_t at) {
        const auto found = unreduced_.find(at);
        if (found != unreduced_.end() && found->second == use.bucket)
            unreduced_.erase(found);
        else
            fault("bucket " + std::to_string(use.bucket) + " is reduced from " + resident(at).name +
                  ", which does not hold its gradients");
    }

    void check_sums() {
        for (const std::int32_t b : apart_)
            if (summed_.count(b) == 0)
                fault("the gradients of bucket " + std::to_string(b) +
                      " are kept apart by source, and never summed");
        for (std::size_t b = 0; b < program_.buckets.size(); ++b) {
            if (program_.buckets[b].frozen || program_.buckets[b].elements == 0) continue;
            const Bucket& bucket = program_.buckets[b];
            const GroupKind copies = bucket.copies();
            const std::set<GroupKind>& over = sums_[static_cast<std::int32_t>(b)];
            if (plan_.mesh.group_size(copies) == 1 || over.count(copies) > 0) continue;
            for (const GroupKind part : {bucket.sharing(), bucket.replicas()})
                if (plan_.mesh.group_size(part) > 1 && over.count(part) == 0)
                    fault("the gradients of bucket " + std::to_string(b) +
                          " are not summed over all data-parallel ranks: nothing over " +
                          std::string(name(part)));
        }
    }

    const Plan& plan_;
    const Program& program_;
    Faults& faults_;
    std::map<std::int32_t, std::int32_t> gathered_;   // resident → bucket
    std::map<std::int32_t, std::int32_t> unreduced_;  // resident → bucket
    std::map<std::int32_t, std::set<GroupKind>> sums_;
    std::set<std::int32_t> apart_, summed_;                 // buckets whose gradients are by source
    std::vector<std::optional<std::vector<OfUse>>> known_;  // by procedure that a step runs
};

void check_groups(const Plan& plan, Faults& faults) {
    const Mesh& mesh = plan.mesh;
    const std::int64_t data = mesh.group_size(GroupKind::data);
    if (mesh.shard != 0 && (mesh.shard < 2 || mesh.shard >= data || data % mesh.shard != 0)) {
        faults.push_back(std::to_string(mesh.shard) +
                         " ranks that share out states do not divide " + std::to_string(data) +
                         " data-parallel ranks");
        return;
    }
    if (mesh.shard != 0 && mesh.expert != 0 && mesh.tensor * mesh.shard % mesh.expert != 0) {
        faults.push_back(std::to_string(mesh.tensor * mesh.shard) +
                         " ranks that share out states do not have all experts, which are spread "
                         "over " +
                         std::to_string(mesh.expert));
        return;
    }
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            const bool part = op.group == GroupKind::shard || op.group == GroupKind::replica ||
                              op.group == GroupKind::expert_shard ||
                              op.group == GroupKind::expert_replica;
            const bool all = op.group == GroupKind::data || op.group == GroupKind::expert_data;
            if (part && mesh.shard == 0)
                faults.push_back(block.name + " communicates over a part of the data-parallel " +
                                 "ranks, all of which share out states");
            if (all && mesh.shard > 0)
                faults.push_back(block.name +
                                 " communicates over all data-parallel ranks, a part "
                                 "of which share out states");
            if (op.kind() != OpKind::all_gather && op.kind() != OpKind::reduce_scatter) continue;
            const std::int64_t ranks = mesh.group_size(op.group);
            if (op.size(0) % ranks != 0)
                faults.push_back(block.name + ": " + std::to_string(op.size(0)) +
                                 " elements do not divide over " + std::to_string(ranks) +
                                 " ranks");
            for (const TensorId id : op.reads) {
                const Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
                const bool in_place =
                    std::count(op.writes.begin(), op.writes.end(), id) > 0;  // of the whole
                if (tensor.role == Role::parameter_shard && !in_place &&
                    tensor.elements() * ranks != op.size(0))
                    faults.push_back(block.name + " gathers " + std::to_string(op.size(0)) +
                                     " elements of shards of " + std::to_string(tensor.elements()) +
                                     " over " + std::to_string(ranks) + " ranks");
            }
        }
}

}  // namespace

void check_sharding(const Plan& plan, std::vector<std::string>& faults) {
    check_groups(plan, faults);
    for (const Program& program : plan.programs)
        Walk(plan, program, faults).run();
}

}  // namespace orrery::plan
