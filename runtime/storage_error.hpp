// A folder that is missing or closed, a disk that is full or fails; names the path. The program's
// exit code for it is 8.
#pragma once

#include <stdexcept>

namespace orrery::runtime {

class StorageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace orrery::runtime
