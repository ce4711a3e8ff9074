// What stops a fit: a table that is missing or malformed, or rows too few to say anything.
#pragma once

#include <stdexcept>

namespace orrery::fit {

class FitError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The result could not be written: no fault of the tables.
class FitStorageError : public FitError {
  public:
    using FitError::FitError;
};

}  // namespace orrery::fit
