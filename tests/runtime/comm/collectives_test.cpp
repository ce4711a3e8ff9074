// Every collective against what it must give, computed by each rank alone from what all ranks hold.
#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/runtime/comm/elements.hpp"
#include "tests/runtime/comm/worlds.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;
using plan::GroupKind;

// Per member; below, at and above what is copied to be met only once, and in slices of odd ends.
constexpr std::int64_t kCounts[] = {0, 1, 3, 17, 513, 2049, 10007};

// What the member of this group holds at the start of a call.
Bytes held(DType dtype, std::int64_t elements, plan::Rank rank, std::uint64_t call = 0) {
    return arbitrary(dtype, elements, 1000 * (call + 1) + static_cast<std::uint64_t>(rank));
}

std::vector<Bytes> held_by_all(const Communicator& communicator, GroupKind group, DType dtype,
                               std::int64_t elements, std::uint64_t call = 0) {
    std::vector<Bytes> all;
    for (const plan::Rank rank : communicator.members(group))
        all.push_back(held(dtype, elements, rank, call));
    return all;
}

Bytes part(const Bytes& whole, std::int64_t index, std::int64_t size) {
    const std::int64_t bytes = static_cast<std::int64_t>(whole.size()) / size;
    return {whole.begin() + index * bytes, whole.begin() + (index + 1) * bytes};
}

void check_all_reduce(Communicator& communicator, DType dtype, std::int64_t elements) {
    Bytes data = held(dtype, elements, communicator.rank());
    communicator.all_reduce(GroupKind::tensor, dtype, data.data(), elements);
    EXPECT_EQ(data,
              sum_in_pairs(dtype, held_by_all(communicator, GroupKind::tensor, dtype, elements)));
}

void check_all_gather(Communicator& communicator, DType dtype, std::int64_t share) {
    const auto all_shares = held_by_all(communicator, GroupKind::tensor, dtype, share);
    const auto size = static_cast<std::int64_t>(all_shares.size());
    Bytes expected;
    for (const Bytes& bytes : all_shares)
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    const Bytes mine = held(dtype, share, communicator.rank());
    Bytes apart(expected.size());
    communicator.all_gather(GroupKind::tensor, dtype, mine.data(), apart.data(), share * size);
    EXPECT_EQ(apart, expected);

    Bytes in_place(expected.size());
    const std::int64_t own =
        communicator.index_in(GroupKind::tensor) * share * plan::size_bytes(dtype);
    std::copy(mine.begin(), mine.end(), in_place.begin() + own);
    communicator.all_gather(GroupKind::tensor, dtype, in_place.data() + own, in_place.data(),
                            share * size);
    EXPECT_EQ(in_place, expected);
}

void check_reduce_scatter(Communicator& communicator, DType dtype, std::int64_t share) {
    const auto size = static_cast<std::int64_t>(communicator.members(GroupKind::tensor).size());
    const std::int64_t index = communicator.index_in(GroupKind::tensor);
    const Bytes all = held(dtype, share * size, communicator.rank());
    const Bytes expected =
        part(sum_in_pairs(dtype, held_by_all(communicator, GroupKind::tensor, dtype, share * size)),
             index, size);
    Bytes apart(expected.size());
    communicator.reduce_scatter(GroupKind::tensor, dtype, all.data(), apart.data(), share * size);
    EXPECT_EQ(apart, expected);

    Bytes in_place = all;
    const auto own = index * static_cast<std::int64_t>(expected.size());
    communicator.reduce_scatter(GroupKind::tensor, dtype, in_place.data(), in_place.data() + own,
                                share * size);
    Bytes rest_untouched = all;
    std::copy(expected.begin(), expected.end(), rest_untouched.begin() + own);
    EXPECT_EQ(in_place, rest_untouched);
}

void check_all_to_all(Communicator& communicator, DType dtype, std::int64_t share) {
    const auto size = static_cast<std::int64_t>(communicator.members(GroupKind::tensor).size());
    Bytes expected;
    for (const Bytes& all : held_by_all(communicator, GroupKind::tensor, dtype, share * size)) {
        const Bytes for_me = part(all, communicator.index_in(GroupKind::tensor), size);
        expected.insert(expected.end(), for_me.begin(), for_me.end());
    }
    const Bytes to_all = held(dtype, share * size, communicator.rank());
    Bytes from_all(expected.size());
    communicator.all_to_all(GroupKind::tensor, dtype, to_all.data(), from_all.data(), share * size);
    EXPECT_EQ(from_all, expected);
}

void check_broadcast(Communicator& communicator, DType dtype, std::int64_t elements) {
    const auto all = held_by_all(communicator, GroupKind::tensor, dtype, elements);
    for (std::size_t root = 0; root < all.size(); ++root) {
        Bytes data = held(dtype, elements, communicator.rank());
        communicator.broadcast(GroupKind::tensor, dtype, data.data(), elements,
                               static_cast<std::int64_t>(root));
        EXPECT_EQ(data, all[root]);
    }
}

class Collectives : public testing::TestWithParam<std::tuple<World, int>> {
  protected:
    // On every member of one group of so many ranks, for every element type and count.
    static void run(void (*check)(Communicator&, DType, std::int64_t)) {
        plan::Mesh mesh;
        mesh.tensor = std::get<int>(GetParam());
        run_world(std::get<World>(GetParam()), mesh, [&](plan::Rank, Communicator& communicator) {
            for (const DType dtype : kAllDTypes)
                for (const std::int64_t count : kCounts) {
                    SCOPED_TRACE(testing::Message() << plan::name(dtype) << " " << count);
                    check(communicator, dtype, count);
                }
        });
    }
};

