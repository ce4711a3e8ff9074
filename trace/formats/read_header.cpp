#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trace/formats/native_header.hpp"
#include "trace/formats/storage_facts.hpp"
#include "trace/sound.hpp"

namespace orrery::trace::native {
namespace {

using Json = nlohmann::json;

class HeaderReader {
  public:
    explicit HeaderReader(const UnpackedFrame& frame) : frame_(frame) {}

    NativeHeader run() const {
        if (frame_.bytes.size() > kHeaderLimitBytes)
            fail(fmt::format("a header of at most {} bytes, found {}", kHeaderLimitBytes,
                             frame_.bytes.size()));
        const Json json = Json::parse(frame_.bytes, nullptr, false);
        if (!json.is_object()) fail("a JSON object");
        if (text(json, "format") != kFormat) fail(fmt::format("\"format\" to be \"{}\"", kFormat));
        NativeHeader header;
        const std::string& origin = text(json, "origin");
        if (origin == "measured")
            header.origin = Origin::measured;
        else if (origin != "predicted")
            fail("\"origin\" to be \"predicted\" or \"measured\"");
        header.step_start = integer(json, "step_start_ps", -kTimeLimit, kTimeLimit);
        header.step_end = integer(json, "step_end_ps", header.step_start, kTimeLimit);
        const Json& counts = member(json, "counts");
        header.ops = count(counts, "ops");
        header.programs = count(counts, "programs");
        header.tracks = count(counts, "tracks");
        header.events = count(counts, "events");
        const Json& names = member(json, "names");
        header.kinds = values<plan::OpKind>(names, "kind");
        header.phases = values<plan::Phase>(names, "phase");
        header.streams = values<plan::Stream>(names, "stream");
        header.groups = values<plan::GroupKind>(names, "group");
        if (json.contains("storage")) {
            const auto storage = storage_facts_of(json["storage"]);
            if (!storage) fail("\"storage\" to be sizes and times");
            header.storage = *storage;
        }
        return header;
    }

  private:
    [[noreturn]] void fail(const std::string& expected) const {
        frame_.reader().fail("in the header " + expected);
    }

    const Json& member(const Json& object, const char* key) const {
        if (!object.is_object() || !object.contains(key)) fail(fmt::format("\"{}\"", key));
        return object.at(key);
    }

    const std::string& text(const Json& object, const char* key) const {
        const Json& value = member(object, key);
        if (!value.is_string()) fail(fmt::format("\"{}\" to be a string", key));
        return value.get_ref<const std::string&>();
    }

    std::int64_t integer(const Json& object, const char* key, std::int64_t least,
                         std::int64_t most) const {
        const Json& value = member(object, key);
        const bool fits = value.is_number_integer() &&
                          (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
        if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
            fail(fmt::format("\"{}\" to be an integer from {} to {}", key, least, most));
        return value.get<std::int64_t>();
    }

    std::uint64_t count(const Json& counts, const char* key) const {
        return static_cast<std::uint64_t>(integer(counts, key, 0, INT64_MAX));
    }

    template <typename Enum>
    std::vector<Enum> values(const Json& names, const char* key) const {
        const Json& list = member(names, key);
        if (!list.is_array()) fail(fmt::format("\"{}\" to be a list", key));
        std::vector<Enum> result;
        for (const Json& name : list) {
            const auto value = name.is_string()
                                   ? plan::from_name<Enum>(name.get_ref<const std::string&>())
                                   : std::nullopt;
            if (!value) fail(fmt::format("a known {}, found {}", key, printed(name)));
            result.push_back(*value);
        }
        return result;
    }

    static std::string printed(const Json& value) {
        return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 64);
    }

    const UnpackedFrame& frame_;
};

}  // namespace

NativeHeader read_header(const UnpackedFrame& frame) {
    return HeaderReader(frame).run();
}

}  // namespace orrery::trace::native
