#include <string>

#include "tests/gpu/checks/attention.hpp"
#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

std::string text(const AttentionCase& a) {
    const AttentionShape& s = a.shape;
    std::string text = "b" + std::to_string(s.batch) + " s" + std::to_string(s.sequence) + " h" +
                       std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " d" +
                       std::to_string(s.head_dim);
    if (a.window > 0) text += " window " + std::to_string(a.window);
    if (a.alibi) text += " alibi";
    if (s.values() != s.head_dim) text += " values " + std::to_string(s.values());
    if (a.dropout > 0) text += " dropout";
    if (a.soft_cap > 0) text += " cap";
    if (a.sinks) text += " sinks";
    return text;
}

// Tiles are 64, 32 and 16 queries at heads of up to 64, 128 and 256, and 32 or 16 keys; on tensor
// cores, for 16-bit elements and heads of whole eights, 64 queries and 64 or 32 keys.
std::vector<AttentionCase> cases(bool large) {
    std::vector<AttentionCase> all = {{{1, 1, 1, 1, 4}},
                                      {{2, 37, 4, 2, 8}},
                                      {{1, 65, 2, 2, 64}},
                                      {{1, 70, 2, 1, 40}, 9, false, 0},
                                      {{1, 70, 2, 2, 72}, 0, true, 0},
                                      {{2, 33, 4, 1, 16}, 0, false, 0.25},
                                      {{1, 35, 2, 1, 136}, 20, true, 0.5},
                                      {{2, 35, 4, 2, 16}, 0, true, 0, 0.7},
                                      {{2, 35, 4, 2, 16}, 7, false, 0.25, 0, true},
                                      {{1, 70, 2, 1, 72}, 0, false, 0, 0.7, true},
                                      {{2, 35, 2, 2, 12, 7}},
                                      {{1, 35, 2, 1, 40, 72}, 9, false, 0.25},
                                      {{1, 20, 2, 2, 192, 128}, 0, false, 0, 0.7, true},
                                      {{1, 130, 2, 1, 24}, 70},
                                      {{1, 131, 1, 1, 64}},
                                      {{1, 67, 2, 2, 128}},
                                      {{1, 66, 1, 1, 192, 128}},
                                      {{1, 34, 1, 1, 256}}};
    if (large)
        all.insert(all.end(), {{{2, 513, 8, 2, 64}},
                               {{1, 1024, 4, 4, 128}},
                               {{1, 300, 2, 2, 256}},
                               {{1, 700, 4, 1, 80}, 128, true, 0.1},
                               {{2, 513, 8, 2, 64}, 128, false, 0, 0, true},
                               {{1, 700, 4, 2, 256}, 0, false, 0, 0.7},
                               {{1, 700, 8, 8, 192, 128}}});
    return all;
}

AttentionDropout dropout_of(const AttentionCase& a) {
    return {{{17, 5, 3}, a.dropout}, 6, 2, a.shape.heads + 4};
}

AttentionMask mask_of(const AttentionCase& a, Kernels& kernels) {
    if (!a.alibi) return {a.window, nullptr};
    Values slopes;
    for (std::int64_t head = 0; head < a.shape.heads; ++head)
        slopes.push_back(std::exp2(-static_cast<double>(head + 1)));
    return {a.window, kernels.keep(slopes)};
}

// Of one head about as likely as all keys together, of others less.
Values sinks_of(const AttentionCase& a) {
    Values sinks;
    for (std::int64_t head = 0; head < a.shape.heads; ++head)
        sinks.push_back(std::log(static_cast<double>(a.shape.sequence)) -
                        static_cast<double>(head));
    return sinks;
}

// A score is off by the roundings of a sum of d products, whose size is about 1 after its scale;
// exp makes of that a factor of about the same. Sums over the keys follow.
double roundings_of_attention(const AttentionShape& shape) {
    return 2 * roundings_of_sum(shape.head_dim) + roundings_of_sum(shape.sequence);
}

// Of 16-bit elements, probabilities and gradients of scores are rounded to their type before they
// are multiplied: a sum is off by as many units of it as its parts, whose signs are random, and
// whose size the largest element of the output has.
double roundings_of_products(const World& world, const AttentionShape& shape) {
    return roundings_of_attention(shape) + 4 * unit_of(world.dtype()) / unit_of(DType::fp32) - 4;
}

