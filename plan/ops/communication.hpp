// Communication. Elements are in the convention of nccl-tests (message_bytes).
#pragma once

#include "plan/ops/fields.hpp"
#include "plan/ops/op_family.hpp"

namespace orrery::plan {

enum class ReduceOp : std::uint8_t { sum, max };
template <>
struct Spelling<ReduceOp> {
    static constexpr std::array<std::string_view, 2> names = {"sum", "max"};
};

struct AllReduce {
    static constexpr std::string_view kDoc = "every member gets the reduction of what all have";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;
    ReduceOp reduce = ReduceOp::sum;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &AllReduce::elements);
        v.number("reduce", &AllReduce::reduce);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads("addend", elements);
        v.writes("sum", elements);
    }
    bool operator==(const AllReduce&) const = default;
};

struct AllGather {
    static constexpr std::string_view kDoc = "every member gets the parts of all";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &AllGather::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_several("share");
        v.writes_message("whole", elements);
    }
    bool operator==(const AllGather&) const = default;
};

struct ReduceScatter {
    static constexpr std::string_view kDoc = "every member gets its part of the sum";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &ReduceScatter::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_message("addend", elements);
        v.writes_several("share");
    }
    bool operator==(const ReduceScatter&) const = default;
};

struct Broadcast {
    static constexpr std::string_view kDoc = "every member gets what one of them has";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;
    std::int64_t root = 0;  // the member that has it, by its place in the group

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Broadcast::elements);
        v.number("root", &Broadcast::root);
    }
    // The root has one to send, all others have one to fill.
    template <typename V>
    void operands(V&& v) const {
        v.may_read("sent", elements);
        v.may_write("received", elements);
    }
    bool operator==(const Broadcast&) const = default;
};

struct Exchange {
    static constexpr std::string_view kDoc =
        "sends and receives between pipeline ranks, issued as one";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Exchange::elements);
    }
    // A step says what is sent and received.
    template <typename V>
    void operands(V&&) const {}
    bool operator==(const Exchange&) const = default;
};

struct AllToAll {
    static constexpr std::string_view kDoc = "every member sends a part to each other";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &AllToAll::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_message("sent", elements);
        v.writes_message("received", elements);
    }
    bool operator==(const AllToAll&) const = default;
};

struct Shift {
    static constexpr std::string_view kDoc =
        "round a ring: every member sends to the next, and receives from the one before";
    static constexpr OpFamily kFamily = OpFamily::communication;
    std::int64_t elements = 0;

    template <typename V>
    static void fields(V&& v) {
        v.size("elements", &Shift::elements);
    }
    template <typename V>
    void operands(V&& v) const {
        v.reads_message("sent", elements);
        v.writes_message("received", elements);
    }
    bool operator==(const Shift&) const = default;
};

}  // namespace orrery::plan

// clang-format off
#define ORRERY_COMMUNICATION_OPS(OP)  \
    OP(all_reduce, AllReduce)         \
    OP(all_gather, AllGather)         \
    OP(reduce_scatter, ReduceScatter) \
    OP(broadcast, Broadcast)          \
    OP(exchange, Exchange)            \
    OP(all_to_all, AllToAll)          \
    OP(all_to_all_v, AllToAllV)       \
    OP(shift, Shift)
// clang-format on
