// A scenario as the settings of another tool: a Megatron-LM command line, a DeepSpeed JSON config,
// a torchtitan TOML, a YAML of NeMo 1.x. What is written is read again by the importer of that tool
// (plan/scenario/import), and wherever the scenario that comes of it is another one a note says so.
// So nothing is left out in silence, and no setting is written that the importer does not know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/scenario/import/import.hpp"
#include "plan/scenario/json_text.hpp"
#include "plan/scenario/reader.hpp"

namespace orrery::plan::exports {

// What a key of the scenario became that is not in the text.
enum class Fate : std::uint8_t {
    elsewhere,  // the tool takes it, but not from such a file: from its program or command line
    other,      // the tool does something else instead, in a step of the same layout
    refused     // the tool cannot run such a layout, or has no such model
};

struct Note {
    Fate fate = Fate::other;
    std::string key;  // "layout.schedule"
    Json wanted;      // what the scenario says; null: nothing
    Json stands;      // what the text comes to; null: nothing
    std::string why;  // may be empty
};

struct Exported {
    std::string text;  // with the notes as comments; complete whatever they say
    std::vector<Note> notes;
    std::string start;       // command by which such a file is run; empty: the text has it
    std::string read_again;  // the resolved scenario that the text comes to; empty: to none

    bool is_refused() const;
};

// One line: "no counterpart: training.seed 7; here 1234".
std::string note_text(const Note& note);

// "megatron, deepspeed, torchtitan, nemo".
std::vector<std::string> tool_names();
std::optional<imports::Format> tool_of_name(std::string_view name);

// `read` must be sound; `file` is what the text calls the scenario. References are looked up from
// `base_dir` and in `library_dir`, as by the scenario's reader.
Exported export_scenario(const ReadResult& read, imports::Format tool, const std::string& file,
                         const std::string& base_dir, const std::string& library_dir);

}  // namespace orrery::plan::exports
