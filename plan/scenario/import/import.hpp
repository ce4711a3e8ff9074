// Other tools' settings as a scenario: a Megatron-LM command line, a DeepSpeed JSON config, a
// torchtitan TOML, a YAML of nanotron or NeMo 1.x, a recipe of NeMo 2, the config.json of a model
// of Hugging Face. Nothing is passed over in silence: each key of the file ends up as a key of the
// scenario, as one that changes no step, or as one without a counterpart; what the other tool does
// where its file says nothing is written out; what the file cannot say is listed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/import/imported.hpp"

namespace orrery::plan::imports {

enum class Format { megatron, deepspeed, torchtitan, huggingface, nanotron, nemo, nemo_recipe };

// What the user says beside the file.
struct Wishes {
    std::string model;      // reference, instead of the file's own model
    std::string cluster;    // reference
    std::string file = "";  // reference of the imported file; empty: it has no name
    std::optional<std::int64_t> layers = {};  // of `model`, where they are known
    std::optional<std::int64_t> gpus = {};    // ranks of the run, instead of what a launcher says
    std::set<std::string> frameworks;         // presets that the library has: "megatron"
    // The text of a file that the imported one names, as it stands beside it.
    std::function<std::optional<std::string>(const std::string& name)> beside = {};
};

std::optional<Format> format_of_name(std::string_view name);
std::string format_names();  // "megatron, deepspeed, …"
// By the file's ending, else by its text.
Format guess_format(std::string_view text, const std::string& file);

Imported import_text(std::string_view text, const std::string& file, Format format,
                     const Wishes& wishes);

// Writes the value of "a.b=value" into the scenario; false where its way leads through something
// that is no object.
bool set_key(Imported& imported, const std::string& set);

}  // namespace orrery::plan::imports
