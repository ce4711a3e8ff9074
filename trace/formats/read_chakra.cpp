#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <system_error>
#include <unordered_map>

#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "plan/ir/kinds.hpp"
#include "trace/formats/chakra.hpp"
#include "trace/formats/chakra_fields.hpp"

namespace orrery::trace {
namespace chakra {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr std::uint64_t kMostMicros = 4'000'000'000'000;  // 46 days, in picoseconds well below 2^63
constexpr std::uint32_t kNoNode = kNoSpan;

// A value of an attribute; lists are left out.
struct Value {
    std::optional<std::int64_t> whole;
    std::string text;
};

struct ReadNode {
    std::uint64_t id = 0;
    std::string name;
    NodeType type = NodeType::invalid;
    std::vector<std::uint64_t> ctrl_deps, data_deps;
    std::uint64_t start_us = 0, duration_us = 0;
    std::string input_values, input_shapes, input_types, output_shapes;
    std::map<std::string, Value, std::less<>> attributes;
    std::uint64_t byte = 0;  // of the file, where it begins

    Picoseconds start = -1, end = 0;

    std::optional<std::int64_t> whole(std::string_view attribute) const {
        const auto found = attributes.find(attribute);
        return found == attributes.end() ? std::nullopt : found->second.whole;
    }
    std::string text(std::string_view attribute) const {
        const auto found = attributes.find(attribute);
        return found == attributes.end() ? std::string() : found->second.text;
    }
    bool is_communication() const {
        return type == NodeType::comm_coll || type == NodeType::comm_send ||
               type == NodeType::comm_recv;
    }
    // Without the attribute it is a device's, as Chakra's own reader takes it.
    bool is_of_device() const {
        return type != NodeType::metadata && type != NodeType::invalid &&
               (is_communication() || whole(kIsCpuOp).value_or(0) == 0);
    }
};

// How the values of an attribute are written; none: it is a list, which is left out.
std::optional<pbf_wire_type> wire_type_of(Attribute field) {
    switch (field) {
        case Attribute::double_value:
            return pbf_wire_type::fixed64;
        case Attribute::float_value:
            return pbf_wire_type::fixed32;
        case Attribute::name:
        case Attribute::string_value:
            return pbf_wire_type::length_delimited;
        case Attribute::int32_value:
        case Attribute::int64_value:
        case Attribute::uint32_value:
        case Attribute::uint64_value:
        case Attribute::sint32_value:
        case Attribute::sint64_value:
        case Attribute::bool_value:
            return pbf_wire_type::varint;
    }
    return std::nullopt;
}

// A field that is there, but not as the schema writes it.
struct OtherWireType : protozero::exception {
    const char* what() const noexcept override { return "a field of another wire type"; }
};

void require_wire_type(const pbf_reader& reader, pbf_wire_type type) {
    if (reader.wire_type() != type) throw OtherWireType();
}

// A number of any type; what a double says beyond its whole part is left out.
std::int64_t read_whole(pbf_reader& reader, Attribute field) {
    constexpr double kMost = 9e18;
    const auto whole = [&](double value) {
        return value > -kMost && value < kMost ? static_cast<std::int64_t>(value) : 0;
    };
    switch (field) {
        case Attribute::double_value:
            return whole(reader.get_double());
        case Attribute::float_value:
            return whole(static_cast<double>(reader.get_float()));
        case Attribute::int32_value:
            return reader.get_int32();
        case Attribute::uint32_value:
            return reader.get_uint32();
        case Attribute::uint64_value:
            return static_cast<std::int64_t>(reader.get_uint64());
        case Attribute::sint32_value:
            return reader.get_sint32();
        case Attribute::sint64_value:
            return reader.get_sint64();
        case Attribute::bool_value:
            return reader.get_bool() ? 1 : 0;
        default:
            return reader.get_int64();
    }
}

void read_attribute(pbf_reader reader, std::map<std::string, Value, std::less<>>& attributes) {
    std::string name;
    Value value;
    while (reader.next()) {
        const auto field = static_cast<Attribute>(reader.tag());
        const std::optional<pbf_wire_type> type = wire_type_of(field);
        if (!type) {
            reader.skip();
            continue;
        }
        require_wire_type(reader, *type);
        if (field == Attribute::name)
            name = reader.get_string();
        else if (field == Attribute::string_value)
            value.text = reader.get_string();
        else
            value.whole = read_whole(reader, field);
    }
    attributes[std::move(name)] = std::move(value);
}

// Packed, or one by one: readers of protobuf take either.
void read_ids(pbf_reader& reader, std::vector<std::uint64_t>& ids) {
    if (reader.wire_type() == pbf_wire_type::varint) {
        ids.push_back(reader.get_uint64());
        return;
    }
    require_wire_type(reader, pbf_wire_type::length_delimited);
    for (const std::uint64_t id : reader.get_packed_uint64())
        ids.push_back(id);
}

void require_node_field(const pbf_reader& reader, NodeField field) {
    switch (field) {
        case NodeField::id:
        case NodeField::type:
        case NodeField::start_time_micros:
        case NodeField::duration_micros:
            return require_wire_type(reader, pbf_wire_type::varint);
        case NodeField::name:
        case NodeField::inputs:
        case NodeField::outputs:
        case NodeField::attribute:
            return require_wire_type(reader, pbf_wire_type::length_delimited);
        case NodeField::ctrl_deps:
        case NodeField::data_deps:
            return;  // of either
    }
}

void read_inputs(pbf_reader reader, ReadNode& node) {
    while (reader.next()) {
        std::string* text = nullptr;
        switch (static_cast<InputOutput>(reader.tag())) {
            case InputOutput::values:
                text = &node.input_values;
                break;
            case InputOutput::shapes:
                text = &node.input_shapes;
                break;
            case InputOutput::types:
                text = &node.input_types;
                break;
        }
        if (text == nullptr) {
            reader.skip();
            continue;
        }
        require_wire_type(reader, pbf_wire_type::length_delimited);
        *text = reader.get_string();
    }
}

void read_outputs(pbf_reader reader, ReadNode& node) {
    while (reader.next()) {
        if (static_cast<InputOutput>(reader.tag()) != InputOutput::shapes) {
            reader.skip();
            continue;
        }
        require_wire_type(reader, pbf_wire_type::length_delimited);
        node.output_shapes = reader.get_string();
    }
}

ReadNode read_node(pbf_reader reader) {
    ReadNode node;
    while (reader.next()) {
        const auto field = static_cast<NodeField>(reader.tag());
        require_node_field(reader, field);
        switch (field) {
            case NodeField::id:
                node.id = reader.get_uint64();
                break;
            case NodeField::name:
                node.name = reader.get_string();
                break;
            case NodeField::type:
                node.type = static_cast<NodeType>(reader.get_enum());
                break;
            case NodeField::ctrl_deps:
                read_ids(reader, node.ctrl_deps);
                break;
            case NodeField::data_deps:
                read_ids(reader, node.data_deps);
                break;
            case NodeField::start_time_micros:
                node.start_us = reader.get_uint64();
                break;
            case NodeField::duration_micros:
                node.duration_us = reader.get_uint64();
                break;
            case NodeField::inputs:
                read_inputs(reader.get_message(), node);
                break;
            case NodeField::outputs:
                read_outputs(reader.get_message(), node);
                break;
            case NodeField::attribute:
                read_attribute(reader.get_message(), node.attributes);
                break;
            default:
                reader.skip();
        }
    }
    return node;
}

class ChakraReader {
  public:
    explicit ChakraReader(const std::string& path) : path_(path) {}

