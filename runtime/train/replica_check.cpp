#include "runtime/train/replica_check.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/memory/arena.hpp"
#include "runtime/data/content_hash.hpp"
#include "runtime/launch/host_names.hpp"
#include "runtime/train/model_state.hpp"

namespace orrery::runtime {
namespace {

// Behind the name of a parameter, as a checkpoint's tensors have it.
const char* suffix_of(StateKind kind) {
    switch (kind) {
        case StateKind::masters:
            return ":master";
        case StateKind::first_moments:
            return ":first_moment";
        case StateKind::second_moments:
            return ":second_moment";
        case StateKind::parameters:
        case StateKind::gradients:
            break;
    }
    return "";
}

// A message of lines, and what all ranks said, by rank.
std::vector<std::vector<std::string>> exchange_lines(ControlPlane& control,
                                                     const std::vector<std::string>& mine) {
    const std::string text = fmt::format("{}", fmt::join(mine, "\n"));
    std::vector<std::vector<std::string>> all;
    for (const ControlPlane::Bytes& bytes :
         control.all_gather(std::as_bytes(std::span(text.data(), text.size())))) {
        std::istringstream lines(
            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
        std::vector<std::string>& of_rank = all.emplace_back();
        for (std::string line; std::getline(lines, line);)
            of_rank.push_back(line);
    }
    return all;
}

std::string text_of_holders(const std::vector<plan::Rank>& holders) {
    return fmt::format("{}", fmt::join(holders, " "));
}

// "rank 2", "ranks 0, 1 and 3".
std::string ranks_text(const std::vector<plan::Rank>& ranks) {
    if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
    const std::vector<plan::Rank> first(ranks.begin(), ranks.end() - 1);
    return fmt::format("ranks {} and {}", fmt::join(first, ", "), ranks.back());
}

// Which of the shares of a parameter the rank has.
std::int64_t share_of(const BoundProgram& program, const plan::Parameter& parameter) {
    if (parameter.experts > 0) return program.mesh.expert_member(program.mesh.rank(program.at));
    if (parameter.cut == plan::Cut::whole) return 0;
    return plan::WordShares{parameter.pipeline_ranks}.number(program.mesh.tensor, program.at.tensor,
                                                             program.at.pipeline);
}

using RanksByHash = std::map<std::string, std::vector<plan::Rank>>;

// The hash that more than half have; end: none.
RanksByHash::const_iterator majority_of(const RanksByHash& ranks) {
    std::size_t all = 0;
    for (const auto& [hash, of_hash] : ranks)
        all += of_hash.size();
    return std::find_if(ranks.begin(), ranks.end(),
                        [&](const auto& each) { return 2 * each.second.size() > all; });
}

}  // namespace

ReplicaCheck::ReplicaCheck(const BoundProgram& program, const plan::Program& planned,
                           ControlPlane& control)
    : control_(control), hosts_(host_names(control)) {
    add_held(program, planned);
    keep_shared();
}

void ReplicaCheck::add_held(const BoundProgram& program, const plan::Program& planned) {
    std::map<std::string, Part> parts;
    for (std::size_t b = 0; b < program.buckets.size(); ++b) {
        if (program.buckets[b].elements == 0) continue;
        for (const plan::BucketState& state : program.buckets[b].states) {
            if (state.kind == StateKind::gradients) continue;
            const HeldState held = held_state(program, b, state.kind);
            const std::int64_t size = plan::size_bytes(held.dtype);
            const std::int64_t base =
                plan::address_of(planned, plan::keeper_of(planned, held.resident));
            // Behind them may be a tied parameter, of which another bucket has the state.
            const std::int64_t last =
                std::min(held.first + held.elements, program.buckets[b].elements);
            for (const plan::BucketEntry& entry : program.entries[b]) {
                const std::int64_t first = std::max(held.first, entry.offset);
                const std::int64_t end = std::min(last, entry.offset + entry.elements);
                if (first >= end) continue;
                Part part;
                part.name = plan::full_name(entry.layer, entry.name) + suffix_of(state.kind);
                part.key = fmt::format("{} {} {} {}", part.name, share_of(program, entry.parameter),
                                       first - entry.offset, end - first);
                part.offset = base + (held.skipped + first - held.first) * size;
                part.bytes = (end - first) * size;
                parts.emplace(part.key, part);
            }
        }
    }
    for (auto& [key, part] : parts)
        parts_.push_back(std::move(part));
}

// Who holds what is agreed on once: it is as long as the plan.
void ReplicaCheck::keep_shared() {
    std::vector<std::string> keys;
    for (const Part& part : parts_)
        keys.push_back(content_hash(part.key));
    const auto all = exchange_lines(control_, keys);
    std::map<std::string, std::vector<plan::Rank>> holders;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        for (const std::string& key : all[rank])
            holders[key].push_back(static_cast<plan::Rank>(rank));
    for (std::size_t i = 0; i < parts_.size(); ++i)
        parts_[i].holders = holders[keys[i]];
    std::erase_if(parts_, [](const Part& part) { return part.holders.size() < 2; });
}

std::int64_t ReplicaCheck::compared_bytes() const {
    std::int64_t bytes = 0;
    for (const Part& part : parts_)
        bytes += part.bytes;
    return bytes;
}

std::vector<std::string> ReplicaCheck::hashes(const Device& device) const {
    std::vector<std::string> hashes;
    std::vector<std::byte> bytes;
    for (const Part& part : parts_) {
        bytes.resize(static_cast<std::size_t>(part.bytes));
        device.read(part.offset, bytes);
        hashes.push_back(content_hash(bytes));
    }
    return hashes;
}

// One hash for all parts that the same ranks hold: few and short messages where all is well.
bool ReplicaCheck::digests_agree(const std::vector<std::string>& hashes) const {
    std::map<std::string, std::string> by_holders;
    for (std::size_t i = 0; i < parts_.size(); ++i)
        by_holders[text_of_holders(parts_[i].holders)] += hashes[i];
    std::vector<std::string> lines;
    for (const auto& [holders, all] : by_holders)
        lines.push_back(holders + '=' + content_hash(all));
    std::map<std::string, std::string> digests;
    for (const auto& of_rank : exchange_lines(control_, lines))
        for (const std::string& line : of_rank) {
            const std::size_t equals = line.find('=');
            const std::string digest = line.substr(equals + 1);
            if (digests.emplace(line.substr(0, equals), digest).first->second != digest)
                return false;
        }
    return true;
}

void ReplicaCheck::verify(const Device& device, std::int64_t step) {
    const std::vector<std::string> of_parts = hashes(device);
    if (!digests_agree(of_parts)) report(of_parts, step);
}

void ReplicaCheck::report(const std::vector<std::string>& hashes, std::int64_t step) const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < parts_.size(); ++i)
        lines.push_back(parts_[i].key + '=' + hashes[i]);
    const auto all = exchange_lines(control_, lines);
    std::map<std::string, RanksByHash> by_part;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
        for (const std::string& line : all[rank]) {
            const std::size_t equals = line.rfind('=');
            by_part[line.substr(0, equals)][line.substr(equals + 1)].push_back(
                static_cast<plan::Rank>(rank));
        }
    std::erase_if(by_part, [](const auto& part) { return part.second.size() == 1; });
    const auto& [key, ranks] = *by_part.begin();
    std::string said;
    std::optional<plan::Rank> odd;
    if (const auto most = majority_of(ranks); most != ranks.end()) {
        std::vector<plan::Rank> others;
        for (const auto& [hash, of_hash] : ranks)
            if (hash != most->first) others.insert(others.end(), of_hash.begin(), of_hash.end());
        std::sort(others.begin(), others.end());
        if (others.size() == 1) odd = others.front();
        said = fmt::format("{} on {} {} other bits than {}", ranks_text(others),
                           hosts_[static_cast<std::size_t>(others.front())],
                           others.size() == 1 ? "holds" : "hold", ranks_text(most->second));
    } else {
        std::vector<plan::Rank> holders;
        for (const auto& [hash, of_hash] : ranks)
            holders.insert(holders.end(), of_hash.begin(), of_hash.end());
        std::sort(holders.begin(), holders.end());
        std::vector<std::string> names;
        for (const plan::Rank rank : holders)
            names.push_back(fmt::format("{} on {}", rank, hosts_[static_cast<std::size_t>(rank)]));
        said = fmt::format("ranks {} differ, and no majority says which is right",
                           fmt::join(names, ", "));
    }
    std::string more;
    if (by_part.size() > 1) more = fmt::format("; {} more differ", by_part.size() - 1);
    throw ReplicaError(fmt::format("after step {} the replicas of {} are not the same: {}{}", step,
                                   key.substr(0, key.find(' ')), said, more),
                       odd);
}

}  // namespace orrery::runtime
