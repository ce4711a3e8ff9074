#include "plan/scenario/import/python_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

namespace orrery::plan::imports {

struct PythonFunction {
    const PythonStatement* statement = nullptr;
};

namespace {

using PyValue = PythonValue;
using PyKind = PythonValue::Kind;
using PyTokens = std::vector<PythonToken>;

constexpr int kMostSteps = 1 << 18;
constexpr int kDeepestCall = 32;
constexpr int kDeepestExpression = 100;
constexpr std::size_t kMostObjects = 1u << 12;

PyValue plain_value(Json plain) {
    PyValue value;
    value.plain = std::move(plain);
    return value;
}

PyValue open_value(std::string text) {
    PyValue value;
    value.kind = PyKind::open;
    value.text = std::move(text);
    return value;
}

PyValue symbol_value(std::string text) {
    PyValue value = open_value(std::move(text));
    value.kind = PyKind::symbol;
    return value;
}

PyValue list_value(std::vector<PyValue> values) {
    PyValue value;
    value.kind = PyKind::list;
    value.list = std::make_shared<std::vector<PyValue>>(std::move(values));
    return value;
}

PyValue object_value(std::shared_ptr<PythonObject> object) {
    PyValue value;
    value.kind = PyKind::object;
    value.object = std::move(object);
    return value;
}

std::optional<double> python_number(const PyValue& value) {
    if (value.kind != PyKind::plain || !(value.plain.is_number() || value.plain.is_boolean()))
        return std::nullopt;
    return value.plain.is_boolean() ? (value.plain.get<bool>() ? 1.0 : 0.0)
                                    : value.plain.get<double>();
}

std::optional<bool> python_truth(const PyValue& value) {
    if (const auto number = python_number(value)) return *number != 0;
    if (value.kind == PyKind::plain && value.plain.is_string())
        return !value.plain.get_ref<const std::string&>().empty();
    if (value.kind == PyKind::plain) return false;
    if (value.kind == PyKind::list) return !value.list->empty();
    return std::nullopt;
}

bool python_whole(double number) {
    return std::abs(number) < 9'007'199'254'740'992 && number == std::floor(number);
}

PyValue number_value(double number, bool whole) {
    if (!std::isfinite(number)) return open_value("a number that is none");
    return plain_value(whole && python_whole(number) ? Json(static_cast<std::int64_t>(number))
                                                     : Json(number));
}

// a op b of two numbers, as Python has it.
PyValue python_arithmetic(const std::string& op, const PyValue& left, const PyValue& right) {
    const auto a = python_number(left), b = python_number(right);
    const bool texts = left.kind == PyKind::plain && right.kind == PyKind::plain &&
                       left.plain.is_string() && right.plain.is_string();
    if (texts && op == "+")
        return plain_value(left.plain.get<std::string>() + right.plain.get<std::string>());
    if (!a || !b) return open_value("");
    const bool whole = !left.plain.is_number_float() && !right.plain.is_number_float();
    if (op == "+") return number_value(*a + *b, whole);
    if (op == "-") return number_value(*a - *b, whole);
    if (op == "*") return number_value(*a * *b, whole);
    if (op == "**") return number_value(std::pow(*a, *b), whole && *b >= 0);
    if (*b == 0) return open_value("");
    if (op == "/") return number_value(*a / *b, false);
    if (op == "//") return number_value(std::floor(*a / *b), whole);
    if (op == "%") return number_value(*a - std::floor(*a / *b) * *b, whole);
    return open_value("");
}

std::optional<bool> python_compared(const std::string& op, const PyValue& left,
                                    const PyValue& right) {
    if (left.kind == PyKind::symbol && right.kind == PyKind::symbol && op == "==")
        return left.text == right.text ? std::optional(true) : std::nullopt;
    if (op == "in" || op == "not in") {
        if (right.kind != PyKind::list || left.kind != PyKind::plain) return std::nullopt;
        for (const PyValue& one : *right.list)
            if (one.kind != PyKind::plain) return std::nullopt;
        const bool found = std::any_of(right.list->begin(), right.list->end(),
                                       [&](const PyValue& one) { return one.plain == left.plain; });
        return found == (op == "in");
    }
    const auto settled = [](const PyValue& value) {
        return value.kind == PyKind::plain || value.kind == PyKind::list ||
               value.kind == PyKind::object;
    };
    if (!settled(left) || !settled(right)) return std::nullopt;
    const bool both = left.kind == PyKind::plain && right.kind == PyKind::plain;
    const auto a = python_number(left), b = python_number(right);
    if (op == "==" || op == "is" || op == "!=" || op == "is not") {
        if (!both && left.kind == right.kind) return std::nullopt;
        const bool same = both && (a && b ? *a == *b : left.plain == right.plain);
        return same == (op == "==" || op == "is");
    }
    if (!a || !b) return std::nullopt;
    if (op == "<") return *a < *b;
    if (op == ">") return *a > *b;
    if (op == "<=") return *a <= *b;
    return *a >= *b;
}

class PythonRun {
  public:
    PythonRun(PythonMaker make, bool (*wanted)(const PythonObject&))
        : make_(make), wanted_(wanted) {}

