// Finds ops by their words: an action ("2F5"), an op's label, block or kind.
#pragma once

#include <optional>
#include <string>

#include "gui/timeline/details.hpp"

namespace orrery::gui {

enum class Direction { forward, backward };

// The next op in order of time, of rows and of ids after `from` (before it, backward) of which a
// word contains `text`, whatever its case; after the last comes the first. Nothing where none does.
std::optional<OpPlace> find_op(const Timeline& timeline, const std::string& text,
                               const std::optional<OpPlace>& from, Direction direction);

}  // namespace orrery::gui
