// What a rank asks of its group, as its peers compare it and as messages tell it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "plan/ir/kinds.hpp"
#include "plan/ir/mesh.hpp"
#include "runtime/comm/communicator.hpp"

namespace orrery::runtime {

enum class Operation : std::uint8_t {
    all_reduce,
    all_gather,
    reduce_scatter,
    all_to_all,
    broadcast,
    barrier,
    exchange
};

struct Call {
    Operation operation = Operation::barrier;
    plan::GroupKind group = plan::GroupKind::none;
    plan::DType dtype = plan::DType::u8;
    std::int64_t elements = 0;  // of an exchange: transfers
    std::int64_t root = 0;
    Reduction reduction = Reduction::sum;
    std::string_view label;
};

// Whether two members of a group may make these calls at the same point.
bool same_call(const Call& a, const Call& b);

// 'all_reduce of 12 fp32 for "qkv"'; 'exchange of 2 transfers'.
std::string describe(const Call& call);

// 'all_reduce of 12 fp32 for "qkv" in its tensor group (ranks 0 1)'.
std::string describe(const Call& call, std::span<const plan::Rank> members);

// '"qkv"' → ' for "qkv"'; nothing for no label.
std::string purpose(std::string_view label);

}  // namespace orrery::runtime
