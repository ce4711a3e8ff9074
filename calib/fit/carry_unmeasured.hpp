// What a calibration of one device by itself cannot measure (its peers, its datasheet), taken over
// from a profile that has it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace orrery::fit {

// Into `profile`, from the profile at `base_path` as it stands there: overlap, collectives, the
// bandwidth of links, and the peaks of the datasheet in place of those that were measured. Each
// source then begins with whose it is. Throws sim::ProfileError where that is no profile.
void carry_unmeasured(nlohmann::ordered_json& profile, const std::string& base_path);

}  // namespace orrery::fit
