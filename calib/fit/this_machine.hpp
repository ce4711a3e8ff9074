// Which computer this is, and where its user keeps the profile of it: what `this-machine` stands
// for in a scenario. Such a profile says what it was measured on, and holds as long as that is so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sim/cost/profile.hpp"

namespace orrery::fit {

// Digest of the sources that a calibration times and is made by, and of how they are built.
extern const char* const timed_sources;

struct ThisMachine {
    std::string processor;   // as the system names it
    std::int64_t cores = 1;  // that this process may use
};
ThisMachine this_machine();

// A profile's section `machine`: of this computer and this program, today.
nlohmann::ordered_json machine_json(const ThisMachine& machine, const std::string& version,
                                    const std::string& date);

// A rank's of those that share the cores, where nobody says how many it is to have.
std::int64_t threads_of_rank(const ThisMachine& machine, std::int64_t ranks);

// Why the profile is not of ranks of so many threads on this computer, as this program would
// measure it now: "it is of …". Empty: it is.
std::string why_not_of(const ThisMachine& machine, std::int64_t threads_per_rank,
                       const sim::Profile& profile);

using Variables = std::function<const char*(const char* name)>;  // null: it is not set

// The file that such a profile is kept in: of each kind of computer one, since a home may be shared
// by many, and of each number of threads. In $XDG_CACHE_HOME/orrery, else ~/.cache/orrery (XDG Base
// Directory Specification 0.8: a relative path is none). Nothing where neither is set.
std::optional<std::string> machine_profile_path(const ThisMachine& machine,
                                                std::int64_t threads_per_rank,
                                                const Variables& variables);

}  // namespace orrery::fit
