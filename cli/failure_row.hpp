// What a program ends with after an exception: one list for what both programs can throw, and rows
// that a program adds for libraries of its own.
#pragma once

#include <exception>
#include <span>

namespace orrery::cli {

struct FailureRow {
    bool (*is)(const std::exception& error);
    int exit_code;
};

template <typename Error>
FailureRow row_of(int exit_code) {
    return {
        [](const std::exception& error) { return dynamic_cast<const Error*>(&error) != nullptr; },
        exit_code};
}

// The first row that fits; `more` come before those of both programs. kExitInternal for what should
// not have been thrown.
int exit_code_of(const std::exception& error, std::span<const FailureRow> more);

}  // namespace orrery::cli