    RecordedTrace run() {
        read_file();
        find_deps();
        give_times();
        trace_.rank = metadata("rank").value_or(rank_of_name());
        trace_.world_size = metadata("world_size").value_or(0);
        const bool has_device = std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
            return node.is_of_device() && node.end > node.start;
        });
        make_process(has_device);
        return std::move(trace_);
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw TraceFileError(TraceFault::unreadable, path_, what);
    }

    void read_file() {
        struct stat status {};
        if (::stat(path_.c_str(), &status) != 0)
            fail("cannot be opened: " + std::generic_category().message(errno));
        if (!S_ISREG(status.st_mode)) fail("is not a regular file");
        std::ifstream file(path_, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        if (file.bad() || (!file && !file.eof())) fail("cannot be read");
        if (bytes.empty()) fail("byte 0: expected the length of a message; the file is empty");
        std::size_t at = 0;
        for (std::size_t number = 0; at < bytes.size(); ++number) {
            const std::size_t begin = at;
            const std::uint64_t length = read_length(bytes, at);
            if (length > bytes.size() - at)
                fail(
                    fmt::format("byte {}: message {} says that it has {} bytes, and {} are left; "
                                "the file is cut off or no Chakra trace",
                                begin, number, length, bytes.size() - at));
            try {
                const pbf_reader message(bytes.data() + at, length);
                if (number == 0)
                    read_metadata(message);
                else
                    nodes_.push_back(read_node(message));
            } catch (const protozero::exception&) {
                fail(fmt::format("byte {}: message {} is no sound {}", begin, number,
                                 number == 0 ? "GlobalMetadata" : "Node"));
            }
            if (number > 0) nodes_.back().byte = begin;
            at += length;
        }
        if (nodes_.empty()) fail("it has no nodes");
    }

    std::uint64_t read_length(const std::string& bytes, std::size_t& at) const {
        const std::size_t begin = at;
        std::uint64_t length = 0;
        for (unsigned shift = 0; at < bytes.size() && shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(bytes[at++]);
            length |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
            if (byte < 0x80) return length;
        }
        fail(fmt::format("byte {}: expected the length of a message", begin));
    }

    void read_metadata(pbf_reader reader) {
        while (reader.next()) {
            if (reader.tag() != number(Metadata::attribute)) {
                reader.skip();
                continue;
            }
            require_wire_type(reader, pbf_wire_type::length_delimited);
            read_attribute(reader.get_message(), metadata_);
        }
    }

    std::optional<std::int64_t> metadata(std::string_view name) const {
        const auto found = metadata_.find(name);
        return found == metadata_.end() ? std::nullopt : found->second.whole;
    }

    // "….7.et", as simulators expect the file of rank 7.
    std::int64_t rank_of_name() const {
        std::string_view name = path_;
        name.remove_suffix(std::min(name.size(), kChakraEnding.size()));
        const std::size_t point = name.rfind('.');
        if (point == std::string_view::npos) return -1;
        std::int64_t rank = -1;
        const char* const end = name.data() + name.size();
        const auto [stopped, fault] = std::from_chars(name.data() + point + 1, end, rank);
        return fault == std::errc() && stopped == end ? rank : -1;
    }

    void find_deps() {
        std::unordered_map<std::uint64_t, std::uint32_t> of_id;
        for (std::uint32_t i = 0; i < nodes_.size(); ++i)
            if (const auto [other, is_new] = of_id.emplace(nodes_[i].id, i); !is_new)
                fail(fmt::format("byte {}: node {} has the id of the one at byte {}",
                                 nodes_[i].byte, nodes_[i].id, nodes_[other->second].byte));
        parent_.assign(nodes_.size(), kNoNode);
        after_.resize(nodes_.size());
        for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
            const auto add = [&](const std::vector<std::uint64_t>& ids) {
                for (const std::uint64_t id : ids) {
                    const auto found = of_id.find(id);
                    if (found != of_id.end()) after_[i].push_back(found->second);
                }
            };
            add(nodes_[i].data_deps);
            const std::size_t data = after_[i].size();
            add(nodes_[i].ctrl_deps);
            if (after_[i].size() > data) parent_[i] = after_[i][data];
        }
    }

