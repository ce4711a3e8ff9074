// The CPU as a device with queues.
#include "runtime/cpu/cpu_driver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

// Writes down who was performed, and does as the test says.
class Noted final : public QueuedWork {
  public:
    std::function<void(std::uint32_t)> act = [](std::uint32_t) {};

    void perform(std::uint32_t number) override {
        act(number);
        const std::lock_guard lock(mutex_);
        numbers_.push_back(number);
    }
    std::vector<std::uint32_t> numbers() {
        const std::lock_guard lock(mutex_);
        return numbers_;
    }

  private:
    std::mutex mutex_;
    std::vector<std::uint32_t> numbers_;
};

void nothing() {}

class CpuStreams : public testing::Test {
  protected:
    Event mark(Stream stream) {
        const Event event = driver_.create_event(false);
        driver_.record(event, stream);
        return event;
    }

    CpuDriver driver_{1};
    Stream compute_ = driver_.create_stream(StreamUse::compute);
    Stream communication_ = driver_.create_stream(StreamUse::communication);
    Noted work_;
};

TEST_F(CpuStreams, ThereIsOneForEachUse) {
    EXPECT_EQ(driver_.create_stream(StreamUse::compute).handle, compute_.handle);
    EXPECT_EQ(driver_.create_stream(StreamUse::communication).handle, communication_.handle);
    EXPECT_NE(driver_.create_stream(StreamUse::copies).handle, communication_.handle);
}

TEST_F(CpuStreams, AStreamPerformsWorkInTheOrderOfItsIssue) {
    std::vector<std::uint32_t> expected;
    for (std::uint32_t number = 0; number < 1000; ++number) {
        driver_.issue(communication_, work_, number);
        expected.push_back(number);
    }
    driver_.await(mark(communication_), nothing);
    EXPECT_EQ(work_.numbers(), expected);
}

// Each waits for the other's last, again and again, with the same two events.
TEST_F(CpuStreams, TwoTakeTurnsByEventsThatAreRecordedAgain) {
    const Event mine = driver_.create_event(false), theirs = driver_.create_event(false);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t number = 0; number < 500; number += 2) {
        driver_.wait(compute_, theirs);  // the first time there is none
        driver_.issue(compute_, work_, number);
        driver_.record(mine, compute_);
        driver_.wait(communication_, mine);
        driver_.issue(communication_, work_, number + 1);
        driver_.record(theirs, communication_);
        expected.insert(expected.end(), {number, number + 1});
    }
    driver_.await(theirs, nothing);
    EXPECT_EQ(work_.numbers(), expected);
}

// To be woken takes longer than many a kernel: exposed communication needs no other thread.
TEST_F(CpuStreams, WhoWaitsForAnotherPerformsWhatIsDueThere) {
    const std::thread::id here = std::this_thread::get_id();
    int there = 0;
    work_.act = [&](std::uint32_t number) {
        if (number == 1 && std::this_thread::get_id() == here) ++there;
    };
    constexpr int kTimes = 100;
    for (int i = 0; i < kTimes; ++i) {
        driver_.issue(compute_, work_, 0);
        driver_.wait(communication_, mark(compute_));
        driver_.issue(communication_, work_, 1);
        driver_.wait(compute_, mark(communication_));
        driver_.issue(compute_, work_, 2);
        driver_.await(mark(compute_), nothing);
    }
    // Not all: the other thread may look just when the mark is passed.
    EXPECT_GT(there, kTimes / 2);
}

TEST_F(CpuStreams, WhatIsDueGoesOnBesideWorkThatDoesNotWaitForIt) {
    std::atomic<bool> beside{false};
    work_.act = [&](std::uint32_t number) {
        if (number == 1) beside.store(true);
        while (number == 2 && !beside.load())
            std::this_thread::yield();
    };
    driver_.issue(compute_, work_, 0);
    driver_.wait(communication_, mark(compute_));
    driver_.issue(communication_, work_, 1);
    driver_.issue(compute_, work_, 2);
    driver_.await(mark(compute_), nothing);
    EXPECT_EQ(work_.numbers(), (std::vector<std::uint32_t>{0, 1, 2}));
}

