// What ends a run between ranks: members of a group that do not do the same, a rank that failed,
// left or never came, ranks that wait for one another. Every rank of the run gets one; the program
// ends with exit code 6.
#pragma once

#include <stdexcept>

namespace orrery::runtime {

class CommunicationError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace orrery::runtime
