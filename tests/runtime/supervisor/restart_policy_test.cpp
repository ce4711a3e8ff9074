// What a supervisor decides after each way in which a run can end.
#include "runtime/supervisor/restart_policy.hpp"

#include <gmock/gmock.h>

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Steps = std::vector<std::int64_t>;

Attempt failed(std::int64_t from, std::int64_t last_step, std::int64_t checkpoint = 0) {
    Attempt attempt;
    attempt.resumed_from = from;
    attempt.last_step = last_step;
    attempt.newest_checkpoint = checkpoint;
    attempt.exit_code = 6;
    attempt.message = "rank 3 died";
    return attempt;
}

Attempt ended_with(int exit_code) {
    Attempt attempt = failed(0, 0);
    attempt.exit_code = exit_code;
    return attempt;
}

TEST(RestartPolicy, EndsWhereARestartHelpsNobody) {
    for (const int code : {0, 2, 3, 4, 5, 130}) {
        RestartPolicy policy({8});
        const Decision decision = policy.after(ended_with(code), {}, {});
        EXPECT_EQ(decision.then, Then::ends) << code;
        EXPECT_EQ(decision.exit_code, code);
    }
    for (const int code : {1, 6, 7, 8, 127}) {
        RestartPolicy policy({8});
        EXPECT_EQ(policy.after(ended_with(code), {}, {}).then, Then::restarts) << code;
    }
    RestartPolicy policy({8});
    Attempt killed = failed(0, 3);
    killed.signal = 9;
    killed.exit_code = 0;
    EXPECT_EQ(policy.after(killed, {}, {}).then, Then::restarts);
    killed.asked_to_end = true;
    EXPECT_EQ(policy.after(killed, {}, {}).then, Then::ends);
    EXPECT_EQ(policy.after(killed, {}, {}).exit_code, 130);
}

TEST(RestartPolicy, GivesUpAfterThreeRestartsWithoutProgress) {
    RestartPolicy policy({8});
    EXPECT_EQ(policy.after(failed(0, 7, 4), {4}, {}).then, Then::restarts);
    EXPECT_EQ(policy.after(failed(4, 7), {4}, {}).then, Then::restarts);
    EXPECT_EQ(policy.after(failed(4, 6), {4}, {}).then, Then::restarts);
    const Decision last = policy.after(failed(4, 7), {4}, {});
    EXPECT_EQ(last.then, Then::gives_up);
    EXPECT_EQ(last.exit_code, 6);
    EXPECT_EQ(last.why,
              "3 restarts in a row made no progress\n"
              "  from the start to step 7, then exit code 6: rank 3 died\n"
              "  from step 4 to step 7, then exit code 6: rank 3 died\n"
              "  from step 4 to step 6, then exit code 6: rank 3 died\n"
              "  from step 4 to step 7, then exit code 6: rank 3 died\n"
              "  Not the same each time.");
}

TEST(RestartPolicy, CountsAnewAfterAStepOrACheckpointThatIsNew) {
    RestartPolicy policy({8});
    for (std::int64_t step = 1; step <= 40; ++step) {
        EXPECT_EQ(policy.after(failed(0, 5 + step / 3), {}, {}).then, Then::restarts);
    }
    for (int restart = 1; restart <= 2; ++restart)
        policy.after(failed(0, 1), {}, {});
    EXPECT_EQ(policy.after(failed(0, 12, 12), {12}, {}).then, Then::restarts) << "a checkpoint";
}

TEST(RestartPolicy, SaysThatItIsTheSameEachTime) {
    RestartPolicy policy({8});
    Decision decision;
    for (int attempt = 1; attempt <= 4; ++attempt)
        decision = policy.after(ended_with(7), {}, {});
    EXPECT_EQ(decision.then, Then::gives_up);
    EXPECT_EQ(decision.exit_code, 7);
    EXPECT_THAT(decision.why, HasSubstr("The same each time: it follows from the run itself"));
    RestartPolicy stalling({8});
    Attempt stalled = failed(0, 0);
    stalled.signal = 9;
    stalled.stalled_after_s = 180;
    for (int attempt = 1; attempt <= 4; ++attempt)
        decision = stalling.after(stalled, {}, {});
    EXPECT_EQ(decision.exit_code, 6);
    EXPECT_THAT(decision.why, HasSubstr("from the start, no step, then nothing for 180 s"));
}

Attempt damaged(std::int64_t step) {
    Attempt attempt = ended_with(5);
    attempt.damaged_checkpoint = step;
    attempt.message = "tensor x is not as it was written";
    return attempt;
}

TEST(RestartPolicy, TakesTheNextOlderCheckpointForADamagedOne) {
    RestartPolicy policy({8});
    Decision decision = policy.after(damaged(6), {6, 4, 2}, {});
    EXPECT_EQ(decision.then, Then::restarts);
    EXPECT_EQ(decision.resume_step, 4);
    EXPECT_EQ(decision.why, "the checkpoint of step 6 is damaged; goes on from that of step 4");
    decision = policy.after(damaged(4), {6, 4, 2}, {});
    EXPECT_EQ(decision.resume_step, 2);
    // What fails then for another reason begins there again, not with the newest.
    decision = policy.after(failed(2, 5), {6, 4, 2}, {});
    EXPECT_EQ(decision.resume_step, 2);
    // One of the same step that is new is sound.
    decision = policy.after(failed(2, 5, 4), {4, 2}, {});
    EXPECT_EQ(decision.resume_step, 4);
    decision = policy.after(damaged(4), {4}, {});
    EXPECT_EQ(decision.then, Then::gives_up);
    EXPECT_EQ(decision.exit_code, 5);
}

TEST(RestartPolicy, GoesOnInTheFirstLayoutForTheRanksLeft) {
    RestartPolicy policy({8, 6, 4, 2});
    EXPECT_EQ(policy.first(8).layout, 0U);
    Decision decision = policy.after(failed(0, 3), {}, 7);
    EXPECT_EQ(decision.layout, 1U);
    EXPECT_THAT(decision.why, HasSubstr("; with 7 ranks left it goes on in run.elastic_layouts[0] "
                                        "of 6 ranks"));
    EXPECT_EQ(policy.ranks(), 6);
    EXPECT_EQ(policy.after(failed(0, 4), {}, 2).layout, 3U);
    EXPECT_EQ(policy.after(failed(0, 5), {}, 100).layout, 0U) << "they came back";
    decision = policy.after(failed(0, 6), {}, 1);
    EXPECT_EQ(decision.then, Then::gives_up);
    EXPECT_EQ(decision.exit_code, 4);
    EXPECT_THAT(decision.why, HasSubstr("1 ranks are left, and no layout has so few"));
    EXPECT_EQ(RestartPolicy({8, 4}).first(4).layout, 1U);
    EXPECT_EQ(RestartPolicy({8, 4}).first(3).then, Then::gives_up);
}

TEST(RestartPolicy, LeavesARankOutThatFailsTwiceWithoutProgress) {
    RestartPolicy policy({8, 4});
    Attempt attempt = failed(0, 5);
    attempt.rank = 3;
    EXPECT_EQ(policy.after(attempt, {}, {}).layout, 0U);
    const Decision decision = policy.after(attempt, {}, {});
    EXPECT_EQ(decision.layout, 1U);
    EXPECT_EQ(policy.ranks(), 4);
    // Another one each time is nobody's fault.
    RestartPolicy other({8, 4});
    for (std::int64_t rank = 0; rank < 3; ++rank) {
        attempt.rank = rank;
        EXPECT_EQ(other.after(attempt, {}, {}).layout, 0U);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
