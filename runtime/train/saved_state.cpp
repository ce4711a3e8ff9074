#include "runtime/train/saved_state.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/check.hpp"
#include "plan/memory/arena.hpp"
#include "runtime/train/scale_history.hpp"

namespace orrery::runtime {
namespace {

// Where a quantity of a bucket lies: weights as the optimizer steps them.
StateKind kind_of(Quantity quantity, const plan::Bucket& bucket) {
    if (quantity == Quantity::first_moment) return StateKind::first_moments;
    if (quantity == Quantity::second_moment) return StateKind::second_moments;
    return bucket.state(StateKind::masters) != nullptr ? StateKind::masters : StateKind::parameters;
}

const char* stored_dtype(plan::DType dtype) {
    switch (dtype) {
        case plan::DType::bf16:
            return "BF16";
        case plan::DType::fp16:
            return "F16";
        case plan::DType::fp64:
            return "F64";
        default:
            ORRERY_CHECK(dtype == plan::DType::fp32, "a state is a floating-point number");
            return "F32";
    }
}

// The rank's number among those that hold the same of a bucket's parameter, and how many they are.
struct Replica {
    std::int64_t number = 0;
    std::int64_t count = 1;
};

Replica replica_of(const plan::Bucket& bucket, const plan::Parameter& parameter,
                   const plan::Mesh& mesh, plan::Rank rank) {
    const plan::GroupKind copies =
        parameter.experts > 0 ? plan::GroupKind::expert_data : plan::GroupKind::data;
    const auto ranks = mesh.group(bucket.shares.empty() ? copies : bucket.replicas(), rank);
    const auto own = std::find(ranks.begin(), ranks.end(), rank);
    return {own - ranks.begin(), std::ssize(ranks)};
}

std::int64_t kept_elements(const plan::Parameter& parameter) {
    return elements_of(parameter.unpadded());
}

// One parameter's elements of the bucket's [first, end) as a part, where there are any.
class Cutter {
  public:
    explicit Cutter(const BoundProgram& program) : program_(program) {}

    // Where in the bucket the part begins; its elements are those of its slices.
    std::int64_t cut(const plan::BucketEntry& entry, std::int64_t first, std::int64_t end,
                     Piece& piece) const {
        const std::int64_t kept = kept_elements(entry.parameter);
        std::int64_t begin = -1;
        for (const plan::ParameterRun& run :
             plan::runs_of(entry.parameter, program_.mesh, program_.mesh.rank(program_.at))) {
            const std::int64_t from = std::max(first, entry.offset + run.local);
            const std::int64_t whole = run.whole + from - entry.offset - run.local;
            const std::int64_t to =
                std::min({end, entry.offset + run.local + run.elements, from + kept - whole});
            if (from >= to) continue;
            if (begin < 0) begin = from;
            append_run(piece.slices, whole, to - from);
        }
        return begin;
    }

  private:
    const BoundProgram& program_;
};

// Others have it, too, and save it: of what tensor ranks hold whole the first one, of a tied
// embedding the first stage.
bool saved_elsewhere(const BoundProgram& program, const plan::Bucket& bucket,
                     const plan::BucketEntry& entry) {
    if (entry.parameter.cut == plan::Cut::whole && program.at.tensor > 0) return true;
    return entry.parameter.second_use && bucket.stage > 0;
}

}  // namespace

namespace {

// Collects the parts of a rank.
class PartsOfRank {
  public:
    PartsOfRank(const plan::Program& planned, const plan::Mesh& mesh, plan::Rank rank)
        : planned_(planned), mesh_(mesh), rank_(rank) {}

