// What an import made of another tool's file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/json_text.hpp"

namespace orrery::plan::imports {

struct Mapped {
    std::string from;
    std::string to;  // "layout.tensor_parallel"
    Json value;
    bool usual = false;  // the file does not say it: it is what the other tool does then
    std::string note;    // where the two mean not quite the same
};

// What a setting changes that is left out: what a step of the same model costs, or the model
// itself, which is then another one than the user means.
enum class Changes : std::uint8_t { cost, model };

// A setting that became nothing.
struct Left {
    std::string key;
    Json value;
    std::string why;
    Changes changes = Changes::cost;
};

// A key of the scenario that the file cannot settle.
struct Missing {
    std::string to;
    std::string why;
    std::string otherwise;  // what stands until it is given; empty: nothing, the scenario needs it
};

// A size of the model that the file states although the model is another file's.
struct Stated {
    std::string key;   // "--num-layers"
    std::string what;  // "layers", as Model calls it
    Json value;
};

// A setting that would become a key of the scenario as it is, whether the file has it or not: what
// whoever writes such a file (plan/scenario/export) has to say for that key.
struct Asked {
    std::string key;         // "--adam-beta1"
    std::string to;          // "training.optimizer.beta1"
    bool has_usual = false;  // it is known what the other tool does where its file says nothing
};

struct Imported {
    Json scenario;
    std::vector<Mapped> mapped;
    std::vector<Left> ignored;      // changes nothing that a step computes, sends or keeps
    std::vector<Left> unsupported;  // changes a step or the model, and Orrery has no counterpart
    std::vector<Missing> missing;
    std::vector<Stated> stated;
    std::vector<Asked> asked;
    std::vector<Diagnostic> errors;
    bool unreadable = false;  // the file is not what it should be: exit code 5
};

}  // namespace orrery::plan::imports
