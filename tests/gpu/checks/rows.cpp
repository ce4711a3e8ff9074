// Kernels that go over the rows of activations.
#include <string>

#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

struct Size {
    std::int64_t rows, width;
};

// Odd ones; wider than a block, and more rows than are summed at once.
std::vector<Size> sizes(bool large) {
    // Elements by one and by eight, of which a thread may have more than one eight of a row; rows
    // in several parts where they are summed up.
    std::vector<Size> all = {{1, 1}, {3, 37}, {35, 33}, {2, 300}, {5, 64}, {530, 24}, {19, 2056}};
    if (large) all.push_back({4096, 2048});
    return all;
}

std::string text(const Size& size) {
    return std::to_string(size.rows) + "x" + std::to_string(size.width);
}

void check_norm(World& world, const Size& size, bool centred) {
    const std::int64_t n = size.rows * size.width;
    const std::string variant = text(size) + (centred ? " centred" : " rms, offset");
    const double offset = centred ? 0 : 1;
    world.begin("norm", variant);
    Tensor& x = world.in(normals(n, 1));
    Tensor& weight = world.in(normals(size.width, 2));
    Tensor& bias = world.in(normals(size.width, 3));
    Tensor& y = world.out(n);
    Tensor& stats = world.out(DType::fp32, size.rows * (centred ? 2 : 1));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.norm({size.rows, size.width, centred, 1e-5, offset, at(x), at(weight),
                      at(centred ? &bias : nullptr), at(y), at(stats)});
    });
    // A row of one element is 0 but for what its mean is off, of which 1/σ is 316 times.
    const double roundings = roundings_of_sum(size.width) * (size.width == 1 ? 400 : 1);
    world.expect_close("y", y, roundings);
    world.expect_close("stats", stats, roundings_of_sum(size.width));
}

void check_residual_norm(World& world, const Size& size, bool centred) {
    const std::int64_t n = size.rows * size.width;
    world.begin("residual_norm", text(size) + (centred ? " centred, bias, mask" : " rms, offset"));
    Tensor& branch = world.in(normals(n, 1));
    Tensor& residual = world.in(normals(n, 2));
    Tensor& added = world.in(normals(size.width, 3));
    Tensor& weight = world.in(normals(size.width, 4));
    Tensor& bias = world.in(normals(size.width, 5));
    Tensor& sum = world.out(n);
    Tensor& mask = world.out(DType::u8, n);
    Tensor& y = world.out(n);
    Tensor& stats = world.out(DType::fp32, size.rows * (centred ? 2 : 1));
    world.run([&](Kernels& kernels, const Place& at) {
        ResidualNorm op;
        op.sum.rows = size.rows;
        op.sum.width = size.width;
        op.sum.branch = at(branch);
        op.sum.x = at(residual);
        if (centred) {
            op.sum.biases = {at(added), Buffer{}};
            op.sum.key = {{11, 2, 5}, 0.3};
            op.sum.index = {999, 0, 0};
            op.sum.mask = at(mask);
        }
        op.sum.y = at(sum);
        op.norm = {size.rows,
                   size.width,
                   centred,
                   1e-5,
                   centred ? 0.0 : 1.0,
                   at(sum),
                   at(weight),
                   at(centred ? &bias : nullptr),
                   at(y),
                   at(stats)};
        kernels.residual_norm(op);
    });
    world.expect_same("sum", sum);
    world.expect_same("mask", mask);
    world.expect_close("y", y, roundings_of_sum(size.width) * (size.width == 1 ? 400 : 1));
    world.expect_close("stats", stats, roundings_of_sum(size.width));
}

