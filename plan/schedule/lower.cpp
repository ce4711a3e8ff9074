#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "plan/check.hpp"
#include "plan/schedule/exchanges.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

// What a rank issues: the number of the message that it sends or receives, or one of these.
enum Issued : std::int32_t {
    kPass = -1,        // the next action of its row of the grid
    kPassBeside = -2,  // the same, as the second of a pair
    kValidate = -3
};
using Rows = std::vector<std::vector<std::int32_t>>;

// What passes from one rank to another, and where in their rows it is sent and received.
struct Message {
    Action send;
    std::int32_t from = 0, to = 0;
    std::int32_t sent = 0, received = 0;
    bool exchanged = false;
    // Whether it is the first transfer of an exchange, which the next one is in, too; of its sender
    // and of its receiver.
    bool leads_sent = false, leads_received = false;

    Action receive() const {
        return {send.stage + hop_to_peer(send.kind),
                send.kind == ActionKind::send_f ? ActionKind::recv_f : ActionKind::recv_b,
                send.micro_batch};
    }
    Action on(std::size_t rank) const { return sends_from(rank) ? send : receive(); }
    bool sends_from(std::size_t rank) const { return static_cast<std::size_t>(from) == rank; }
    bool leads(std::size_t rank) const { return sends_from(rank) ? leads_sent : leads_received; }
};

// By a grid's stage and micro-batch, in one row.
template <typename Value>
class ByMicroBatch {
  public:
    ByMicroBatch() = default;
    ByMicroBatch(std::int32_t stages, std::int32_t micro_batches, Value none)
        : micro_batches_(static_cast<std::size_t>(micro_batches)),
          values_(static_cast<std::size_t>(stages) * micro_batches_, none) {}
    Value& operator()(std::int32_t stage, std::int32_t micro_batch) {
        return values_[place(stage, micro_batch)];
    }
    const Value& operator()(std::int32_t stage, std::int32_t micro_batch) const {
        return values_[place(stage, micro_batch)];
    }

  private:
    std::size_t place(std::int32_t stage, std::int32_t micro_batch) const {
        return static_cast<std::size_t>(stage) * micro_batches_ +
               static_cast<std::size_t>(micro_batch);
    }

    std::size_t micro_batches_ = 0;
    std::vector<Value> values_;
};

constexpr std::uint8_t bit(ActionKind pass) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(pass));
}

// A set of ranks that is gone over in their order.
class RankSet {
  public:
    explicit RankSet(std::size_t ranks) : words_((ranks + kBits - 1) / kBits) {}
    void add(std::size_t rank) { words_[rank / kBits] |= std::uint64_t{1} << rank % kBits; }
    // Empties it first of each 64 ranks before they are called: what is added meanwhile stays.
    template <typename Call>
    void take_each(const Call& call) {
        for (std::size_t w = 0; w < words_.size(); ++w)
            for (std::uint64_t left = std::exchange(words_[w], 0); left != 0; left &= left - 1)
                call(w * kBits + static_cast<std::size_t>(std::countr_zero(left)));
    }

  private:
    static constexpr std::size_t kBits = 64;
    std::vector<std::uint64_t> words_;
};

// One run of the grid in unit time; see add_transfers.
class UnitRun {
  public:
    UnitRun(const ActionGrid& grid, const StagePlacement& placement, bool validates = false,
            bool pairs = false)
        : grid_(grid),
          placement_(placement),
          to_validate_(validates),
          pairs_(pairs),
          rows_(grid.size()),
          next_(grid.size(), 0),
          busy_(grid.size(), 0),
          ahead_(grid.size(), 0),
          ending_(kLongest + 1, RankSet(grid.size())),
          may_start_(grid.size()) {
        std::int32_t stages = placement.stages(), micro_batches = 0;
        for (const auto& row : grid)
            for (const Action& action : row) {
                stages = std::max(stages, action.stage + 1);
                micro_batches = std::max(micro_batches, action.micro_batch + 1);
                halves_ = halves_ || action.kind == ActionKind::backward_input;
            }
        done_ = {stages, micro_batches, 0};
        if (!halves_) return;
        forward_at_ = gradient_at_ = {stages, micro_batches, kNowhere};
        for (const auto& row : grid)
            for (std::size_t i = 0; i < row.size(); ++i) {
                const Action& action = row[i];
                if (action.kind == ActionKind::forward)
                    forward_at_(action.stage, action.micro_batch) = i;
                if (makes_input_gradient(action.kind))
                    gradient_at_(action.stage, action.micro_batch) = i;
            }
    }

