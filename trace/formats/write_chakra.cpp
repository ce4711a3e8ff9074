#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <system_error>

#include <fmt/format.h>

#include "plan/check.hpp"
#include "trace/atomic_file.hpp"
#include "trace/describe_plan.hpp"
#include "trace/formats/chakra.hpp"
#include "trace/formats/chakra_graph.hpp"

namespace orrery::trace {
namespace chakra {
namespace {

namespace fs = std::filesystem;
using plan::Rank;
using protozero::pbf_writer;

constexpr std::string_view kVersion = "1.0.0";  // of the schema, as its own generator says
constexpr std::size_t kFlush = std::size_t{1} << 20;
constexpr double kBytesPerNode = 310;  // of layers of a transformer: see chakra_test.cpp

// The number of a name "rank.N.et".
std::optional<Rank> rank_of_name(std::string_view name) {
    if (!name.starts_with(kChakraPrefix) || !name.ends_with(kChakraEnding)) return std::nullopt;
    name.remove_prefix(kChakraPrefix.size());
    if (name.size() <= kChakraEnding.size()) return std::nullopt;
    name.remove_suffix(kChakraEnding.size());
    Rank rank = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), rank);
    if (fault != std::errc() || end != name.data() + name.size() || rank < 0) return std::nullopt;
    return rank;
}

// A length before each message, as protobuf's delimited streams have it.
class Messages {
  public:
    explicit Messages(const std::string& path) : file_(path) {}

    void add(const std::string& message) {
        for (std::size_t size = message.size();; size >>= 7) {
            const auto low = static_cast<unsigned char>(size & 0x7F);
            out_ += static_cast<char>(size > 0x7F ? low | 0x80 : low);
            if (size <= 0x7F) break;
        }
        out_ += message;
        if (out_.size() < kFlush) return;
        file_.append(out_);
        out_.clear();
    }
    std::uint64_t finish() {
        file_.append(out_);
        file_.commit();
        return file_.size();
    }

  private:
    native::AtomicFile file_;
    std::string out_;
};

class Attributes {
  public:
    explicit Attributes(pbf_writer& node, std::uint32_t field) : node_(node), field_(field) {}

    void whole(std::string_view name, std::int64_t value) {
        add(name, [&](pbf_writer& w) { w.add_int64(number(Attribute::int64_value), value); });
    }
    void natural(std::string_view name, std::int64_t value) {
        add(name, [&](pbf_writer& w) {
            w.add_uint64(number(Attribute::uint64_value), static_cast<std::uint64_t>(value));
        });
    }
    void small(std::string_view name, std::int64_t value) {
        add(name, [&](pbf_writer& w) {
            w.add_int32(number(Attribute::int32_value), static_cast<std::int32_t>(value));
        });
    }
    void truth(std::string_view name, bool value) {
        add(name, [&](pbf_writer& w) { w.add_bool(number(Attribute::bool_value), value); });
    }
    void text(std::string_view name, std::string_view value) {
        add(name, [&](pbf_writer& w) {
            w.add_string(number(Attribute::string_value), value.data(), value.size());
        });
    }

  private:
    template <typename Value>
    void add(std::string_view name, const Value& value) {
        bytes_.clear();
        pbf_writer writer(bytes_);
        writer.add_string(number(Attribute::name), name.data(), name.size());
        value(writer);
        node_.add_message(field_, bytes_);
    }

    pbf_writer& node_;
    std::uint32_t field_;
    std::string bytes_;
};

std::string shapes_text(const plan::Block& block, const std::vector<plan::TensorId>& tensors) {
    std::string text = "[";
    for (const plan::TensorId id : tensors) {
        const plan::Tensor& tensor = block.tensors[static_cast<std::size_t>(id)];
        text += text.size() > 1 ? ", [" : "[";
        for (std::size_t i = 0; i < tensor.dims.size(); ++i)
            text += (i > 0 ? ", " : "") + std::to_string(tensor.dims[i]);
        text += ']';
    }
    return text + ']';
}

std::string types_text(const plan::Block& block, const std::vector<plan::TensorId>& tensors) {
    std::string text = "[";
    for (const plan::TensorId id : tensors)
        text += fmt::format("{}\"{}\"", text.size() > 1 ? ", " : "",
                            plan::name(block.tensors[static_cast<std::size_t>(id)].dtype));
    return text + ']';
}

// What all nodes of an op of the plan say: made once, however many ranks and steps have it.
struct OfOp {
    const plan::Op* op = nullptr;
    std::string name, inputs, outputs;
    double bytes_moved = 0;
};

class RankFile {
  public:
    RankFile(const plan::Plan& plan, const std::vector<plan::LinkedProgram>& linked,
             const ChakraPrices* prices)
        : plan_(plan), linked_(linked), prices_(prices), groups_(plan) {
        for (const plan::Block& block : plan.blocks)
            for (const plan::Op& op : block.ops)
                ops_.push_back(of_op(block, op));
    }