AttentionScores rules_of(const AttentionCase& a, const Buffer& sinks) {
    return {a.soft_cap, a.sinks ? sinks : Buffer{}};
}

}  // namespace

void check_attention_case(World& world, const AttentionCase& a) {
    const AttentionShape& s = a.shape;
    const std::int64_t rows = s.batch * s.sequence;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    world.begin("attention", text(a));
    Tensor& qkv = world.in(normals(rows * s.qkv_width(), 1));
    Tensor& context = world.out(rows * s.context_width());
    Tensor& lse = world.out(DType::fp32, rows * s.heads);
    Tensor& sinks = world.in(sinks_of(a));
    world.run([&](Kernels& kernels, const Place& at) {
        Attention op{s, mask_of(a, kernels), dropout_of(a), scale, at(qkv), at(context), at(lse)};
        op.scores = rules_of(a, at(sinks));
        kernels.attention(op);
    });
    world.expect_close("context", context, roundings_of_products(world, s));
    world.expect_close("lse", lse, roundings_of_attention(s));
}

namespace {

// fp32, where the gradient of queries may be summed in any order: as a plan's op has it.
AttentionBackward::Room room_of(const plan::AttentionSizes& sizes, const Buffer& all) {
    const plan::AttentionSizes::Room room = sizes.room();
    auto* const elements = static_cast<float*>(all.data);
    return {all,
            {elements + room.row_sums, all.dtype},
            {elements + room.workspace, all.dtype},
            room.elements - room.workspace};
}

}  // namespace

// Of what the oracle computed forward, so that both begin with the same numbers.
void check_attention_backward(World& world, const AttentionCase& a, bool accumulate,
                              bool any_order) {
    const AttentionShape& s = a.shape;
    const std::int64_t rows = s.batch * s.sequence;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    world.begin("attention_backward",
                text(a) + (accumulate ? ", added" : "") + (any_order ? ", in any order" : ""));
    Tensor& qkv = world.in(normals(rows * s.qkv_width(), 1));
    Tensor& context = world.in(Values(static_cast<std::size_t>(rows * s.context_width())));
    Tensor& lse = world.in(DType::fp32, Values(static_cast<std::size_t>(rows * s.heads)));
    Tensor& dcontext = world.in(normals(rows * s.context_width(), 2));
    Tensor& dqkv = world.out(rows * s.qkv_width());
    Tensor& sinks = world.in(sinks_of(a));
    Tensor& dsinks = world.in(DType::fp32, normals(s.heads, 3));
    const plan::AttentionSizes sizes = sizes_of(s);
    Tensor& room = world.out(DType::fp32, any_order ? sizes.room().elements : 1);
    CpuKernels oracle(1);
    const Place here(false);
    Attention forward{s,         mask_of(a, oracle), dropout_of(a), scale,
                      here(qkv), here(context),      here(lse)};
    forward.scores = rules_of(a, here(sinks));
    oracle.attention(forward);
    context.before = context.expected;
    lse.before = lse.expected;
    const auto backward = [&](Kernels& kernels, const Place& at) {
        AttentionBackward op{s,       mask_of(a, kernels), dropout_of(a), scale,   at(dcontext),
                             at(qkv), at(context),         at(lse),       at(dqkv)};
        op.scores = rules_of(a, at(sinks));
        if (a.sinks) op.dsinks = at(dsinks);
        op.accumulate = accumulate;
        if (any_order) op.room = room_of(sizes, at(room));
        kernels.attention_backward(op);
    };
    world.run(backward, any_order ? Repeats::any_bits : Repeats::same_bits);
    world.expect_close("dqkv", dqkv, 2 * roundings_of_products(world, s));
    world.expect_close("dsinks", dsinks, 2 * roundings_of_attention(s) + roundings_of_sum(rows));
}

namespace {

// What one rank of several computes, of whose sequence it holds shape.sequence tokens.
struct Shared {
    AttentionCase of;
    std::int64_t ranks = 1, rank = 0;
    bool zigzag = false;
    bool gathered = false;  // keys of all ranks at once; else of one after the other