void check_norm_backward(World& world, const Size& size, bool centred, bool accumulate,
                         bool frozen = false) {
    const std::int64_t n = size.rows * size.width;
    world.begin("norm_backward", text(size) + (centred ? " centred" : " rms, offset") +
                                     (accumulate ? ", added" : "") + (frozen ? ", frozen" : "") +
                                     (accumulate ? ", dx over residual" : ", dx over dy"));
    Tensor& dy = world.in(normals(n, 1));
    Tensor& x = world.in(normals(n, 2));
    Tensor& weight = world.in(normals(size.width, 3));
    Values statistics;
    for (std::int64_t row = 0; row < size.rows; ++row) {
        if (centred) statistics.push_back(0.1);
        statistics.push_back(0.9);
    }
    Tensor& stats = world.in(DType::fp32, statistics);
    Tensor& residual = world.in(normals(n, 4));
    Tensor& dweight = world.in(DType::fp32, normals(size.width, 5));
    Tensor& dbias = world.in(DType::fp32, normals(size.width, 6));
    Tensor& dx = accumulate ? residual : dy;
    world.run([&](Kernels& kernels, const Place& at) {
        NormBackward op;
        op.rows = size.rows;
        op.width = size.width;
        op.centred = centred;
        op.weight_offset = centred ? 0 : 1;
        op.dy = at(dy);
        op.x = at(x);
        op.weight = at(weight);
        op.stats = at(stats);
        if (accumulate) op.residual = at(residual);
        op.dx = at(dx);
        if (!frozen) op.dweight = at(dweight);
        if (centred && !frozen) op.dbias = at(dbias);
        op.accumulate = accumulate;
        kernels.norm_backward(op);
    });
    world.expect_close("dx", dx, roundings_of_sum(size.width));
    world.expect_close("dweight", dweight, roundings_of_sum(size.rows));
    world.expect_close("dbias", dbias, roundings_of_sum(size.rows));
}

void check_bias_gradient(World& world, const Size& size, bool accumulate) {
    world.begin("bias_gradient", text(size) + (accumulate ? ", added" : ""));
    Tensor& dy = world.in(normals(size.rows * size.width, 1));
    Tensor& dbias = world.in(normals(size.width, 2));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.bias_gradient({size.rows, size.width, at(dy), at(dbias), accumulate});
    });
    world.expect_close("dbias", dbias, roundings_of_sum(size.rows));
}

// Of y and of dx a handful of roundings in each of two libraries' exp, erf and tanh.
constexpr double kFunctionRoundings = 16;
// In the slope of gelu_tanh, ½(1 + t) + ½x(1 − t²)u′, those of two tanh, about eight, are
// multiplied by t·x·u′, which is 6 at x = 3, where the curve still bends.
constexpr double kSlopeRoundings = 6 * 8;

double slope_roundings(ActivationForm form) {
    return form == ActivationForm::gelu_tanh || form == ActivationForm::geglu_tanh
               ? kSlopeRoundings
               : kFunctionRoundings;
}
constexpr double kLimit = 0.7;  // a good part of what is clamped lies beyond it

void check_gate_apart(World& world, ActivationForm form, const char* name, const Size& size) {
    const std::int64_t n = size.rows * size.width;
    world.begin("activation", std::string(name) + " " + text(size) + " gate apart");
    Tensor& gate = world.in(normals(n, 1));
    Tensor& up = world.in(normals(n, 2));
    Tensor& dy = world.in(normals(n, 3));
    Tensor& y = world.out(n);
    Tensor& dx = world.out(2 * n);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.activation({form, size.rows, size.width, at(gate), at(y), at(up), kLimit});
        kernels.activation_backward(
            {form, size.rows, size.width, at(dy), at(gate), at(dx), at(up), kLimit});
    });
    world.expect_close("y", y, kFunctionRoundings);
    world.expect_close("dx", dx, slope_roundings(form));
}

void check_activation(World& world, ActivationForm form, const char* name, const Size& size) {
    const bool gated = form == ActivationForm::swiglu || form == ActivationForm::geglu_tanh ||
                       form == ActivationForm::geglu_erf || form == ActivationForm::clamped_swiglu;
    const std::int64_t n = size.rows * size.width, read = gated ? 2 * n : n;
    world.begin("activation", std::string(name) + " " + text(size));
    Tensor& x = world.in(normals(read, 1));
    Tensor& y = world.out(n);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.activation({form, size.rows, size.width, at(x), at(y), {}, kLimit});
    });
    world.expect_close("y", y, kFunctionRoundings);
    if (gated) check_gate_apart(world, form, name, size);
    world.begin("activation_backward", std::string(name) + " " + text(size) + " in place");
    Tensor& told_by = world.in(normals(read, 1));
    Tensor& dy = world.in(normals(n, 2));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.activation_backward(
            {form, size.rows, size.width, at(dy), at(told_by), at(told_by), {}, kLimit});
    });
    world.expect_close("dx", told_by, slope_roundings(form));
}