    const Groups& groups() const { return groups_; }

    void write(Rank rank, const std::string& path, ChakraWritten& written) {
        const auto p = static_cast<std::size_t>(plan_.mesh.coordinates(rank).pipeline);
        const plan::Program& program = plan_.programs[p];
        std::vector<Event> events;
        if (prices_ != nullptr) events = prices_->events_of(rank);
        Messages out(path);
        out.add(metadata(rank));
        const std::vector<Node> nodes = nodes_of(plan_, program, linked_[p], rank, groups_);
        for (std::size_t id = 0; id < nodes.size(); ++id)
            out.add(node_text(nodes[id], id, program, linked_[p],
                              prices_ != nullptr ? &events[nodes[id].op] : nullptr));
        written.bytes += out.finish();
        written.nodes += nodes.size();
        ++written.files;
    }

  private:
    static OfOp of_op(const plan::Block& block, const plan::Op& op) {
        OfOp made;
        made.op = &op;
        made.name = block.name + (op.label.empty() ? "" : " " + op.label);
        std::string bytes;
        const auto say = [&](const std::vector<plan::TensorId>& tensors) {
            bytes.clear();
            pbf_writer writer(bytes);
            writer.add_string(number(InputOutput::shapes), shapes_text(block, tensors));
            writer.add_string(number(InputOutput::types), types_text(block, tensors));
            return bytes;
        };
        made.inputs = say(op.reads);
        made.outputs = say(op.writes);
        if (!plan::is_communication(op.kind()) && !plan::is_copy(op.kind()))
            made.bytes_moved = plan::bytes_moved(block, op);
        return made;
    }

    std::string metadata(Rank rank) const {
        std::string bytes;
        pbf_writer writer(bytes);
        writer.add_string(number(Metadata::version), kVersion.data(), kVersion.size());
        Attributes attributes(writer, number(Metadata::attribute));
        attributes.text(kSource, "orrery");
        attributes.whole(kRank, rank);
        attributes.whole(kWorldSize, plan_.mesh.ranks());
        return bytes;
    }

    std::string node_text(const Node& node, std::size_t id, const plan::Program& program,
                          const plan::LinkedProgram& linked, const Event* event) const {
        const OfOp& of = ops_[linked.op[node.op]];
        std::string bytes;
        pbf_writer writer(bytes);
        writer.add_uint64(number(NodeField::id), id);
        writer.add_string(number(NodeField::name), of.name);
        writer.add_enum(number(NodeField::type), static_cast<std::int32_t>(node.type));
        writer.add_packed_uint64(number(NodeField::data_deps), node.after.begin(),
                                 node.after.end());
        if (event != nullptr) add_times(writer, *event);
        writer.add_message(number(NodeField::inputs), of.inputs);
        writer.add_message(number(NodeField::outputs), of.outputs);
        Attributes attributes(writer, number(NodeField::attribute));
        add_what_chakra_asks(node, of, attributes);
        add_what_the_plan_says(node, *of.op, program, linked, attributes);
        if (event != nullptr) {
            attributes.natural(kStart, event->start - prices_->start());
            attributes.natural(kDuration, event->end - event->start);
        }
        return bytes;
    }

    // Ends are rounded, not lengths, so that those of many short ops still sum up.
    void add_times(pbf_writer& writer, const Event& event) const {
        const auto rounded = [&](Picoseconds at) {
            return static_cast<std::uint64_t>((at - prices_->start() + kPsPerMicro / 2) /
                                              kPsPerMicro);
        };
        writer.add_uint64(number(NodeField::start_time_micros), rounded(event.start));
        writer.add_uint64(number(NodeField::duration_micros),
                          rounded(event.end) - rounded(event.start));
    }