    void run() {
        std::size_t passes = 0;
        for (std::size_t rank = 0; rank < grid_.size(); ++rank) {
            rows_[rank].reserve(3 * grid_[rank].size());
            passes += grid_[rank].size();
        }
        messages_.reserve(passes);
        look_at_all();
        start_all();
        for (now_ = 1; running_ > 0; ++now_) {
            ending_at(now_).take_each([&](std::size_t rank) { finish(rank); });
            issue_transfers();
            validate_before_backward();
            start_all();
        }
        for (std::size_t rank = 0; rank < grid_.size(); ++rank)
            ORRERY_CHECK(next_[rank] == grid_[rank].size(), "a schedule that cannot run");
    }
    // What run() then has made.
    Rows take_rows() { return std::move(rows_); }
    std::vector<Message> take_messages() { return std::move(messages_); }

    // Of each rank the passes as they run, instead.
    Timeline timeline() {
        timeline_.emplace(grid_.size());
        run();
        return *std::move(timeline_);
    }

  private:
    static constexpr std::int64_t kLongest = 3;  // a pair
    static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

    // What must have ended before an action may start.
    bool ready(const Action& action) const {
        const std::int32_t stage = action.stage;
        const auto done = [&](std::int32_t of, std::uint8_t passes) {
            return (done_(of, action.micro_batch) & passes) != 0;
        };
        constexpr std::uint8_t kGradient =
            bit(ActionKind::backward) | bit(ActionKind::backward_input);
        // Of the pieces of the vocabulary all ranks' are one: collectives tie them.
        const auto all_done = [&](std::int32_t first, ActionKind kind) {
            for (std::int32_t piece = 0; piece < placement_.pieces(); ++piece)
                if (!done(first + piece, bit(kind))) return false;
            return true;
        };
        const bool shared = placement_.pieces() > 0;
        const std::int32_t last = placement_.stages() - 1;
        if (action.kind == ActionKind::forward) {
            if (!placement_.receives(stage)) return true;
            if (shared && stage == 0)
                return all_done(placement_.embedding_of(0), ActionKind::forward);
            return done(placement_.before(stage, 0), bit(ActionKind::forward));
        }
        if (action.kind == ActionKind::backward_weight)
            return done(stage, bit(ActionKind::backward_input));
        if (!done(stage, bit(ActionKind::forward))) return false;
        if (shared && placement_.is_head(stage))
            return all_done(placement_.head_of(0), ActionKind::forward);
        if (!placement_.receives_gradient(stage)) return true;
        if (shared && stage == last) return all_done(placement_.head_of(0), ActionKind::backward);
        return done(placement_.after(stage, 0), kGradient);
    }

    bool can_start(std::size_t rank) const {
        return busy_[rank] == 0 && next_[rank] < grid_[rank].size() &&
               ready(grid_[rank][next_[rank]]);
    }

    // Forward passes take one unit each, so that none is under way now.
    void validate_before_backward() {
        bool due = false;
        for (std::size_t rank = 0; to_validate_ && rank < grid_.size(); ++rank)
            due = due || (can_start(rank) && grid_[rank][next_[rank]].kind != ActionKind::forward);
        for (std::size_t rank = 0; due && rank < grid_.size(); ++rank)
            rows_[rank].push_back(kValidate);
        to_validate_ = to_validate_ && !due;
    }

    bool is_piece(const Action& action) const { return action.stage >= placement_.stages(); }

    RankSet& ending_at(std::int64_t time) {
        return ending_[static_cast<std::size_t>(time % (kLongest + 1))];
    }
    void look_at_all() {
        for (std::size_t rank = 0; rank < grid_.size(); ++rank)
            may_start_.add(rank);
    }

    void start_all() {
        do {
            // Of the pieces of the vocabulary one sets all ranks free.
            if (placement_.pieces() > 0) look_at_all();
            may_start_.take_each([&](std::size_t rank) {
                if (can_start(rank) && !is_piece(grid_[rank][next_[rank]])) start_next(rank);
            });
        } while (start_pieces());
    }

    // Passes over pieces of the vocabulary take no time here. All ranks issue theirs at once,
    // behind what they run, so that collectives have the same place among transfers on every rank.
    bool start_pieces() {
        if (placement_.pieces() == 0) return false;
        for (std::size_t rank = 0; rank < grid_.size(); ++rank) {
            const std::size_t first = next_[rank] + busy_[rank] + ahead_[rank];
            if (first == grid_[rank].size() || !is_piece(grid_[rank][first]) ||
                !ready(grid_[rank][first]))
                return false;
        }
        for (std::size_t rank = 0; rank < grid_.size(); ++rank) {
            const Action& action = grid_[rank][next_[rank] + busy_[rank] + ahead_[rank]];
            rows_[rank].push_back(kPass);
            if (timeline_) (*timeline_)[rank].push_back({action, now_, now_});
            done_(action.stage, action.micro_batch) |= bit(action.kind);
            ++(busy_[rank] > 0 ? ahead_ : next_)[rank];
        }
        return true;
    }

