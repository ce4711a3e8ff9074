// What stops a fit: a table that is missing or malformed, or rows too few to say anything.
#pragma once

#include <stdexcept>

namespace orrery::fit {

class FitError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace orrery::fit
