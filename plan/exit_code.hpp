// Exit codes of the program: stable, one per class of failure.
#pragma once

namespace orrery {

enum ExitCode : int {
    kExitOk = 0,
    kExitInternal = 1,  // a bug of ours, a plan that deadlocks among them
    kExitUsage = 2,
    kExitInvalidScenario = 3,
    kExitInfeasible = 4,    // does not fit; the result is printed all the same
    kExitUnreadable = 5,    // missing or corrupt file
    kExitDevice = 6,        // a device or communication between ranks failed
    kExitVerification = 7,  // numbers that are not what they must be
    kExitStorage = 8,       // could not be written
    kExitInterrupted = 130
};

}  // namespace orrery
