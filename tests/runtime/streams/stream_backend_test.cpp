// How a run on devices ends when a rank cannot go on, over drivers of no device.
#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/streams/stream_backend.hpp"
#include "tests/runtime/streams/fake_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// A goodbye to a communicator waits until all of its members have come: whoever knows that the run
// has ended must not say it.
TEST(StreamBackend, WhatABodyThrowsAbortsEveryCommunicatorAndEndsNone) {
    std::array<std::vector<std::string>, 2> goodbyes;
    DriverSource source;
    source.devices = 2;
    source.driver = [](int) { return std::make_unique<FakeStreams>(); };
    source.collectives = [&](int device) {
        auto made = std::make_unique<FakeCollectives>(device);
        made->goodbyes = &goodbyes[static_cast<std::size_t>(device)];
        return made;
    };
    plan::Mesh mesh;
    mesh.data = 2;
    StreamBackend backend(source, std::nullopt, {});
    BoundProgram nothing;
    nothing.mesh = mesh;
    nothing.communicators = all_communicators(mesh);
    const auto body = [&](RankSeat& seat) {
        const auto device = seat.make_device(nothing, "");
        if (seat.rank() == 1) throw std::runtime_error("the disk is full");
        for (;;)
            seat.control().check();
    };
    try {
        backend.run_ranks(mesh, body);
        FAIL() << "what a body throws is thrown";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "the disk is full");
    }
    for (const std::vector<std::string>& of_rank : goodbyes) {
        ASSERT_GT(of_rank.size(), 1U);
        EXPECT_EQ(of_rank.front(), "end r0.0") << "the one of all, once others are split from it";
        for (std::size_t i = 1; i < of_rank.size(); ++i)
            EXPECT_EQ(of_rank[i].substr(0, 6), "abort ") << of_rank[i];
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