    void give_times() {
        bool any_start = false, any_duration = false;
        for (ReadNode& node : nodes_) {
            const auto picos = node.whole(kDuration);
            if (node.duration_us > kMostMicros || node.start_us > kMostMicros * 1000 ||
                (picos && *picos < 0))
                fail(fmt::format("byte {}: node {} takes or starts at no time of a run", node.byte,
                                 node.id));
            node.end = picos ? *picos : static_cast<Picoseconds>(node.duration_us) * kPsPerMicro;
            any_start = any_start || node.start_us > 0;
            any_duration = any_duration || node.end > 0;
        }
        if (!any_duration)
            fail(
                "its nodes say no durations: what was planned, and neither priced nor measured "
                "(orrery simulate --chakra writes prices)");
        if (any_start)
            take_starts();
        else
            schedule();
    }

    // From the first on, so that a time since 1970 fits.
    void take_starts() {
        std::uint64_t first = UINT64_MAX;
        for (const ReadNode& node : nodes_)
            if (node.end > 0) first = std::min(first, node.start_us);
        for (ReadNode& node : nodes_) {
            const std::uint64_t us = node.start_us < first ? 0 : node.start_us - first;
            if (us > kMostMicros)
                fail(fmt::format("byte {}: node {} starts 46 days after the first", node.byte,
                                 node.id));
            const auto picos = node.whole(kStart);
            node.start = picos ? *picos : static_cast<Picoseconds>(us) * kPsPerMicro;
            node.end += node.start;
        }
    }

