// What a backend's kernels are asked: one struct per kernel, the same for every device. Kernels
// know pointers, sizes and scalars, nothing of plans.
//
// Sizes are in elements, tensors row-major without gaps, owned by the caller, in memory that the
// device reads. An activation has rows = samples · sequence, batch-major, or a range of them;
// weights are [out, in]; a row of packed qkv is [heads·d of q | kv_heads·d of k | kv_heads·d of v].
// Arithmetic is in fp64 where the element type is fp64, else in fp32; a result is rounded once,
// when it is stored. All activations and weights of one call have one element type; statistics
// (`stats`, `lse`, `largest`, `sums`, `loss`) are fp32, or fp64 beside fp64; gradients of
// parameters have a type of their own, and are overwritten, or added to where `accumulate` is set.
// An output may be the same buffer as an input only where that is said.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "runtime/host_device.hpp"
#include "runtime/kernels/expert_rules.hpp"
#include "runtime/kernels/scalar_rules.hpp"
#include "runtime/kernels/sequence_part.hpp"
#include "runtime/number.hpp"
#include "runtime/random.hpp"

namespace orrery::runtime {

// Global indices of the elements of a tensor, for their random numbers: element i has index
// first + (i / run)·stride + i mod run; run 0: all in one run. Where `skip` is not 0, a run is in
// two pieces: what lies at `split` and beyond has indices larger by `skip`. With `begin`, element i
// counts as begin + i.
// A range of rows of an activation is one run from ((first_sample·S + first_row)·width); unfused
// attention maps [samples, heads, S, S] have run heads·S², stride total_heads·S² and start at
// (first_sample·total_heads + first_head)·S².
struct ElementIndex {
    std::uint64_t first = 0;
    std::uint64_t run = 0;
    std::uint64_t stride = 0;
    std::uint64_t begin = 0;
    std::uint64_t split = 0;
    std::uint64_t skip = 0;  // modulo 2^64
};

enum class GemmForm : std::uint8_t {
    forward,         // c[m,n] = a[m,k]·b[n,k]ᵀ + bias[n]
    input_gradient,  // c[m,n] = a[m,k]·b[k,n]
    weight_gradient  // c[m,n] = a[k,m]ᵀ·b[k,n]
};

// Of a matrix of eight-bit numbers (runtime/kernels/eight_bit.hpp): one for each rows × columns of
// it, fp32 or, as powers of two, u8; row-major, `stride` from row to row. The matrix may be rows
// from `first_row` on of the one that they are of.
struct Scales {
    Buffer values;
    std::int64_t rows = 1, columns = 1;
    std::int64_t stride = 1;
    std::int64_t first_row = 0;

    [[gnu::always_inline]] ORRERY_HOST_DEVICE std::int64_t index(std::int64_t row,
                                                                 std::int64_t column) const {
        return (first_row + row) / rows * stride + column / columns;
    }
};

// c may be of another type than a and b. The product, without what is added to it, is multiplied
// by factor; a bias is added, then the residual, and the sum is rounded once. Numbers of eight bits
// are multiplied as what they are with their scales. Rows of a and b follow one another, or begin
// so many elements apart.
struct Gemm {
    GemmForm form = GemmForm::forward;
    std::int64_t m = 0, n = 0, k = 0;
    Buffer a, b;
    Buffer bias;  // forward only; null: none
    Buffer c;
    bool accumulate = false;
    double factor = 1;
    Buffer residual{};              // [m,n] of c's type, beside accumulate false; null: none
    Scales a_scales{}, b_scales{};  // of eight bits
    std::int64_t a_stride = 0, b_stride = 0;  // 0: they follow one another
    // A row of c depends on that row of a and on b alone; of forms whose rows these are.
    bool each_row_alone = false;
};

struct AttentionShape {
    std::int64_t batch = 0, sequence = 0;                // rows of a sequence that this rank holds
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // of this rank
    std::int64_t value_dim = 0;  // of a head's values, and of what comes of it; 0: head_dim

