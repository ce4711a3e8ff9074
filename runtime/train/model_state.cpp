#include "runtime/train/model_state.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "plan/check.hpp"
#include "plan/memory/arena.hpp"
#include "runtime/number.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {
namespace {

using plan::DType;

std::uint32_t site_of(const std::string& name) {
    std::uint32_t hash = 2166136261U;  // FNV-1a
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return hash;
}

double to_double(const std::byte* at, DType dtype) {
    auto load = [at](auto value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    switch (dtype) {
        case DType::fp64:
            return load(double{});
        case DType::fp32:
            return load(float{});
        case DType::bf16:
            return to_float(load(BFloat16{}));
        case DType::fp16:
            return to_float(load(Half{}));
        default:
            ORRERY_CHECK(false, "states are floating-point numbers");
    }
    return 0;
}

void from_double(double value, std::byte* at, DType dtype) {
    auto store = [at](auto stored) { std::memcpy(at, &stored, sizeof stored); };
    switch (dtype) {
        case DType::fp64:
            return store(value);
        case DType::fp32:
            return store(static_cast<float>(value));
        case DType::bf16:
            return store(to_bfloat16(static_cast<float>(value)));
        case DType::fp16:
            return store(to_half(static_cast<float>(value)));
        default:
            ORRERY_CHECK(false, "states are floating-point numbers");
    }
}

void fill_normal(const RandomKey& key, std::uint64_t first, double deviation,
                 std::span<double> values) {
    std::size_t i = 0;
    if (first % 2 == 1 && !values.empty()) values[i++] = deviation * normal(key, first);
    for (; i + 1 < values.size(); i += 2) {
        const NormalPair pair = normal_pair(key, (first + i) / 2);
        values[i] = deviation * pair.even;
        values[i + 1] = deviation * pair.odd;
    }
    if (i < values.size()) values[i] = deviation * normal(key, first + i);
}

// What one thread fills at a time.
constexpr std::int64_t kPieceElements = 1 << 16;

struct StatePiece {
    StateRun run;
    std::int64_t first = 0;  // element of the run
    std::int64_t elements = 0;
};

void fill_piece(Device& device, const StatePiece& piece, const FirstWeights& weights) {
    const std::int64_t size = plan::size_bytes(piece.run.dtype);
    std::vector<double> values(static_cast<std::size_t>(piece.elements));
    weights(*piece.run.parameter, piece.run.name, piece.run.whole + piece.first, values);
    std::vector<std::byte> bytes(static_cast<std::size_t>(piece.elements * size));
    for (std::size_t i = 0; i < values.size(); ++i)
        from_double(values[i], bytes.data() + static_cast<std::int64_t>(i) * size, piece.run.dtype);
    device.write(piece.run.offset + piece.first * size, bytes);
}

}  // namespace

HeldState held_state(const BoundProgram& program, std::size_t bucket, StateKind kind) {
    const plan::Bucket& of = program.buckets[bucket];
    const plan::BucketState* state = of.state(kind);
    if (state == nullptr) return {};
    const std::int32_t resident = of.resident(kind);
    const std::int64_t offset = state->offset / plan::size_bytes(state->dtype);
    if (state->extent == plan::Extent::whole)
        return {resident, offset, 0, of.elements, state->dtype};
    const std::int64_t first = program.first_stepped(bucket);
    const std::int64_t skipped = state->extent == plan::Extent::in_place ? first : 0;
    return {resident, offset + skipped, first, program.stepped(bucket), state->dtype};
}

std::vector<StateRun> state_runs(const BoundProgram& program, const plan::Program& planned,
                                 StateKind kind) {
    std::vector<StateRun> runs;
    for (std::size_t b = 0; b < program.buckets.size(); ++b) {
        if (program.buckets[b].elements == 0) continue;
        const HeldState held = held_state(program, b, kind);
        if (held.resident < 0) continue;
        const std::int64_t base =
            program.residents[static_cast<std::size_t>(plan::keeper_of(planned, held.resident))]
                .offset;
        const std::int64_t size = plan::size_bytes(held.dtype);
        // Behind them may be a tied parameter, of which another bucket has the state.
        const std::int64_t last = std::min(held.first + held.elements, program.buckets[b].elements);
        for (const plan::BucketEntry& entry : program.entries[b])
            for (const plan::ParameterRun& run :
                 plan::runs_of(entry.parameter, program.mesh, program.mesh.rank(program.at))) {
                const std::int64_t begin = std::max(held.first, entry.offset + run.local);
                const std::int64_t end = std::min(last, entry.offset + run.local + run.elements);
                if (begin >= end) continue;
                runs.push_back({&entry.parameter, plan::full_name(entry.layer, entry.name),
                                run.whole + begin - entry.offset - run.local,
                                base + (held.skipped + begin - held.first) * size, end - begin,
                                held.dtype});
            }
    }
    return runs;
}

FirstWeights random_weights(std::int64_t seed, double deviation, std::int64_t layers) {
    const double residual = deviation / std::sqrt(2.0 * static_cast<double>(layers));
    return [=](const plan::Parameter& parameter, const std::string& name, std::int64_t first,
               std::span<double> values) {
        const RandomKey key{static_cast<std::uint64_t>(seed), site_of(name), 0};
        switch (parameter.start) {
            case plan::Start::zero:
                std::fill(values.begin(), values.end(), 0.0);
                return;
            case plan::Start::one:
                std::fill(values.begin(), values.end(), 1.0);
                return;
            case plan::Start::normal:
                return fill_normal(key, static_cast<std::uint64_t>(first), deviation, values);
            case plan::Start::residual_normal:
                return fill_normal(key, static_cast<std::uint64_t>(first), residual, values);
        }
    };
}

void fill_state(Device& device, const BoundProgram& program, const plan::Program& planned,
                StateKind kind, const FirstWeights& values, int threads) {
    std::vector<StatePiece> pieces;
    for (const StateRun& run : state_runs(program, planned, kind))
        for (std::int64_t first = 0; first < run.elements; first += kPieceElements)
            pieces.push_back({run, first, std::min(kPieceElements, run.elements - first)});
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr thrown;
    const auto work = [&] {
        try {
            for (std::size_t i = next++; i < pieces.size(); i = next++)
                fill_piece(device, pieces[i], values);
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!thrown) thrown = std::current_exception();
            next = pieces.size();
        }
    };
    {
        std::vector<std::jthread> others;
        for (int thread = 1; thread < threads; ++thread)
            others.emplace_back(work);
        work();
    }
    if (thrown) std::rethrow_exception(thrown);
}

void fill_weights(Device& device, const BoundProgram& program, const plan::Program& planned,
                  const FirstWeights& weights, int threads) {
    for (const StateKind kind : {StateKind::parameters, StateKind::masters})
        fill_state(device, program, planned, kind, weights, threads);
}

std::vector<double> read_run(const Device& device, const StateRun& run) {
    const std::int64_t size = plan::size_bytes(run.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(run.elements * size));
    device.read(run.offset, bytes);
    std::vector<double> values(static_cast<std::size_t>(run.elements));
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = to_double(bytes.data() + static_cast<std::int64_t>(i) * size, run.dtype);
    return values;
}

}  // namespace orrery::runtime
