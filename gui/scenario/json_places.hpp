// Where the values of a JSON text stand, so that an error can be shown at its place and a fix can
// change one value and leave the rest as a person wrote it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace orrery::gui {

// Bytes of the text.
struct JsonPlace {
    std::size_t key = 0;    // of an object's member its name's quote; else as `begin`
    std::size_t begin = 0;  // of the value
    std::size_t end = 0;
    bool operator==(const JsonPlace&) const = default;
};

// By JSON pointer, "" among them: all values up to the first fault of syntax; an object or array
// that the fault is in has none.
std::map<std::string, JsonPlace> json_places(std::string_view text);

// Of a pointer or, where nothing stands there, of the nearest value around it.
std::optional<JsonPlace> nearest_place(std::string_view text, const std::string& pointer);

// The text with the key ("layout.recompute", as --set takes it) set to `value`, parsed as JSON,
// else taken as a string. Nothing where the text is not JSON, or the way there leads through a
// value that is no object.
std::optional<std::string> with_setting(std::string_view text, const std::string& key,
                                        const std::string& value);

// The text in which the file that the way to this key leads through ("clusters/x.json" on that to
// cluster.nodes) stands where it is referred to. `read`: its content; nothing where there is none.
// Nothing where the way leads through no reference that can be read.
std::optional<std::string> with_content_of_reference(
    std::string_view text, const std::string& key,
    const std::function<std::optional<std::string>(const std::string& reference)>& read);

// The text without this key and its value. Nothing where the text is not JSON; the same text where
// the key is not there.
std::optional<std::string> without_setting(std::string_view text, const std::string& key);

}  // namespace orrery::gui