    void start_next(std::size_t rank) {
        const std::size_t together = begins_pair(rank) ? 2 : 1;
        std::int64_t end = now_;
        for (std::size_t i = 0; i < together; ++i)
            end += grid_[rank][next_[rank] + i].kind == ActionKind::backward ? 2 : 1;
        for (std::size_t i = 0; i < together; ++i) {
            const Action& action = grid_[rank][next_[rank] + i];
            rows_[rank].push_back(i > 0 ? kPassBeside : kPass);
            if (timeline_) (*timeline_)[rank].push_back({action, now_, end});
        }
        busy_[rank] = together;
        ending_at(end).add(rank);
        ++running_;
    }

    // Whether the next action, which can start, is a forward that the one behind it runs beside.
    bool begins_pair(std::size_t rank) const {
        if (!pairs_ || next_[rank] + 1 == grid_[rank].size()) return false;
        const Action& one = grid_[rank][next_[rank]];
        const Action& other = grid_[rank][next_[rank] + 1];
        return one.kind == ActionKind::forward && other.kind == ActionKind::backward &&
               one.micro_batch != other.micro_batch && ready(other);
    }

    void finish(std::size_t rank) {
        for (; busy_[rank] > 0; --busy_[rank])
            finish_one(rank);
        next_[rank] += std::exchange(ahead_[rank], 0);
        --running_;
        may_start_.add(rank);
    }

    void finish_one(std::size_t rank) {
        const Action action = grid_[rank][next_[rank]];
        ++next_[rank];
        done_(action.stage, action.micro_batch) |= bit(action.kind);
        const bool forward = action.kind == ActionKind::forward;
        if (!forward && !makes_input_gradient(action.kind)) return;
        // Pieces of the vocabulary hand on within their rank.
        const std::int32_t to = forward ? action.stage + 1 : action.stage - 1;
        if (to < 0 || std::max(to, action.stage) >= placement_.stages()) return;
        const auto peer = static_cast<std::size_t>(placement_.rank_of(to));
        may_start_.add(peer);
        if (peer == rank) return;
        due_.push_back(
            {{action.stage, forward ? ActionKind::send_f : ActionKind::send_b, action.micro_batch},
             static_cast<std::int32_t>(rank),
             static_cast<std::int32_t>(peer)});
    }

    // Of transfers that are due together, those between ranks 0 and 1, 2 and 3, … go first, then
    // those between 1 and 2, 3 and 4, …: else each rank of a ring would wait for the one before,
    // once around (Megatron-LM's even and odd ranks likewise send and receive in turn). An odd
    // ring closes in a third turn.
    std::uint64_t turn(std::uint64_t a, std::uint64_t b) const {
        const std::size_t ranks = grid_.size();
        const bool closes = ranks > 2 && std::min(a, b) == 0 && std::max(a, b) == ranks - 1;
        if (closes) return ranks % 2 == 0 ? 1 : 2;
        return std::min(a, b) % 2 == 0 ? 0 : 1;
    }

    // Actions of the receiving rank from the one that it waits for or runs to the one that a
    // message is for.
    std::size_t actions_before(const Message& message) const {
        const auto rank = static_cast<std::size_t>(message.to);
        const Action receive = message.receive();
        const auto& places = receive.kind == ActionKind::recv_f ? forward_at_ : gradient_at_;
        const std::size_t place = places(receive.stage, receive.micro_batch);
        return std::min(std::max(place, next_[rank]), grid_[rank].size()) - next_[rank];
    }

    // Halves of backward take as long as forwards here: much comes due together that does not where
    // they take what they take. What a rank needs first goes first, and waits for nothing else.
    void issue_transfers() {
        order_.clear();
        for (const Message& message : due_) {
            const auto from = static_cast<std::uint64_t>(message.from);
            const auto to = static_cast<std::uint64_t>(message.to);
            std::uint64_t place = halves_ ? actions_before(message) : 0;
            place = place << kTurnBits | turn(from, to);
            place = place << kRankBits | std::min(from, to);
            order_.push_back(place << kRankBits | order_.size());
        }
        std::sort(order_.begin(), order_.end());
        for (const std::uint64_t place : order_) {
            const auto number = static_cast<std::int32_t>(messages_.size());
            Message& message =
                messages_.emplace_back(due_[place & ((std::uint64_t{1} << kRankBits) - 1)]);
            auto& sender = rows_[static_cast<std::size_t>(message.from)];
            auto& receiver = rows_[static_cast<std::size_t>(message.to)];
            message.sent = static_cast<std::int32_t>(sender.size());
            message.received = static_cast<std::int32_t>(receiver.size());
            sender.push_back(number);
            receiver.push_back(number);
        }
        due_.clear();
    }
    // Of a rank, and of a message among those that come due together, of which a rank has one or,
    // of a pair, two.
    static constexpr int kRankBits = 20, kTurnBits = 2;