    // Of a bucket; `piece` has quantity and age.
    void add(const BoundProgram& program, std::size_t b, StateKind kind, const Piece& piece) {
        const plan::Bucket& bucket = program.buckets[b];
        const std::int64_t stepped = program.stepped(b), first = program.first_stepped(b);
        const HeldState held = held_state(program, b, kind);
        const std::int64_t size = plan::size_bytes(held.dtype);
        const std::int64_t base =
            program.residents[static_cast<std::size_t>(plan::keeper_of(planned_, held.resident))]
                .offset;
        const Cutter cutter(program);
        for (const plan::BucketEntry& entry : program.entries[b]) {
            if (saved_elsewhere(program, bucket, entry)) continue;
            const Replica replica = replica_of(bucket, entry.parameter, mesh_, rank_);
            const std::int64_t begin = first + stepped * replica.number / replica.count;
            const std::int64_t end =
                std::min(bucket.elements, first + stepped * (replica.number + 1) / replica.count);
            SavedPart part;
            part.piece = piece;
            part.piece.tensor = plan::full_name(entry.layer, entry.name);
            part.piece.dtype = stored_dtype(held.dtype);
            const std::int64_t at = cutter.cut(entry, begin, end, part.piece);
            if (at < 0) continue;
            part.offset = base + (held.skipped + at - held.first) * size;
            part.bytes = part.piece.elements() * size;
            parts_.push_back(std::move(part));
        }
    }

    std::vector<SavedPart> take() { return std::move(parts_); }

  private:
    const plan::Program& planned_;
    const plan::Mesh& mesh_;
    plan::Rank rank_;
    std::vector<SavedPart> parts_;
};

}  // namespace

std::vector<SavedPart> saved_parts(const BoundProgram& program, const plan::Program& planned,
                                   const plan::Mesh& mesh, plan::Rank rank, std::int64_t step) {
    PartsOfRank parts(planned, mesh, rank);
    for (std::size_t b = 0; b < program.buckets.size(); ++b) {
        if (program.buckets[b].elements == 0) continue;
        for (const Quantity quantity : kQuantities) {
            const StateKind kind = kind_of(quantity, program.buckets[b]);
            if (program.buckets[b].state(kind) == nullptr) continue;  // frozen
            Piece piece;
            piece.quantity = quantity;
            parts.add(program, b, kind, piece);
        }
        for (std::int64_t age = 1; age < program.turns(); ++age) {
            Piece piece;
            piece.age = age;
            parts.add(program.of_step(step + program.turns() - age), b, StateKind::parameters,
                      piece);
        }
    }
    std::vector<SavedPart> all = parts.take();
    if (program.at.tensor == 0 && program.at.context == 0 && program.at.data == 0)
        for (const ScaleHistory& history : scale_histories(program)) {
            SavedPart part;
            part.piece.tensor = history.tensor;
            part.piece.dtype = stored_dtype(plan::DType::fp32);
            append_run(part.piece.slices, 0, history.elements);
            part.offset = history.offset;
            part.bytes = history.elements * plan::size_bytes(plan::DType::fp32);
            all.push_back(std::move(part));
        }
    return all;
}

void Snapshot::reserve(const std::vector<SavedPart>& parts) {
    std::int64_t all = 0;
    for (const SavedPart& part : parts)
        all += part.bytes;
    if (all <= room_) return;
    bytes_.reset();  // not both at once
    bytes_ = std::make_unique<std::byte[]>(static_cast<std::size_t>(all));
    room_ = all;
}

// What lies in a row is read at once: on a device with memory of its own a few copies for all.
void Snapshot::take(const Device& device, std::vector<SavedPart> parts) {
    reserve(parts);
    parts_ = std::move(parts);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts_.size();) {
        std::int64_t bytes = parts_[i].bytes;
        std::size_t next = i + 1;
        for (; next < parts_.size() && parts_[next].offset == parts_[i].offset + bytes; ++next)
            bytes += parts_[next].bytes;
        device.read(parts_[i].offset, {bytes_.get() + at, static_cast<std::size_t>(bytes)});
        at += bytes;
        i = next;
    }
}

std::vector<PieceBytes> Snapshot::pieces() const {
    std::vector<PieceBytes> pieces;
    std::size_t at = 0;
    for (const SavedPart& part : parts_) {
        const auto bytes = static_cast<std::size_t>(part.bytes);
        pieces.push_back({part.piece, {bytes_.get() + at, bytes}});
        at += bytes;
    }
    return pieces;
}

