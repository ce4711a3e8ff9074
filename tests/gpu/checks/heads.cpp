// Kernels that go over the heads of packed rows: norms of queries and keys, their temperature, and
// heads of latents.
#include <string>

#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

// Of queries and keys: each head by itself, with weights or without; or all heads of some ranks.
enum class Together { head, unweighted, ranks };

struct Case {
    AttentionShape shape;
    Together together = Together::head;

    std::int64_t rows() const { return shape.batch * shape.sequence; }
    std::int64_t normed(std::size_t part) const {
        return (part == 0 ? shape.heads : shape.kv_heads) * shape.head_dim;
    }
    std::int64_t weights(std::size_t part) const {
        return together == Together::ranks ? normed(part) : shape.head_dim;
    }
    std::int64_t ranks() const { return together == Together::ranks ? 3 : 0; }
    double offset() const { return shape.head_dim % 2 == 0 ? 0 : 1; }
};

std::string text(const AttentionShape& s) {
    return "b" + std::to_string(s.batch) + " s" + std::to_string(s.sequence) + " h" +
           std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " d" +
           std::to_string(s.head_dim);
}
std::string text(const Case& a) {
    return text(a.shape) + (a.together == Together::head         ? ", by head"
                            : a.together == Together::unweighted ? ", without weights"
                                                                 : ", of three ranks");
}

// One row of one head, whose sums of weights' gradients find no room; heads narrower and wider than
// a warp, more than a block has warps; more rows than are summed at once.
std::vector<AttentionShape> shapes(bool large) {
    std::vector<AttentionShape> all = {
        {1, 1, 1, 1, 6}, {1, 2, 2, 1, 33}, {2, 35, 3, 3, 8}, {1, 5, 9, 2, 40}};
    if (large) all.push_back({2, 1500, 16, 4, 128});
    return all;
}

std::vector<Case> cases(bool large) {
    std::vector<Case> all;
    for (const AttentionShape& shape : shapes(large))
        for (const Together together : {Together::head, Together::unweighted, Together::ranks})
            all.push_back({shape, together});
    return all;
}

// What three ranks may have of a row: about 1 an element.
Values sums_of_squares(const Case& a) {
    Values sums;
    for (std::int64_t row = 0; row < a.rows(); ++row)
        for (const std::size_t part : {0, 1})
            sums.push_back(static_cast<double>(3 * a.normed(part)) *
                           (1 + 0.01 * static_cast<double>(row)));
    return sums;
}

// The inputs that all three requests have.
struct Inputs {
    Tensor *qkv, *q_weight, *k_weight, *sums;

    Inputs(World& world, const Case& a)
        : qkv(&world.in(normals(a.rows() * a.shape.qkv_width(), 1))),
          q_weight(&world.in(normals(a.weights(0), 2))),
          k_weight(&world.in(normals(a.weights(1), 3))),
          sums(&world.in(DType::fp32, sums_of_squares(a))) {
        if (a.together == Together::unweighted) q_weight = k_weight = nullptr;
        if (a.together != Together::ranks) sums = nullptr;
    }
};

void check_forward(World& world, const Case& a) {
    world.begin("qk_norm", text(a));
    const Inputs in(world, a);
    Tensor& y = world.out(a.rows() * a.shape.qkv_width());
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.qk_norm({a.shape, 1e-6, a.offset(), a.ranks(), at(in.qkv), at(in.q_weight),
                         at(in.k_weight), at(in.sums), at(y)});
    });
    world.expect_close("y", y, roundings_of_sum(a.shape.head_dim));
}

void check_sums(World& world, const Case& a, bool of_gradients) {
    world.begin("qk_norm_sums", text(a) + (of_gradients ? ", of gradients" : ", of squares"));
    const Inputs in(world, a);
    Tensor& dy = world.in(normals(a.rows() * a.shape.qkv_width(), 5));
    Tensor& sums = world.out(DType::fp32, 2 * a.rows());
    world.run([&](Kernels& kernels, const Place& at) {
        QkNormSums op{a.shape, a.offset(), at(in.qkv), {}, {}, {}, at(sums)};
        if (of_gradients) {
            op.dy = at(dy);
            op.q_weight = at(in.q_weight);
            op.k_weight = at(in.k_weight);
        }
        kernels.qk_norm_sums(op);
    });
    world.expect_close("sums", sums, roundings_of_sum(a.normed(0)));
}

void check_backward(World& world, const Case& a, bool accumulate, bool frozen) {
    world.begin("qk_norm_backward",
                text(a) + (accumulate ? ", added" : "") + (frozen ? ", frozen" : ""));
    const Inputs in(world, a);
    Tensor& dy = world.in(normals(a.rows() * a.shape.qkv_width(), 5));
    Tensor& dots = world.in(DType::fp32, normals(2 * a.rows(), 6));
    Tensor& dqkv = world.out(a.rows() * a.shape.qkv_width());
    Tensor& dq_weight = world.in(DType::fp32, normals(a.weights(0), 7));
    Tensor& dk_weight = world.in(normals(a.weights(1), 8));
    world.run([&](Kernels& kernels, const Place& at) {
        QkNormBackward op;
        op.shape = a.shape;
        op.weight_offset = a.offset();
        op.ranks = a.ranks();
        op.dy = at(dy);
        op.qkv = at(in.qkv);
        op.q_weight = at(in.q_weight);
        op.k_weight = at(in.k_weight);
        op.sums = at(in.sums);
        if (op.sums) op.dots = at(dots);
        op.dqkv = at(dqkv);
        if (!frozen) {
            op.dq_weight = at(dq_weight);
            op.dk_weight = at(dk_weight);
        }
        op.accumulate = accumulate;
        kernels.qk_norm_backward(op);
    });
    world.expect_close("dqkv", dqkv, roundings_of_sum(a.shape.head_dim));
    const std::int64_t heads = a.together == Together::ranks ? 1 : a.shape.heads;
    world.expect_close("dq_weight", dq_weight, roundings_of_sum(a.rows() * heads));
    world.expect_close("dk_weight", dk_weight, roundings_of_sum(a.rows() * heads));
}