// Whatever waits for what: nothing begins before what it waits for has ended, and all ends.
TEST_F(CpuStreams, AnyWaitsAreKept) {
    constexpr std::uint32_t kPieces = 400;
    const std::vector<Stream> streams{compute_, communication_,
                                      driver_.create_stream(StreamUse::copies),
                                      driver_.create_stream(StreamUse::server)};
    std::mt19937 random(20261127);
    const auto draw = [&](std::uint32_t below) {
        return static_cast<std::uint32_t>(random()) % below;
    };
    for (int round = 0; round < 20; ++round) {
        std::vector<Event> ends;
        std::vector<std::vector<std::uint32_t>> awaited(kPieces);
        std::vector<std::atomic<bool>> ended(kPieces);
        std::atomic<int> early{0};
        work_.act = [&](std::uint32_t number) {
            for (const std::uint32_t other : awaited[number])
                if (!ended[other].load()) ++early;
            ended[number].store(true);
        };
        for (std::uint32_t number = 0; number < kPieces; ++number)
            for (std::uint32_t i = 0; number > 0 && i < 1 + draw(2); ++i)
                awaited[number].push_back(number - 1 - draw(std::min(number, 8u)));
        for (std::uint32_t number = 0; number < kPieces; ++number) {
            const Stream stream = streams[draw(4)];
            for (const std::uint32_t other : awaited[number])
                driver_.wait(stream, ends[other]);
            driver_.issue(stream, work_, number);
            ends.push_back(mark(stream));
        }
        for (const Event end : ends)
            driver_.await(end, nothing);
        EXPECT_EQ(early.load(), 0);
        EXPECT_TRUE(
            std::all_of(ended.begin(), ended.end(), [](const auto& each) { return each.load(); }));
    }
}

TEST_F(CpuStreams, FinishingPerformsWhatNobodyAwaits) {
    driver_.issue(compute_, work_, 1);
    driver_.wait(communication_, mark(compute_));
    driver_.issue(communication_, work_, 2);
    driver_.finish();
    EXPECT_EQ(work_.numbers(), (std::vector<std::uint32_t>{1, 2}));
}

// The work of another stream that goes on meanwhile has been left, too, once await() throws.
TEST_F(CpuStreams, TheFirstThatFailsEndsAllAndNobodyWaitsForEver) {
    std::atomic<bool> begun{false}, released{false}, left{false};
    std::vector<std::string> told;
    driver_.when_failed([&](const std::exception_ptr& cause) {
        try {
            std::rethrow_exception(cause);
        } catch (const std::runtime_error& error) {
            told.emplace_back(error.what());
        }
        released.store(true);
    });
    work_.act = [&](std::uint32_t number) {
        while (number == 1 && !begun.load())
            std::this_thread::yield();
        if (number == 1) throw std::runtime_error("the first");
        if (number != 2) return;
        begun.store(true);
        while (!released.load())
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        left.store(true);
        throw std::runtime_error("what the first has brought about");
    };
    driver_.issue(communication_, work_, 2);
    driver_.issue(communication_, work_, 3);
    const Event theirs = mark(communication_);
    driver_.issue(compute_, work_, 1);
    driver_.wait(compute_, theirs);
    driver_.issue(compute_, work_, 4);
    try {
        driver_.await(mark(compute_), nothing);
        FAIL() << "nothing has failed";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "the first");
    }
    EXPECT_TRUE(left.load());
    EXPECT_EQ(told, std::vector<std::string>{"the first"});
    EXPECT_TRUE(work_.numbers().empty());
    EXPECT_THROW(driver_.passed(theirs), std::runtime_error);
}

TEST_F(CpuStreams, TimedEventsSayHowLongThereWasBetweenThem) {
    const Event begin = driver_.create_event(true), end = driver_.create_event(true);
    work_.act = [](std::uint32_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    driver_.record(begin, communication_);
    driver_.issue(communication_, work_, 1);
    driver_.record(end, communication_);
    driver_.await(end, nothing);
    EXPECT_GE(driver_.nanoseconds(begin, end), 2'000'000);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
