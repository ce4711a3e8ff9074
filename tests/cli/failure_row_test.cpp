// What the two programs end with after what they throw.
#include "cli/failure_row.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "calib/fit/fit_error.hpp"
#include "cli/run/runtime_failures.hpp"
#include "plan/exit_code.hpp"
#include "runtime/comm/communication_error.hpp"
#include "runtime/storage_error.hpp"
#include "sim/cost/profile.hpp"
#include "trace/trace_file_error.hpp"

namespace orrery::cli {
namespace ORRERY_TEST_FILE {

int predicting(const std::exception& error) {
    return exit_code_of(error, {});
}
int performing(const std::exception& error) {
    return exit_code_of(error, runtime_failures());
}

TEST(ExitCodes, OfBothPrograms) {
    for (const auto& program : {predicting, performing}) {
        EXPECT_EQ(program(sim::ProfileError("no such profile")), kExitUnreadable);
        EXPECT_EQ(
            program(trace::TraceFileError(trace::TraceFault::unreadable, "a.orrery", "cut off")),
            kExitUnreadable);
        EXPECT_EQ(
            program(trace::TraceFileError(trace::TraceFault::storage, "a.orrery", "disk full")),
            kExitStorage);
        EXPECT_EQ(program(fit::FitStorageError("disk full")), kExitStorage);
        EXPECT_EQ(program(std::bad_alloc()), kExitDevice);
        EXPECT_EQ(program(std::logic_error("a bug")), kExitInternal);
    }
}

// A table that is fitted is a file; what is fitted of timings is the device's.
TEST(ExitCodes, OfAFit) {
    EXPECT_EQ(predicting(fit::FitError("too few rows")), kExitUnreadable);
    EXPECT_EQ(performing(fit::FitError("too few rows")), kExitDevice);
}

TEST(ExitCodes, OfTheRuntime) {
    EXPECT_EQ(performing(runtime::CommunicationError("rank 3 has left")), kExitDevice);
    EXPECT_EQ(performing(runtime::StorageError("disk full")), kExitStorage);
    EXPECT_EQ(predicting(runtime::StorageError("disk full")), kExitInternal);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::cli