    PythonScript run(const std::vector<PythonStatement>& program) {
        globals_["__name__"] = plain_value("__main__");
        block(program);
        // A file of functions alone, which another program calls.
        for (const PythonStatement& statement : program) {
            const bool made = std::any_of(out_.made.begin(), out_.made.end(),
                                          [&](const auto& one) { return wanted_(*one); });
            if (made) break;
            if (!statement.begins("def") || statement.tokens.size() < 3) continue;
            returned_.reset();
            const auto found = globals_.find(statement.tokens[1].text);
            if (found != globals_.end() && found->second.kind == PyKind::function &&
                needs_no_arguments(statement))
                call_own(*found->second.function, {}, {});
        }
        return std::move(out_);
    }

  private:
    using Scope = std::map<std::string, PyValue>;

    // Where an expression is read.
    struct Cursor {
        const PyTokens& tokens;
        std::size_t at = 0;
        std::size_t end = 0;

        bool done() const { return at >= end; }
        bool is(const char* text) const {
            return !done() && tokens[at].kind != PythonKind::text &&
                   tokens[at].kind != PythonKind::format && tokens[at].text == text;
        }
        bool takes(const char* text) {
            if (!is(text)) return false;
            ++at;
            return true;
        }
    };

    void step(int line) {
        if (++steps_ > kMostSteps) throw PythonError(line, 1, "more than 262,144 steps are run");
    }

    // --- statements

    void block(const std::vector<PythonStatement>& statements) {
        for (std::size_t i = 0; i < statements.size() && !returned_; ++i)
            i = statement(statements, i);
    }

    // Returns the last statement that belongs to it: an if goes with its elif and else.
    std::size_t statement(const std::vector<PythonStatement>& all, std::size_t i) {
        const PythonStatement& one = all[i];
        line_ = one.line;
        step(one.line);
        if (one.begins("if")) return condition(all, i);
        if (one.begins("def")) {
            define(one);
        } else if (one.begins("with") || one.begins("try") || one.begins("finally")) {
            if (one.begins("with")) open_with(one);
            block(one.body);
        } else if (one.begins("for") || one.begins("while") || one.begins("match")) {
            unsettled(one.body, spelled(one.tokens, 0, one.tokens.size()));
        } else if (one.begins("import") || one.begins("from")) {
            import(one);
        } else if (one.begins("return")) {
            returned_ = one.tokens.size() > 1 ? expression(one, 1) : plain_value(nullptr);
        } else if (one.begins("async")) {
            note(one, spelled(one.tokens, 0, one.tokens.size()));
        } else if (!is_passed_over(one)) {
            simple(one);
        }
        return i;
    }

    static bool is_passed_over(const PythonStatement& one) {
        static const std::array kWords = {"class", "except", "else",  "elif",   "pass",    "assert",
                                          "raise", "del",    "break", "global", "continue"};
        return one.tokens[0].text == "@" ||
               std::any_of(kWords.begin(), kWords.end(),
                           [&](const char* word) { return one.begins(word); });
    }

    std::size_t condition(const std::vector<PythonStatement>& all, std::size_t i) {
        bool taken = false;  // the branches to come are not
        bool sure = true;    // those before were not taken
        for (std::size_t at = i;; ++at) {
            const PythonStatement& one = all[at];
            std::optional<bool> holds = true;
            if (!one.begins("else") && !taken) holds = python_truth(expression(one, 1));
            if (!taken && holds == true && sure)
                block(one.body);
            else if (!taken && holds != false)
                unsettled(one.body, spelled(one.tokens, 0, one.tokens.size()));
            taken = taken || holds == true;
            sure = sure && holds.has_value();
            const bool more = at + 1 < all.size() && !one.begins("else") &&
                              (all[at + 1].begins("elif") || all[at + 1].begins("else"));
            if (!more) return at;
        }
    }

    void define(const PythonStatement& one) {
        if (one.tokens.size() < 2) return;
        PyValue value;
        value.kind = PyKind::function;
        value.text = one.tokens[1].text;
        value.function = std::make_shared<PythonFunction>(PythonFunction{&one});
        assign_name(one.tokens[1].text, value);
    }

    // `with EXPRESSION as NAME`.
    void open_with(const PythonStatement& one) {
        const auto as = std::find_if(one.tokens.begin(), one.tokens.end(), [](const auto& token) {
            return token.kind == PythonKind::name && token.text == "as";
        });
        Cursor cursor = {one.tokens, 1,
                         static_cast<std::size_t>(std::distance(one.tokens.begin(), as))};
        const PyValue value = ternary(cursor);
        if (as != one.tokens.end() && as + 1 != one.tokens.end())
            assign_name((as + 1)->text, value);
    }

    // import a.b as c, d; from a import b as c
    void import(const PythonStatement& one) {
        std::size_t at = 1;
        std::string package;
        if (one.begins("from"))
            for (; at < one.tokens.size() && one.tokens[at].text != "import"; ++at)
                if (one.tokens[at].kind == PythonKind::name) package += one.tokens[at].text + '.';
        while (at < one.tokens.size()) {
            if (one.tokens[at].kind != PythonKind::name || one.tokens[at].text == "import") {
                ++at;
                continue;
            }
            std::string name = one.tokens[at].text, whole = name;
            for (++at; at + 1 < one.tokens.size() && one.tokens[at].text == "."; at += 2)
                whole += '.' + one.tokens[at + 1].text;
            std::string means = name;  // `import a.b` gives a
            if (at + 1 < one.tokens.size() && one.tokens[at].text == "as") {
                name = one.tokens[at + 1].text;
                means = whole;
                at += 2;
            }
            assign_name(name, symbol_value(package + means));
        }
    }

    // Assignments and expressions.
    void simple(const PythonStatement& one) {
        const PyTokens& tokens = one.tokens;
        std::vector<std::size_t> equals;
        int depth = 0;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (tokens[i].kind != PythonKind::symbol) continue;
            const std::string& text = tokens[i].text;
            if (text == "(" || text == "[" || text == "{") ++depth;
            if (text == ")" || text == "]" || text == "}") --depth;
            const bool assigns = text.back() == '=' && text != "==" && text != "!=" &&
                                 text != "<=" && text != ">=" && text != ":=";
            if (depth == 0 && assigns) equals.push_back(i);
        }
        if (equals.empty()) {
            Cursor cursor = {tokens, 0, tokens.size()};
            ternary(cursor);
            return;
        }
        const std::string& op = tokens[equals[0]].text;
        if (op != "=") {
            const PyValue old = expression(one, 0, equals[0]);
            const PyValue more = expression(one, equals[0] + 1);
            PyValue value = python_arithmetic(op.substr(0, op.size() - 1), old, more);
            if (value.is_open()) value.text = spelled(tokens, 0, tokens.size());
            assign(tokens, 0, equals[0], value);
            return;
        }
        const PyValue value = expression(one, equals.back() + 1);
        std::size_t from = 0;
        for (const std::size_t end : equals) {
            assign(tokens, from, end, value);
            from = end + 1;
        }
    }

    // --- targets

    void assign_name(const std::string& name, PyValue value) {
        value.line = line_;
        (local_ != nullptr ? *local_ : globals_)[name] = std::move(value);
    }

    // `recipe.trainer.max_steps`, `a: int`, `d["k"]`, `a, b`.
    void assign(const PyTokens& tokens, std::size_t from, std::size_t to, PyValue value) {
        value.line = line_;
        std::size_t end = from;
        int depth = 0;
        for (; end < to; ++end) {
            const std::string& text = tokens[end].text;
            if (text == "(" || text == "[") ++depth;
            if (text == ")" || text == "]") --depth;
            if (depth == 0 && (text == ":" || text == ",")) break;
        }
        if (end < to && tokens[end].text == ",") {
            assign_all(tokens, from, to, value);
            return;
        }
        if (from + 1 == end) {
            assign_name(tokens[from].text, std::move(value));
            return;
        }
        if (end < from + 3) return;
        if (tokens[end - 2].text == "." && tokens[end - 1].kind == PythonKind::name) {
            if (const auto object = object_at(tokens, from, end - 2))
                object->at(tokens[end - 1].text) = value;
            return;
        }
        if (tokens[end - 1].text != "]") return;
        std::size_t bracket = from;
        while (bracket < end && tokens[bracket].text != "[")
            ++bracket;
        Cursor base = {tokens, from, bracket}, key = {tokens, bracket + 1, end - 1};
        const PyValue object = ternary(base), name = ternary(key);
        if (object.kind == PyKind::object && name.kind == PyKind::plain && name.plain.is_string())
            object.object->at(name.plain.get<std::string>()) = value;
    }

    // The object whose attribute is assigned; attributes on the way to it are made.
    std::shared_ptr<PythonObject> object_at(const PyTokens& tokens, std::size_t from,
                                            std::size_t to) {
        Cursor cursor = {tokens, from, to};
        const PyValue value = ternary(cursor);
        if (value.kind == PyKind::object) return value.object;
        if (to < from + 3 || tokens[to - 2].text != ".") return nullptr;
        const auto outer = object_at(tokens, from, to - 2);
        if (outer == nullptr) return nullptr;
        PyValue& field = outer->at(tokens[to - 1].text);
        if (field.kind != PyKind::object)
            field = object_value(std::make_shared<PythonObject>(PythonObject{"", line_}));
        return field.object;
    }

    void assign_all(const PyTokens& tokens, std::size_t from, std::size_t to,
                    const PyValue& value) {
        std::size_t count = 0;
        for (std::size_t i = from; i < to; ++i) {
            if (tokens[i].kind != PythonKind::name) continue;
            const bool known = value.kind == PyKind::list && count < value.list->size();
            assign_name(tokens[i].text, known ? (*value.list)[count] : open_value(tokens[i].text));
            ++count;
        }
    }

    // --- what is not settled

    // What these would assign is open; what they would call is noted.
    void unsettled(const std::vector<PythonStatement>& body, const std::string& why) {
        for (const PythonStatement& one : body) {
            step(one.line);
            line_ = one.line;
            if (!one.body.empty()) {
                unsettled(one.body, why);
                continue;
            }
            const auto equals =
                std::find_if(one.tokens.begin(), one.tokens.end(), [](const PythonToken& token) {
                    return token.kind == PythonKind::symbol && token.text.back() == '=' &&
                           token.text != "==" && token.text != "!=" && token.text != "<=" &&
                           token.text != ">=";
                });
            const auto bracket =
                std::find_if(one.tokens.begin(), one.tokens.end(),
                             [](const PythonToken& token) { return token.text == "("; });
            const std::string text = fmt::format(
                "{} (line {}: {})", spelled(one.tokens, 0, one.tokens.size()), one.line, why);
            if (equals != one.tokens.end() && equals < bracket)
                assign(one.tokens, 0,
                       static_cast<std::size_t>(std::distance(one.tokens.begin(), equals)),
                       open_value(text));
            else
                note(one, text);
        }
    }

    // A statement about objects that may change them.
    void note(const PythonStatement& one, const std::string& text) {
        PythonUnread unread = {one.line, text, {}, nullptr};
        for (const PythonToken& token : one.tokens) {
            if (token.kind != PythonKind::name) continue;
            const PyValue value = lookup(token.text);
            if (value.kind == PyKind::object) unread.objects.push_back(value.object);
        }
        if (!unread.objects.empty()) out_.unread.push_back(std::move(unread));
    }

    // --- expressions

    // A level of what is nested.
    class Deeper {
      public:
        explicit Deeper(PythonRun& run) : depth_(run.depth_) {
            if (depth_ >= 3 * kDeepestExpression)
                throw PythonError(run.line_, 1, "expressions are nested more than 100 deep");
            ++depth_;
        }
        ~Deeper() { --depth_; }
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;

      private:
        int& depth_;
    };

    PyValue expression(const PythonStatement& one, std::size_t from, std::size_t to = 0) {
        Cursor cursor = {one.tokens, from, to == 0 ? one.tokens.size() : to};
        PyValue value = ternary(cursor);
        if (cursor.is(",")) {
            std::vector<PyValue> values = {value};
            while (cursor.takes(",") && !cursor.done())
                values.push_back(ternary(cursor));
            value = list_value(std::move(values));
        }
        if (!cursor.done()) value = open_value(spelled(one.tokens, from, cursor.end));
        return value;
    }

