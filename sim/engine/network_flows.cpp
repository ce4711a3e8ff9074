#include "sim/engine/network_flows.hpp"

#include <algorithm>
#include <numeric>

namespace orrery::sim {

namespace {
constexpr std::int64_t kWhole = 1000;
}

void fair_shares(std::int64_t capacity_kBps, const NetworkUse* uses, std::size_t count,
                 std::int64_t* shares) {
    std::int64_t left = capacity_kBps;
    std::int64_t flows = 0;
    for (std::size_t i = 0; i < count; ++i) {
        flows += uses[i].flows;
        shares[i] = 0;
    }
    // Those that need less than an equal part, until none is left that does.
    for (bool more = true; more;) {
        more = false;
        for (std::size_t i = 0; i < count; ++i) {
            if (shares[i] > 0 || uses[i].kBps > left / flows) continue;
            shares[i] = kWhole;
            left -= uses[i].kBps * uses[i].flows;
            flows -= uses[i].flows;
            more = true;
            if (flows == 0) return;
        }
    }
    for (std::size_t i = 0; i < count; ++i)
        if (shares[i] == 0)
            shares[i] = std::max<std::int64_t>(1, left / flows * kWhole / uses[i].kBps);
}

template <typename Function>
void NetworkFlows::each_way(const Member& member, const Function& f) {
    Passings& passings = tracks_[static_cast<std::size_t>(member.track)];
    if (member.direction != Direction::in) f(passings[0]);
    if (member.direction != Direction::out) f(passings[1]);
}

// Whatever passes where the flow does may change its rate.
void NetworkFlows::touch(const Flow& flow) {
    for (const Member& member : flow.members) {
        if (!shares(member.use)) continue;
        each_way(member, [&](const std::vector<Passing>& passings) {
            for (const Passing& passing : passings) {
                Flow& other = flows_[static_cast<std::size_t>(passing.flow)];
                if (other.dirty) continue;
                other.dirty = true;
                dirty_.push_back(passing.flow);
            }
        });
    }
}

void NetworkFlows::begin(const std::vector<Member>& members, bool transfer, Picoseconds takes,
                         Picoseconds now) {
    if (free_.empty()) {
        free_.push_back(static_cast<Id>(flows_.size()));
        flows_.emplace_back();
    }
    const Id id = free_.back();
    free_.pop_back();
    Flow& flow = flows_[static_cast<std::size_t>(id)];
    flow.members = members;
    flow.work_left = static_cast<Work>(takes) * kOwnRate;
    flow.rate = 0;
    flow.inside = flow.above = kOwnRate;
    flow.since = now;
    flow.transfer = transfer;
    flow.shared = -1;
    if (const std::int32_t path = path_of(flow); path >= 0) {
        const std::int64_t kBps = members.front().use.kBps;
        call({FlowCall::Kind::begin, id, path, kBps});
        if (above_ != nullptr) flow.shared = above_->begin(job_, id, path, kBps);
    }
    for (const Member& member : flow.members)
        if (shares(member.use))
            each_way(member, [&](std::vector<Passing>& passings) {
                passings.push_back({id, member.use});
            });
    touch(flow);
}

void NetworkFlows::join(SharedLinks& above, std::int32_t job) {
    above_ = &above;
    job_ = job;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
        Flow& flow = flows_[i];
        if (flow.members.empty() || path_of(flow) < 0) continue;
        flow.shared =
            above.begin(job, static_cast<Id>(i), path_of(flow), flow.members.front().use.kBps);
        above.allow(flow.shared, flow.inside);
    }
}

void NetworkFlows::leave() {
    above_ = nullptr;
    for (Flow& flow : flows_)
        flow.shared = -1;
}

void NetworkFlows::end(Id id, std::vector<Member>& members) {
    Flow& flow = flows_[static_cast<std::size_t>(id)];
    for (const Member& member : flow.members)
        if (shares(member.use))
            each_way(member, [&](std::vector<Passing>& passings) {
                const auto own = std::find_if(passings.begin(), passings.end(),
                                              [&](const Passing& p) { return p.flow == id; });
                passings.erase(own);
            });
    touch(flow);
    ++flow.generation;
    if (path_of(flow) >= 0) call({FlowCall::Kind::end, id, 0, 0});
    if (flow.shared >= 0) above_->end(flow.shared);
    members.clear();
    members.swap(flow.members);
    free_.push_back(id);
}

// A transfer has two, one for each direction: that from its first member, and that to it.
std::int32_t NetworkFlows::path_of(const Flow& flow) {
    const Member& first = flow.members.front();
    if (first.use.path < 0) return -1;
    return first.use.path + (first.direction == Direction::in ? 1 : 0);
}

// The least of its shares, over members and directions.
std::int64_t NetworkFlows::rate_of(Id id) {
    std::int64_t rate = kWhole;
    for (const Member& member : flows_[static_cast<std::size_t>(id)].members) {
        if (!shares(member.use)) continue;
        each_way(member, [&](const std::vector<Passing>& passings) {
            if (passings.size() == 1) return;  // alone there
            uses_.clear();
            std::size_t own = 0;
            for (const Passing& passing : passings) {
                if (passing.flow == id) own = uses_.size();
                uses_.push_back(passing.use);
            }
            shares_.resize(uses_.size());
            fair_shares(capacity_, uses_.data(), uses_.size(), shares_.data());
            rate = std::min(rate, shares_[own]);
        });
    }
    return rate;
}

void NetworkFlows::ask() {
    for (const Id id : dirty_) {
        Flow& flow = flows_[static_cast<std::size_t>(id)];
        flow.dirty = false;
        if (flow.members.empty()) continue;  // it has ended since
        const std::int64_t rate = rate_of(id) * (kOwnRate / kWhole);
        if (rate != flow.inside && path_of(flow) >= 0) {
            call({FlowCall::Kind::allow, id, 0, rate});
            if (flow.shared >= 0) above_->allow(flow.shared, rate);
        }
        flow.inside = rate;
        if (!flow.asked) asked_.push_back(id);
        flow.asked = true;
    }
    dirty_.clear();
}

void NetworkFlows::limit(Id id, std::int64_t rate) {
    Flow& flow = flows_[static_cast<std::size_t>(id)];
    flow.above = rate;
    if (!flow.asked) asked_.push_back(id);
    flow.asked = true;
}

const std::vector<NetworkFlows::Ending>& NetworkFlows::grant(Picoseconds now) {
    endings_.clear();
    for (const Id id : asked_) {
        Flow& flow = flows_[static_cast<std::size_t>(id)];
        flow.asked = false;
        if (flow.members.empty()) continue;
        const std::int64_t rate = std::min(flow.inside, flow.above);
        if (rate == flow.rate) continue;
        const Work done = static_cast<Work>(now - flow.since) * flow.rate;
        flow.work_left = std::max<Work>(0, flow.work_left - done);
        flow.since = now;
        flow.rate = rate;
        endings_.push_back({id, ++flow.generation,
                            now + static_cast<Picoseconds>((flow.work_left + rate - 1) / rate)});
    }
    asked_.clear();
    return endings_;
}

}  // namespace orrery::sim