namespace {

// What was frozen has no moments to go on with.
void check_same_use(bool frozen, const std::string& tensor, const CheckpointReader& checkpoint) {
    if (frozen == (checkpoint.manifest().frozen.count(tensor) > 0)) return;
    throw DataError(checkpoint.path(),
                    fmt::format("is of another run: its {} is {}, the scenario's {}", tensor,
                                frozen ? "trained" : "frozen", frozen ? "frozen" : "trained"));
}

void check_same_model(const BoundProgram& program, const CheckpointReader& checkpoint) {
    const auto& saved = checkpoint.manifest().tensors;
    for (const auto& entries : program.entries)
        for (const plan::BucketEntry& entry : entries) {
            const std::string tensor = plan::full_name(entry.layer, entry.name);
            const std::vector<std::int64_t> dims = entry.parameter.unpadded();
            const auto found = saved.find(tensor);
            if (found == saved.end())
                throw DataError(checkpoint.path(),
                                fmt::format("is of another model: it has no {}, the scenario's is "
                                            "[{}]",
                                            tensor, fmt::join(dims, ", ")));
            if (found->second != dims)
                throw DataError(
                    checkpoint.path(),
                    fmt::format("is of another model: its {} is [{}], the scenario's "
                                "[{}]",
                                tensor, fmt::join(found->second, ", "), fmt::join(dims, ", ")));
            check_same_use(entry.parameter.frozen, tensor, checkpoint);
        }
}

}  // namespace

void load_state(Device& device, const BoundProgram& program, const plan::Program& planned,
                const CheckpointReader& checkpoint, int threads, std::int64_t age) {
    if (age > checkpoint.manifest().progress.older_weights) age = 0;
    check_same_model(program, checkpoint);
    const auto fill = [&](StateKind kind, Quantity quantity, std::int64_t of_age) {
        fill_state(
            device, program, planned, kind,
            [&](const plan::Parameter& parameter, const std::string& name, std::int64_t first,
                std::span<double> values) {
                const std::int64_t rest = kept_elements(parameter) - first;
                const auto there =
                    static_cast<std::size_t>(std::clamp<std::int64_t>(rest, 0, std::ssize(values)));
                if (there > 0) checkpoint.read(name, quantity, first, values.first(there), of_age);
                std::fill(values.begin() + static_cast<std::ptrdiff_t>(there), values.end(), 0.0);
            },
            threads);
    };
    fill(StateKind::parameters, Quantity::weight, age);
    fill(StateKind::masters, Quantity::weight, 0);
    fill(StateKind::first_moments, Quantity::first_moment, 0);
    fill(StateKind::second_moments, Quantity::second_moment, 0);
    load_scales(device, program, checkpoint);
}

std::map<std::string, std::vector<std::int64_t>> saved_tensors(const plan::Plan& plan,
                                                               const std::vector<Shard>& shards) {
    const std::map<std::string, plan::Parameter> parameters = plan::parameters_of(plan);
    const std::map<std::string, std::int64_t> histories = scale_histories(plan);
    std::map<std::string, std::vector<std::int64_t>> tensors;
    for (const Shard& shard : shards)
        for (const Piece& piece : shard.pieces)
            if (const auto history = histories.find(piece.tensor); history != histories.end())
                tensors.emplace(piece.tensor, std::vector{history->second});
            else
                tensors.emplace(piece.tensor, parameters.at(piece.tensor).unpadded());
    return tensors;
}

std::set<std::string> frozen_tensors(const plan::Plan& plan) {
    std::set<std::string> frozen;
    for (const auto& [name, parameter] : plan::parameters_of(plan))
        if (parameter.frozen) frozen.insert(name);
    for (const auto& [name, elements] : scale_histories(plan))
        frozen.insert(name);
    return frozen;
}

}  // namespace orrery::runtime
