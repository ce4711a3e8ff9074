// More rows have come to a rank's experts than it has room for (layout.expert_row_bound). Every
// rank of the run ends; a wider bound or another layout helps. The program's exit code is that of
// what does not fit.
#pragma once

#include <stdexcept>

namespace orrery::runtime {

class ExpertRoomError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace orrery::runtime
