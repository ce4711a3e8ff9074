// The products of unfused attention: one batched product of strided operands, in tiles of 16 × 16.
#include "runtime/cuda/launch.cuh"
#include "runtime/cuda/launches.hpp"
#include "runtime/kernels/attention_rules.hpp"
#include "runtime/kernels/elements.hpp"

namespace orrery::runtime::cuda {
namespace {

constexpr int kProductTile = 16;  // kThreads are a tile

// A matrix of each (sample, head); of each (sample, head / sharing) where heads share one.
struct Operand {
    Buffer buffer;
    std::int64_t first, sample, head, row, column;  // elements: of the first, then strides
    std::int64_t sharing;

    __device__ std::int64_t at(std::int64_t s, std::int64_t h, std::int64_t i,
                               std::int64_t j) const {
        return first + s * sample + h / sharing * head + i * row + j * column;
    }
};

// c[m,n] = scale·Σ over `summed` heads of a[m,k]·b[k,n], for units (sample, heads of a unit).
struct Product {
    Operand a, b, c;
    std::int64_t m, n, k;
    std::int64_t samples, heads, summed;
    float scale;
};

__device__ float element(const Operand& from, std::int64_t sample, std::int64_t head,
                         std::int64_t row, std::int64_t column, bool inside) {
    return inside ? load(from.buffer, from.at(sample, head, row, column)) : 0.0F;
}

__device__ void compute_tile(const Product& p, std::int64_t sample, std::int64_t first_head,
                             std::int64_t row, std::int64_t column) {
    __shared__ float a[kProductTile][kProductTile + 1];
    __shared__ float b[kProductTile][kProductTile + 1];
    const int y = static_cast<int>(threadIdx.x) / kProductTile,
              x = static_cast<int>(threadIdx.x) % kProductTile;
    float sum = 0;
    for (std::int64_t head = first_head; head < first_head + p.summed; ++head)
        for (std::int64_t depth = 0; depth < p.k; depth += kProductTile) {
            a[y][x] =
                element(p.a, sample, head, row + y, depth + x, row + y < p.m && depth + x < p.k);
            b[y][x] = element(p.b, sample, head, depth + y, column + x,
                              depth + y < p.k && column + x < p.n);
            __syncthreads();
            for (int l = 0; l < kProductTile; ++l)
                sum = std::fma(a[y][l], b[l][x], sum);
            __syncthreads();
        }
    if (row + y < p.m && column + x < p.n)
        store(p.c.buffer, p.c.at(sample, first_head, row + y, column + x), p.scale * sum);
}

__global__ void product_kernel(Product p) {
    const std::int64_t down = (p.m + kProductTile - 1) / kProductTile,
                       across = (p.n + kProductTile - 1) / kProductTile;
    const std::int64_t units = p.heads / p.summed;
    for (std::int64_t i = blockIdx.x; i < p.samples * units * down * across; i += gridDim.x) {
        const std::int64_t unit = i / (down * across), tile = i % (down * across);
        compute_tile(p, unit / units, unit % units * p.summed, tile / across * kProductTile,
                     tile % across * kProductTile);
    }
}

Operand transposed(Operand operand) {
    const std::int64_t row = operand.row;
    operand.row = operand.column;
    operand.column = row;
    return operand;
}

// The tensors of a request as matrices [S, d], [S, values] and [S, S].
struct Operands {
    Operand q, k, v, maps, context;

    explicit Operands(const AttentionProduct& op, const Buffer& packed) {
        const AttentionShape& shape = op.shape;
        const std::int64_t s = shape.sequence, d = shape.head_dim, dv = shape.values();
        const std::int64_t width = shape.qkv_width();
        const std::int64_t group = shape.heads / shape.kv_heads;
        q = {packed, query_at(shape, 0, 0), s * width, d, width, 1, 1};
        k = {packed, key_at(shape, 0, 0), s * width, d, width, 1, group};
        v = {packed, value_at(shape, 0, 0), s * width, dv, width, 1, group};
        maps = {op.maps, 0, shape.heads * s * s, s * s, s, 1, 1};
        context = {op.context, 0, s * shape.context_width(), dv, shape.context_width(), 1, 1};
    }
};

Product product_of(const AttentionProduct& op) {
    const AttentionShape& shape = op.shape;
    const std::int64_t s = shape.sequence, d = shape.head_dim, dv = shape.values();
    const std::int64_t group = shape.heads / shape.kv_heads;
    const auto scale = static_cast<float>(op.scale);
    const Operands in(op, op.qkv), out(op, op.dqkv);
    const std::int64_t n = shape.batch, h = shape.heads;
    switch (op.form) {
        case AttentionProductForm::scores:
            return {in.q, transposed(in.k), in.maps, s, s, d, n, h, 1, scale};
        case AttentionProductForm::context:
            return {in.maps, in.v, in.context, s, dv, s, n, h, 1, 1};
        case AttentionProductForm::probability_gradient:
            return {in.context, transposed(in.v), in.maps, s, s, dv, n, h, 1, 1};
        case AttentionProductForm::value_gradient:
            return {transposed(in.maps), in.context, out.v, s, dv, s, n, h, group, 1};
        case AttentionProductForm::query_gradient:
            return {in.maps, in.k, out.q, s, d, s, n, h, 1, scale};
        case AttentionProductForm::key_gradient:
            break;
    }
    return {transposed(in.maps), in.q, out.k, s, d, s, n, h, group, scale};
}

}  // namespace

void attention_product(const AttentionProduct& op, cudaStream_t stream) {
    check_types({op.qkv, op.maps, op.context, op.dqkv});
    const Product product = product_of(op);
    const std::int64_t down = (product.m + kProductTile - 1) / kProductTile;
    const std::int64_t across = (product.n + kProductTile - 1) / kProductTile;
    const std::int64_t units = product.samples * product.heads / product.summed;
    launch("attention_product", product_kernel, {blocks_for(units * down * across)}, stream,
           product);
}

}  // namespace orrery::runtime::cuda
