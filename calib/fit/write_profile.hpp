// Profiles as text: the same profile gives the same bytes, numbers are rounded to what a fit can
// know, and rows of numbers stay on one line, so that a person can read the file and its diffs.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "sim/cost/profile.hpp"

namespace orrery::fit {

inline constexpr int kFittedDigits = 4;  // of coefficients and errors: what a fit can know

// `value` rounded to this many significant decimal digits.
double rounded(double value, int digits);

// Of a deviation that a profile states: that few rows agree does not make them certain.
inline constexpr double kLeastError = 0.01;

// Members of an object each on a line, in their order; an array without objects or arrays inside
// on one line. Ends with a newline.
std::string profile_text(const nlohmann::ordered_json& profile);

// Whether that is what `text` is of, sound or not. A datasheet ("tables", "like") is none: people
// write it.
bool is_profile_text(std::string_view text);

// Writes that text, whole or not at all, once it has been read back as the profile that is
// returned. Throws sim::ProfileError where it is none (then nothing is written), FitStorageError
// where it cannot be written.
sim::Profile write_profile(const nlohmann::ordered_json& profile, const std::string& path);

}  // namespace orrery::fit