    SequencePart part() const { return {ranks, rank, zigzag}; }
    std::int64_t hops() const { return gathered ? 1 : ranks; }
    std::int64_t blocks() const { return gathered ? ranks : 1; }
    // Its own keys come first, then those of the ranks before it.
    std::int64_t owner(std::int64_t hop) const {
        return gathered ? 0 : (rank - hop + ranks) % ranks;
    }
};

std::string text(const Shared& a) {
    return text(a.of) + " rank " + std::to_string(a.rank) + " of " + std::to_string(a.ranks) +
           (a.zigzag ? " zigzag" : " in order") + (a.gathered ? " gathered" : " ring");
}

// Runs of less, and of more, than a tile's queries and keys.
std::vector<Shared> shared_cases(bool large) {
    std::vector<Shared> kinds = {{{{2, 6, 4, 2, 8, 5}, 0, false, 0, 0.7}, 2, 0, true},
                                 {{{1, 10, 2, 1, 12}, 7, true, 0.25, 0, true}, 3, 0, true},
                                 {{{2, 5, 2, 1, 4, 9}, 0, true, 0.25, 0, true}, 3, 0, false},
                                 {{{1, 34, 1, 1, 130}, 0, false, 0.25}, 2, 0, true},
                                 {{{1, 35, 1, 1, 20}, 9, false, 0, 0.7, true}, 2, 0, false},
                                 {{{1, 34, 2, 1, 72, 40}, 0, false, 0.25}, 2, 0, true},
                                 {{{2, 70, 1, 1, 16}, 80, true, 0, 0, true}, 2, 0, false}};
    if (large)
        kinds.insert(kinds.end(), {{{{2, 514, 8, 2, 64}, 0, false, 0.1, 0, true}, 3, 0, true},
                                   {{{1, 700, 4, 4, 128}, 300, true, 0, 0.7}, 2, 0, true},
                                   {{{1, 301, 4, 2, 192, 128}, 0, false, 0.1}, 3, 0, false}});
    std::vector<Shared> all;
    for (Shared& kind : kinds)
        for (kind.rank = 0; kind.rank < kind.ranks; ++kind.rank)
            for (const bool gathered : {false, true}) {
                kind.gathered = gathered;
                all.push_back(kind);
            }
    return all;
}

AttentionShape whole_of(const Shared& a) {
    AttentionShape shape = a.of.shape;
    shape.sequence *= a.ranks;
    return shape;
}

std::vector<Tensor*> keys_of(World& world, const Shared& a) {
    std::vector<Tensor*> keys;
    const std::int64_t n = a.of.shape.batch * a.of.shape.sequence * a.of.shape.kv_width();
    for (std::int64_t hop = 0; hop < a.hops(); ++hop)
        keys.push_back(
            &world.in(normals(a.blocks() * n, 10 + static_cast<std::uint32_t>(a.owner(hop)))));
    return keys;
}

// All hops, each from the sums of the one before.
void attend_shared(Kernels& kernels, const Shared& a, Attention op, const Place& at,
                   const std::vector<Tensor*>& keys) {
    op.part = a.part();
    for (std::int64_t hop = 0; hop < a.hops(); ++hop) {
        op.keys = {at(keys[static_cast<std::size_t>(hop)]), a.owner(hop), a.blocks()};
        op.continues = hop > 0;
        op.ends = hop + 1 == a.hops();
        kernels.attention(op);
    }
}

void check_shared(World& world, const Shared& a) {
    const AttentionShape& s = a.of.shape;
    const std::int64_t rows = s.batch * s.sequence;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    world.begin("attention", text(a));
    Tensor& qkv = world.in(normals(rows * s.qkv_width(), 1));
    const std::vector<Tensor*> keys = keys_of(world, a);
    Tensor& context = world.out(rows * s.context_width());
    Tensor& sums = world.out(DType::fp32, rows * s.context_width());
    Tensor& lse = world.out(DType::fp32, rows * s.heads);
    Tensor& sinks = world.in(sinks_of(a.of));
    world.run([&](Kernels& kernels, const Place& at) {
        Attention op{s,      mask_of(a.of, kernels), dropout_of(a.of), scale, at(qkv), at(context),
                     at(lse)};
        op.sums = at(sums);
        op.scores = rules_of(a.of, at(sinks));
        attend_shared(kernels, a, op, at, keys);
    });
    const double roundings = roundings_of_attention(whole_of(a));
    const double of_products = roundings_of_products(world, whole_of(a));
    world.expect_close("context", context, of_products);
    world.expect_close("sums", sums, of_products);
    world.expect_close("lse", lse, roundings);
}

void check_shared_backward(World& world, const Shared& a) {
    const AttentionShape& s = a.of.shape;
    const std::int64_t rows = s.batch * s.sequence, dq_elements = rows * s.heads * s.head_dim;
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    world.begin("attention_backward", text(a));
    Tensor& qkv = world.in(normals(rows * s.qkv_width(), 1));
    const std::vector<Tensor*> keys = keys_of(world, a);
    Tensor& context = world.in(Values(static_cast<std::size_t>(rows * s.context_width())));
    Tensor& sums = world.out(DType::fp32, rows * s.context_width());
    Tensor& lse = world.in(DType::fp32, Values(static_cast<std::size_t>(rows * s.heads)));
    Tensor& dcontext = world.in(normals(rows * s.context_width(), 2));
    Tensor& dq = a.gathered ? world.out(dq_elements) : world.out(DType::fp32, dq_elements);
    std::vector<Tensor*> dkeys;
    for (Tensor* of_hop : keys)
        dkeys.push_back(&world.out(of_hop->elements()));
    Tensor& sinks = world.in(sinks_of(a.of));
    Tensor& dsinks = world.out(DType::fp32, s.heads);
    CpuKernels oracle(1);
    const Place here(false);
    Attention forward{s,         mask_of(a.of, oracle), dropout_of(a.of), scale,
                      here(qkv), here(context),         here(lse)};
    forward.sums = here(sums);
    forward.scores = rules_of(a.of, here(sinks));
    attend_shared(oracle, a, forward, here, keys);
    context.before = context.expected;
    lse.before = lse.expected;
    world.run([&](Kernels& kernels, const Place& at) {
        AttentionBackward op{s,
                             mask_of(a.of, kernels),
                             dropout_of(a.of),
                             scale,
                             at(dcontext),
                             at(qkv),
                             at(context),
                             at(lse),
                             {},
                             a.part()};
        op.dq = at(dq);
        for (std::int64_t hop = 0; hop < a.hops(); ++hop) {
            const auto i = static_cast<std::size_t>(hop);
            op.keys = {at(keys[i]), a.owner(hop), a.blocks()};
            op.dkv = at(dkeys[i]);
            op.continues = hop > 0;
            op.scores = rules_of(a.of, hop == 0 ? at(sinks) : Buffer{});
            op.dsinks = op.scores.sinks ? at(dsinks) : Buffer{};
            kernels.attention_backward(op);
        }
    });
    const double roundings = 2 * roundings_of_attention(whole_of(a));
    const double of_products = 2 * roundings_of_products(world, whole_of(a));
    world.expect_close("dq", dq, of_products);
    for (std::size_t hop = 0; hop < dkeys.size(); ++hop)
        world.expect_close("dkv of hop " + std::to_string(hop), *dkeys[hop], of_products);
    world.expect_close("dsinks", dsinks, roundings + roundings_of_sum(rows));
}

void check_product(World& world, AttentionProductForm form, const char* name,
                   const AttentionShape& s) {
    world.begin("attention_product", name);
    const std::int64_t rows = s.batch * s.sequence, maps = s.maps() * s.sequence * s.sequence;
    const bool writes_maps =
        form == AttentionProductForm::scores || form == AttentionProductForm::probability_gradient;
    // Beyond the diagonal maps that are read are 0.
    Values map = normals(maps, 2);
    for (std::int64_t i = 0; i < maps; ++i)
        if (i % s.sequence > i / s.sequence % s.sequence) map[static_cast<std::size_t>(i)] = 0;
    Tensor& qkv = world.in(normals(rows * s.qkv_width(), 1));
    Tensor& of_maps = writes_maps ? world.out(maps) : world.in(map);
    Tensor& context = form == AttentionProductForm::context
                          ? world.out(rows * s.context_width())
                          : world.in(normals(rows * s.context_width(), 3));
    Tensor& dqkv = world.out(rows * s.qkv_width());
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.attention_product({form, s, 0.3, at(qkv), at(of_maps), at(context), at(dqkv)});
    });
    const double roundings = roundings_of_sum(s.sequence * s.heads + s.head_dim);
    world.expect_close("maps", of_maps, roundings);
    world.expect_close("context", context, roundings);
    world.expect_close("dqkv", dqkv, roundings);
}

