// Events are taken one by one as the parser finishes them: nothing of the document is held.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trace/formats/chrome.hpp"
#include "trace/formats/kineto.hpp"
#include "trace/formats/packed_text.hpp"
#include "trace/formats/recorder.hpp"

namespace orrery::trace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestDims = 4096;
constexpr int kMostBrackets = 64;  // of brackets: what is deeper is no trace

// "12.3456789" as whole microseconds and picoseconds; nothing where it has an exponent, or is none.
std::optional<std::pair<std::int64_t, std::int64_t>> microseconds(const std::string& text) {
    constexpr int kDigits = 6;  // of a picosecond in a microsecond
    const std::size_t point = std::min(text.find('.'), text.size());
    std::int64_t whole = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + point, whole);
    if (fault != std::errc() || end != text.data() + point) return std::nullopt;
    std::int64_t part = 0;
    for (std::size_t i = 0; i < kDigits; ++i) {
        const std::size_t at = point + 1 + i;
        const char digit = at < text.size() ? text[at] : '0';
        if (digit < '0' || digit > '9') return std::nullopt;
        part = part * 10 + (digit - '0');
    }
    if (text.find_first_of("eE") != std::string::npos) return std::nullopt;
    return std::pair(whole, text.starts_with('-') ? -part : part);
}

// The handler of nlohmann's parser. An event is an object in the list of events, which is the
// document itself or its "traceEvents".
class KinetoHandler : public nlohmann::json_sax<Json> {
  public:
    KinetoHandler(const std::string& path, bool with_arguments)
        : path_(path), with_arguments_(with_arguments), recorder_(with_arguments) {}