void check_residual_add(World& world, const Size& size, bool positions, bool in_place) {
    const std::int64_t n = size.rows * size.width;
    world.begin("residual_add", text(size) + (positions ? " positions" : " biases, mask") +
                                    (in_place ? " in place" : ""));
    Tensor& branch = world.in(normals(n, 1));
    Tensor& x = world.in(normals(n, 2));
    Tensor& bias = world.in(normals(size.width, 3));
    Tensor& other = world.in(normals(size.width, 4));
    Tensor& table = world.in(normals((7 + 2) * size.width, 5));
    Tensor& y = in_place ? branch : world.out(n);
    Tensor& mask = world.out(DType::u8, n);
    world.run([&](Kernels& kernels, const Place& at) {
        ResidualAdd op;
        op.rows = size.rows;
        op.width = size.width;
        op.branch = at(branch);
        if (positions) {
            op.positions = at(table);
            op.position_rows = {2, 3, 2, {3, 1, true}};  // positions 1 and 4 of 6
        } else {
            op.x = at(x);
            op.biases = {at(bias), at(other)};
            op.key = {{11, 2, 5}, 0.3};
            op.index = {999, 0, 0};
            op.mask = at(mask);
        }
        op.y = at(y);
        kernels.residual_add(op);
    });
    world.expect_same("y", y);
    world.expect_same("mask", mask);
}

void check_embedding(World& world, std::int64_t rows, std::int64_t width, bool by_position) {
    constexpr std::int64_t kEntries = 23;
    world.begin("embedding_backward", std::to_string(rows) + "x" + std::to_string(width) +
                                          (by_position ? " by position" : " by token"));
    std::vector<std::int32_t> tokens;
    for (std::int64_t row = 0; row < rows; ++row)  // every second one the same, others spread
        tokens.push_back(row % 2 == 0 ? 9 : static_cast<std::int32_t>(row * 7 % 31));
    Tensor& looked_up = world.tokens(tokens);
    Tensor& dy = world.in(normals(rows * width, 1));
    Tensor& added = world.in(DType::fp32, normals(kEntries * width, 2));
    Tensor& overwritten = world.out(kEntries * width);
    world.run([&](Kernels& kernels, const Place& at) {
        EmbeddingBackward op;
        op.rows = rows;
        op.width = width;
        op.part = {by_position ? 0 : 4, kEntries};
        op.scale = 1.5;
        if (by_position)
            op.position_rows = {17, 5, 2};
        else
            op.tokens = at.at<std::int32_t>(looked_up);
        op.dy = at(dy);
        op.dtable = at(overwritten);
        kernels.embedding_backward(op);
        op.dtable = at(added);
        op.accumulate = true;
        kernels.embedding_backward(op);
    });
    world.expect_same("dtable", overwritten);
    world.expect_same("dtable, added", added);
}

}  // namespace

void check_norms(World& world) {
    for (const Size& size : sizes(world.large()))
        for (const bool centred : {true, false}) {
            check_norm(world, size, centred);
            check_residual_norm(world, size, centred);
            check_norm_backward(world, size, centred, false);
            check_norm_backward(world, size, centred, true);
            check_norm_backward(world, size, centred, true, true);
        }
    for (const Size& size : sizes(world.large()))
        for (const bool accumulate : {true, false})
            check_bias_gradient(world, size, accumulate);
}

void check_activations(World& world) {
    for (const Size& size : sizes(world.large())) {
        check_activation(world, ActivationForm::gelu_tanh, "gelu_tanh", size);
        check_activation(world, ActivationForm::gelu_erf, "gelu_erf", size);
        check_activation(world, ActivationForm::relu, "relu", size);
        check_activation(world, ActivationForm::squared_relu, "squared_relu", size);
        check_activation(world, ActivationForm::swiglu, "swiglu", size);
        check_activation(world, ActivationForm::geglu_tanh, "geglu_tanh", size);
        check_activation(world, ActivationForm::geglu_erf, "geglu_erf", size);
        check_activation(world, ActivationForm::clamped_swiglu, "clamped_swiglu", size);
    }
}

void check_rope(World& world) {
    for (const bool backward : {false, true}) {
        const AttentionShape shape{2, world.large() ? 2048 : 22, 3, 1, 14};
        world.begin(backward ? "rope_backward" : "rope", "d14, 10 of them");
        Tensor& qkv = world.in(normals(shape.batch * shape.sequence * shape.qkv_width(), 1));
        world.run([&](Kernels& kernels, const Place& at) {
            const Values frequencies = {1, 0.31, 0.1, 0.031, 0.01};
            const Rope rope{shape, 10, kernels.keep(frequencies), at(qkv), {2, 1, true}};
            backward ? kernels.rope_backward({rope}) : kernels.rope(rope);
        });
        // Two products, each of a cosine or sine rounded to fp32, and their sum.
        world.expect_close("qkv", qkv, 8);
    }
}