    // a if condition else b
    PyValue ternary(Cursor& cursor) {
        const Deeper deeper(*this);
        const std::size_t from = cursor.at;
        PyValue value = either(cursor);
        if (cursor.takes("if")) {
            const auto holds = python_truth(either(cursor));
            const PyValue other = cursor.takes("else") ? ternary(cursor) : plain_value(nullptr);
            if (!holds)
                value = open_value(spelled(cursor.tokens, from, cursor.at));
            else if (!*holds)
                value = other;
        }
        return value;
    }

    PyValue either(Cursor& cursor) {
        PyValue value = both(cursor);
        while (cursor.takes("or")) {
            const PyValue other = both(cursor);
            const auto holds = python_truth(value);
            if (!holds && value.kind != PyKind::object)
                value = open_value(value.text);
            else if (holds == false)
                value = other;
        }
        return value;
    }

    PyValue both(Cursor& cursor) {
        PyValue value = negation(cursor);
        while (cursor.takes("and")) {
            const PyValue other = negation(cursor);
            const auto holds = python_truth(value);
            if (holds == true || (!holds && python_truth(other) == false))
                value = other;
            else if (!holds)
                value = open_value(value.text);
        }
        return value;
    }

    PyValue negation(Cursor& cursor) {
        const Deeper deeper(*this);
        if (!cursor.takes("not")) return comparison(cursor);
        const PyValue value = negation(cursor);
        const auto holds = python_truth(value);
        return holds ? plain_value(!*holds) : open_value("not " + value.text);
    }

    PyValue comparison(Cursor& cursor) {
        const std::size_t from = cursor.at;
        PyValue value = sum(cursor);
        for (;;) {
            std::string op;
            for (const char* one : {"==", "!=", "<=", ">=", "<", ">", "in", "is"})
                if (op.empty() && cursor.takes(one)) op = one;
            if (op.empty() && cursor.is("not") && cursor.at + 1 < cursor.end &&
                cursor.tokens[cursor.at + 1].text == "in") {
                cursor.at += 2;
                op = "not in";
            }
            if (op.empty()) return value;
            if (op == "is" && cursor.takes("not")) op = "is not";
            const PyValue other = sum(cursor);
            const auto holds = python_compared(op, value, other);
            value =
                holds ? plain_value(*holds) : open_value(spelled(cursor.tokens, from, cursor.at));
        }
    }

    template <typename Operand>
    PyValue chain(Cursor& cursor, std::initializer_list<const char*> ops, const Operand& operand) {
        const std::size_t from = cursor.at;
        PyValue value = operand();
        for (;;) {
            std::string op;
            for (const char* one : ops)
                if (op.empty() && cursor.takes(one)) op = one;
            if (op.empty()) return value;
            value = python_arithmetic(op, value, operand());
            if (value.is_open()) value.text = spelled(cursor.tokens, from, cursor.at);
        }
    }

    PyValue sum(Cursor& cursor) {
        return chain(cursor, {"+", "-", "|", "&", "^", "<<", ">>"}, [&] {
            return chain(cursor, {"*", "//", "/", "%", "@"}, [&] { return sign(cursor); });
        });
    }

    PyValue sign(Cursor& cursor) {
        const Deeper deeper(*this);
        if (cursor.takes("+")) return sign(cursor);
        if (!cursor.takes("-")) return power(cursor);
        const PyValue value = sign(cursor);
        const auto number = python_number(value);
        if (!number) return open_value('-' + value.text);
        return number_value(-*number, !value.plain.is_number_float());
    }

    PyValue power(Cursor& cursor) {
        const std::size_t from = cursor.at;
        cursor.takes("await");
        PyValue value = trailers(cursor);
        if (!cursor.takes("**")) return value;
        value = python_arithmetic("**", value, sign(cursor));
        if (value.is_open()) value.text = spelled(cursor.tokens, from, cursor.at);
        return value;
    }

    // .name, (arguments), [index]
    PyValue trailers(Cursor& cursor) {
        const std::size_t from = cursor.at;
        PyValue value = atom(cursor);
        for (;;) {
            step(line_);
            if (cursor.is(".") && cursor.at + 1 < cursor.end) {
                const std::string name = cursor.tokens[cursor.at + 1].text;
                cursor.at += 2;
                if (cursor.is("(") && value.kind == PyKind::list) {
                    value = call_list(cursor, value, name);
                    continue;
                }
                value = attribute(value, name, spelled(cursor.tokens, from, cursor.at));
            } else if (cursor.is("(")) {
                value = call(cursor, value, from);
            } else if (cursor.takes("[")) {
                value = indexed(cursor, value, from);
            } else {
                return value;
            }
        }
    }