    static void add_what_chakra_asks(const Node& node, const OfOp& of, Attributes& attributes) {
        attributes.truth(kIsCpuOp, false);
        switch (node.type) {
            case NodeType::comm_coll:
                attributes.whole(kCommType, static_cast<std::int64_t>(node.collective));
                attributes.whole(kCommSize, node.bytes);
                attributes.text(kPgName, std::to_string(node.group));
                break;
            case NodeType::comm_send:
            case NodeType::comm_recv:
                attributes.whole(kCommSize, node.bytes);
                attributes.small(kCommSrc, node.message->from);
                attributes.small(kCommDst, node.message->to);
                attributes.small(kCommTag, node.message->tag);
                break;
            case NodeType::comp:
                // ASTRA-sim's roofline divides by it; one operation for all bytes makes an op that
                // memory bounds last bytes / bandwidth there.
                attributes.whole(kNumOps, std::max<std::int64_t>(
                                              1, static_cast<std::int64_t>(plan::flops(*of.op))));
                attributes.natural(kTensorSize, static_cast<std::int64_t>(of.bytes_moved));
                break;
            default:
                attributes.natural(kTensorSize, node.bytes);
        }
        attributes.whole(kStream, static_cast<std::int64_t>(plan::index_of(of.op->stream)));
    }

    static void add_what_the_plan_says(const Node& node, const plan::Op& op,
                                       const plan::Program& program,
                                       const plan::LinkedProgram& linked, Attributes& attributes) {
        const plan::Step& step = program.steps[linked.step[node.op]];
        attributes.whole(kOp, node.op);
        attributes.text(kOpKind, plan::name(op.kind()));
        attributes.text(kPhase, plan::name(op.phase));
        attributes.text(kAction, plan::to_text(step.action));
        if (step.procedure >= 0) {
            const std::int32_t layer = program.procedures[static_cast<std::size_t>(step.procedure)]
                                           .uses[linked.use[node.op]]
                                           .layer;
            if (layer >= 0) attributes.whole(kLayer, layer);
        }
        if (node.group_size > 0) {
            attributes.text(kGroup, plan::name(op.group));
            attributes.whole(kGroupSize, node.group_size);
        }
        const auto put_sizes = [&](const auto& product) {
            attributes.whole("m", product.m);
            attributes.whole("n", product.n);
            attributes.whole("k", product.k);
        };
        if (op.is<plan::Gemm>()) put_sizes(op.as<plan::Gemm>());
        if (op.is<plan::ActivatedGemm>()) put_sizes(op.as<plan::ActivatedGemm>());
        if (op.is<plan::ResidualGemm>()) put_sizes(op.as<plan::ResidualGemm>());
        if (op.is<plan::BiasGradientGemm>()) put_sizes(op.as<plan::BiasGradientGemm>());
    }

    const plan::Plan& plan_;
    const std::vector<plan::LinkedProgram>& linked_;
    const ChakraPrices* prices_;
    Groups groups_;
    std::vector<OfOp> ops_;
};

[[noreturn]] void fail(const std::string& path, const char* doing, const std::error_code& why) {
    throw TraceFileError(TraceFault::storage, path,
                         fmt::format("cannot be {}: {}", doing, why.message()));
}

void take_away(const fs::path& path) {
    std::error_code why;
    fs::remove(path, why);
    if (why) fail(path.string(), "removed", why);
}

std::string groups_text(const Groups& groups) {
    std::string text = "{";
    for (std::size_t g = 0; g < groups.members().size(); ++g) {
        text += fmt::format("{}\n  \"{}\": [", g > 0 ? "," : "", g + 1);
        const std::vector<Rank>& members = groups.members()[g];
        for (std::size_t i = 0; i < members.size(); ++i)
            text += fmt::format("{}{}", i > 0 ? ", " : "", members[i]);
        text += ']';
    }
    return text + "\n}\n";
}

std::vector<plan::LinkedProgram> linked_programs(const plan::Plan& plan) {
    std::vector<plan::LinkedProgram> linked;
    for (const plan::Program& program : plan.programs)
        linked.push_back(plan::link(plan, program));
    return linked;
}

}  // namespace
}  // namespace chakra

