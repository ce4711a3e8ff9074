// What a viewer would show of a Perfetto or a Chrome file, decoded without the program's help: the
// protobuf by walking its varints, the JSON by a parser of the whole document.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::trace {

struct ShownSlice {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::string name, categories;
    std::map<std::string, std::int64_t> numbers;
    std::map<std::string, std::string> texts;
    std::vector<std::uint64_t> arrows_out, arrows_in;
};

struct ShownTrack {
    std::string name;
    std::int64_t order = 0;
    std::vector<ShownSlice> slices;                             // in order of the file
    std::vector<std::pair<std::int64_t, std::int64_t>> counts;  // ns, value
};

struct ShownRank {
    std::string name;
    std::int64_t pid = 0, order = 0;
    std::vector<ShownTrack> tracks;  // in order of the file
};

struct Shown {
    std::vector<ShownRank> ranks;
    ShownSlice step;
};

// One protobuf message, by field number: varints and doubles as numbers, the rest as bytes.
struct Message {
    std::multimap<std::uint64_t, std::uint64_t> numbers;
    std::multimap<std::uint64_t, std::string> bytes;

    explicit Message(std::string_view text) {
        std::size_t at = 0;
        const auto varint = [&] {
            std::uint64_t value = 0;
            for (int shift = 0;; shift += 7) {
                const auto byte = static_cast<unsigned char>(text.at(at++));
                value |= std::uint64_t{byte & 0x7fU} << shift;
                if (byte < 0x80) return value;
            }
        };
        while (at < text.size()) {
            const std::uint64_t key = varint();
            if ((key & 7) == 0) {
                numbers.emplace(key >> 3, varint());
            } else if ((key & 7) == 1) {
                std::uint64_t value = 0;
                std::memcpy(&value, text.substr(at, 8).data(), 8);
                numbers.emplace(key >> 3, value);
                at += 8;
            } else if ((key & 7) == 2) {
                const std::uint64_t size = varint();
                if (size > text.size() - at) throw std::runtime_error("field beyond its message");
                bytes.emplace(key >> 3, std::string(text.substr(at, size)));
                at += size;
            } else {
                throw std::runtime_error("wire type that nobody writes");
            }
        }
    }
    bool has(std::uint64_t field) const { return numbers.count(field) + bytes.count(field) > 0; }
    std::uint64_t number(std::uint64_t field) const {
        const auto found = numbers.find(field);
        return found == numbers.end() ? 0 : found->second;
    }
    std::string text(std::uint64_t field) const {
        const auto found = bytes.find(field);
        return found == bytes.end() ? "" : found->second;
    }
    std::vector<std::uint64_t> all_numbers(std::uint64_t field) const {
        std::vector<std::uint64_t> all;
        for (auto [at, end] = numbers.equal_range(field); at != end; ++at)
            all.push_back(at->second);
        return all;
    }
    std::vector<Message> all_messages(std::uint64_t field) const {
        std::vector<Message> all;
        for (auto [at, end] = bytes.equal_range(field); at != end; ++at)
            all.emplace_back(at->second);
        return all;
    }
};

// Field numbers as in perfetto's trace_packet.proto, track_event.proto, track_descriptor.proto,
// debug_annotation.proto and interned_data.proto.
class PerfettoDecoder {
  public:
    Shown run(const std::string& file) {
        for (const Message& packet : Message(file).all_messages(1)) {
            EXPECT_EQ(packet.number(10), 1U);                // one sequence,
            EXPECT_EQ(packet.number(13), first_ ? 1U : 2U);  // whose first packet clears its state
            first_ = false;
            for (const Message& interned : packet.all_messages(12)) {
                intern(interned, 1, categories_);
                intern(interned, 2, names_);
                intern(interned, 3, notes_);
                intern(interned, 29, strings_);
            }
            for (const Message& descriptor : packet.all_messages(60))
                describe(descriptor);
            for (const Message& event : packet.all_messages(11))
                add(static_cast<std::int64_t>(packet.number(8)), event);
        }
        for (const auto& [uuid, open] : open_)
            EXPECT_FALSE(open) << "a slice of track " << uuid << " never ends";
        return std::move(shown_);
    }

  private:
    using Texts = std::map<std::uint64_t, std::string>;

    static void intern(const Message& interned, std::uint64_t field, Texts& texts) {
        for (const Message& entry : interned.all_messages(field)) {
            EXPECT_NE(entry.number(1), 0U);
            EXPECT_TRUE(texts.emplace(entry.number(1), entry.text(2)).second) << "interned twice";
        }
    }

    void describe(const Message& descriptor) {
        const std::uint64_t uuid = descriptor.number(1);
        if (uuid == 0) {
            EXPECT_EQ(descriptor.number(19), 1U);  // processes in our order
            return;
        }
        EXPECT_TRUE(places_.try_emplace(uuid).second) << "uuid twice";
        const auto order = static_cast<std::int64_t>(descriptor.number(12));
        if (descriptor.has(3)) {
            const Message process(descriptor.text(3));
            EXPECT_EQ(process.text(6), descriptor.text(2));
            EXPECT_EQ(descriptor.number(11), 3U);  // its tracks in our order
            shown_.ranks.push_back(
                {descriptor.text(2), static_cast<std::int64_t>(process.number(1)), order, {}});
            places_[uuid] = {shown_.ranks.size(), 0};
        } else if (descriptor.has(5)) {
            const std::size_t rank = places_.at(descriptor.number(5)).first;
            auto& tracks = shown_.ranks.at(rank - 1).tracks;
            tracks.push_back({descriptor.text(2), order, {}, {}});
            if (tracks.back().name == "planned memory") {
                EXPECT_EQ(Message(descriptor.text(8)).number(3), 3U);  // bytes
            }
            places_[uuid] = {rank, tracks.size()};
        } else {
            globals_[uuid] = descriptor.text(2);
        }
    }