    static PyValue attribute(const PyValue& base, const std::string& name,
                             const std::string& text) {
        if (base.kind == PyKind::symbol) return symbol_value(base.text + '.' + name);
        if (base.kind == PyKind::object) {
            const PythonValue* const field = base.object->find(name);
            if (field != nullptr) return *field;
            PyValue value = open_value(text);
            value.object = base.object;  // whose it would be: for a call
            return value;
        }
        return open_value(text);
    }

    PyValue indexed(Cursor& cursor, const PyValue& base, std::size_t from) {
        const PyValue index = cursor.is(":") ? open_value("") : ternary(cursor);
        skip_to(cursor, "]");
        const auto number = python_number(index);
        if (base.kind == PyKind::list && number && *number >= 0 &&
            *number < static_cast<double>(base.list->size()))
            return (*base.list)[static_cast<std::size_t>(*number)];
        if (base.kind == PyKind::object && index.kind == PyKind::plain && index.plain.is_string())
            if (const PythonValue* field = base.object->find(index.plain.get<std::string>()))
                return *field;
        if (base.kind == PyKind::symbol) return base;  // run.Config[X]
        return open_value(spelled(cursor.tokens, from, cursor.at));
    }

    // Over what is left up to the bracket that closes.
    static void skip_to(Cursor& cursor, const char* close) {
        int depth = 0;
        for (; !cursor.done(); ++cursor.at) {
            const PythonToken& token = cursor.tokens[cursor.at];
            if (token.kind != PythonKind::symbol) continue;
            if (depth == 0 && token.text == close) {
                ++cursor.at;
                return;
            }
            if (token.text == "(" || token.text == "[" || token.text == "{") ++depth;
            if (token.text == ")" || token.text == "]" || token.text == "}") --depth;
        }
    }

    PyValue atom(Cursor& cursor) {
        if (cursor.done()) return open_value("");
        const PythonToken& token = cursor.tokens[cursor.at];
        const std::size_t from = cursor.at++;
        switch (token.kind) {
            case PythonKind::number:
                return number_atom(token.text);
            case PythonKind::text: {
                std::string text = token.text;
                while (!cursor.done() && cursor.tokens[cursor.at].kind == PythonKind::text)
                    text += cursor.tokens[cursor.at++].text;
                return plain_value(text);
            }
            case PythonKind::format:
                return open_value(token.text);
            case PythonKind::name:
                break;
            case PythonKind::symbol:
                return bracketed(cursor, token.text);
        }
        if (token.text == "True" || token.text == "False") return plain_value(token.text == "True");
        if (token.text == "None") return plain_value(nullptr);
        if (token.text == "lambda") {
            cursor.at = cursor.end;
            return open_value(spelled(cursor.tokens, from, cursor.end));
        }
        return lookup(token.text);
    }

    static PyValue number_atom(const std::string& text) {
        if (text.size() > 2 && (text[1] == 'x' || text[1] == 'X')) {
            const Json read = Json::parse(std::to_string(std::strtoll(text.c_str(), nullptr, 16)));
            return plain_value(read);
        }
        std::string json = text;
        if (json[0] == '.') json.insert(0, "0");
        if (json.back() == '.') json += '0';
        if (const std::size_t dot = json.find(".e"); dot != std::string::npos)
            json.insert(dot + 1, "0");
        const Json read = Json::parse(json, nullptr, false);
        return read.is_number() ? plain_value(read) : open_value(text);
    }

    // (a), (a, b), [a, b], {"k": a}
    PyValue bracketed(Cursor& cursor, const std::string& opens) {
        if (opens == "{") return dictionary(cursor);
        if (opens == "*" || opens == "**") return ternary(cursor);
        if (opens != "(" && opens != "[") return open_value(opens);
        const char* const close = opens == "(" ? ")" : "]";
        std::vector<PyValue> values;
        bool comma = false;
        while (!cursor.done() && !cursor.takes(close)) {
            values.push_back(ternary(cursor));
            if (cursor.takes(",")) {
                comma = true;
            } else if (!cursor.is(close)) {
                skip_to(cursor, close);  // a comprehension, an assignment within
                return open_value("a comprehension");
            }
        }
        if (opens == "(" && !comma && values.size() == 1) return values[0];
        return list_value(std::move(values));
    }

