// What the library has: models, clusters, profiles and frameworks, as a scenario names them, with
// the figures that matter. Each is read by its own reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/scenario.hpp"

namespace orrery::cli {

enum class LibraryKind { models, clusters, profiles, frameworks };
inline constexpr std::size_t kLibraryKinds = 4;
std::string_view name(LibraryKind kind);  // its folder's

// "models/llama3-70b.json", …: those whose name has `word` in it, whatever its case; sorted.
std::vector<std::string> library_names(LibraryKind kind, const std::string& word);

// "llama3-70b, llama3-8b": those whose names are spelt most like `word`.
std::string nearest_in_library(LibraryKind kind, const std::string& word);

// The stack that runs on such devices are usually made with, where nobody says: a preset's
// "usual_on" names them; else Orrery's own.
std::string usual_framework(const std::string& device);

// A scenario of one device that trains this model, or runs on this cluster or stack: for what it
// says of them. `reference` is a name of the library, or a file. Nothing, and why, where it cannot
// be read.
std::optional<plan::Scenario> probe(LibraryKind kind, const std::string& reference,
                                    std::string& why);

}  // namespace orrery::cli
