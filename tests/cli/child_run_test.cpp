// A supervised process as such: its lines, its end, and what it leaves behind.
#include "runtime/supervisor/child_run.hpp"

#include <pthread.h>
#include <unistd.h>

#include <future>
#include <thread>

#include <gmock/gmock.h>

#include "tests/cli/running_program.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

using runtime::ChildRun;
using runtime::SupervisorSignals;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::vector<std::string> shell(const std::string& script) {
    return {"/bin/sh", "-c", script};
}

std::vector<std::string> lines_of(ChildRun& child) {
    std::vector<std::string> lines;
    while (!child.ended())
        if (const auto line = child.next(seconds(10)))
            lines.push_back((line->stream == ChildRun::Stream::out ? "out " : "err ") + line->text);
    return lines;
}

TEST(ChildRun, GivesItsLinesAndItsEnd) {
    SupervisorSignals signals;
    ChildRun child(shell("echo a; echo b >&2; printf cut; exit 3"), SIGKILL, signals);
    EXPECT_THAT(lines_of(child), UnorderedElementsAre("out a", "err b"))
        << "what has no end is no line";
    EXPECT_EQ(child.exit_code(), 3);
    EXPECT_EQ(child.signal(), 0);
    ChildRun killed(shell("kill -9 $$"), SIGKILL, signals);
    EXPECT_THAT(lines_of(killed), ElementsAre());
    EXPECT_EQ(killed.signal(), SIGKILL);
    ChildRun missing({"/no/such/program"}, SIGKILL, signals);
    lines_of(missing);
    EXPECT_EQ(missing.exit_code(), 127);
}

// Even in a session of its own, with the pipes open.
TEST(ChildRun, LeavesNothingOfWhatItStarted) {
    SupervisorSignals signals;
    ChildRun child(shell("setsid sh -c 'echo $$; exec sleep 1000' & while :; do sleep 0.01; done"),
                   SIGKILL, signals);
    std::optional<ChildRun::Line> line;
    while (!line)
        line = child.next(seconds(10));
    child.stop(seconds(20));
    EXPECT_TRUE(ends_soon(std::stoi(line->text)));
}

TEST(ChildRun, IsKilledWhereItIgnoresWhatItIsAsked) {
    SupervisorSignals signals;
    ChildRun child(shell("trap '' TERM; echo ready; while :; do sleep 0.01; done"), SIGKILL,
                   signals);
    while (!child.next(seconds(10))) {
    }
    child.stop(milliseconds(20));
    EXPECT_EQ(child.signal(), SIGKILL);
    ChildRun obeying(
        shell("trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.01; done"), SIGKILL,
        signals);
    while (!obeying.next(seconds(10))) {
    }
    obeying.stop(seconds(20));
    EXPECT_EQ(obeying.exit_code(), 9);
    EXPECT_THAT(lines_of(obeying), ElementsAre("out bye")) << "its last words are still there";
}

int asked_of(ChildRun& child) {
    int asked = 0;
    while (asked == 0) {
        child.next(seconds(10));
        asked = child.take_asked();
    }
    return asked;
}

TEST(ChildRun, TellsOfASignalToItsSupervisorOnce) {
    SupervisorSignals signals;
    ChildRun child(shell("sleep 1000"), SIGKILL, signals);
    kill(getpid(), SIGTERM);
    EXPECT_EQ(asked_of(child), SIGTERM);
    EXPECT_EQ(child.take_asked(), 0);
}

// The system gives it to any thread that does not block it, and libraries keep theirs.
TEST(ChildRun, TellsOfASignalThatAThreadGetsWhichWasThereBefore) {
    std::promise<void> over;
    std::thread earlier([&] { over.get_future().wait(); });
    {
        SupervisorSignals signals;
        ChildRun child(shell("sleep 1000"), SIGKILL, signals);
        pthread_kill(earlier.native_handle(), SIGTERM);
        EXPECT_EQ(asked_of(child), SIGTERM);
        EXPECT_FALSE(child.ended()) << "the signal was not its own";
    }
    over.set_value();
    earlier.join();
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