    PyValue dictionary(Cursor& cursor) {
        auto object = std::make_shared<PythonObject>(PythonObject{"dict", line_});
        while (!cursor.done() && !cursor.takes("}")) {
            const PyValue key = ternary(cursor);
            if (!cursor.takes(":")) {
                if (cursor.takes(",")) continue;
                skip_to(cursor, "}");
                break;
            }
            PyValue value = ternary(cursor);
            value.line = line_;
            if (key.kind == PyKind::plain && key.plain.is_string())
                object->at(key.plain.get<std::string>()) = value;
            if (!cursor.takes(",") && !cursor.is("}")) {
                skip_to(cursor, "}");
                break;
            }
        }
        return object_value(std::move(object));
    }

    PyValue lookup(const std::string& name) const {
        if (local_ != nullptr)
            if (const auto at = local_->find(name); at != local_->end()) return at->second;
        if (const auto at = globals_.find(name); at != globals_.end()) return at->second;
        return open_value(name);
    }

    // --- calls

    struct Argument {
        std::string name;  // empty: by its place
        PyValue value;
        bool spread = false;  // *args, **kwargs
    };

    std::vector<Argument> arguments(Cursor& cursor) {
        std::vector<Argument> out;
        cursor.takes("(");
        while (!cursor.done() && !cursor.takes(")")) {
            Argument argument;
            argument.spread = cursor.takes("*") || cursor.takes("**");
            if (!argument.spread && cursor.at + 1 < cursor.end &&
                cursor.tokens[cursor.at].kind == PythonKind::name &&
                cursor.tokens[cursor.at + 1].kind == PythonKind::symbol &&
                cursor.tokens[cursor.at + 1].text == "=") {
                argument.name = cursor.tokens[cursor.at].text;
                cursor.at += 2;
            }
            argument.value = ternary(cursor);
            argument.value.line = line_;
            if (!cursor.takes(",") && !cursor.is(")")) {
                skip_to(cursor, ")");
                argument.value = open_value("a comprehension");
                out.push_back(std::move(argument));
                return out;
            }
            out.push_back(std::move(argument));
        }
        return out;
    }

    PyValue call(Cursor& cursor, const PyValue& callee, std::size_t from) {
        const std::string name = callee.text;
        const std::vector<Argument> given = arguments(cursor);
        if (callee.kind == PyKind::function) return call_own(*callee.function, given, name);
        if ((name == "int" || name == "float") && given.size() == 1)
            if (const auto number = python_number(given[0].value))
                return number_value(name == "int" ? std::trunc(*number) : *number, name == "int");
        auto object = std::make_shared<PythonObject>();
        object->of = callee.kind == PyKind::open && callee.object
                         ? callee.object->of + name.substr(name.rfind('.'))
                         : name;
        object->line = line_;
        for (std::size_t i = 0; i < given.size(); ++i) {
            if (!given[i].spread)
                object->at(given[i].name.empty() ? std::to_string(i) : given[i].name) =
                    given[i].value;
            else if (given[i].value.kind == PyKind::object && given[i].value.object->of == "dict")
                for (const auto& [key, value] : given[i].value.object->fields)
                    object->at(key) = value;
            else
                object->at(fmt::format("*{}", i)) = given[i].value;
        }
        if (make_ != nullptr) make_(*object);
        if (out_.made.size() >= kMostObjects)
            throw PythonError(line_, 1, "more than 4,096 objects are made");
        out_.made.push_back(object);
        note_handed(object, spelled(cursor.tokens, from, cursor.at));
        return object_value(std::move(object));
    }

    // A call of what the text does not define, with an object that it may change.
    void note_handed(const std::shared_ptr<PythonObject>& object, const std::string& text) {
        PythonUnread unread = {object->line, text, {}, object};
        for (const auto& [name, value] : object->fields)
            if (value.kind == PyKind::object && !value.usual)
                unread.objects.push_back(value.object);
        if (!unread.objects.empty()) out_.unread.push_back(std::move(unread));
    }

    PyValue call_list(Cursor& cursor, const PyValue& base, const std::string& name) {
        const std::vector<Argument> given = arguments(cursor);
        for (const Argument& one : given) {
            if (name == "append") base.list->push_back(one.value);
            if (name == "extend" && one.value.kind == PyKind::list)
                base.list->insert(base.list->end(), one.value.list->begin(), one.value.list->end());
        }
        return plain_value(nullptr);
    }

    // The parameters of a function, each with its default where it has one.
    struct Parameter {
        std::string name;
        std::size_t from = 0, to = 0;  // of the default
        std::string stars = "";
    };

