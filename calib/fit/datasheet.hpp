// Reading a datasheet: the JSON of a profile as a person writes it (fit_profile.hpp), its requests
// checked key by key. Internal to calib/fit.
#pragma once

#include <set>
#include <string>

#include <nlohmann/json.hpp>

namespace orrery::fit {

using Json = nlohmann::ordered_json;

// Throws FitError when the file is missing, is not JSON or is no object.
Json read_json_object(const std::string& path);

// The member `name` of the object `parent`, whose keys must be exactly these. `pointer` is where
// `parent` stands in the datasheet at `path`. Throws FitError.
const Json& request(const Json& parent, const std::string& pointer, const std::string& name,
                    const std::set<std::string>& keys, const std::string& path);

// A text member; FitError otherwise.
std::string text_of(const Json& section, const std::string& key, const std::string& path);

// Of a number, or of {"value": number, "source": …}; nlohmann::json's exceptions otherwise.
double quantity_value(const Json& quantity);

}  // namespace orrery::fit
