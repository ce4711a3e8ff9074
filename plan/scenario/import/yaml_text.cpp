#include "plan/scenario/import/yaml_text.hpp"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

namespace orrery::plan::imports {
namespace {

constexpr int kDeepestNode = 64;

struct YamlError : std::runtime_error {
    YamlError(const yaml_mark_t& mark, const std::string& what)
        : std::runtime_error(what),
          line(static_cast<int>(mark.line) + 1),
          column(static_cast<int>(mark.column) + 1) {}
    int line;
    int column;
};

// One event of libyaml's, freed with the object.
class Event {
  public:
    explicit Event(yaml_parser_t& parser) {
        if (yaml_parser_parse(&parser, &event_) == 0)
            throw YamlError(parser.problem_mark,
                            parser.problem == nullptr ? "not readable" : parser.problem);
    }
    ~Event() { yaml_event_delete(&event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    yaml_event_type_t type() const { return event_.type; }
    const yaml_mark_t& mark() const { return event_.start_mark; }
    int line() const { return static_cast<int>(mark().line) + 1; }
    std::string text() const {
        const auto& scalar = event_.data.scalar;
        return {reinterpret_cast<const char*>(scalar.value), scalar.length};
    }
    bool plain() const { return event_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE; }

  private:
    yaml_event_t event_ = {};
};

std::optional<Json> number(const std::string& text) {
    const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
    const char* end = text.data() + text.size();
    std::int64_t whole = 0;
    if (const auto [at, error] = std::from_chars(begin, end, whole);
        error == std::errc{} && at == end)
        return Json(whole);
    double value = 0;
    const auto [at, error] = std::from_chars(begin, end, value);
    if (error != std::errc{} || at != end || !std::isfinite(value)) return std::nullopt;
    return plain(value);
}

bool is_among(const std::string& text, std::initializer_list<const char*> words) {
    std::string lower = text;
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return lower == word; });
}

Json value_of(const Event& event) {
    std::string text = event.text();
    if (!event.plain()) return text;
    if (text.empty() || is_among(text, {"null", "~"})) return nullptr;
    if (is_among(text, {"true", "yes", "on"})) return true;
    if (is_among(text, {"false", "no", "off"})) return false;
    if (const auto read = number(text)) return *read;
    return text;
}

class Settings {
  public:
    explicit Settings(std::string_view text) {
        if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
        yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                     text.size());
        yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    }
    ~Settings() { yaml_parser_delete(&parser_); }
    Settings(const Settings&) = delete;
    Settings& operator=(const Settings&) = delete;

    std::vector<Setting> read() {
        for (;;) {
            const Event event(parser_);
            if (event.type() == YAML_MAPPING_START_EVENT) {
                mapping("", 0);
                return std::move(out_);
            }
            if (event.type() != YAML_STREAM_START_EVENT &&
                event.type() != YAML_DOCUMENT_START_EVENT)
                throw YamlError(event.mark(), "keys with values are expected");
        }
    }

  private:
    void mapping(const std::string& path, int depth) {
        for (;;) {
            const Event key(parser_);
            if (key.type() == YAML_MAPPING_END_EVENT) return;
            if (key.type() != YAML_SCALAR_EVENT)
                throw YamlError(key.mark(), "a key that is no word");
            const std::string full = path.empty() ? key.text() : path + '.' + key.text();
            const Event value(parser_);
            if (value.type() == YAML_MAPPING_START_EVENT) {
                if (depth > kDeepestNode) throw YamlError(value.mark(), "nested too deep");
                mapping(full, depth + 1);
            } else {
                out_.push_back({full, node(value, depth), key.line(), false});
            }
        }
    }

    // What stands in a list: mappings within it stay objects.
    Json node(const Event& event, int depth) {
        if (depth > kDeepestNode) throw YamlError(event.mark(), "nested too deep");
        switch (event.type()) {
            case YAML_SCALAR_EVENT:
                return value_of(event);
            case YAML_SEQUENCE_START_EVENT: {
                Json list = Json::array();
                for (;;) {
                    const Event next(parser_);
                    if (next.type() == YAML_SEQUENCE_END_EVENT) return list;
                    list.push_back(node(next, depth + 1));
                }
            }
            case YAML_MAPPING_START_EVENT: {
                Json object = Json::object();
                for (;;) {
                    const Event key(parser_);
                    if (key.type() == YAML_MAPPING_END_EVENT) return object;
                    if (key.type() != YAML_SCALAR_EVENT)
                        throw YamlError(key.mark(), "a key that is no word");
                    const Event value(parser_);
                    object[key.text()] = node(value, depth + 1);
                }
            }
            default:
                throw YamlError(event.mark(), "references to other nodes (*name) are not read");
        }
    }

    yaml_parser_t parser_ = {};
    std::vector<Setting> out_;
};

}  // namespace

std::vector<Setting> read_yaml(std::string_view text, const std::string& file,
                               std::vector<Diagnostic>& errors) {
    try {
        return Settings(text).read();
    } catch (const YamlError& error) {
        Diagnostic fault;
        fault.code = "I001";
        fault.file = file;
        fault.line = error.line;
        fault.column = error.column;
        fault.message =
            fmt::format("not valid YAML at line {}, column {}", fault.line, fault.column);
        fault.note = error.what();
        errors.push_back(std::move(fault));
        return {};
    }
}

void leave_nulls(std::vector<Setting>& settings, Imported& out) {
    for (const Setting& setting : settings)
        if (setting.value.is_null())
            out.ignored.push_back({setting.key, nullptr, "null: nothing is set"});
    settings.erase(std::remove_if(settings.begin(), settings.end(),
                                  [](const Setting& one) { return one.value.is_null(); }),
                   settings.end());
}

}  // namespace orrery::plan::imports
