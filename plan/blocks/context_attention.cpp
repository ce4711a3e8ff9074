#include "plan/blocks/context_attention.hpp"

#include <algorithm>

namespace orrery::plan {
namespace {

// Values have a width of their own where it is another than that of keys.
Rearrange rearrange(std::int64_t rows, const RowWidths& widths, std::int64_t parts,
                    Rearrangement form) {
    return {rows,  widths.all, widths.keys,
            parts, form,       widths.values == widths.keys ? 0 : widths.values};
}

TensorId packed_keys(ForwardWriter& w, TensorId qkv) {
    const Dims& d = w.dims();
    const TensorId keys = w.activation("kv", d.tokens, d.kv_width());
    w.op(rearrange(d.tokens, {d.qkv_width(), d.k_width(), d.v_width()}, 1, Rearrangement::keys),
         "kv packed", {qkv}, {keys});
    w.make_again(keys);
    return keys;
}

AttentionBlock block_of(const Dims& d, const AttentionForm& form, std::int64_t keys,
                        std::int64_t hop) {
    AttentionBlock block{{{form, d.batch, d.sequence, keys}, d.window}, hop};
    block.sinks = form.sinks && hop == 0;
    return block;
}

TensorId lse_of(ForwardWriter& w) {
    const Dims& d = w.dims();
    return w.tensor("lse", Role::scratch, d.wide_dtype, {d.batch, d.heads, d.sequence});
}

}  // namespace

// "qkv heads apart".
std::string rearranged(const std::string& name, Rearrangement form) {
    std::string words(spelling(form));
    std::replace(words.begin(), words.end(), '_', ' ');
    return name + ' ' + words;
}

// Two buffers of keys: what arrives takes the place of what was attended before the last.
TensorId ring_attention(ForwardWriter& w, const AttentionForm& form, TensorId qkv, TensorId sinks) {
    const Dims& d = w.dims();
    TensorId keys = packed_keys(w, qkv);
    const TensorId lse = lse_of(w);
    TensorId sums = -1;
    std::int32_t attended = -1;
    for (std::int64_t hop = 0; hop < d.context; ++hop) {
        const std::string number = std::to_string(hop);
        TensorId next = -1;
        if (hop + 1 < d.context) {
            const std::int64_t width = d.kv_width();
            next = w.activation("kv_" + std::to_string(hop + 1), d.tokens, width);
            Op& shift =
                w.op(Shift{d.tokens * width}, "kv " + std::to_string(hop + 1), {keys}, {next});
            over_context(shift);
            if (attended >= 0) shift.after = {attended};
        }
        std::vector<TensorId> reads = {qkv, keys};
        if (hop > 0) reads.insert(reads.end(), {sums, lse});
        if (hop == 0 && form.sinks) reads.push_back(sinks);
        const bool last = next < 0;
        if (last)
            sums = w.activation("context", d.tokens, d.context_width());
        else if (sums < 0)
            sums = w.tensor("context_sums", Role::scratch, d.wide_dtype,
                            {d.tokens, d.context_width()});
        w.op(block_of(d, form, d.sequence, hop), "attention " + number, std::move(reads),
             {sums, lse});
        attended = w.last_op();
        keys = next;
    }
    return sums;
}

TensorId gathered_attention(ForwardWriter& w, const AttentionForm& form, TensorId qkv,
                            TensorId sinks) {
    const Dims& d = w.dims();
    const TensorId keys = packed_keys(w, qkv);
    const std::int64_t width = d.kv_width();
    const TensorId all = w.activation("kv_all", d.context * d.tokens, width);
    over_context(w.op(AllGather{d.context * d.tokens * width}, "kv", {keys}, {all}));
    w.make_again(all);
    const TensorId lse = lse_of(w);
    const TensorId out = w.activation("context", d.tokens, d.context_width());
    std::vector<TensorId> reads = {qkv, all};
    if (form.sinks) reads.push_back(sinks);
    w.op(block_of(d, form, d.context * d.sequence, 0), "attention", std::move(reads), {out, lse});
    return out;
}

// The group's all-to-all has what is for one member in one piece, and leaves what is from one
// member in one: of several samples these are not the rows of a sequence yet.
TensorId heads_for_tokens(ForwardWriter& w, const std::string& name, TensorId rows,
                          const RowWidths& widths) {
    const Dims& d = w.dims();
    const std::int64_t all_rows = d.context * d.tokens, part = widths.all / d.context;
    const TensorId apart = w.activation(name + "_apart", all_rows, part);
    w.op(rearrange(d.tokens, widths, d.context, Rearrangement::heads_apart),
         rearranged(name, Rearrangement::heads_apart), {rows}, {apart});
    const TensorId exchanged = w.activation(name + "_exchanged", all_rows, part);
    over_context(w.op(AllToAll{all_rows * part}, name, {apart}, {exchanged}));
    if (d.batch == 1) return exchanged;
    const TensorId whole = w.activation(name + "_whole", all_rows, part);
    w.op(Rearrange{all_rows, part, 0, d.context, Rearrangement::samples_together},
         rearranged(name, Rearrangement::samples_together), {exchanged}, {whole});
    return whole;
}

TensorId tokens_for_heads(ForwardWriter& w, const std::string& name, TensorId rows,
                          std::int64_t width) {
    const Dims& d = w.dims();
    const std::int64_t all_rows = d.context * d.tokens, part = width / d.context;
    if (d.batch > 1) {
        const TensorId apart = w.activation(name + "_apart", all_rows, part);
        w.op(Rearrange{all_rows, part, 0, d.context, Rearrangement::samples_apart},
             rearranged(name, Rearrangement::samples_apart), {rows}, {apart});
        rows = apart;
    }
    const TensorId exchanged = w.activation(name + "_exchanged", all_rows, part);
    over_context(w.op(AllToAll{all_rows * part}, name, {rows}, {exchanged}));
    const TensorId together = w.activation(name, d.tokens, width);
    w.op(Rearrange{d.tokens, width, 0, d.context, Rearrangement::heads_together},
         rearranged(name, Rearrangement::heads_together), {exchanged}, {together});
    return together;
}

}  // namespace orrery::plan