void check_softmax(World& world, const AttentionCase& a) {
    const AttentionShape& s = a.shape;
    const std::int64_t maps = s.maps() * s.sequence * s.sequence;
    world.begin("softmax", text(a));
    Tensor& scores = world.in(normals(maps, 1));
    Tensor& probabilities = world.out(maps);
    Tensor& sinks = world.in(sinks_of(a));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.softmax(
            {s, mask_of(a, kernels), at(scores), at(probabilities), rules_of(a, at(sinks))});
    });
    world.expect_close("probabilities", probabilities, roundings_of_sum(s.sequence));
    world.begin("softmax", text(a) + " in place");
    Tensor& both = world.in(normals(maps, 1));
    Tensor& known = world.in(sinks_of(a));
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.softmax({s, mask_of(a, kernels), at(both), at(both), rules_of(a, at(known))});
    });
    world.expect_close("probabilities", both, roundings_of_sum(s.sequence));
}

// Of probabilities that the oracle made, where they are what tells of a sink's.
void check_softmax_backward(World& world, const AttentionCase& a, bool accumulate) {
    const AttentionShape& s = a.shape;
    const std::int64_t maps = s.maps() * s.sequence * s.sequence;
    world.begin("softmax_backward", text(a) + (accumulate ? ", added" : ""));
    Tensor& scores = world.in(normals(maps, 1));
    Tensor& p = world.in(Values(static_cast<std::size_t>(maps)));
    Tensor& dp = world.in(normals(maps, 2));
    Tensor& sinks = world.in(sinks_of(a));
    Tensor& dsinks = world.in(DType::fp32, normals(s.heads, 3));
    CpuKernels oracle(1);
    const Place here(false);
    oracle.softmax({s, mask_of(a, oracle), here(scores), here(p), rules_of(a, here(sinks))});
    p.before = p.expected;
    world.run([&](Kernels& kernels, const Place& at) {
        SoftmaxBackward op{s, at(dp), at(p), at(dp), rules_of(a, at(sinks))};
        if (a.soft_cap > 0 || a.sinks) op.scores = at(scores);
        if (a.sinks) op.dsinks = at(dsinks);
        op.accumulate = accumulate;
        kernels.softmax_backward(op);
    });
    world.expect_close("dscores", dp, roundings_of_sum(s.sequence));
    world.expect_close("dsinks", dsinks, roundings_of_sum(s.sequence * s.batch));
}

}  // namespace

