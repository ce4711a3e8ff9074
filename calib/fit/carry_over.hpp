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

// Of the constants that are carried over, beside their own residual; as standard deviations.
struct TransferError {
    double gemm = 0;
    double attention = 0;
    double memory = 0;
    double collectives = 0;
    std::string gemm_source, attention_source, memory_source, collectives_source;
};

// The sections of the profile at `like_path`, scaled to the hardware of `datasheet`: rates by the
// dense peak of their element type (attention's as the GEMM rate), bandwidths by the memory's, the
// cache by its size and by the number of multiprocessors; times of launch, shares, ratios and
// collectives as they stand. Residuals are joined as independent: sqrt(own² + transfer²). Curves
// lose what belongs to the other device's shapes: neighbours, spans, held-out errors. GEMM curves
// of element types that one of the two sheets does not list are left out, but bf16 becomes fp16
// where only that is listed. What the datasheet itself states stands instead of what would be
// carried over; `path` is the datasheet's. Throws FitError where a sheet lacks what a ratio needs,
// sim::ProfileError where `like_path` is no profile.
nlohmann::ordered_json carry_over(const nlohmann::ordered_json& datasheet,
                                  const std::string& like_path, const TransferError& error,
                                  const std::string& path);

// The section "collectives" that the datasheet's "links" ask for.
nlohmann::ordered_json unmeasured_links(const nlohmann::ordered_json& datasheet,
                                        const std::string& path);

// The profile of a datasheet with "like", without its "tables"; `path` is the datasheet's. The keys
// "like" and "links" are used up. Throws as carry_over.
nlohmann::ordered_json derived_profile(const nlohmann::ordered_json& datasheet,
                                       const std::string& path);

}  // namespace orrery::fit