    RecordedTrace finish() {
        if (!has_list_) fail("expected \"traceEvents\", a list of events");
        RecordedTrace trace = recorder_.finish();
        trace.rank = rank_;
        trace.world_size = world_size_;
        trace.group_sizes.assign(group_sizes_.begin(), group_sizes_.end());
        trace.device = std::move(device_);
        return trace;
    }

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t value) override {
        if (is_dims()) add_dim(std::to_string(value));
        if (is_wanted()) take_number(std::to_string(value), value);
        return true;
    }
    bool number_unsigned(number_unsigned_t value) override {
        if (is_dims()) add_dim(std::to_string(value));
        if (!in_list_ && depth_ == 2 && top_ == "distributedInfo") {
            if (key_ == "rank") rank_ = static_cast<std::int64_t>(value);
            if (key_ == "world_size") world_size_ = static_cast<std::int64_t>(value);
        }
        if (!in_list_ && top_ == "distributedInfo" && key_ == "pg_size")
            group_sizes_.insert(static_cast<std::int64_t>(value));
        if (is_wanted())
            take_number(std::to_string(value),
                        value <= INT64_MAX ? std::optional<std::int64_t>(value) : std::nullopt);
        return true;
    }
    bool number_float(number_float_t value, const string_t& text) override {
        if (!is_wanted()) return true;
        // With an exponent: as near as the number itself is.
        const bool plain = text.find_first_of("eE") == std::string::npos;
        take_number(plain ? text : fmt::format("{:.6f}", value), std::nullopt);
        return true;
    }
    bool string(string_t& value) override {
        if (!in_list_ && depth_ == 3 && top_ == "deviceProperties" && key_ == "name" &&
            device_.empty())
            device_ = value;
        if (is_wanted()) take_text(value);
        if (is_input_type() && event_.arguments.dtype.empty() && is_of_tensor(value))
            event_.arguments.dtype = value;
        return true;
    }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override {
        deeper();
        if (in_list_ && depth_ == event_depth_) {
            event_ = {};
            key_.clear();
            in_args_ = false;
        } else if (in_list_ && depth_ == event_depth_ + 1) {
            in_args_ = key_ == "args";
        }
        return true;
    }
    bool end_object() override {
        if (in_list_ && depth_ == event_depth_) {
            if (const std::string why = recorder_.add(event_); !why.empty()) fail(why);
            ++events_;
        }
        if (depth_ == event_depth_ + 1) in_args_ = false;
        --depth_;
        return true;
    }
    bool start_array(std::size_t) override {
        deeper();
        const bool is_list = depth_ == 1 || (depth_ == 2 && key_ == "traceEvents");
        if (is_list && !in_list_) {
            in_list_ = has_list_ = true;
            list_depth_ = depth_;
            event_depth_ = depth_ + 1;
        }
        if (is_dims()) open_dims();
        return true;
    }
    bool end_array() override {
        if (is_dims()) event_.arguments.input_dims += ']';
        if (in_list_ && depth_ == list_depth_) in_list_ = false;
        --depth_;
        return true;
    }
    bool key(string_t& value) override {
        key_ = value;
        if (depth_ == 1) top_ = value;
        return true;
    }
    bool parse_error(std::size_t position, const std::string& /*last*/,
                     const nlohmann::detail::exception& /*error*/) override {
        throw TraceFileError(
            TraceFault::unreadable, path_,
            fmt::format("byte {}: expected sound JSON{}", position,
                        in_list_ ? fmt::format(", in /traceEvents/{}", events_) : std::string()));
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw TraceFileError(TraceFault::unreadable, path_,
                             in_list_ ? fmt::format("/traceEvents/{}: {}", events_, what) : what);
    }

    void deeper() {
        if (++depth_ > kMostBrackets) fail("expected lists and objects less deep in each other");
    }

    // Within the lists of "Input Dims" of an event's arguments.
    bool is_dims() const {
        return with_arguments_ && in_list_ && in_args_ && depth_ > event_depth_ + 1 &&
               key_ == "Input Dims" && event_.arguments.input_dims.size() < kLongestDims;
    }
    bool is_input_type() const {
        return with_arguments_ && in_list_ && in_args_ && depth_ > event_depth_ + 1 &&
               key_ == "Input type";
    }
    // Of "Input type": others are of numbers and of lists.
    static bool is_of_tensor(std::string_view type) {
        return !type.empty() && !type.starts_with("Scalar") && type != "TensorList";
    }
    void separate_dims() {
        std::string& dims = event_.arguments.input_dims;
        if (!dims.empty() && dims.back() != '[') dims += ',';
    }
    void open_dims() {
        separate_dims();
        event_.arguments.input_dims += '[';
    }
    void add_dim(const std::string& number) {
        separate_dims();
        event_.arguments.input_dims += number;
    }

    // A value of an event, or of its arguments.
    bool is_wanted() const {
        return in_list_ && (depth_ == event_depth_ || (in_args_ && depth_ == event_depth_ + 1));
    }

    void take_number(const std::string& text, std::optional<std::int64_t> whole) {
        if (in_args_) {
            if (key_ == "stream") event_.stream = whole;
            if (key_ == "correlation") event_.correlation = whole;
            if (key_ == "sort_index") event_.sort_index = whole;
            if (!with_arguments_ || !whole) return;
            if (key_ == "In msg nelems") event_.arguments.in_elements = *whole;
            if (key_ == "Out msg nelems") event_.arguments.out_elements = *whole;
            if (key_ == "Group size") event_.arguments.group_size = *whole;
            return;
        }
        if (key_ == "ts") event_.start = time_of(text);
        if (key_ == "dur") event_.duration = time_of(text);
        if (key_ == "pid") event_.process = text;
        if (key_ == "tid") event_.thread = text;
    }

    std::pair<std::int64_t, std::int64_t> time_of(const std::string& text) const {
        const auto time = microseconds(text);
        if (!time) fail(fmt::format("expected \"{}\" to be a number of microseconds", key_));
        return *time;
    }

    void take_text(std::string& value) {
        if (in_args_) {
            if (key_ == "name") event_.given_name = std::move(value);
            if (key_ == "labels") event_.labels = std::move(value);
            if (!with_arguments_) return;
            if (key_ == "Collective name") event_.arguments.collective = std::move(value);
            if (key_ == "dtype") event_.arguments.dtype = std::move(value);
            return;
        }
        if (key_ == "ph") event_.phase = std::move(value);
        if (key_ == "cat") event_.category = std::move(value);
        if (key_ == "name") event_.name = std::move(value);
        if (key_ == "pid") event_.process = std::move(value);
        if (key_ == "tid") event_.thread = std::move(value);
    }

    const std::string& path_;
    bool with_arguments_;
    Recorder recorder_;
    RecordedEvent event_;
    std::string key_, top_;
    std::int64_t rank_ = -1, world_size_ = 0;
    std::set<std::int64_t> group_sizes_;
    std::string device_;
    int depth_ = 0, list_depth_ = 0, event_depth_ = 0;
    bool in_list_ = false, has_list_ = false, in_args_ = false;
    std::size_t events_ = 0;
};

}  // namespace

RecordedTrace read_kineto(const std::string& path, bool with_arguments) {
    PackedText text(path);
    KinetoHandler handler(path, with_arguments);
    Json::sax_parse(PackedText::Iterator(text), PackedText::Iterator(), &handler);
    return handler.finish();
}

bool begins_as_kineto(const std::string& path) {
    constexpr std::size_t kHead = std::size_t{1} << 16;  // descriptions of devices come first
    std::string head;
    try {
        head = PackedText(path).read(kHead);
    } catch (const TraceFileError&) {
        return false;
    }
    const std::size_t first = head.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || head.starts_with(kChromeBegin)) return false;
    if (head[first] == '[') return head.find("\"ph\"") != std::string::npos;
    if (head[first] != '{') return false;
    return head.find("\"traceEvents\"") != std::string::npos ||
           head.find("\"deviceProperties\"") != std::string::npos;
}

}  // namespace orrery::trace