void check_embeddings(World& world) {
    world.begin("embedding", "part of a table");
    Tensor& tokens = world.tokens({3, 4, 5, 40, 26, 27, 0});
    Tensor& table = world.in(normals(23 * 300, 1));
    Tensor& y = world.out(7 * 300);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.embedding({7, 300, {4, 23}, 2.5, at.at<std::int32_t>(tokens), at(table), at(y)});
    });
    world.expect_same("y", y);
    for (const bool by_position : {false, true}) {
        check_embedding(world, 50, 9, by_position);
        check_embedding(world, 300, 16, by_position);
        for (const std::int64_t width : {300, 304})  // more finds than the list holds
            check_embedding(world, 2600, width, by_position);
    }
}

void check_elementwise(World& world) {
    const std::int64_t n = world.large() ? (std::int64_t{1} << 22) + 3 : 1031;
    for (const DType type : {DType::bf16, DType::fp16, DType::fp32}) {
        const std::string other(plan::name(type));
        world.begin("add", other);
        Tensor& a = world.in(normals(n, 1));
        Tensor& b = world.in(type, normals(n, 2));
        Tensor& y = world.out(type, n);
        world.run([&](Kernels& kernels, const Place& at) {
            kernels.add({n, at(a), at(b), at(y)});
        });
        world.expect_same("y", y);
        world.begin("cast", "to " + other);
        Values edges = normals(n, 1);
        const Values special = {0.0, -0.0, 1e-7, -3e-8, 7e4, -1e38, INFINITY, -INFINITY, 6.1e-5};
        std::copy(special.begin(), special.end(), edges.begin());
        Tensor& x = world.in(edges);
        Tensor& into = world.out(type, n);
        world.run([&](Kernels& kernels, const Place& at) { kernels.cast({n, at(x), at(into)}); });
        world.expect_same("y", into);
    }
    world.begin("rearrange", "runs of 5 out of rows of 17");
    Tensor& rows = world.in(normals(6 * 17 + 40, 1));
    Tensor& parts = world.in(DType::fp32, normals(6 * 3 * 5 + 9, 2));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.rearrange({{6, 3}, 5, at(rows), at(parts), 4, 9, {17, 5}, {5, 30}});
    });
    world.expect_same("to", parts);
    world.begin("fill");
    Tensor& x = world.out(n);
    world.run([&](Kernels& kernels, const Place& at) { kernels.fill({n, 0.3, at(x)}); });
    world.expect_same("x", x);
    world.begin("fill", "fp64, as sums of the gradient norm are");
    Tensor& bins = world.out(plan::DType::fp64, 5);
    world.run([&](Kernels& kernels, const Place& at) { kernels.fill({5, 0.3, at(bins)}); });
    world.expect_same("bins", bins);
    for (const Size& size : sizes(world.large())) {
        check_residual_add(world, size, false, false);
        check_residual_add(world, size, true, true);
    }
}

void check_dropout(World& world) {
    const std::int64_t n = world.large() ? (std::int64_t{1} << 22) + 3 : 1031;
    for (const double p : {0.0, 0.1, 0.5})
        for (const ElementIndex& index : {ElementIndex{4097, 0, 0}, ElementIndex{5, 100, 333},
                                          ElementIndex{5, 100, 333, 70, 40, 1000}}) {
            const DropoutKey key{{42, 7, 3}, p};
            const std::string variant = "p " + std::to_string(p) +
                                        (index.run > 0 ? " in runs" : "") +
                                        (index.skip > 0 ? " of two pieces" : "");
            world.begin("dropout", variant);
            Tensor& x = world.in(normals(n, 1));
            Tensor& y = world.out(n);
            Tensor& mask = world.out(DType::u8, n);
            world.run([&](Kernels& kernels, const Place& at) {
                kernels.dropout({n, key, index, at(x), at(y), at(mask)});
            });
            world.expect_same("y", y);
            world.expect_same("mask", mask);
            world.begin("dropout_backward", variant);
            Tensor& dy = world.in(normals(n, 1));
            Tensor& by_key = world.out(n);
            Values kept(static_cast<std::size_t>(n));
            for (std::size_t i = 0; i < kept.size(); ++i)
                kept[i] = i % 3 == 0 ? 1 : 0;
            Tensor& told = world.in(DType::u8, kept);
            world.run([&](Kernels& kernels, const Place& at) {
                kernels.dropout_backward({n, key, index, at(dy), at(by_key), {}});
                kernels.dropout_backward({n, key, index, at(dy), at(dy), at(told)});
            });
            world.expect_same("dx by key", by_key);
            world.expect_same("dx by mask", dy);
        }
}

}  // namespace orrery::runtime::gpu_check