    [[gnu::always_inline]] ORRERY_HOST_DEVICE std::int64_t maps() const { return batch * heads; }
    [[gnu::always_inline]] ORRERY_HOST_DEVICE std::int64_t values() const {
        return value_dim > 0 ? value_dim : head_dim;
    }
    [[gnu::always_inline]] ORRERY_HOST_DEVICE std::int64_t kv_width() const {
        return kv_heads * (head_dim + values());
    }
    [[gnu::always_inline]] ORRERY_HOST_DEVICE std::int64_t qkv_width() const {
        return heads * head_dim + kv_width();
    }
    [[gnu::always_inline]] ORRERY_HOST_DEVICE std::int64_t context_width() const {
        return heads * values();
    }
};

// Which keys a query of position i sees, by their positions: 0 … i, of these the last `window` (0:
// all), with slope·(j − i) added to the scaled score of key j where there are slopes (ALiBi, Press
// 2022).
struct AttentionMask {
    std::int64_t window = 0;
    const double* slopes = nullptr;  // per head of this rank
};

// Probability (sample, head, q, k) has index ((sample·total_heads + head)·S + q)·S + k, of
// positions in sequences of all their S tokens.
struct AttentionDropout {
    DropoutKey key;
    std::int64_t first_sample = 0, first_head = 0, total_heads = 0;
};

// Keys that do not lie in the packed rows of their queries: `blocks` ranks' shares of k and v, from
// that of rank `first` on, each [batch·S, k | v] with S rows of a sequence, in a zigzag where the
// queries are. One rank's, or all ranks'.
struct AttentionKeys {
    Buffer kv;  // null: keys lie in qkv
    std::int64_t first = 0;
    std::int64_t blocks = 1;
};

// Scaled scores become soft_cap·tanh(score ÷ soft_cap), slopes come after that (0: stay; Bello et
// al. 2016, arXiv 1611.09940; Gemma Team 2024, arXiv 2408.00118). With sinks each head has a score
// more, sinks[head], that counts in Σ exp and has no value (OpenAI 2025, gpt-oss; Xiao et al. 2023,
// arXiv 2309.17453).
struct AttentionScores {
    double soft_cap = 0;
    Buffer sinks{};  // of the heads of this call; null: none
};

// Causal attention in tiles with running softmax (Dao 2022): no S × S matrix is ever stored. Over
// some of the keys: `sums` [batch·S, context width] and lse hold the result for those so far, of
// lse's type; what later keys add is merged with it by their log Σ exp.
struct Attention {
    AttentionShape shape;
    AttentionMask mask;
    AttentionDropout dropout;
    double scale = 1;
    Buffer qkv;      // [batch·S, qkv width]
    Buffer context;  // [batch·S, context width]
    Buffer lse;      // [batch, heads, S], log of Σ exp of scores
    SequencePart part{};
    AttentionKeys keys{};
    Buffer sums{};             // null: these are all keys
    bool continues = false;    // from sums and lse; else from nothing
    bool ends = true;          // writes context; else sums
    AttentionScores scores{};  // sinks count where it does not continue
};

struct AttentionBackward {
    AttentionShape shape;
    AttentionMask mask;
    AttentionDropout dropout;
    double scale = 1;
    Buffer dcontext, qkv, context, lse;
    Buffer dqkv;  // all of it is overwritten; null where keys do not lie in qkv
    SequencePart part{};
    AttentionKeys keys{};
    Buffer dq{};             // [batch·S, heads·head_dim]
    Buffer dkv{};            // like keys.kv; overwritten
    bool continues = false;  // adds to dq, which has lse's type then; else overwrites it
    AttentionScores scores{};
    Buffer dsinks{};          // like scores.sinks
    bool accumulate = false;  // of dsinks
    // Where dq may be summed in any order: fp32, from where 256 bytes begin, for its sums and those
    // of rows [batch, heads, S], and so many elements besides. Null: the same bits each time.
    struct Room {
        Buffer dq, rows, workspace;
        std::int64_t workspace_elements = 0;
    };
    Room room{};
};

// Products of unfused attention. `maps` is [batch, heads, S, S]. Gradients of k and v are sums over
// the query heads of their group.
enum class AttentionProductForm : std::uint8_t {
    scores,                // maps = scale·Q·Kᵀ
    context,               // context = maps·V
    probability_gradient,  // maps = context·Vᵀ, context holding the gradient of the context
    value_gradient,        // dqkv's v = mapsᵀ·context, maps holding probabilities
    query_gradient,        // dqkv's q = scale·maps·K, maps holding the gradient of scores
    key_gradient           // dqkv's k = scale·mapsᵀ·Q
};

struct AttentionProduct {
    AttentionProductForm form = AttentionProductForm::scores;
    AttentionShape shape;
    double scale = 1;  // of scores; the other forms without it in their formula ignore it
    Buffer qkv;        // not read by value_gradient
    Buffer maps;
    Buffer context;  // or its gradient; not used by scores, query_gradient, key_gradient
    Buffer dqkv;     // only the part of the form is written
};

// Over the keys that are seen; the others get probability 0. In place where they are one buffer.
struct Softmax {
    AttentionShape shape;
    AttentionMask mask;
    Buffer scores, probabilities;
    AttentionScores rules{};
};

// dscores may be dprobabilities. `scores`, as forward read them, are read where rules has a cap or
// sinks; there are no slopes then.
struct SoftmaxBackward {
    AttentionShape shape;
    Buffer dprobabilities, probabilities, dscores;
    AttentionScores rules{};
    Buffer scores{};
    Buffer dsinks{};          // like rules.sinks
    bool accumulate = false;  // of dsinks
};

// y = x / (1 − p) or 0. y may be x.
struct Dropout {
    std::int64_t elements = 0;
    DropoutKey key;
    ElementIndex index;
    Buffer x, y;
    Buffer mask;  // u8, 1 where kept; null: none is written
};

// dx = dy / (1 − p) or 0, by the mask if there is one, else by the key (whose p is read anyway).
// dx may be dy.
struct DropoutBackward {
    std::int64_t elements = 0;
    DropoutKey key;
    ElementIndex index;
    Buffer dy, dx;
    Buffer mask;
};

// y = (x − mean)/σ·(weight + weight_offset) + bias, σ² = mean of (x − mean)² + epsilon; without
// `centred` (RMSNorm) mean is 0 and there is no bias. weight_offset is 1 where weights are stored
// as their difference from 1 (Gemma). stats [rows, 2]: mean, 1/σ; RMSNorm [rows, 1]: 1/σ.
struct Norm {
    std::int64_t rows = 0, width = 0;
    bool centred = true;
    double epsilon = 1e-5;
    double weight_offset = 0;
    Buffer x, weight, bias;  // bias null where there is none
    Buffer y, stats;
};

// dx may be dy or residual.
struct NormBackward {
    std::int64_t rows = 0, width = 0;
    bool centred = true;
    double weight_offset = 0;
    Buffer dy, x, weight, stats;
    Buffer residual;  // gradient that reached x past the norm, added to dx; null: none
    Buffer dx;
    Buffer dweight, dbias;  // dbias null where there is no bias, both where they are frozen
    bool accumulate = false;
};

// RMSNorm of the queries and keys of packed rows; values are copied. Each head by itself, or
// (`sums`) all heads of `ranks` ranks together, whose Σ x² of queries and of keys stand in sums
// [rows, 2]. y = x/σ·(weight + weight_offset). Weights are [head_dim], or [heads·head_dim] of this
// rank.
struct QkNorm {
    AttentionShape shape;  // batch · sequence rows
    double epsilon = 1e-6;
    double weight_offset = 0;
    std::int64_t ranks = 1;
    Buffer qkv, q_weight, k_weight;
    Buffer sums;  // null: each head by itself
    Buffer y;
};

// sums [rows, 2] = Σ x² of queries, of keys; with `dy` Σ dy·(weight + weight_offset)·x.
struct QkNormSums {
    AttentionShape shape;
    double weight_offset = 0;
    Buffer qkv;
    Buffer dy, q_weight, k_weight;  // null: of squares
    Buffer sums;
};

// dots are the sums of products with dy, sums those of squares; both null: each head by itself.
struct QkNormBackward {
    AttentionShape shape;
    double epsilon = 1e-6;
    double weight_offset = 0;
    std::int64_t ranks = 1;
    Buffer dy, qkv, q_weight, k_weight;
    Buffer sums, dots;
    Buffer dqkv;
    Buffer dq_weight, dk_weight;
    bool accumulate = false;
};

// Gated ones read [rows, 2·width], gate | up, and compute f(gate)·up; the others [rows, width].
enum class ActivationForm : std::uint8_t {
    gelu_tanh,     // x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))   (Hendrycks 2016)
    gelu_erf,      // x/2·(1 + erf(x/√2))
    relu,          // max(x, 0)
    squared_relu,  // max(x, 0)²                                 (So 2021)
    swiglu,        // f = x/(1 + exp(−x))                         (Shazeer 2020)
    geglu_tanh,    // f = gelu_tanh
    geglu_erf,     // f = gelu_erf
    // f = x/(1 + exp(−1.702·x)), of a gate of at most `limit`; times 1 + up, within ± limit
    clamped_swiglu
};

struct Activation {
    ActivationForm form = ActivationForm::gelu_tanh;
    std::int64_t rows = 0, width = 0;  // of y
    Buffer x, y;
    Buffer up{};  // of a gated one whose gate and up lie apart: x is the gate; null: x is both
    double limit = 0;
};

// A product and what its kernel does of it before it writes: forward c = f(product) and, where
// anybody asks, before = product; input_gradient c = product·f'(before). What the function is taken
// of, or multiplied with, is first rounded to its type, but on CUDA, where it is not. Functions
// that are taken along are not told by their result.
struct ActivatedGemm {
    Gemm product;
    ActivationForm form = ActivationForm::gelu_tanh;
    Buffer before;  // [m,n]
};

// A weight's gradient and, of the rows that it reads as a[k,m], the bias's: dbias[m] = Σ over k, or
// added to what is there, as the product is. dbias is of c's type.
struct BiasGradientGemm {
    Gemm product;
    Buffer dbias;
};

// told_by is y for relu, x for the others. dx may be told_by; where not gated, dy too. Where gate
// and up lie apart, told_by is the gate, and dx is both side by side.
struct ActivationBackward {
    ActivationForm form = ActivationForm::gelu_tanh;
    std::int64_t rows = 0, width = 0;  // of dy
    Buffer dy, told_by, dx;
    Buffer up{};
    double limit = 0;
};

// Rotary positions (Su 2021), in place on q and k: of the first rotary_dim elements of a head, i
// and i + rotary_dim/2 are turned by position·inverse_frequencies[i].
struct Rope {
    AttentionShape shape;
    std::int64_t rotary_dim = 0;                  // ≤ head_dim, even
    const double* inverse_frequencies = nullptr;  // [rotary_dim/2]
    Buffer qkv;
    SequencePart part{};
};

// Turns gradients back.
struct RopeBackward : Rope {};

// Queries of packed rows times 1 + scale·ln(1 + ⌊(position + 1)/floor⌋), in place.
struct TemperQueries {
    AttentionShape shape;
    std::int64_t floor = 1;
    double scale = 0;
    Buffer qkv;
    SequencePart part{};
};

// Packed rows of heads whose queries and keys are `plain_dim` elements as they are, then rotary_dim
// that are turned and multiplied by turned_scale. Of a row, q has each head's query, kv each head's
// plain key and value, rotary_keys the turned part of all heads' keys. shape.kv_heads = heads.
struct LatentHeads {
    AttentionShape shape;
    std::int64_t plain_dim = 0, rotary_dim = 0;
    bool interleaved = false;  // element 2i is turned with 2i + 1, not i with i + rotary_dim/2
    double turned_scale = 1;
    const double* inverse_frequencies = nullptr;  // [rotary_dim/2]
    Buffer q, kv, rotary_keys, qkv;
    SequencePart part{};
};

// From the gradient in qkv those in the other three; of rotary_keys the sum over heads.
struct LatentHeadsBackward : LatentHeads {};

// Row r of an activation is row (first_row + r) mod sequence of what a rank holds of a sequence;
// its row in a table of positions is its position there + offset (2 in OPT).
struct PositionRows {
    std::int64_t sequence = 0;
    std::int64_t first_row = 0;
    std::int64_t offset = 0;
    SequencePart part{};