void check_attention(World& world) {
    for (const AttentionCase& a : cases(world.large())) {
        check_attention_case(world, a);
        check_attention_backward(world, a, false);
        check_attention_backward(world, a, false, true);
        if (a.sinks) check_attention_backward(world, a, true);
    }
    for (const Shared& a : shared_cases(world.large())) {
        check_shared(world, a);
        check_shared_backward(world, a);
    }
}

void check_unfused_attention(World& world) {
    std::vector<AttentionShape> shapes = {
        {2, 5, 4, 2, 12}, {1, 18, 2, 1, 20}, {2, 5, 4, 2, 20, 12}, {1, 37, 2, 2, 6, 19}};
    if (world.large()) shapes.insert(shapes.end(), {{2, 257, 8, 2, 64}, {1, 257, 8, 8, 192, 128}});
    for (const AttentionShape& s : shapes) {
        check_product(world, AttentionProductForm::scores, "scores", s);
        check_product(world, AttentionProductForm::context, "context", s);
        check_product(world, AttentionProductForm::probability_gradient, "probabilities", s);
        check_product(world, AttentionProductForm::value_gradient, "values", s);
        check_product(world, AttentionProductForm::query_gradient, "queries", s);
        check_product(world, AttentionProductForm::key_gradient, "keys", s);
        check_softmax(world, {s, 0, false, 0});
        check_softmax(world, {s, 5, true, 0});
        check_softmax(world, {s, 5, true, 0, 0.7, true});
        check_softmax_backward(world, {s, 0, false, 0}, false);
        check_softmax_backward(world, {s, 5, false, 0, 0.7, false}, false);
        check_softmax_backward(world, {s, 5, false, 0, 0, true}, true);
        check_softmax_backward(world, {s, 0, false, 0, 0.7, true}, false);
    }
}

}  // namespace orrery::runtime::gpu_check