struct Latents {
    AttentionShape shape;
    std::int64_t plain_dim = 0, rotary_dim = 0;
    bool interleaved = false;
    double scale = 1;
};

Values frequencies_of(std::int64_t half) {
    Values all;
    for (std::int64_t i = 0; i < half; ++i)
        all.push_back(std::exp2(-static_cast<double>(i)));
    return all;
}

// Two products, each of a cosine or sine rounded to fp32, and their sum; backward after a sum over
// heads.
void check_latent_heads(World& world, const Latents& a) {
    const AttentionShape& s = a.shape;
    const std::int64_t rows = s.batch * s.sequence;
    const std::int64_t kv_width = s.heads * (a.plain_dim + s.values());
    const auto request = [&](Kernels& kernels) {
        LatentHeads op;
        op.shape = s;
        op.plain_dim = a.plain_dim;
        op.rotary_dim = a.rotary_dim;
        op.interleaved = a.interleaved;
        op.turned_scale = a.scale;
        op.inverse_frequencies = kernels.keep(frequencies_of(a.rotary_dim / 2));
        op.part = {2, 1, s.sequence % 2 == 0};
        return op;
    };
    const std::string variant = text(s) + ", " + std::to_string(a.rotary_dim) + " turned, values " +
                                std::to_string(s.values()) + (a.interleaved ? ", interleaved" : "");
    for (const bool backward : {false, true}) {
        world.begin(backward ? "latent_heads_backward" : "latent_heads", variant);
        const auto tensor = [&](bool is_input, std::int64_t n, std::uint32_t seed) {
            return is_input ? &world.in(normals(n, seed)) : &world.out(n);
        };
        Tensor* const q = tensor(!backward, rows * s.heads * s.head_dim, 1);
        Tensor* const kv = tensor(!backward, rows * kv_width, 2);
        Tensor* const keys = tensor(!backward, rows * a.rotary_dim, 3);
        Tensor* const qkv = tensor(backward, rows * s.qkv_width(), 4);
        world.run([&](Kernels& kernels, const Place& at) {
            LatentHeads op = request(kernels);
            op.q = at(q);
            op.kv = at(kv);
            op.rotary_keys = at(keys);
            op.qkv = at(qkv);
            backward ? kernels.latent_heads_backward({op}) : kernels.latent_heads(op);
        });
        world.expect_close("q", *q, 8);
        world.expect_close("kv", *kv, 0);
        world.expect_close("rotary_keys", *keys, 8 + roundings_of_sum(s.heads));
        world.expect_close("qkv", *qkv, 8);
    }
}

void check_temper(World& world, const AttentionShape& shape, std::int64_t floor,
                  const SequencePart& part) {
    world.begin("temper_queries", text(shape) + ", floor " + std::to_string(floor));
    Tensor& qkv = world.in(normals(shape.batch * shape.sequence * shape.qkv_width(), 1));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.temper_queries({shape, floor, 0.1, at(qkv), part});
    });
    world.expect_close("qkv", qkv, 2);  // of the factor and of the product
}

}  // namespace

void check_qk_norms(World& world) {
    for (const Case& a : cases(world.large())) {
        check_forward(world, a);
        const bool unweighted = a.together == Together::unweighted;
        check_backward(world, a, false, unweighted);
        if (!unweighted) check_backward(world, a, true, false);
        if (!unweighted) check_backward(world, a, true, true);
        if (a.together != Together::ranks) continue;
        check_sums(world, a, false);
        check_sums(world, a, true);
    }
}

void check_latent_heads(World& world) {
    std::vector<Latents> all = {{{1, 1, 1, 1, 5, 3}, 3, 2, false, 1},
                                {{2, 6, 3, 3, 14, 9}, 8, 6, false, 1.25},
                                {{2, 7, 3, 3, 14, 14}, 4, 10, true, 1},
                                {{1, 4, 2, 2, 192, 128}, 128, 64, true, 0.7}};
    if (world.large()) all.push_back({{2, 1024, 16, 16, 192, 128}, 128, 64, true, 1});
    for (const Latents& a : all)
        check_latent_heads(world, a);
}

void check_tempers(World& world) {
    check_temper(world, {2, 22, 3, 1, 14}, 4, {2, 1, true});
    check_temper(world, {1, 7, 1, 1, 300}, 20, {});
    if (world.large()) check_temper(world, {2, 4096, 8, 2, 128}, 512, {});
}

}  // namespace orrery::runtime::gpu_check
