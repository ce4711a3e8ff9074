// Where the time of a step goes, per rank, exactly (docs/architecture.md). At each instant: while a
// compute op runs, its phase; else the next compute op is waiting, and the chain of who blocks it
// is followed: a transfer whose members are all there is exposed communication of its group; an
// absent pipeline peer, or a schedule that has drained, is bubble; another absent peer is
// imbalance; the host, and what starts a kernel later than it was ready, is launch; what is left is
// other.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/trace.hpp"

namespace orrery::trace {

enum class Account : std::uint8_t {
    compute,
    recompute,
    exposed_tensor,
    exposed_context,
    exposed_expert,
    exposed_data,
    exposed_pipeline,
    bubble,
    imbalance,
    launch,
    optimizer,
    other
};
inline constexpr std::size_t kAccounts = 12;
std::string_view name(Account account);
inline bool is_exposed(Account account) {
    return account >= Account::exposed_tensor && account <= Account::exposed_pipeline;
}

using Accounts = std::array<Picoseconds, kAccounts>;

// Of one track, within the trace's window; sums to step_end − step_start exactly.
Accounts accounts_of(const Trace& trace, const Track& track);

// The same as a sequence: what each moment of the window counts as, in order of time, without gaps
// or overlaps.
struct AccountSpan {
    Account account = Account::other;
    Picoseconds from = 0;
    Picoseconds to = 0;
    bool operator==(const AccountSpan&) const = default;
};
std::vector<AccountSpan> account_spans(const Trace& trace, const Track& track);

// How long compute waited for copies between tiers of memory, by kind: copy_to_device,
// copy_to_host, read_disk, write_disk. Part of Account::other.
inline constexpr std::size_t kCopyKinds = 4;
inline std::size_t copy_index(plan::OpKind kind) {
    return static_cast<std::size_t>(kind) - static_cast<std::size_t>(plan::OpKind::copy_to_device);
}
inline plan::OpKind copy_kind(std::size_t index) {
    return static_cast<plan::OpKind>(static_cast<std::size_t>(plan::OpKind::copy_to_device) +
                                     index);
}
std::array<Picoseconds, kCopyKinds> waits_for_copies(const Trace& trace, const Track& track);

// Mean over ranks (tracks weighted by the ranks they stand for), in seconds; sums to the step time.
std::array<double, kAccounts> mean_accounts(const Trace& trace);

// What one kind of group communicates: means over ranks.
struct CommunicationSums {
    double bytes_per_rank = 0;  // sent
    double busy_s = 0;          // transfers in progress
    double exposed_s = 0;       // of it, while compute waited
};

// The account that communication over a group belongs to: the tied-embedding reduction is
// pipeline, the gradient norm is data.
Account exposed_account(plan::GroupKind group);

// The account of waiting for an op: that of its group, or, for a kernel on a communication stream
// (adding what was reduced to a shard), of its stream.
Account exposed_account(const OpName& op);

// What an op counts as while it runs and something waits for it: on the compute stream its phase,
// elsewhere exposed_account.
Account work_account(const OpName& op);

// By exposed_* account, in the order of Account.
std::array<CommunicationSums, kAccounts> communication_sums(const Trace& trace);

}  // namespace orrery::trace
