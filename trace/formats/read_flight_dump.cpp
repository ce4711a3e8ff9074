#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trace/formats/flight_dump.hpp"
#include "trace/formats/packed_text.hpp"

namespace orrery::trace {
namespace {

using FlightJson = nlohmann::json;

constexpr char kPickle = '\x80';  // begins every pickle since protocol 2
constexpr std::size_t kMostText = std::size_t{1} << 30;

// "…/nccl_trace_rank_3.json.gz": 3.
std::optional<std::int64_t> rank_in_name(const std::string& path) {
    std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    for (const std::string_view ending : {".gz", ".json"})
        if (name.ends_with(ending)) name.remove_suffix(ending.size());
    const std::size_t last = name.find_last_of("0123456789");
    if (last == std::string_view::npos || last + 1 != name.size()) return std::nullopt;
    const std::size_t before = name.find_last_not_of("0123456789");
    const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
    std::int64_t rank = 0;
    const auto [end, fault] = std::from_chars(name.data() + first, name.data() + name.size(), rank);
    return fault == std::errc() && end == name.data() + name.size() ? std::optional(rank)
                                                                    : std::nullopt;
}

class FlightReader {
  public:
    explicit FlightReader(const std::string& path) : path_(path) {}

    FlightDump run() {
        const FlightJson json = parsed();
        if (!json.is_object() || (!json.contains("pg_config") && !json.contains("entries")))
            fail(
                "no dump of PyTorch's flight recorder: it has neither \"pg_config\" nor "
                "\"entries\"");
        dump_.file = path_;
        const auto of_name = rank_in_name(path_);
        if (json.contains("rank"))
            dump_.rank = whole(json, "rank", "");
        else if (of_name)
            dump_.rank = *of_name;
        else
            fail(
                "does not say whose it is: expected a name that ends in the rank, as "
                "nccl_trace_rank_3.json");
        if (json.contains("pg_config")) read_groups(json["pg_config"]);
        if (json.contains("entries")) {  // which is left out where there are none
            if (!json["entries"].is_array()) fail("/entries: expected a list");
            for (std::size_t i = 0; i < json["entries"].size(); ++i)
                read_entry(json["entries"][i], fmt::format("/entries/{}", i));
        }
        return std::move(dump_);
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw TraceFileError(TraceFault::unreadable, path_, what);
    }

    FlightJson parsed() const {
        const std::string text = PackedText(path_).read(kMostText);
        if (text.empty()) fail("byte 0: expected JSON; the file is empty");
        if (text.front() == kPickle)
            fail(
                fmt::format("a pickle, which Python alone reads; this makes JSON of it: python3 "
                            "-c 'import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1],"
                            " \"rb\")), open(sys.argv[1] + \".json\", \"w\"))' {}",
                            path_));
        try {
            return FlightJson::parse(text);
        } catch (const FlightJson::parse_error& error) {
            fail(fmt::format("byte {}: expected sound JSON", error.byte));
        }
    }

    const FlightJson& value(const FlightJson& object, const char* key,
                            const std::string& at) const {
        const auto found = object.find(key);
        if (found == object.end()) fail(fmt::format("{}: expected \"{}\"", at, key));
        return *found;
    }
    std::int64_t whole(const FlightJson& object, const char* key, const std::string& at) const {
        const FlightJson& number = value(object, key, at);
        if (!number.is_number_integer())
            fail(fmt::format("{}/{}: expected a whole number, is {}", at, key, number.dump()));
        return number.get<std::int64_t>();
    }
    std::string text(const FlightJson& object, const char* key, const std::string& at) const {
        const FlightJson& word = value(object, key, at);
        if (!word.is_string())
            fail(fmt::format("{}/{}: expected a text, is {}", at, key, word.dump()));
        return word.get<std::string>();
    }

    void read_groups(const FlightJson& groups) {
        if (!groups.is_object()) fail("/pg_config: expected an object");
        for (const auto& [name, config] : groups.items()) {
            const std::string at = "/pg_config/" + name;
            if (!config.is_object()) fail(at + ": expected an object");
            FlightGroup& group = dump_.groups[name];
            if (config.contains("desc")) group.description = text(config, "desc", at);
            // A list, or the text of one.
            FlightJson ranks = value(config, "ranks", at);
            if (ranks.is_string())
                ranks = FlightJson::parse(ranks.get<std::string>(), nullptr, false);
            const bool sound = ranks.is_array() &&
                               std::all_of(ranks.begin(), ranks.end(), [](const FlightJson& rank) {
                                   return rank.is_number_integer();
                               });
            if (!sound) fail(at + "/ranks: expected a list of ranks");
            for (const FlightJson& rank : ranks)
                group.ranks.push_back(rank.get<std::int64_t>());
            std::sort(group.ranks.begin(), group.ranks.end());
        }
    }

    void read_entry(const FlightJson& entry, const std::string& at) {
        if (!entry.is_object()) fail(at + ": expected an object");
        FlightOp op;
        // Name and description.
        const FlightJson& group = value(entry, "process_group", at);
        const FlightJson& name = group.is_array() && !group.empty() ? group.front() : group;
        if (!name.is_string())
            fail(fmt::format("{}/process_group: expected [name, description], is {}", at,
                             group.dump()));
        op.group = name.get<std::string>();
        op.is_message =
            entry.contains("is_p2p") && entry["is_p2p"].is_boolean() && entry["is_p2p"].get<bool>();
        if (!entry.contains("collective_seq_id"))
            fail(
                fmt::format("{}: expected \"collective_seq_id\": dumps before version 2 do not "
                            "number collectives",
                            at));
        op.seq = whole(entry, op.is_message ? "p2p_seq_id" : "collective_seq_id", at);
        op.name = text(entry, "profiling_name", at);
        if (const std::size_t colon = op.name.find(':'); colon != std::string::npos)
            op.name.erase(0, colon + 1);  // "nccl:"
        const std::string state = text(entry, "state", at);
        const auto known = std::find_if(kFlightStates.begin(), kFlightStates.end(),
                                        [&](FlightState one) { return trace::name(one) == state; });
        if (known == kFlightStates.end())
            fail(
                fmt::format("{}/state: expected \"scheduled\", \"started\" or \"completed\", is "
                            "\"{}\"",
                            at, state));
        op.state = *known;
        op.input_sizes = sizes(entry, "input_sizes", at);
        op.output_sizes = sizes(entry, "output_sizes", at);
        op.input_dtypes = dtypes(entry, "input_dtypes", at);
        op.output_dtypes = dtypes(entry, "output_dtypes", at);
        dump_.ops.push_back(std::move(op));
    }

    std::vector<std::vector<std::int64_t>> sizes(const FlightJson& entry, const char* key,
                                                 const std::string& at) const {
        try {
            return value(entry, key, at).get<std::vector<std::vector<std::int64_t>>>();
        } catch (const FlightJson::exception&) {
            fail(fmt::format("{}/{}: expected lists of whole numbers", at, key));
        }
    }
    std::vector<std::string> dtypes(const FlightJson& entry, const char* key,
                                    const std::string& at) const {
        if (!entry.contains(key)) return {};
        try {
            return entry[key].get<std::vector<std::string>>();
        } catch (const FlightJson::exception&) {
            fail(fmt::format("{}/{}: expected a list of texts", at, key));
        }
    }

    const std::string& path_;
    FlightDump dump_;
};

}  // namespace

FlightDump read_flight_dump(const std::string& path) {
    return FlightReader(path).run();
}

}  // namespace orrery::trace