    static std::vector<Parameter> parameters(const PythonStatement& function) {
        std::vector<Parameter> out;
        const PyTokens& tokens = function.tokens;
        std::size_t at = 3;  // def NAME (
        while (at < tokens.size() && tokens[at].text != ")") {
            Parameter one;
            while (at < tokens.size() && (tokens[at].text == "*" || tokens[at].text == "**"))
                one.stars += tokens[at++].text;
            if (at < tokens.size() && tokens[at].kind == PythonKind::name)
                one.name = tokens[at++].text;
            int depth = 0;
            for (; at < tokens.size(); ++at) {
                const std::string& text = tokens[at].text;
                const bool symbol = tokens[at].kind == PythonKind::symbol;
                if (symbol && depth == 0 && (text == "," || text == ")")) break;
                if (symbol && (text == "(" || text == "[" || text == "{")) ++depth;
                if (symbol && (text == ")" || text == "]" || text == "}")) --depth;
                if (symbol && depth == 0 && text == "=") one.from = at + 1;
            }
            one.to = at;
            if (!one.name.empty()) out.push_back(one);
            if (at < tokens.size() && tokens[at].text == ",") ++at;
        }
        return out;
    }

    static bool needs_no_arguments(const PythonStatement& function) {
        const std::vector<Parameter> all = parameters(function);
        return std::all_of(all.begin(), all.end(),
                           [](const Parameter& one) { return one.from > 0 || !one.stars.empty(); });
    }

    PyValue call_own(const PythonFunction& function, const std::vector<Argument>& given,
                     const std::string& name) {
        if (calls_ >= kDeepestCall) return open_value(name + "()");
        const PythonStatement& statement = *function.statement;
        Scope scope = bound(statement, given);
        Scope* const outer = std::exchange(local_, &scope);
        const auto returned = std::exchange(returned_, std::nullopt);
        const int line = line_;
        ++calls_;
        block(statement.body);
        --calls_;
        line_ = line;
        PyValue value = returned_.value_or(plain_value(nullptr));
        returned_ = returned;
        local_ = outer;
        return value;
    }

    Scope bound(const PythonStatement& statement, const std::vector<Argument>& given) {
        Scope scope;
        std::size_t place = 0;
        auto more = std::make_shared<PythonObject>(PythonObject{"dict", line_});
        const std::vector<Parameter> all = parameters(statement);
        std::vector<bool> taken(given.size());
        for (const Parameter& one : all) {
            if (!one.stars.empty()) continue;
            const Argument* found = nullptr;
            for (std::size_t i = 0; i < given.size(); ++i)
                if (!given[i].spread && given[i].name == one.name) {
                    found = &given[i];
                    taken[i] = true;
                }
            while (found == nullptr && place < given.size() && given[place].name.empty() &&
                   !given[place].spread) {
                taken[place] = true;
                found = &given[place++];
            }
            Cursor otherwise = {statement.tokens, one.from, one.to};
            scope[one.name] = found != nullptr ? found->value
                              : one.from > 0   ? ternary(otherwise)
                                               : open_value(one.name);
        }
        for (std::size_t i = 0; i < given.size(); ++i)
            if (!taken[i] && !given[i].name.empty()) more->at(given[i].name) = given[i].value;
        for (const Parameter& one : all)
            if (one.stars == "**") scope[one.name] = object_value(more);
        return scope;
    }

    PythonMaker make_;
    bool (*wanted_)(const PythonObject&);
    PythonScript out_;
    Scope globals_;
    Scope* local_ = nullptr;
    std::optional<PyValue> returned_;
    int line_ = 0;
    int steps_ = 0;
    int depth_ = 0;
    int calls_ = 0;
};

}  // namespace

const PythonValue* PythonObject::find(const std::string& name) const {
    const auto at = std::find_if(fields.begin(), fields.end(),
                                 [&](const auto& field) { return field.first == name; });
    return at == fields.end() ? nullptr : &at->second;
}

PythonValue& PythonObject::at(const std::string& name) {
    const auto at = std::find_if(fields.begin(), fields.end(),
                                 [&](const auto& field) { return field.first == name; });
    if (at != fields.end()) return at->second;
    fields.emplace_back(name, PythonValue{});
    return fields.back().second;
}

PythonScript run_python(std::string_view text, PythonMaker make,
                        bool (*wanted)(const PythonObject&)) {
    const std::vector<PythonStatement> program = read_python(text);
    return PythonRun(make, wanted).run(program);
}

}  // namespace orrery::plan::imports
