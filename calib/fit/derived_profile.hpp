// A profile of a device that nobody has timed: constants measured on a device like it, in units of
// the two datasheets' peaks, with a residual that is wider by what such a transfer misses. The
// datasheet asks for it with the key "like":
//
//   "like": { "profile": "../h100-sxm.json",       from the datasheet's folder
//             "relative_sd": { "gemm": {"value": 0.2, "source": "…"}, "attention": …,
//                              "memory": …, "collectives": … } }
//
// and, where the links are of another kind than those of the device like it (whose collectives
// would otherwise be carried over), with the key "links", which prices collectives by algorithm
// alone, at this share of hardware.link_GBps:
//
//   "links": { "hierarchical": false, "efficiency": 0.7, "relative_sd": 0.3, "source": "…" }
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace orrery::fit {

// The section "collectives" that the datasheet's "links" ask for.
nlohmann::ordered_json unmeasured_links(const nlohmann::ordered_json& datasheet,
                                        const std::string& path);

// Where the profile of a datasheet's "like" lies; empty for a datasheet without. Throws FitError
// for one that is no text.
std::string like_profile_path(const nlohmann::ordered_json& datasheet, const std::string& path);

// The profile of a datasheet with "like", without its "tables"; `path` is the datasheet's. The keys
// "like" and "links" are used up. Throws as carry_over.
nlohmann::ordered_json derived_profile(const nlohmann::ordered_json& datasheet,
                                       const std::string& path);

}  // namespace orrery::fit