TEST_P(Collectives, AllReduce) {
    run(check_all_reduce);
}
TEST_P(Collectives, AllGather) {
    run(check_all_gather);
}
TEST_P(Collectives, ReduceScatter) {
    run(check_reduce_scatter);
}
TEST_P(Collectives, AllToAll) {
    run(check_all_to_all);
}
TEST_P(Collectives, Broadcast) {
    run(check_broadcast);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, testing::Combine(each_world(), testing::Range(1, 9)),
                         [](const auto& tested) {
                             return name_of(std::get<World>(tested.param)) +
                                    std::to_string(std::get<int>(tested.param));
                         });

class OfEachWorld : public testing::TestWithParam<World> {};

// In several chunks, with a last one that is short of an element for some.
TEST_P(OfEachWorld, ReducesWhatIsLargerThanAChunk) {
    plan::Mesh mesh;
    mesh.tensor = 3;
    constexpr std::int64_t kElements = (std::int64_t{5} << 20) / 4 + 65;
    run_world(GetParam(), mesh, [](plan::Rank, Communicator& communicator) {
        check_all_reduce(communicator, DType::fp32, kElements);
        check_reduce_scatter(communicator, DType::bf16, kElements);
    });
}

TEST_P(OfEachWorld, FindTheLargest) {
    plan::Mesh mesh;
    mesh.tensor = 3;
    run_world(GetParam(), mesh, [](plan::Rank rank, Communicator& communicator) {
        for (const std::int64_t elements : {5, 5000}) {
            // Element i is largest on rank i mod 3, where it is i.
            std::vector<float> data(static_cast<std::size_t>(elements));
            for (std::size_t i = 0; i < data.size(); ++i)
                data[i] = static_cast<float>(i) - (static_cast<plan::Rank>(i % 3) == rank ? 0 : 9);
            communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), elements,
                                    Reduction::max);
            for (std::size_t i = 0; i < data.size(); ++i)
                EXPECT_EQ(data[i], static_cast<float>(i));
        }
    });
}

// Nobody passes a barrier before all have come: what each wrote before it, all see after.
TEST_P(OfEachWorld, BarrierSeparates) {
    plan::Mesh mesh;
    mesh.data = 6;
    std::vector<std::atomic<int>> written(6);
    run_world(GetParam(), mesh, [&](plan::Rank rank, Communicator& communicator) {
        for (int round = 1; round <= 50; ++round) {
            written[static_cast<std::size_t>(rank)] = round;
            communicator.barrier(GroupKind::world);
            for (const std::atomic<int>& each : written)
                EXPECT_EQ(each, round);
            communicator.barrier(GroupKind::world);
        }
    });
}

// Ranks that come at any time, small and large messages mixed: the bits of the serial sum.
TEST_P(OfEachWorld, DoNotDependOnWhoComesWhen) {
    plan::Mesh mesh;
    mesh.tensor = 4;
    run_world(GetParam(), mesh, [](plan::Rank rank, Communicator& communicator) {
        std::minstd_rand delays(static_cast<unsigned>(rank) + 1);
        for (std::uint64_t call = 0; call < 60; ++call) {
            std::this_thread::sleep_for(std::chrono::microseconds(delays() % 300));
            const auto elements = static_cast<std::int64_t>(call % 3 == 0 ? 20011 : 7 * call);
            Bytes data = held(DType::fp32, elements, rank, call);
            communicator.all_reduce(GroupKind::tensor, DType::fp32, data.data(), elements);
            EXPECT_EQ(data, sum_in_pairs(DType::fp32, held_by_all(communicator, GroupKind::tensor,
                                                                  DType::fp32, elements, call)));
        }
    });
}

// Eight ranks, each in groups of several kinds, in an order that all agree on; groups that share no
// rank are at different places of it at any time.
TEST_P(OfEachWorld, GroupsOverlap) {
    plan::Mesh mesh;
    mesh.tensor = 2;
    mesh.data = 2;
    mesh.pipeline = 2;
    constexpr GroupKind kKinds[] = {GroupKind::tensor, GroupKind::data,  GroupKind::pipeline,
                                    GroupKind::model,  GroupKind::world, GroupKind::embedding};
    run_world(GetParam(), mesh, [&](plan::Rank rank, Communicator& communicator) {
        std::minstd_rand order(1);
        std::minstd_rand delays(static_cast<unsigned>(rank) + 1);
        for (std::uint64_t call = 0; call < 300; ++call) {
            const GroupKind group = kKinds[order() % std::size(kKinds)];
            const std::int64_t elements = order() % 4 == 0 ? 3001 : 11;
            if (delays() % 8 == 0) std::this_thread::yield();
            Bytes data = held(DType::bf16, elements, rank, call);
            communicator.all_reduce(group, DType::bf16, data.data(), elements);
            EXPECT_EQ(data, sum_in_pairs(DType::bf16, held_by_all(communicator, group, DType::bf16,
                                                                  elements, call)));
        }
    });
}

TEST_P(OfEachWorld, KnowTheirGroups) {
    plan::Mesh mesh;
    mesh.tensor = 2;
    mesh.data = 3;
    run_world(GetParam(), mesh, [&](plan::Rank rank, Communicator& communicator) {
        EXPECT_EQ(communicator.rank(), rank);
        EXPECT_EQ(communicator.mesh(), mesh);
        EXPECT_EQ(communicator.members(GroupKind::data).size(), 3U);
        EXPECT_EQ(communicator.index_in(GroupKind::tensor), rank % 2);
        EXPECT_EQ(communicator.index_in(GroupKind::data), rank / 2);
        EXPECT_EQ(communicator.index_in(GroupKind::world), rank);
        EXPECT_EQ(communicator.index_in(GroupKind::pipeline), 0);
    });
}

INSTANTIATE_TEST_SUITE_P(Worlds, OfEachWorld, each_world(),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
