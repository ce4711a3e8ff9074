#include "trace/formats/transfers.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "plan/ir/action.hpp"

namespace orrery::trace::viewer {
namespace {

// What a transfer carries: receiving stage, forward or backward, micro-batch, and which of the
// steps it is of where a trace holds two.
struct Cargo {
    std::int64_t stage = 0;
    bool forward = true;
    std::int32_t micro_batch = 0;
    std::int32_t time = 0;
    auto operator<=>(const Cargo&) const = default;
};

struct End {
    std::size_t track = 0;
    std::int32_t event = 0;
    std::int64_t place = 0;  // of the rank among those of its stage
    Cargo cargo;
};

Cargo cargo_of(const plan::Action& action) {
    using Kind = plan::ActionKind;
    Cargo cargo{action.stage, true, action.micro_batch, 0};
    cargo.forward = action.kind == Kind::send_f || action.kind == Kind::recv_f;
    if (action.kind == Kind::send_f) ++cargo.stage;
    if (action.kind == Kind::send_b) --cargo.stage;
    return cargo;
}

class Matcher {
  public:
    explicit Matcher(const Trace& trace) : trace_(trace) {
        std::int64_t stages = 1;
        for (const ProgramOps& program : trace.programs)
            stages = std::max<std::int64_t>(stages, std::int64_t{program.pipeline_rank} + 1);
        // In doubles: a file may claim any number of ranks.
        double ranks = 0;
        for (const Track& track : trace.tracks)
            ranks += static_cast<double>(track.represents());
        const double each = ranks / static_cast<double>(stages);
        if (each >= 1 && each < 1e15) ranks_per_stage_ = static_cast<std::int64_t>(each);
        if (!fits_all_tracks()) ranks_per_stage_ = between_first_ranks();
        for (std::size_t t = 0; t < trace.tracks.size(); ++t)
            collect(t);
    }

    Transfers run() {
        Transfers result{std::vector<std::vector<TransferEnd>>(trace_.tracks.size()),
                         std::vector<std::vector<TransferEnd>>(trace_.tracks.size())};
        std::uint64_t number = 0;
        const auto connect = [&](const End& from, const End& to) {
            ++number;
            result.sent[from.track].push_back({from.event, number});
            result.received[to.track].push_back({to.event, number});
        };
        std::vector<bool> reached(receives_.size(), false);
        const Index receives = index_of(receives_), sends = index_of(sends_);
        for (const End& send : sends_) {
            const std::size_t receive = find(receives, receives_, send);
            if (receive == receives_.size()) continue;
            connect(send, receives_[receive]);
            reached[receive] = true;
        }
        for (std::size_t r = 0; r < receives_.size(); ++r) {
            if (reached[r]) continue;
            const std::size_t send = find(sends, sends_, receives_[r]);
            if (send < sends_.size()) connect(sends_[send], receives_[r]);
        }
        for (auto* ends : {&result.sent, &result.received})
            for (std::vector<TransferEnd>& of_track : *ends)
                std::sort(of_track.begin(), of_track.end());
        return result;
    }

  private:
    using Key = std::pair<Cargo, std::int64_t>;  // and the place; −1: any
    using Index = std::map<Key, std::size_t>;

    std::int64_t pipeline_rank(const Track& track) const {
        return trace_.programs[static_cast<std::size_t>(track.program)].pipeline_rank;
    }

    // Whether each rank is where a stage of so many ranks has it, as in a whole trace.
    bool fits_all_tracks() const {
        return std::all_of(trace_.tracks.begin(), trace_.tracks.end(), [&](const Track& track) {
            return track.rank / ranks_per_stage_ == pipeline_rank(track);
        });
    }

    // Of an excerpt, which has the same places of each stage: from the first rank of its first
    // stage to that of its last.
    std::int64_t between_first_ranks() const {
        std::map<std::int64_t, std::int64_t> first;  // by pipeline rank
        for (const Track& track : trace_.tracks) {
            const auto [at, is_new] = first.emplace(pipeline_rank(track), track.rank);
            if (!is_new) at->second = std::min(at->second, track.rank);
        }
        if (first.size() < 2) return ranks_per_stage_;
        const auto& [low, low_rank] = *first.begin();
        const auto& [high, high_rank] = *first.rbegin();
        return std::max<std::int64_t>(1, (high_rank - low_rank) / (high - low));
    }

    void collect(std::size_t t) {
        const Track& track = trace_.tracks[t];
        const ProgramOps& program = trace_.programs[static_cast<std::size_t>(track.program)];
        std::map<std::pair<Cargo, bool>, std::int32_t> times;
        std::int64_t last_step = -1;
        for (std::size_t i = 0; i < track.events.size(); ++i) {
            if (trace_.op_of(track, i).kind != plan::OpKind::exchange) continue;
            if (std::int64_t{program.step[i]} == last_step) continue;  // one op for all transfers
            last_step = program.step[i];
            for (const plan::Action& action : program.actions[program.step[i]]) {
                if (!plan::is_transfer(action.kind) || plan::carries_statistic(action.kind))
                    continue;
                const bool is_send = plan::is_send(action.kind);
                End end{t, static_cast<std::int32_t>(i), track.rank % ranks_per_stage_,
                        cargo_of(action)};
                end.cargo.time = times[{end.cargo, is_send}]++;
                (is_send ? sends_ : receives_).push_back(end);
            }
        }
    }

    static Index index_of(const std::vector<End>& ends) {
        Index index;
        for (std::size_t i = 0; i < ends.size(); ++i) {
            index.try_emplace({ends[i].cargo, ends[i].place}, i);
            index.try_emplace({ends[i].cargo, -1}, i);
        }
        return index;
    }

    static std::size_t find(const Index& index, const std::vector<End>& ends, const End& other) {
        for (const std::int64_t place : {other.place, std::int64_t{-1}}) {
            const auto found = index.find({other.cargo, place});
            if (found != index.end()) return found->second;
        }
        return ends.size();
    }

    const Trace& trace_;
    std::int64_t ranks_per_stage_ = 1;
    std::vector<End> sends_, receives_;
};

}  // namespace

Transfers transfers_of(const Trace& trace) {
    return Matcher(trace).run();
}

}  // namespace orrery::trace::viewer
