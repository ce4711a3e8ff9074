// The text of a Python program as statements: logical lines of tokens with the blocks they open.
// Nothing is run here; plan/scenario/import/python_script.hpp does, as far as the text settles it.
// Internal to the readers of recipes.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::plan::imports {

enum class PythonKind { name, number, text, format, symbol };

struct PythonToken {
    PythonKind kind = PythonKind::symbol;
    std::string text;  // of a string what it holds; of a format string its spelling
    int line = 0;
    bool spaced = false;  // a blank stands before it
};

struct PythonStatement {
    std::vector<PythonToken> tokens;  // without the colon of a statement that opens a block
    std::vector<PythonStatement> body;
    int line = 0;

    bool begins(std::string_view word) const {
        return !tokens.empty() && tokens[0].kind == PythonKind::name && tokens[0].text == word;
    }
};

// What is no text of Python, as far as that can be seen here.
class PythonError : public std::runtime_error {
  public:
    PythonError(int at_line, int at_column, const std::string& what)
        : std::runtime_error(what), line(at_line), column(at_column) {}

    int line;
    int column;
};

// Throws PythonError.
std::vector<PythonStatement> read_python(std::string_view text);

// The tokens as one would write them: `recipe.trainer.max_steps * 2`.
std::string spelled(const std::vector<PythonToken>& tokens, std::size_t from, std::size_t to);

}  // namespace orrery::plan::imports