    // In the order of the file among those that may start: lanes are in order, too.
    void schedule() {
        std::vector<std::vector<std::uint32_t>> before(nodes_.size());
        std::vector<std::uint32_t> waits(nodes_.size());
        for (std::uint32_t i = 0; i < nodes_.size(); ++i)
            for (const std::uint32_t earlier : after_[i]) {
                before[earlier].push_back(i);
                ++waits[i];
            }
        std::set<std::uint32_t> ready;  // by place in the file
        for (std::uint32_t i = 0; i < nodes_.size(); ++i)
            if (waits[i] == 0) ready.insert(i);
        std::map<std::string, Picoseconds> lane_ends;
        std::size_t done = 0;
        for (; !ready.empty(); ++done) {
            const std::uint32_t i = *ready.begin();
            ready.erase(ready.begin());
            ReadNode& node = nodes_[i];
            Picoseconds start = 0;
            for (const std::uint32_t earlier : after_[i])
                start = std::max(start, nodes_[earlier].end);
            Picoseconds& lane = lane_ends[lane_of(node)];
            node.start = std::max(start, lane);
            lane = node.end += node.start;
            for (const std::uint32_t later : before[i])
                if (--waits[later] == 0) ready.insert(later);
        }
        if (done < nodes_.size()) fail_in_circle(waits);
    }

    [[noreturn]] void fail_in_circle(const std::vector<std::uint32_t>& waits) const {
        const auto stuck = static_cast<std::size_t>(
            std::find_if(waits.begin(), waits.end(), [](std::uint32_t n) { return n > 0; }) -
            waits.begin());
        fail(fmt::format("byte {}: node {} ({}) comes after itself, or after one that does",
                         nodes_[stuck].byte, nodes_[stuck].id, nodes_[stuck].name));
    }

    static std::string lane_of(const ReadNode& node) {
        if (!node.is_of_device()) return fmt::format("thread {}", node.whole(kTid).value_or(0));
        if (const auto stream = node.whole(kStream)) return fmt::format("stream {}", *stream);
        return node.is_communication() ? "communication" : "compute";
    }

    // Of a node and those that called it.
    plan::Phase phase_of(std::uint32_t i) const {
        if (const auto own = plan::from_name<plan::Phase>(nodes_[i].text(kPhase))) return *own;
        constexpr int kDeepest = 10'000;  // callers of callers: a circle ends there
        for (int depth = 0; i != kNoNode && depth < kDeepest; i = parent_[i], ++depth)
            if (const auto phase = phase_named(nodes_[i].name)) return *phase;
        return plan::Phase::forward;
    }

    // "bf16" of ["bf16", "fp32"], and PyTorch's "Tensor(c10::BFloat16)" as it stands.
    static std::string first_type(std::string_view types) {
        const auto list = nlohmann::json::parse(types, nullptr, false);
        return list.is_array() && !list.empty() && list[0].is_string() ? list[0].get<std::string>()
                                                                       : std::string();
    }

    RecordedArguments arguments_of(std::uint32_t i) const {
        const ReadNode& node = nodes_[i];
        RecordedArguments arguments;
        arguments.op_kind = plan::from_name<plan::OpKind>(node.text(kOpKind));
        const auto m = node.whole("m"), n = node.whole("n"), k = node.whole("k");
        const ReadNode& caller = parent_[i] != kNoNode ? nodes_[parent_[i]] : node;
        if (m && n && k) {
            arguments.op = "aten::mm";
            arguments.input_dims = fmt::format("[[{},{}],[{},{}]]", *m, *k, *k, *n);
        } else {
            if (&caller != &node) arguments.op = caller.name;
            arguments.input_dims = caller.input_shapes;
        }
        arguments.output_dims = caller.output_shapes;
        arguments.dtype = first_type(caller.input_types);
        if (!node.is_communication()) return arguments;
        const std::int64_t bytes = node.whole(kCommSize).value_or(-1);
        const auto group = group_size_.find(node.text(kPgName));
        arguments.group_size =
            node.whole(kGroupSize).value_or(group != group_size_.end() ? group->second : -1);
        arguments.dtype = "Byte";
        arguments.in_elements = arguments.out_elements = bytes;
        arguments.collective = "c10d::send";
        if (node.type != NodeType::comm_coll) return arguments;
        const auto type = static_cast<std::size_t>(node.whole(kCommType).value_or(-1));
        arguments.collective = type < kCollectiveNames.size() ? kCollectiveNames[type] : "";
        const bool gathers = type == static_cast<std::size_t>(CollectiveType::all_gather);
        if (gathers && arguments.group_size > 0) arguments.out_elements *= arguments.group_size;
        // Without its members it is not known what they hold together.
        if (gathers && arguments.group_size <= 0)
            arguments.in_elements = arguments.out_elements = -1;
        return arguments;
    }