    ORRERY_HOST_DEVICE std::int64_t of(std::int64_t row) const {
        return part.position_of((first_row + row) % sequence, sequence) + offset;
    }
};

// y = x + dropout(branch + Σ biases). y may be branch or x.
// With a table of positions in x's place, dropout covers the sum: y = dropout(branch + positions +
// Σ biases), as GPT-2 drops its embeddings.
struct ResidualAdd {
    std::int64_t rows = 0, width = 0;
    Buffer branch;
    Buffer x;          // null where there is a table of positions
    Buffer positions;  // [positions, width]
    PositionRows position_rows;
    std::array<Buffer, 2> biases;  // null: none
    DropoutKey key;
    ElementIndex index;
    Buffer y;
    Buffer mask;  // u8, 1 where kept; null: none is written
};

// The norm of a sum that is made first: norm.x is sum.y, whose elements are rounded before they are
// normed.
struct ResidualNorm {
    ResidualAdd sum;
    Norm norm;
};

// y = a + b, each of any element type. y may be a or b.
struct Add {
    std::int64_t elements = 0;
    Buffer a, b, y;
};

// dbias[c] = Σ over rows of dy[r, c].
struct BiasGradient {
    std::int64_t rows = 0, width = 0;
    Buffer dy, dbias;
    bool accumulate = false;
};

// A rank holds rows [first, first + rows) of a table shared out over the tensor group.
struct VocabularyPart {
    std::int64_t first = 0, rows = 0;
};

// y[r] = scale·table[tokens[r] − first], 0 where the token is another rank's.
struct Embedding {
    std::int64_t rows = 0, width = 0;
    VocabularyPart part;
    double scale = 1;
    const std::int32_t* tokens = nullptr;
    Buffer table, y;
};

// dtable[i] = scale·Σ of dy[r] over the rows r that looked i up, in ascending order. The rows: by
// `tokens`, or, where that is null, by position.
struct EmbeddingBackward {
    std::int64_t rows = 0, width = 0;
    VocabularyPart part;  // of a table of positions: {0, its rows}
    double scale = 1;
    const std::int32_t* tokens = nullptr;
    PositionRows position_rows;
    Buffer dy, dtable;
    bool accumulate = false;  // else the whole table is overwritten
};

// Cross-entropy of logits whose columns are shared out over the tensor group. Columns from
// valid_columns on are padding: −∞ in maximum and sum, gradient 0. A target below 0 is ignored: no
// loss, no gradient.
struct LogitsPart {
    std::int64_t rows = 0, columns = 0;  // of this rank
    std::int64_t first_column = 0;       // of this rank, in the whole vocabulary
    std::int64_t valid_columns = 0;      // of this rank's; may be 0
    double soft_cap = 0;  // logits count as soft_cap·tanh(logit ÷ soft_cap); 0: as they are
};

struct CrossEntropyMax {
    LogitsPart part;
    Buffer logits, largest;  // [rows]
};

// sums [rows, 2]: Σ exp(logit − largest); target's logit − largest, or 0 where it is another
// rank's. Of an ignored row: 1 on the rank of column 0 and 0 elsewhere; 0; so that its loss is 0.
struct CrossEntropySum {
    LogitsPart part;
    const std::int32_t* targets = nullptr;
    Buffer logits, largest, sums;
    bool finds_largest = false;  // and writes it: one pass over the logits does for both
};

// The sums above of whole rows, from those that `parts` ranks have of `width` columns each, part
// after part: largest = max over parts; a part's sum times exp(its largest − largest), added up in
// the order of parts; the target's logit moves with its part's. An ignored row has 1 and 0.
struct CrossEntropyJoin {
    std::int64_t rows = 0, parts = 0, width = 0;
    const std::int32_t* targets = nullptr;
    Buffer part_sums;     // [parts, rows, 2]
    Buffer part_largest;  // [parts, rows]
    Buffer sums, largest;
};

// loss[1] = factor·Σ over rows of (log sums[r,0] − sums[r,1]).
struct CrossEntropy {
    std::int64_t rows = 0;
    double factor = 1;
    Buffer sums, loss;
    bool accumulate = false;
};

// logits become (softmax − one-hot of the target)·scale·loss_scale.
struct CrossEntropyBackward {
    LogitsPart part;
    const std::int32_t* targets = nullptr;
    double scale = 1;
    const float* loss_scale = nullptr;  // null: 1
    Buffer largest, sums;
    Buffer logits;
};

// Gradients that a part made by the above of its own sums become those of the whole rows': with the
// part's share q = part_sums[r,0]·exp(part_largest[r] − largest[r]) ÷ sums[r,0] of a row's sum,
// dlogits[r] = q·dlogits[r] − (1 − q)·c·one-hot and dx[r] = q·part_dx[r] − (1 − q)·c·words[r],
// where c = scale·loss_scale, times the slope of the cap at the target's logit.
struct CrossEntropyRescale {
    LogitsPart part;
    const std::int32_t* targets = nullptr;
    double scale = 1;
    const float* loss_scale = nullptr;  // null: 1
    std::int64_t hidden = 0;
    Buffer part_sums, part_largest, sums, largest;
    Buffer part_dx, words;  // [rows, hidden]; words: the targets' rows of the weight, or 0
    Buffer dlogits, dx;
};

// Elements that a request is about, [first, first + elements) of each of its buffers.
struct ElementRun {
    std::int64_t first = 0, elements = 0;
};
// Those that are stepped alike.
struct SteppedRun : ElementRun {
    bool decays = true;
    // Above 0: w ← w − sign_rate·sign(gradient), where the sign of 0 is 0, and nothing else.
    double sign_rate = 0;
};

// Runs in ascending order, none of which overlap, in memory that kernels read (Kernels::keep);
// without them a request is about all of its elements, which are one run.
template <typename Run>
struct ElementRuns {
    const Run* of = nullptr;
    std::int64_t count = 0;
};

// Σ g², ADDED to five partial sums, of units 2^-13, 2^-34, 2^-55, 2^-76 and 2^-97: every g² (in
// fp64) is split into whole multiples of them, whose sums are exact in fp64. So the sum does not
// depend on the order of elements, nor on how they are shared out over threads, calls and ranks:
// partial sums of ranks are added as they are. Range: exact while there are at most 2^33 elements
// and Σ g² ≤ 2^40 (a norm of 10^6); what an element has below 2^-98 is rounded off (a norm of
// 10^-15 still has its first digit). Beyond the range the sum is rounded and may depend on the
// order. NaN and infinity come out as such.
struct GradientNorm {
    std::int64_t elements = 0;
    Buffer gradients;
    double* bins = nullptr;  // [5]
    ElementRuns<ElementRun> runs = {};
};

// gradients /= *loss_scale. *overflow becomes 1 where one of them is not finite; else it becomes 0,
// or stays what it is where `accumulate` is set.
struct Unscale {
    std::int64_t elements = 0;
    const float* loss_scale = nullptr;
    Buffer gradients;
    float* overflow = nullptr;
    bool accumulate = false;
};

// AdamW (Loshchilov 2019): with g = gradient·clip_factor(norm_bins, clip_norm),
// m ← β1·m + (1 − β1)·g, v ← β2·v + (1 − β2)·g²,
// w ← w − lr·(weight_decay·w + (m/c1) / (√(v/c2) + ε)), c = 1 − β^step; a run that does not decay
// has weight_decay 0.
struct AdamW {
    std::int64_t elements = 0;
    double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
    double correction1 = 1, correction2 = 1;  // c1, c2
    const double* norm_bins = nullptr;        // of GradientNorm; null: nothing is clipped
    double clip_norm = 0;
    std::array<const float*, 2> skip_where{};  // nothing is written where one of them is not 0
    Buffer gradients;
    Buffer m, v;        // kept in their types, to which a step rounds; it computes in fp32 or fp64
    Buffer master;      // w where parameters are 16-bit; null: w is `parameters`
    Buffer parameters;  // written in their type
    ElementRuns<SteppedRun> runs = {};
};

// runtime/kernels/scalar_rules.hpp has the rule, of this and the two after it.
struct UpdateLossScale {
    LossScaleRule rule;
    const float* overflow = nullptr;
    float* scale = nullptr;
    std::int32_t* counters = nullptr;  // [2]
};

// *share = *loss, or 0 where there is none.
struct LossShare {
    Buffer loss;  // null: none
    double* share = nullptr;
};

struct JudgeLoss {
    LossSpikeRule rule;
    const double* loss = nullptr;
    const float* overflow = nullptr;  // null: cannot be
    double* accepted = nullptr;       // [rule.window]
    std::int32_t* count = nullptr;
    float* spiked = nullptr;
};

// Pieces of `run` elements in two levels of rows: piece (i, j) lies at from_first +
// i·from_strides[0]
// + j·from_strides[1] and goes to to_first + i·to_strides[0] + j·to_strides[1], in the type there.
// The two do not overlap.
struct Rearrange {
    std::array<std::int64_t, 2> counts{};
    std::int64_t run = 0;
    Buffer from, to;
    std::int64_t from_first = 0, to_first = 0;
    std::array<std::int64_t, 2> from_strides{}, to_strides{};
};

// y = x in y's type. y may be x where both have one type. Numbers of eight bits, on either side,
// are E4M3 and have a scale of u8 for each kScaledBlock in a row (runtime/kernels/eight_bit.hpp).
struct Cast {
    std::int64_t elements = 0;
    Buffer x, y;
    Buffer scales{};
};

struct Fill {
    std::int64_t elements = 0;
    double value = 0;
    Buffer x;
};

// largest[i] = the largest magnitude in matrix i, each of elements / matrices numbers, or what is
// there where that is larger; NaN where one is no number. fp32.
struct Amax {
    std::int64_t elements = 0, matrices = 1;
    Buffer x, largest;
    bool accumulate = false;
};

// history [steps, matrices], fp32: what `noted` has of each matrix goes to row 1, each row below it
// one further, and the largest of these to row 0; noted becomes 0. Of what is no number, or
// infinite, nothing is learned: 0 stands for it.
struct UpdateScales {
    std::int64_t steps = 0, matrices = 1;
    Buffer history, noted;
};

// x by eight bits, in up to two ways at once: as it lies, or, one of them, each matrix transposed.
// rows × width of `matrices`, one below the other. Scales are made of the numbers that share them;
// with `largest` (fp32, one for each matrix) of that.
struct EightBitCopy {
    Buffer data;  // null: none is made
    Scales scales;
    bool transposed = false;
    std::int64_t stride = 0;  // of rows of a transposed one; 0: they follow one another
};
struct Quantize {
    std::int64_t rows = 0, width = 0, matrices = 1;
    Buffer x, largest;
    std::array<EightBitCopy, 2> copies{};
};

// Each of `matrices`, which lie one below the other in rows × width of x, transposed. Of elements
// of one or four bytes.
struct Transpose {
    std::int64_t rows = 0, width = 0, matrices = 1;
    Buffer x, y;
};

// How experts are chosen of a token's scores (plan/ops/experts.hpp says what each field means).
struct RoutingRule {
    std::int64_t experts = 0, chosen = 0;
    bool sigmoid = false;  // of each logit; else softmax over all
    bool normalizes = false;
    double factor = 1;
    std::int64_t groups = 0, kept_groups = 0, group_best = 0;
};

// Logits, scores and weights have one type, fp32 or fp64. A token's experts are in the order of
// their numbers. A score that is NaN loses against every number.
struct Route {
    std::int64_t rows = 0;
    RoutingRule rule;
    Buffer logits;                   // [rows, experts]
    Buffer bias;                     // [experts], added to scores to choose by; null: none
    Buffer scores;                   // [rows, experts]
    std::int32_t* choice = nullptr;  // [rows, chosen]
    Buffer weights;                  // [rows, chosen]
    std::int32_t* counts = nullptr;  // [experts]: rows for each
};

// dlogits may be of another type than the rest.
struct RouteBackward {
    std::int64_t rows = 0;
    RoutingRule rule;
    Buffer dweights, scores;
    const std::int32_t* choice = nullptr;
    Buffer dlogits;
};

// What an expert takes of each unit of tokens, `capacity` rows at most. A unit's tokens are on all
// of a sequence's ranks, each with `rows`, of which `run` in a row are of a unit, `part` says
// where; choices and weights of all are there, by context rank, then by tensor rank. Counts are the
// capacity where it `pads`.
struct DropRows {
    std::int64_t rows = 0, chosen = 0, experts = 0;
    std::int64_t capacity = 0, units = 1;
    std::int64_t tensor_ranks = 1, tensor_rank = 0;  // that have gathered
    std::int64_t run = 1;  // of a unit, on the tensor ranks of a context rank
    SequencePart part{};
    bool by_position = false, pads = false;
    const std::int32_t* choice = nullptr;  // [context ranks · tensor_ranks · rows, chosen]
    Buffer weights;
    std::int32_t* kept = nullptr;    // [rows, chosen]: -1 for those that are dropped
    std::int32_t* counts = nullptr;  // [experts]
};

// Row r is of unit (first + r)/run of those whose tokens this rank has, `run` of each. choices
// [units, experts]: how many of its rows chose an expert.
struct CountChoices {
    std::int64_t rows = 0, chosen = 0, experts = 0, units = 0;
    std::int64_t first = 0, run = 1;
    const std::int32_t* choice = nullptr;  // [rows, chosen]
    Buffer choices;
};

// dlogits += the gradient of factor · (log Σ exp logits)², times *scale.
struct RouterZGradient {
    std::int64_t rows = 0, experts = 0;
    double factor = 0;
    const float* scale = nullptr;  // null: 1
    Buffer logits;
    Buffer dlogits;  // may be of another type
};

// dlogits += the gradient of factor · Σ f_i·Σ p_i, with f_i = choices[unit, i] and p_i an expert's
// share of a token's scores, the latter sum over the unit's tokens; times *scale.
struct BalanceGradient {
    std::int64_t rows = 0, experts = 0;
    std::int64_t first = 0, run = 1;  // as above
    bool sigmoid = false;
    double factor = 0;
    const float* scale = nullptr;  // null: 1
    Buffer scores, choices;
    Buffer dlogits;  // may be of another type
};

// Sets of `local` experts in order that have any of a token's, ascending, then -1.
struct ChooseRanks {
    std::int64_t rows = 0, chosen = 0, local = 0, sets = 0;
    const std::int32_t* choice = nullptr;  // [rows, chosen]
    std::int32_t* of_token = nullptr;      // [rows, min(chosen, sets)]
    std::int32_t* counts = nullptr;        // [sets]: tokens for each
};

// Rows by expert, then by token; none for choices of -1. Weights and their copies may be null.
struct Permute {
    std::int64_t rows = 0, width = 0;  // of x
    std::int64_t chosen = 0, experts = 0;
    Buffer x;
    const std::int32_t* choice = nullptr;  // [rows, chosen]
    Buffer weights;                        // [rows, chosen]
    Buffer y;                              // [rows·chosen, width], or [experts·capacity, width]
    Buffer permuted_weights;               // as many
    std::int64_t capacity = 0;  // to which an expert's rows are filled up with zeros; 0: are not
};

// `returned` [rows·chosen·split, width] are the results of rows that Permute has sent, from member
// after member: y is the sum of a token's, in the order of its experts, then of shares.
// returned_dweights may be null.
struct Unpermute {
    std::int64_t rows = 0, width = 0;  // of y
    std::int64_t chosen = 0;
    ExpertPlaces places;  // without counts: those of the rank's own rows follow from its choice
    Buffer returned;
    const std::int32_t* choice = nullptr;
    Buffer returned_dweights;  // [rows·chosen·split]
    Buffer y;
    Buffer dweights;            // [rows, chosen]
    std::int64_t capacity = 0;  // as of Permute
};

// Rows in use, from the order of members to that of local experts, or back (`apart`).
struct GroupRows {
    std::int64_t width = 0;
    ExpertPlaces places;
    bool apart = false;
    Buffer x, y;
};

// Of copies in use, with the experts of their tokens: x's row for each that is local, in the order
// of experts, then of copies; or back (`apart`), y the sum of a copy's in the order of its experts.
struct SpreadRows {
    std::int64_t width = 0, chosen = 0;
    std::int64_t copies = 0;
    ExpertPlaces places;
    bool apart = false;
    const std::int32_t* choice = nullptr;  // [copies, chosen]
    Buffer x, y;
};

// The weights of such rows, of those of all experts of a copy; or back, 0 for others than local
// ones.
struct SpreadWeights {
    std::int64_t chosen = 0, copies = 0;
    ExpertPlaces places;
    bool apart = false;
    const std::int32_t* choice = nullptr;
    Buffer x, y;  // [copies, chosen] and [rows], fp32 or fp64
};

// A Gemm for each local expert, over its rows, which follow those of the expert before, as do
// matrices of weights. m, n, k as of a Gemm, without that of the three that counts rows. What a row
// of a result is, forward and of input gradients, depends on the row and the matrix alone. By
// source, a gradient of weights is several, of the rows of one rank each: [ranks, local experts, m,
// n].
struct GroupedGemm {
    GemmForm form = GemmForm::forward;
    std::int64_t m = 0, n = 0, k = 0;
    ExpertPlaces places;
    Buffer a, b, c;
    bool accumulate = false;
    bool by_source = false;
};

// y = f(x)·the row's weight, of rows in use. Weights have the type that is computed in. x is [gate
// | up] where the form is gated. Weights may be null: 1.
struct ExpertActivation {
    ActivationForm form = ActivationForm::swiglu;
    std::int64_t width = 0;  // of y
    double limit = 0;
    ExpertPlaces places;
    Buffer x, weights, y;
};

// dweights[r] = Σ dy·f(x).
struct ExpertActivationBackward {
    ActivationForm form = ActivationForm::swiglu;
    std::int64_t width = 0;  // of dy
    double limit = 0;
    ExpertPlaces places;
    Buffer dy, x, weights;
    Buffer dx, dweights;
};

// y = x + its expert's bias, times the row's weight where these are given, of rows in use. biases
// [local experts, width].
struct ExpertBias {
    std::int64_t width = 0;
    ExpertPlaces places;
    Buffer x, biases, weights, y;
};

// dbiases [local experts, width] (+)= Σ over an expert's rows of dy·weight; where weights are
// given, dweights[r] = Σ dy·bias. By source, dbiases is [ranks, local experts, width].
struct ExpertBiasBackward {
    std::int64_t width = 0;
    ExpertPlaces places;
    Buffer dy, weights, biases;
    Buffer dbiases, dweights;
    bool accumulate = false;
    bool by_source = false;
};

// y = ((x[0] + x[1]) + (x[2] + x[3])) + …, of `sources` rows of `elements`: a power of two, of fp32
// or fp64 (runtime/comm/reduce.hpp).
struct SumSources {
    std::int64_t elements = 0, sources = 1;
    Buffer x, y;
};

// y = x·the row's weight, of rows in use.
struct WeighRows {
    std::int64_t width = 0;
    ExpertPlaces places;
    Buffer x, weights, y;
};

// dweights[r] = Σ dy·x.
struct WeighRowsBackward {
    std::int64_t width = 0;
    ExpertPlaces places;
    Buffer dy, x, weights;
    Buffer dx, dweights;
};

// dbias[e] = counts[e] − mean, or that much more.
struct LoadGradient {
    std::int64_t experts = 0;
    double mean = 0;
    const std::int32_t* counts = nullptr;  // [experts]
    Buffer dbias;
    bool accumulate = false;
};

// y[r] = x[r]·sigmoid(logits[r]), which have the type that is computed in.
struct GateRows {
    std::int64_t rows = 0, width = 0;
    Buffer x, logits, y;
};

// dlogits[r] = Σ dy·x times the sigmoid's slope.
struct GateRowsBackward {
    std::int64_t rows = 0, width = 0;
    Buffer dy, x, logits;
    Buffer dx, dlogits;
};

// The list of all kernels, once: the name of each and its request. What a backend is asked, the
// CPU's table and the functions of either backend follow from it. Products stand apart, where a
// library has them.
// clang-format off
#define ORRERY_OTHER_KERNELS(KERNEL)                     \
    KERNEL(attention, Attention)                         \
    KERNEL(attention_product, AttentionProduct)          \
    KERNEL(softmax, Softmax)                             \
    KERNEL(softmax_backward, SoftmaxBackward)            \
    KERNEL(dropout, Dropout)                             \
    KERNEL(dropout_backward, DropoutBackward)            \
    KERNEL(norm, Norm)                                   \
    KERNEL(activation, Activation)                       \
    KERNEL(activation_backward, ActivationBackward)      \
    KERNEL(rope, Rope)                                   \
    KERNEL(rope_backward, RopeBackward)                  \
    KERNEL(qk_norm, QkNorm)                              \
    KERNEL(qk_norm_sums, QkNormSums)                     \
    KERNEL(qk_norm_backward, QkNormBackward)             \
    KERNEL(temper_queries, TemperQueries)                \
    KERNEL(latent_heads, LatentHeads)                    \
    KERNEL(latent_heads_backward, LatentHeadsBackward)   \
    KERNEL(residual_add, ResidualAdd)                    \
    KERNEL(residual_norm, ResidualNorm)                  \
    KERNEL(add, Add)                                     \
    KERNEL(embedding, Embedding)                         \
    KERNEL(cross_entropy_max, CrossEntropyMax)           \
    KERNEL(cross_entropy_sum, CrossEntropySum)           \
    KERNEL(cross_entropy_join, CrossEntropyJoin)         \
    KERNEL(cross_entropy, CrossEntropy)                  \
    KERNEL(cross_entropy_backward, CrossEntropyBackward) \
    KERNEL(cross_entropy_rescale, CrossEntropyRescale)   \
    KERNEL(gradient_norm, GradientNorm)                  \
    KERNEL(unscale, Unscale)                             \
    KERNEL(update_loss_scale, UpdateLossScale)           \
    KERNEL(loss_share, LossShare)                        \
    KERNEL(judge_loss, JudgeLoss)                        \
    KERNEL(adamw, AdamW)                                 \
    KERNEL(cast, Cast)                                   \
    KERNEL(rearrange, Rearrange)                         \
    KERNEL(fill, Fill)                                   \
    KERNEL(amax, Amax)                                   \
    KERNEL(update_scales, UpdateScales)                  \
    KERNEL(quantize, Quantize)                           \
    KERNEL(transpose, Transpose)                         \
    KERNEL(route, Route)                                 \
    KERNEL(route_backward, RouteBackward)                \
    KERNEL(count_choices, CountChoices)                  \
    KERNEL(balance_gradient, BalanceGradient)            \
    KERNEL(router_z_gradient, RouterZGradient)           \
    KERNEL(load_gradient, LoadGradient)                  \
    KERNEL(choose_ranks, ChooseRanks)                    \
    KERNEL(group_rows, GroupRows)                        \
    KERNEL(expert_activation, ExpertActivation)          \
    KERNEL(expert_activation_backward,                   \
           ExpertActivationBackward)                     \
    KERNEL(expert_bias, ExpertBias)                      \
    KERNEL(expert_bias_backward, ExpertBiasBackward)     \
    KERNEL(sum_sources, SumSources)                      \
    KERNEL(weigh_rows, WeighRows)                        \
    KERNEL(weigh_rows_backward, WeighRowsBackward)       \
    KERNEL(gate_rows, GateRows)                          \
    KERNEL(gate_rows_backward, GateRowsBackward)
// Those that may need memory between kernels of theirs on a device.
#define ORRERY_SCRATCH_KERNELS(KERNEL)                   \
    KERNEL(attention_backward, AttentionBackward)        \
    KERNEL(bias_gradient, BiasGradient)                  \
    KERNEL(norm_backward, NormBackward)                  \
    KERNEL(embedding_backward, EmbeddingBackward)        \
    KERNEL(drop_rows, DropRows)                          \
    KERNEL(permute, Permute)                             \
    KERNEL(unpermute, Unpermute)                         \
    KERNEL(spread_rows, SpreadRows)                      \
    KERNEL(spread_weights, SpreadWeights)
#define ORRERY_KERNELS(KERNEL)                           \
    KERNEL(gemm, Gemm)                                   \
    KERNEL(activated_gemm, ActivatedGemm)                \
    KERNEL(bias_gradient_gemm, BiasGradientGemm)         \
    KERNEL(grouped_gemm, GroupedGemm)                    \
    ORRERY_OTHER_KERNELS(KERNEL)                         \
    ORRERY_SCRATCH_KERNELS(KERNEL)
// clang-format on

namespace detail {
template <typename None, typename... Requests>
struct RequestVariant {
    static_assert(std::is_void_v<None>);
    using type = std::variant<Requests...>;
};
}  // namespace detail

#define ORRERY_KERNEL_TYPE(name, Request) , Request
using KernelRequest = detail::RequestVariant<void ORRERY_KERNELS(ORRERY_KERNEL_TYPE)>::type;
#undef ORRERY_KERNEL_TYPE

inline std::string_view name(const KernelRequest& request) {
#define ORRERY_KERNEL_NAME(name, Request) #name,
    constexpr std::array names =
        std::to_array<std::string_view>({ORRERY_KERNELS(ORRERY_KERNEL_NAME)});
#undef ORRERY_KERNEL_NAME
    return names[request.index()];
}

}  // namespace orrery::runtime