ChakraPrices::ChakraPrices(const plan::Plan& plan, const Trace& trace) : trace_(trace) {
    const Trace of_plan = describe_plan(plan, chakra::linked_programs(plan));
    if (trace.ops != of_plan.ops) why_not_ = "its ops are of another plan";
    if (trace.programs.size() != of_plan.programs.size())
        why_not_ = fmt::format("it has {} programs, and the plan {}", trace.programs.size(),
                               of_plan.programs.size());
    std::size_t steps = std::numeric_limits<std::size_t>::max();
    for (std::size_t p = 0; why_not_.empty() && p < trace.programs.size(); ++p) {
        const std::vector<std::uint32_t>&own = of_plan.programs[p].op,
              &theirs = trace.programs[p].op;
        bool alike = !own.empty() && theirs.size() % own.size() == 0 && !theirs.empty();
        for (std::size_t i = 0; alike && i < theirs.size(); ++i)
            alike = theirs[i] == own[i % own.size()];
        if (!alike)
            why_not_ = fmt::format(
                "pipeline rank {} has {} ops in it, not a whole number of steps "
                "of the plan's {}",
                p, theirs.size(), own.size());
        else
            steps = std::min(steps, theirs.size() / own.size());
        ops_of_program_.push_back(own.size());
    }
    if (!why_not_.empty()) return;
    // Of steps that were simulated one after another the last that ends within the window; those
    // after it are there to keep its ends busy.
    for (step_ = steps - 1; step_ > 0; --step_) {
        Picoseconds end = 0;
        for (const Track& track : trace.tracks) {
            const std::size_t size = ops_of_program_[static_cast<std::size_t>(track.program)];
            for (std::size_t i = 0; i < size; ++i)
                end = std::max(end, track.events[step_ * size + i].end);
        }
        if (end <= trace.step_end) break;
    }
    start_ = std::numeric_limits<Picoseconds>::max();
    for (const Track& track : trace.tracks) {
        const std::size_t first = first_event(track);
        for (std::size_t i = 0; i < ops_of_program_[static_cast<std::size_t>(track.program)]; ++i)
            start_ = std::min(start_, track.events[first + i].start);
    }
}

std::size_t ChakraPrices::first_event(const Track& track) const {
    return step_ * ops_of_program_[static_cast<std::size_t>(track.program)];
}

const Track* ChakraPrices::track_of(plan::Rank rank) const {
    for (const Track& track : trace_.tracks) {
        const bool stands =
            track.rank == rank ||
            std::any_of(track.alike.begin(), track.alike.end(), [&](const RankRange& range) {
                return rank >= range.first && rank < range.first + range.count;
            });
        if (stands) return &track;
    }
    return nullptr;
}

std::vector<Event> ChakraPrices::events_of(plan::Rank rank) const {
    const Track& track = *track_of(rank);
    const std::size_t first = first_event(track);
    std::vector<Event> events(ops_of_program_[static_cast<std::size_t>(track.program)]);
    for (std::size_t i = 0; i < events.size(); ++i)
        events[i] = track.events[first + i];
    return events;
}

std::vector<plan::Rank> ChakraPrices::representatives() const {
    std::vector<plan::Rank> ranks;
    for (const Track& track : trace_.tracks)
        ranks.push_back(track.rank);
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

ChakraWritten write_chakra(const plan::Plan& plan, const std::vector<plan::Rank>& ranks,
                           const ChakraPrices* prices, const std::string& folder) {
    std::error_code why;
    std::filesystem::create_directories(folder, why);
    if (why) chakra::fail(folder, "made", why);
    const std::filesystem::path groups = std::filesystem::path(folder) / kChakraGroups;
    chakra::take_away(groups);
    const std::vector<plan::LinkedProgram> linked = chakra::linked_programs(plan);
    chakra::RankFile file(plan, linked, prices);
    ChakraWritten written;
    for (const plan::Rank rank : ranks) {
        ORRERY_CHECK(prices == nullptr || prices->knows(rank),
                     "a rank of which the trace says nothing");
        file.write(rank,
                   (std::filesystem::path(folder) /
                    fmt::format("{}{}{}", kChakraPrefix, rank, kChakraEnding))
                       .string(),
                   written);
    }
    std::vector<std::filesystem::path> stale;
    for (const auto& entry : std::filesystem::directory_iterator(folder, why)) {
        const auto rank = chakra::rank_of_name(entry.path().filename().string());
        if (rank && std::find(ranks.begin(), ranks.end(), *rank) == ranks.end())
            stale.push_back(entry.path());
    }
    for (const std::filesystem::path& path : stale)
        chakra::take_away(path);
    write_file(groups.string(), chakra::groups_text(file.groups()));
    return written;
}

double chakra_bytes(const plan::Plan& plan, const std::vector<plan::Rank>& ranks) {
    std::vector<double> nodes;
    for (const plan::Program& program : plan.programs)
        nodes.push_back(static_cast<double>(plan::link(plan, program).size()));
    double all = 0;
    for (const plan::Rank rank : ranks)
        all += nodes[static_cast<std::size_t>(plan.mesh.coordinates(rank).pipeline)];
    return all * chakra::kBytesPerNode;
}

std::string foreign_to_chakra(const std::string& folder) {
    std::error_code why;
    for (const auto& entry : std::filesystem::directory_iterator(folder, why)) {
        const std::string name = entry.path().filename().string();
        if (name != kChakraGroups && !chakra::rank_of_name(name)) return name;
    }
    return "";
}

}  // namespace orrery::trace
