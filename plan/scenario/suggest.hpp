// "Did you mean …?": the nearest known word to one that is not known, by spelling or by the name
// that other training stacks use for the same thing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery::plan {

// Damerau–Levenshtein distance in bytes (optimal string alignment: insert, delete, replace, swap).
int edit_distance(std::string_view left, std::string_view right);

// The candidate that `word` is another stack's name for; else the one within distance 2 (1 for
// words of three or four letters) that is nearest, the first of equals; else empty.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// All candidates, at most `limit`: first those that have the word in them ("h100"), then nearest in
// spelling first (equals in their given order).
std::vector<std::string> by_distance(std::string_view word, std::vector<std::string> candidates,
                                     std::size_t limit);

// The part of a scenario ("layout", "training.optimizer", …) in which `key` is known, the nearest
// to the top; empty if in none, or in several.
std::string part_of_key(std::string_view key);

}  // namespace orrery::plan