    // PyTorch's list of its groups, in the node where they are made.
    void read_groups() {
        for (const ReadNode& node : nodes_) {
            if (node.type != NodeType::metadata) continue;
            const std::size_t begin = node.input_values.find("[{"),
                              end = node.input_values.rfind("}]");
            if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
            const auto list = nlohmann::json::parse(
                node.input_values.substr(begin, end + 2 - begin), nullptr, false);
            if (!list.is_array()) continue;
            for (const auto& group : list)
                if (group.is_object() && group.contains("pg_name") && group.contains("ranks") &&
                    group["pg_name"].is_string() && group["ranks"].is_array())
                    group_size_[group["pg_name"].get<std::string>()] =
                        static_cast<std::int64_t>(group["ranks"].size());
        }
    }

    static RecordedKind kind_of(const ReadNode& node, bool of_device) {
        if (!of_device) return RecordedKind::op;
        switch (node.type) {
            case NodeType::comm_coll:
                return RecordedKind::communication;
            case NodeType::comm_send:
            case NodeType::comm_recv:
                return RecordedKind::transfer;
            case NodeType::mem_load:
            case NodeType::mem_store:
                return RecordedKind::copy;
            default:
                return RecordedKind::kernel;
        }
    }

    void make_process(bool of_device) {
        read_groups();
        std::vector<std::uint32_t> order;
        std::optional<std::int64_t> last_op;
        for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
            const ReadNode& node = nodes_[i];
            if (node.is_of_device() != of_device || node.end <= node.start) continue;
            // Messages that were issued as one ran as one.
            const auto op = node.whole(kOp);
            if (op && op == last_op) continue;
            last_op = op;
            order.push_back(i);
        }
        std::map<std::string, std::uint32_t> lane_of_name;
        for (const std::uint32_t i : order)
            lane_of_name.emplace(lane_of(nodes_[i]), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            if (nodes_[a].start != nodes_[b].start) return nodes_[a].start < nodes_[b].start;
            return nodes_[a].end > nodes_[b].end;
        });
        RecordedProcess process;
        process.name = of_device ? "device" : "host";
        process.is_device = of_device;
        for (auto& [name, lane] : lane_of_name) {
            lane = static_cast<std::uint32_t>(process.lanes.size());
            process.lanes.push_back({name, 1});
        }
        std::map<std::string, std::uint32_t> number_of_name;
        const Picoseconds first = order.empty() ? 0 : nodes_[order.front()].start;
        for (const std::uint32_t i : order) {
            const ReadNode& node = nodes_[i];
            RecordedSpan span;
            span.start = node.start - first;
            span.end = node.end - first;
            trace_.end = std::max(trace_.end, span.end);
            const auto [name, is_new] =
                number_of_name.emplace(node.name, static_cast<std::uint32_t>(trace_.names.size()));
            if (is_new) trace_.names.push_back(node.name);
            span.name = name->second;
            span.lane = lane_of_name[lane_of(node)];
            span.kind = kind_of(node, of_device);
            span.phase = phase_of(i);
            process.spans.push_back(span);
            process.arguments.push_back(static_cast<std::uint32_t>(trace_.arguments.size()));
            trace_.arguments.push_back(arguments_of(i));
        }
        trace_.processes.push_back(std::move(process));
    }

    const std::string& path_;
    std::map<std::string, Value, std::less<>> metadata_;
    std::vector<ReadNode> nodes_;
    std::vector<std::vector<std::uint32_t>> after_;
    std::vector<std::uint32_t> parent_;  // of its callers the first, where it has one
    std::map<std::string, std::int64_t> group_size_;
    RecordedTrace trace_;
};

}  // namespace
}  // namespace chakra

RecordedTrace read_chakra(const std::string& path) {
    return chakra::ChakraReader(path).run();
}

bool is_chakra_name(const std::string& path) {
    return path.ends_with(kChakraEnding);
}

}  // namespace orrery::trace
