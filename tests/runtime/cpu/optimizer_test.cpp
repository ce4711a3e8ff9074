// gradient_norm, unscale and adamw.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/runtime/cpu/kernel_world.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using plan::DType;
using Bins = std::array<double, 5>;

// Gradients over many orders of magnitude.
std::vector<float> gradients(std::size_t n) {
    std::vector<float> found(n);
    for (std::size_t i = 0; i < n; ++i)
        found[i] =
            static_cast<float>(normal({3, 0, 0}, i) * std::exp2(10 - 40 * uniform({4, 0, 0}, i)));
    return found;
}

void add_to(Bins& bins, const KernelTable& table, std::vector<float>& g, std::size_t begin,
            std::size_t end, Team& team) {
    table.gradient_norm(
        {static_cast<std::int64_t>(end - begin), {g.data() + begin, DType::fp32}, bins.data()},
        team);
}

TEST(GradientNorm, IsTheSameHoweverElementsAreOrderedAndSharedOut) {
    std::vector<float> g = gradients(50'003);
    Team teams[] = {Team(1), Team(2), Team(3)};
    Bins expected{};
    add_to(expected, baseline_kernels(), g, 0, g.size(), teams[0]);
    std::mt19937 random(1);
    for (int trial = 0; trial < 30; ++trial) {
        std::shuffle(g.begin(), g.end(), random);
        const KernelTable& table = trial % 2 == 0 ? baseline_kernels() : kernels();
        // Two ranks, each in two calls; then the sums of ranks are added.
        Bins ranks[2] = {};
        std::size_t cut[] = {0, random() % g.size(), random() % g.size(), random() % g.size(),
                             g.size()};
        std::sort(std::begin(cut), std::end(cut));
        for (std::size_t part = 0; part < 4; ++part)
            add_to(ranks[part / 2], table, g, cut[part], cut[part + 1], teams[trial % 3]);
        for (std::size_t bin = 0; bin < 5; ++bin)
            EXPECT_EQ(ranks[0][bin] + ranks[1][bin], expected[bin]);
    }
}

// The squares of fp32 numbers are exact in fp64; each loses at most 2^-98 to the last bin, and
// adding the bins and the root round to 53 bits.
TEST(GradientNorm, IsTheRootOfTheSumOfSquares) {
    std::vector<float> g = gradients(50'003);
    long double sum = 0;
    for (const float x : g)
        sum += static_cast<long double>(x) * x;
    Team team(2);
    for (const KernelTable* table : {&baseline_kernels(), &kernels()}) {
        Bins bins{};
        add_to(bins, *table, g, 0, g.size(), team);
        const double expected = static_cast<double>(std::sqrt(sum));
        EXPECT_NEAR(norm_of(bins.data()), expected, 8 * 0x1p-53 * expected);
        for (const DType type : {DType::bf16, DType::fp16, DType::fp64}) {
            const Values exact = exact_numbers(2001, 9);
            const Tensor tensor(type, exact);
            Bins of_type{};
            table->gradient_norm({2001, tensor.buffer(), of_type.data()}, team);
            EXPECT_EQ(norm_of(of_type.data()), std::sqrt(dot(exact, exact)));
        }
    }
}

// Runs that begin and end anywhere, some neighbours, some of more than a piece.
std::vector<ElementRun> runs_of_elements() {
    return {{3, 5}, {8, 1}, {100, 20'000}, {20'100, 77}, {40'000, 10'003}};
}

TEST(GradientNorm, IsOfWhatRunsHold) {
    std::vector<float> g = gradients(50'003);
    for (const KernelTable* table : {&baseline_kernels(), &kernels()}) {
        Team team(2);
        Bins expected{}, found{};
        const std::vector<ElementRun> runs = runs_of_elements();
        for (const ElementRun& run : runs)
            add_to(expected, *table, g, static_cast<std::size_t>(run.first),
                   static_cast<std::size_t>(run.first + run.elements), team);
        table->gradient_norm(
            {std::ssize(g), {g.data(), DType::fp32}, found.data(), {runs.data(), std::ssize(runs)}},
            team);
        EXPECT_EQ(found, expected);
    }
}

// At the ends of the range that the header states.
TEST(GradientNorm, IsExactOverItsRange) {
    Team team(1);
    std::vector<float> large(1024, 0x1p14F);  // Σ g² = 2^10·2^28 = 2^38
    large.push_back(1);
    std::vector<float> small(1000, 0x1p-48F);  // g² = 2^-96
    for (const KernelTable* table : {&baseline_kernels(), &kernels()}) {
        Bins bins{};
        add_to(bins, *table, large, 0, large.size(), team);
        EXPECT_EQ(bins[0], 0x1p38 + 1);
        Bins tiny{};
        add_to(tiny, *table, small, 0, small.size(), team);
        EXPECT_EQ(norm_of(tiny.data()), std::sqrt(1000 * 0x1p-96));
    }
}

TEST(GradientNorm, KeepsInfinityAndNaN) {
    const float infinity = std::numeric_limits<float>::infinity();
    Team team(2);
    for (const KernelTable* table : {&baseline_kernels(), &kernels()})
        for (const std::size_t at : {0UL, 7UL, 1500UL, 1999UL}) {
            std::vector<float> g(2000, 1);
            Bins infinite{}, none{};
            g[at] = -infinity;
            add_to(infinite, *table, g, 0, g.size(), team);
            EXPECT_EQ(norm_of(infinite.data()), static_cast<double>(infinity));
            g[at] = std::numeric_limits<float>::quiet_NaN();
            add_to(none, *table, g, 0, g.size(), team);
            EXPECT_TRUE(std::isnan(norm_of(none.data())));
        }
}

TEST(Unscale, DividesAndFindsWhatIsNotFinite) {
    const Values g = exact_numbers(40'000, 1);
    Values expected = g;
    for (double& x : expected)
        x /= 1024;
    const float loss_scale = 1024;
    const Computation run = [&](const World& world) {
        const Tensor scaled = world.in(g);
        float overflow = 7;
        world.table.unscale({40'000, &loss_scale, scaled.buffer(), &overflow, false}, world.team);
        EXPECT_EQ(overflow, 0);
        return std::vector{scaled};
    };
    EXPECT_EQ(in_fp64(run)[0], expected);
    expect_everywhere(run, 0);
    Team team(2);
    for (const KernelTable* table : {&baseline_kernels(), &kernels()})
        for (const DType type : {DType::bf16, DType::fp16, DType::fp32, DType::fp64})
            for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
                Values with = g;
                with[39'990] = bad;
                const Tensor scaled(type, with);
                float overflow = 0;
                table->unscale({40'000, &loss_scale, scaled.buffer(), &overflow, false}, team);
                EXPECT_EQ(overflow, 1);
            }
}

TEST(Unscale, RemembersAnOverflowOfAnotherBucketWhereItIsTold) {
    const Tensor scaled(DType::fp32, exact_numbers(100, 1));
    const float loss_scale = 2;
    Team team(1);
    for (const bool accumulate : {false, true}) {
        float overflow = 1;
        kernels().unscale({100, &loss_scale, scaled.buffer(), &overflow, accumulate}, team);
        EXPECT_EQ(overflow, accumulate ? 1 : 0);
    }
}

struct State {
    Values w, m, v;
};

// A norm of 3, clipped to 1.5.
constexpr double kBins[5] = {9, 0, 0, 0, 0};
constexpr double kClipped = 1.5 / (3 + 1e-6);

AdamW hyperparameters(std::int64_t n, int step) {
    AdamW op;
    op.elements = n;
    op.learning_rate = 0.01;
    op.beta1 = 0.9;
    op.beta2 = 0.95;
    op.epsilon = 1e-6;
    op.weight_decay = 0.1;
    op.correction1 = 1 - std::pow(0.9, step);
    op.correction2 = 1 - std::pow(0.95, step);
    op.norm_bins = kBins;
    op.clip_norm = 1.5;
    return op;
}

// One step by the formula of the paper (Loshchilov and Hutter 2019, algorithm 2).
void step_by_formula(State& state, const Values& gradient, const AdamW& op) {
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double g = gradient[i] * kClipped;
        state.m[i] = op.beta1 * state.m[i] + (1 - op.beta1) * g;
        state.v[i] = op.beta2 * state.v[i] + (1 - op.beta2) * g * g;
        const double m = state.m[i] / op.correction1, v = state.v[i] / op.correction2;
        state.w[i] -=
            op.learning_rate * (m / (std::sqrt(v) + op.epsilon) + op.weight_decay * state.w[i]);
    }
}

TEST(AdamW, ThreeStepsAreItsFormula) {
    constexpr std::int64_t kElements = 17'001;
    const Values start = exact_numbers(kElements, 1);
    State expected{start, Values(kElements), Values(kElements)};
    for (int step = 1; step <= 3; ++step)
        step_by_formula(expected, exact_numbers(kElements, 10 + static_cast<std::uint32_t>(step)),
                        hyperparameters(kElements, step));
    // Outputs: master (or parameters where they are not 16-bit), m, v; then the parameters.
    const Computation run = [&](const World& world) {
        const Tensor master = world.work_in(start), parameters = world.in(start);
        const Tensor m = world.work_in(Values(kElements)), v = world.work_in(Values(kElements));
        const bool mixed = world.dtype != world.work();
        for (int step = 1; step <= 3; ++step) {
            const Tensor gradient =
                world.in(exact_numbers(kElements, 10 + static_cast<std::uint32_t>(step)));
            AdamW op = hyperparameters(kElements, step);
            op.gradients = gradient.buffer();
            op.m = m.buffer();
            op.v = v.buffer();
            op.master = mixed ? master.buffer() : Buffer{};
            op.parameters = parameters.buffer();
            world.table.adamw(op, world.team);
        }
        return std::vector{mixed ? master : parameters, m, v, parameters};
    };
    const std::vector<Values> found = in_fp64(run);
    expect_equal_in_fp64(found[0], expected.w, 20);
    expect_equal_in_fp64(found[1], expected.m, 20);
    expect_equal_in_fp64(found[2], expected.v, 20);
    expect_everywhere(run, 20);
}

// What moments of 16 bits are rounded to is what a step with wide ones makes of the same numbers,
// and the step itself goes by the wide ones.
TEST(AdamW, RoundsStatesToTheirTypes) {
    constexpr std::int64_t kElements = 1'003;
    const Values start = exact_numbers(kElements, 1), gradient = exact_numbers(kElements, 2);
    Team team(2);
    const auto stepped = [&](DType moments, bool main, const KernelTable& table) {
        const Tensor m(moments, gradient), v(moments, Values(kElements, 0.25));
        const Tensor master(DType::fp32, start), w(DType::bf16, start);
        const Tensor g(DType::fp32, gradient);
        AdamW op = hyperparameters(kElements, 1);
        op.gradients = g.buffer();
        op.m = m.buffer();
        op.v = v.buffer();
        if (main) op.master = master.buffer();
        op.parameters = w.buffer();
        table.adamw(op, team);
        return std::array{m.values(), v.values(), w.values()};
    };
    for (const KernelTable* table : {&baseline_kernels(), &kernels()})
        for (const bool main : {true, false}) {
            const auto wide = stepped(DType::fp32, main, *table);
            const auto narrow = stepped(DType::bf16, main, *table);
            for (std::size_t state : {0, 1})
                EXPECT_EQ(narrow[state], Tensor(DType::bf16, wide[state]).values());
            EXPECT_EQ(narrow[2], wide[2]);
        }
}

// The part of a tensor that a run holds.
Buffer from(const Tensor& tensor, std::int64_t element) {
    Buffer buffer = tensor.buffer();
    buffer.data = static_cast<std::byte*>(buffer.data) + element * plan::size_bytes(buffer.dtype);
    return buffer;
}

// A state in the types of mixed precision, and a step of it.
struct MixedState {
    Tensor m, v, master, w, g;

    explicit MixedState(std::int64_t n)
        : m(DType::fp32, exact_numbers(n, 1)),
          v(DType::fp32, Values(static_cast<std::size_t>(n), 0.25)),
          master(DType::fp32, exact_numbers(n, 3)),
          w(DType::bf16, exact_numbers(n, 3)),
          g(DType::bf16, exact_numbers(n, 2)) {}
    AdamW step(std::int64_t first, std::int64_t n) const {
        AdamW op = hyperparameters(n, 1);
        op.gradients = from(g, first);
        op.m = from(m, first);
        op.v = from(v, first);
        op.master = from(master, first);
        op.parameters = from(w, first);
        return op;
    }
    std::array<Values, 4> values() const {
        return {m.values(), v.values(), master.values(), w.values()};
    }
};

// As if each run were a request of its own, and what is in none is left alone.
TEST(AdamW, RunsAreSteppedEachByItsOwn) {
    constexpr std::int64_t kElements = 50'003;
    for (const KernelTable* table : {&baseline_kernels(), &kernels()}) {
        Team team(2);
        const MixedState expected(kElements), found(kElements);
        std::vector<SteppedRun> runs;
        for (const ElementRun& run : runs_of_elements())
            runs.push_back({run, runs.size() % 2 == 0});
        for (const SteppedRun& run : runs) {
            AdamW op = expected.step(run.first, run.elements);
            if (!run.decays) op.weight_decay = 0;
            table->adamw(op, team);
        }
        AdamW op = found.step(0, kElements);
        op.runs = {runs.data(), std::ssize(runs)};
        table->adamw(op, team);
        EXPECT_EQ(found.values(), expected.values());
        EXPECT_NE(found.values(), MixedState(kElements).values());
    }
}

// Gradients of 16 bits, masters of 32; moments stay as they are.
TEST(AdamW, RunsOfASignRateGoAsFarWhateverTheGradient) {
    Team team(2);
    const Values gradients = {9, 0.001, -40, 0, 7, 9}, weights = {5, 1, 2, 3, -4, 5};
    const Values moments(6, 0.5);
    const Tensor g(DType::bf16, gradients), master(DType::fp32, weights),
        parameters(DType::bf16, weights), m(DType::fp32, moments), v(DType::fp32, moments);
    const SteppedRun run{{1, 4}, true, 0.125};
    float skips = 1;
    AdamW op = hyperparameters(6, 1);
    op.skip_where = {&skips, nullptr};
    op.gradients = g.buffer();
    op.m = m.buffer();
    op.v = v.buffer();
    op.master = master.buffer();
    op.parameters = parameters.buffer();
    op.runs = {&run, 1};
    kernels().adamw(op, team);
    EXPECT_EQ(master.values(), weights);
    skips = 0;
    kernels().adamw(op, team);
    const Values stepped = {5, 0.875, 2.125, 3, -4.125, 5};
    EXPECT_EQ(master.values(), stepped);
    EXPECT_EQ(parameters.values(), stepped);
    EXPECT_EQ(m.values(), moments);
    EXPECT_EQ(v.values(), moments);
}

TEST(AdamW, SkipTouchesNothing) {
    const Values start = exact_numbers(100, 1);
    const Tensor w(DType::bf16, start), master(DType::fp32, start), m(DType::fp32, start);
    const Tensor v(DType::fp32, start), g(DType::fp32, Values(100, std::nan("")));
    AdamW op = hyperparameters(100, 1);
    op.gradients = g.buffer();
    op.m = m.buffer();
    op.v = v.buffer();
    op.master = master.buffer();
    op.parameters = w.buffer();
    const float no = 0, yes = 1;
    Team team(2);
    for (const auto& flags : {std::array{&yes, &no}, {&no, &yes}, {&yes, &yes}}) {
        op.skip_where = flags;
        kernels().adamw(op, team);
        for (const Tensor* tensor : {&w, &master, &m, &v})
            EXPECT_EQ(tensor->values(), start);
    }
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime
