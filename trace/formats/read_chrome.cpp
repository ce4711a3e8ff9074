// From JSON to the trace. Events are taken one by one as the parser finishes them; of the document
// only the tables are held.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "trace/formats/chrome.hpp"
#include "trace/formats/tables.hpp"

namespace orrery::trace {
namespace {

using namespace viewer;
using Json = nlohmann::json;

constexpr int kDepth = 16;  // brackets take far more memory than bytes in the file

std::optional<std::int64_t> integer(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return std::nullopt;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() || found->get<std::uint64_t>() <= INT64_MAX);
    if (!fits) throw Unexpected(fmt::format("expected \"{}\" to be an integer", key));
    return found->get<std::int64_t>();
}

class ChromeReader {
  public:
    ChromeReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

    Trace run() {
        try {
            const Json rest =
                Json::parse(bytes_, [this](int depth, Json::parse_event_t event, Json& parsed) {
                    return keep(depth, event, parsed);
                });
            if (!rest.is_object()) throw Unexpected("expected an object");
            if (!assembler_) throw Unexpected("expected \"orrery\", the data of an orrery trace");
            place_.clear();
            return assembler_->finish();
        } catch (const Unexpected& fault) {
            fail(fmt::format("{}{}{}", place_, place_.empty() ? "" : ": ", fault.what()));
        } catch (const Json::parse_error& error) {
            fail(fmt::format("byte {}: expected sound JSON", error.byte));
        } catch (const Json::exception&) {
            fail(fmt::format("{}: expected sound JSON", place_));
        }
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw TraceFileError(TraceFault::unreadable, path_, what);
    }

    // Whether the parser is to keep what it has just read.
    bool keep(int depth, Json::parse_event_t event, Json& parsed) {
        using Event = Json::parse_event_t;
        if (depth > kDepth) throw Unexpected("expected lists and objects less deep in each other");
        if (event == Event::key && depth == 1) {
            key_ = parsed.get<std::string>();
            place_ = key_ == "orrery" || key_ == "traceEvents" ? '/' + key_ : "";
            return true;
        }
        if (event == Event::object_end && depth == 1 && key_ == "orrery") {
            if (assembler_) throw Unexpected("expected the data of the trace once");
            assembler_.emplace(read_tables(parsed), bytes_.size());
            return false;
        }
        if (event == Event::object_end && depth == 2 && key_ == "traceEvents") {
            place_ = fmt::format("/traceEvents/{}", events_++);
            take(parsed);
            return false;
        }
        return true;
    }

    void take(const Json& event) {
        if (!assembler_)
            throw Unexpected("expected \"orrery\", the data of an orrery trace, before");
        const auto phase = event.find("ph");
        if (phase == event.end() || *phase != "X") return;
        const auto args = event.find("args");
        if (args == event.end() || !args->is_object() || !args->contains("op_id")) return;
        EventFields fields;
        fields.op_id = integer(*args, "op_id");
        fields.ready_ps = integer(*args, "ready_ps");
        fields.start_ps = integer(*args, "start_ps");
        fields.end_ps = integer(*args, "end_ps");
        fields.blocker = integer(*args, "blocker").value_or(kNothing);
        fields.late_track = integer(*args, "late_track").value_or(-1);
        assembler_->add(assembler_->track_of(integer(event, "pid").value_or(-1)), fields);
    }

    std::string_view bytes_;
    const std::string& path_;
    std::string key_;    // of the outermost object, under way
    std::string place_;  // JSON pointer
    std::size_t events_ = 0;
    std::optional<Assembler> assembler_;
};

}  // namespace

Trace read_chrome(std::string_view bytes, const std::string& path) {
    return ChromeReader(bytes, path).run();
}

}  // namespace orrery::trace