    void add(std::int64_t ns, const Message& event) {
        const std::uint64_t uuid = event.number(11);
        ASSERT_EQ(places_.count(uuid), 1U) << "event before its track's description";
        const auto [rank, position] = places_.at(uuid);
        if (rank == 0) {
            if (globals_.at(uuid) != "step") return;
            if (event.number(9) == 1) {
                shown_.step = slice(ns, event);
                open_[uuid] = true;
            } else {
                shown_.step.end_ns = ns;
                open_[uuid] = false;
            }
            return;
        }
        ShownTrack& track = shown_.ranks[rank - 1].tracks.at(position - 1);
        if (event.number(9) == 4) {
            track.counts.emplace_back(ns, static_cast<std::int64_t>(event.number(30)));
        } else if (event.number(9) == 1) {
            EXPECT_FALSE(open_[uuid]) << "begins inside another";
            open_[uuid] = true;
            track.slices.push_back(slice(ns, event));
        } else {
            ASSERT_EQ(event.number(9), 2U);
            EXPECT_TRUE(open_[uuid]) << "ends without having begun";
            open_[uuid] = false;
            track.slices.back().end_ns = ns;
            track.slices.back().arrows_in = event.all_numbers(48);
        }
    }

    ShownSlice slice(std::int64_t ns, const Message& event) const {
        ShownSlice slice;
        slice.begin_ns = ns;
        slice.name = names_.at(event.number(10));
        for (const std::uint64_t iid : event.all_numbers(3))
            slice.categories += (slice.categories.empty() ? "" : ",") + categories_.at(iid);
        slice.arrows_out = event.all_numbers(47);
        for (const Message& note : event.all_messages(4)) {
            const std::string& name = notes_.at(note.number(1));
            if (note.has(17))
                slice.texts[name] = strings_.at(note.number(17));
            else if (note.has(6))
                slice.texts[name] = note.text(6);
            else if (note.has(4))
                slice.numbers[name] = static_cast<std::int64_t>(note.number(4));
        }
        return slice;
    }

    Shown shown_;
    Texts categories_, names_, notes_, strings_;
    std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> places_;  // both from 1
    std::map<std::uint64_t, std::string> globals_;
    std::map<std::uint64_t, bool> open_;
    bool first_ = true;
};

class ChromeDecoder {
  public:
    Shown run(const std::string& file) {
        const auto document = nlohmann::json::parse(file);
        for (const auto& event : document.at("traceEvents")) {
            const std::string phase = event.at("ph");
            if (event.at("pid") == 0) {
                if (phase == "X") shown_.step = slice(event);
            } else if (phase == "M") {
                describe(event);
            } else {
                add(phase, event);
            }
        }
        return std::move(shown_);
    }

  private:
    // Viewers count in nanoseconds; three digits of a microsecond are exact.
    static std::int64_t ns(const nlohmann::json& us) {
        return std::llround(us.get<double>() * 1000);
    }

    void describe(const nlohmann::json& event) {
        const std::string what = event.at("name");
        if (what == "process_name")
            shown_.ranks.push_back({event.at("args").at("name"), event.at("pid"), 0, {}});
        ShownRank& rank = shown_.ranks.back();
        EXPECT_EQ(rank.pid, event.at("pid"));
        if (what == "process_sort_index") rank.order = event.at("args").at("sort_index");
        if (what == "thread_name")
            rank.tracks.push_back({event.at("args").at("name"), event.at("tid"), {}, {}});
        if (what == "thread_sort_index")
            rank.tracks.back().order = event.at("args").at("sort_index");
    }

    void add(const std::string& phase, const nlohmann::json& event) {
        ShownRank& rank = shown_.ranks.back();
        ASSERT_EQ(rank.pid, event.at("pid"));
        if (phase == "C") {
            if (rank.tracks.back().name != event.at("name"))
                rank.tracks.push_back(
                    {event.at("name"), static_cast<std::int64_t>(rank.tracks.size()) + 1, {}, {}});
            rank.tracks.back().counts.emplace_back(ns(event.at("ts")),
                                                   event.at("args").at("bytes"));
            return;
        }
        ShownTrack& track = rank.tracks.back();
        ASSERT_EQ(track.order, event.at("tid"));
        if (phase == "X") {
            track.slices.push_back(slice(event));
            return;
        }
        // An arrow's end lies inside its slice, which stands before it.
        ShownSlice& slice = track.slices.back();
        EXPECT_GE(ns(event.at("ts")), slice.begin_ns);
        EXPECT_LE(ns(event.at("ts")), slice.end_ns);
        (phase == "s" ? slice.arrows_out : slice.arrows_in).push_back(event.at("id"));
        if (phase == "s") return;
        ASSERT_EQ(phase, "f");
        EXPECT_EQ(event.at("bp"), "e");
    }

    static ShownSlice slice(const nlohmann::json& event) {
        ShownSlice slice;
        slice.begin_ns = ns(event.at("ts"));
        slice.end_ns = slice.begin_ns + ns(event.at("dur"));
        slice.name = event.at("name");
        slice.categories = event.value("cat", "");
        for (const auto& [key, value] : event.at("args").items()) {
            if (value.is_string())
                slice.texts[key] = value;
            else if (value.is_number_integer())
                slice.numbers[key] = value;
        }
        return slice;
    }

    Shown shown_;
};

}  // namespace orrery::trace
