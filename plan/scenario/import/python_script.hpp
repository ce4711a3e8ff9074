// What a Python program assigns, as far as its text settles that: literals, arithmetic, names,
// attributes, functions of its own with their arguments. Nothing of Python runs. A call of what
// the text does not define makes an object that remembers whose call it was and with what; what
// only a run can tell (arguments of the program, the environment, loops) stays open, and so does
// what a condition assigns that is not settled. Internal to the readers of recipes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/scenario/import/python_tokens.hpp"
#include "plan/scenario/json_text.hpp"

namespace orrery::plan::imports {

struct PythonObject;
struct PythonFunction;

struct PythonValue {
    enum class Kind { plain, list, object, function, symbol, open };
    Kind kind = Kind::plain;
    Json plain;        // a number, a string, true, false, or null for None
    std::string text;  // of a symbol, "torch.bfloat16", and of what is open, as it is spelled
    std::shared_ptr<std::vector<PythonValue>> list = {};
    std::shared_ptr<PythonObject> object = {};
    std::shared_ptr<PythonFunction> function = {};
    int line = 0;        // where it was assigned
    bool usual = false;  // no line of the program says so

    bool is_open() const { return kind == Kind::open; }
};

struct PythonObject {
    std::string of;  // who was called: "run.Config", "llm.llama3_8b.pretrain_recipe"
    int line = 0;
    // Arguments, "0", "1", … and by name, then what is assigned to attributes; in their order.
    std::vector<std::pair<std::string, PythonValue>> fields = {};

    const PythonValue* find(const std::string& name) const;
    PythonValue& at(const std::string& name);  // made where there is none
};

// A statement that may change an object, though it is not settled how or whether: a call of what
// the program does not define, with an object of its own, or a call under an open condition.
struct PythonUnread {
    int line = 0;
    std::string text;
    std::vector<std::shared_ptr<PythonObject>> objects;  // that it names
    std::shared_ptr<PythonObject> call = {};             // what it has made
};

struct PythonScript {
    std::vector<std::shared_ptr<PythonObject>> made;  // by calls, in their order
    std::vector<PythonUnread> unread;
};

// Gives an object that a call has made the fields that whoever is called would give it.
using PythonMaker = void (*)(PythonObject&);

// Runs the program as if it were started; where that makes no object of which `wanted` is true,
// its functions that need no arguments one by one. Throws PythonError.
PythonScript run_python(std::string_view text, PythonMaker make,
                        bool (*wanted)(const PythonObject&));

}  // namespace orrery::plan::imports
