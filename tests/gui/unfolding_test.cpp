// Ranks that are simulated each for itself: rows below their pipeline rank, which one stands for
// until they are wanted.
#include "tests/gui/window_world.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

constexpr const char* kRun = "gpt3-175b-a100x1024";

// A pipeline rank of the shipped run is 128 ranks; of fewer layers and micro-batches, so that the
// test is short.
std::string small_copy(WindowWorld& world) {
    const std::string path = world.copy_of(kRun);
    std::string text = content(path);
    const auto replace = [&](const std::string& from, const std::string& to) {
        const std::size_t at = text.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        text.replace(at, from.size(), to);
    };
    replace("\"global_batch_size\": 1536", "\"global_batch_size\": 64");
    std::ofstream(path) << text;
    return path;
}

TEST(Unfolding, RanksAreSimulatedAndOpenBelowTheirPipelineRank) {
    WindowWorld world;
    world.open(small_copy(world));
    const TimelineView& view = world.window->timeline();
    const std::size_t folded = view.timeline()->ranks().size();
    const QString step = world.window->overview().step_time();
    std::int64_t ranks = 0;
    for (std::size_t rank = 0; rank < folded; ++rank)
        ranks += view.timeline()->track_of(rank).represents();
    ASSERT_EQ(ranks, 1024);
    EXPECT_EQ(view.timeline()->ranks()[0].alike, "×128 identical ranks");

    QTest::keyClick(world.window.get(), Qt::Key_U, Qt::ControlModifier);
    world.settle();
    ASSERT_EQ(view.timeline()->ranks().size(), 1024U);
    EXPECT_EQ(world.window->overview().step_time(), step);
    // Eight rows, of which each stands for 128 ranks; what has no row is counted.
    const Rows& rows = *world.scene().rows;
    EXPECT_EQ(rows.all().size(), 8U);
    EXPECT_EQ(rows.hidden(), 1024U - 8U);
    EXPECT_EQ(rows.ranks_beside(0), 128U);
    world.key(Qt::Key_G);
    EXPECT_EQ(rows.all().size(), 8U + 127U);
    EXPECT_EQ(rows.hidden(), 1024U - 8U - 127U);
    EXPECT_EQ(rows.all()[rows.row_of(5)].rank, 5U);
    EXPECT_EQ(rows.all()[rows.row_of(128 + 5)].rank, 128U);  // of the next pipeline rank, closed
    world.key(Qt::Key_G);
    EXPECT_EQ(rows.all().size(), 8U);
    // Going to an op of a rank without a row gives it one.
    world.window->timeline().go_to({300, 0});
    EXPECT_EQ(rows.all()[rows.row_of(300)].rank, 300U);
    EXPECT_EQ(view.selected_op(), (OpPlace{300, 0}));

    QTest::keyClick(world.window.get(), Qt::Key_U, Qt::ControlModifier);
    world.settle();
    EXPECT_EQ(view.timeline()->ranks().size(), folded);
}

TEST(Unfolding, WhatWouldFillTheMemoryStaysFolded) {
    WindowWorld world;
    world.open(shipped("llama3.1-405b-h100x16384"));
    QTest::keyClick(world.window.get(), Qt::Key_U, Qt::ControlModifier);
    EXPECT_TRUE(world.window->message().contains(QStringLiteral("stay folded")))
        << world.window->message().toStdString();
    EXPECT_FALSE(world.window->is_simulating());
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
