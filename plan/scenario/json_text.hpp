// JSON text to a tree, strictly: where nlohmann's own parser keeps the last of two equal keys and
// throws on a bad number, a scenario file gets a diagnostic with the place. Internal to
// plan/scenario.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/diagnostic.hpp"

namespace orrery::plan {

using Json = nlohmann::ordered_json;

struct ParsedJson {
    Json value;                      // null when `incomplete`
    std::vector<Diagnostic> errors;  // file, pointer and line are set; the caller sets the origin
    bool incomplete = false;         // reading stopped at an error
    bool not_json = false;           // and that was because the text is not JSON
};

// Comments (// and /* */) are allowed. `file` is what messages call the text.
ParsedJson parse_json(std::string_view text, const std::string& file);

// A number as people write it: whole ones without ".0".
Json plain(double value);

// One segment of a JSON pointer, escaped (RFC 6901: ~ is ~0, / is ~1).
std::string pointer_segment(std::string_view key);

}  // namespace orrery::plan