    const ActionGrid& grid_;
    const StagePlacement& placement_;
    bool to_validate_ = false;
    bool pairs_ = false;
    bool halves_ = false;  // whether backward runs in halves
    std::int64_t now_ = 0;
    Rows rows_;
    std::vector<Message> messages_;
    std::optional<Timeline> timeline_;
    std::vector<std::size_t> next_;
    std::vector<std::size_t> busy_;    // actions that run
    std::vector<std::size_t> ahead_;   // passes over pieces that are issued behind them
    std::vector<RankSet> ending_;      // that run until then, by time up to the longest ahead
    std::size_t running_ = 0;          // ranks
    RankSet may_start_;                // those of which something has changed
    ByMicroBatch<std::uint8_t> done_;  // a bit for each pass
    // Where halves run: places in their rows of forwards, and of what makes the input's gradient.
    ByMicroBatch<std::size_t> forward_at_, gradient_at_;
    std::vector<Message> due_;  // of actions that end now
    // Of these, in one number to sort by: what says in which order they go, and which it is.
    std::vector<std::uint64_t> order_;
};

// Marks what leads an exchange.
void find_exchanges(const Rows& rows, std::vector<Message>& messages) {
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        const auto& row = rows[rank];
        for (std::size_t i = 0; i + 1 < row.size(); ++i) {
            if (row[i] < 0 || row[i + 1] < 0) continue;
            Message& one = messages[static_cast<std::size_t>(row[i])];
            Message& other = messages[static_cast<std::size_t>(row[i + 1])];
            if (one.from != other.to || one.to != other.from || one.exchanged || other.exchanged)
                continue;
            const bool sends = one.sends_from(rank);
            const std::int32_t theirs = sends ? one.received : one.sent;
            const std::int32_t behind = sends ? other.sent : other.received;
            if (behind != theirs + 1 && theirs != behind + 1) continue;
            one.exchanged = other.exchanged = true;
            (sends ? one.leads_sent : one.leads_received) = true;
            if (theirs < behind)
                (sends ? one.leads_received : one.leads_sent) = true;
            else
                (sends ? other.leads_sent : other.leads_received) = true;
        }
    }
}

// What each rank issues, and the messages.
struct Issues {
    Rows rows;
    std::vector<Message> messages;
};

Issues with_transfers(const ActionGrid& grid, const StagePlacement& placement, bool validates,
                      bool pairs) {
    UnitRun run(grid, placement, validates, pairs);
    run.run();
    Issues issues{run.take_rows(), run.take_messages()};
    find_exchanges(issues.rows, issues.messages);
    return issues;
}

}  // namespace

Timeline unit_timeline(const Schedule& schedule) {
    return UnitRun(schedule.grid, schedule.placement).timeline();
}

std::vector<std::vector<LoweredStep>> add_transfers(const ActionGrid& grid,
                                                    const StagePlacement& placement, bool validates,
                                                    bool pairs) {
    const auto [rows, messages] = with_transfers(grid, placement, validates, pairs);
    std::vector<std::vector<LoweredStep>> lowered(rows.size());
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
        const auto& row = rows[rank];
        lowered[rank].reserve(row.size());
        auto pass = grid[rank].begin();
        for (std::size_t i = 0; i < row.size(); ++i) {
            LoweredStep& step = lowered[rank].emplace_back();
            if (row[i] == kValidate) {
                step.action = {static_cast<std::int32_t>(rank), ActionKind::validate, -1};
                continue;
            }
            if (row[i] < 0) {
                step.action = *pass++;
                step.beside_last = row[i] == kPassBeside;
                continue;
            }
            const Message& message = messages[static_cast<std::size_t>(row[i])];
            step.action = message.on(rank);
            if (!message.leads(rank)) continue;
            step.with = messages[static_cast<std::size_t>(row[++i])].on(rank);
            if (!is_send(step.action.kind)) std::swap(step.action, *step.with);
        }
    }
    return lowered;
}

std::vector<SentAndReceived> exchanges_of(const ActionGrid& grid, const StagePlacement& placement) {
    std::vector<SentAndReceived> exchanges;
    const auto [rows, messages] = with_transfers(grid, placement, false, false);
    for (std::size_t rank = 0; rank < rows.size(); ++rank)
        for (std::size_t i = 0; i < rows[rank].size(); ++i) {
            if (rows[rank][i] < 0) continue;
            const Message& message = messages[static_cast<std::size_t>(rows[rank][i])];
            if (!message.leads(rank)) continue;
            const Message& next = messages[static_cast<std::size_t>(rows[rank][++i])];
            if (message.sends_from(rank))
                exchanges.push_back({message.send, next.receive()});
            else
                exchanges.push_back({next.send, message.receive()});
        }
    return exchanges;
}

}  // namespace orrery::plan
