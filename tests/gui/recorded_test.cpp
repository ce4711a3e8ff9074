// A trace of PyTorch's profiler in the window: rows of devices and hosts, what a kernel waited for,
// and files that are damaged.
#include "cli/quantity.hpp"
#include "gui/timeline/recorded_lanes.hpp"
#include "tests/gui/window_world.hpp"
#include "tests/trace/kineto_file.hpp"
#include "trace/formats/kineto.hpp"

namespace orrery::gui {
namespace ORRERY_TEST_FILE {

constexpr Picoseconds kUs = 1'000'000;

std::string write(const WindowWorld& world, const std::string& name, const std::string& text) {
    const std::string path = world.file(name);
    std::ofstream(path) << text;
    return path;
}

// What the file says, from its first span on, which begins at 5 us: gemm 5 to 15, gemm 35 to 55,
// of the collective 55 to 70 beside no kernel, copy 75 to 80.001, nothing between.
TEST(Recorded, ARowOfADeviceIsWhatItDoesAtEachMoment) {
    WindowWorld world;
    world.open(write(world, "rank0.pt.trace.json", trace::kKinetoFile));
    EXPECT_EQ(world.window->message(), QString());
    const Timeline& timeline = *world.window->timeline().timeline();
    ASSERT_NE(timeline.recorded(), nullptr);
    ASSERT_EQ(timeline.ranks().size(), 2U);
    EXPECT_EQ(timeline.ranks()[0].name, "GPU 0 · python 0");
    const std::vector<Span> expected = {{0, 5 * kUs, -1, Kind::idle},
                                        {5 * kUs, 15 * kUs, 0, Kind::forward},
                                        {15 * kUs, 35 * kUs, -1, Kind::idle},
                                        {35 * kUs, 55 * kUs, 1, Kind::backward},
                                        {55 * kUs, 70 * kUs, 2, Kind::collective},
                                        {70 * kUs, 75 * kUs, -1, Kind::idle},
                                        {75 * kUs, 80'001'000, 3, Kind::copy}};
    EXPECT_EQ(timeline.ranks()[0].outline.spans(), expected);
    // Two streams, the second of the collective alone.
    const std::vector<Lane>& streams = timeline.streams(0);
    ASSERT_EQ(streams.size(), 2U);
    EXPECT_EQ(streams[1].spans(), (std::vector<Span>{{45 * kUs, 70 * kUs, 2, Kind::collective}}));
    // An area adds up to its time.
    const Aggregate aggregate = aggregate_of(timeline, {timeline.window(), {0, 1}});
    Picoseconds sum = 0;
    for (const KindTime& kind : aggregate.kinds)
        sum += kind.time;
    EXPECT_EQ(sum, 2 * timeline.window().length());
}

TEST(Recorded, KeysGoFromAKernelToItsLaunchAndBack) {
    WindowWorld world;
    world.open(write(world, "rank0.json", trace::kKinetoFile));
    TimelineView& view = world.window->timeline();
    const QRect rows = view.place_of_rows();
    const int x = rows.left() + static_cast<int>(world.scene().view.x_of(45 * kUs));
    QTest::mouseClick(world.canvas(), Qt::LeftButton, {}, QPoint(x, rows.top() + Rows::kGap + 4));
    ASSERT_EQ(view.selected_op(), (OpPlace{0, 1}));
    ASSERT_EQ(world.scene().arrivals.size(), 1U);
    EXPECT_EQ(world.scene().arrivals[0].received, 35 * kUs);
    world.key(Qt::Key_BracketLeft);
    const std::optional<OpPlace> launch = view.selected_op();
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->rank, 1U);
    EXPECT_EQ(view.timeline()->name_of(*launch), "cudaLaunchKernel");
    world.key(Qt::Key_BracketRight);
    EXPECT_EQ(view.selected_op(), (OpPlace{0, 1}));
    // A device without work: how much of it before the host had launched what came.
    const int gap = rows.left() + static_cast<int>(world.scene().view.x_of(25 * kUs));
    QTest::mouseClick(world.canvas(), Qt::LeftButton, {},
                      QPoint(gap, rows.top() + Rows::kGap + 12));
    const std::optional<Details> details = view.details();
    ASSERT_TRUE(details);
    EXPECT_EQ(details->title, "idle");
    // From 15 us to the launch at 27.5 us.
    EXPECT_EQ(details->lines.back().second, cli::seconds_text(12.5e-6));
}

TEST(Recorded, NamesAreFound) {
    WindowWorld world;
    world.open(write(world, "rank0.json", trace::kKinetoFile));
    world.key(Qt::Key_Slash);
    QTest::keyClicks(QApplication::focusWidget(), QStringLiteral("allreduce"));
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
    EXPECT_EQ(world.window->timeline().selected_op(), (OpPlace{0, 2}));
}

TEST(Recorded, ADamagedFileIsAMessageAndAScenarioIsOpenedAfterIt) {
    WindowWorld world;
    world.open(write(world, "cut.pt.trace.json",
                     trace::kKinetoFile.substr(0, trace::kKinetoFile.size() / 2)));
    EXPECT_TRUE(world.window->message().contains(QStringLiteral("expected sound JSON")))
        << world.window->message().toStdString();
    world.open(write(world, "none.json.gz", "no gzip, and no JSON"));
    EXPECT_TRUE(world.window->message().contains(QStringLiteral("cannot be read")))
        << world.window->message().toStdString();
    world.open(write(world, "rank0.json", trace::kKinetoFile));
    world.open(shipped("tiny-gpt"));
    EXPECT_EQ(world.window->message(), QString());
    EXPECT_EQ(world.window->timeline().timeline()->recorded(), nullptr);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::gui
