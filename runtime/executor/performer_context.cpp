// Attention over keys that other ranks hold, and what brings rows in order for it.
#include "plan/check.hpp"
#include "runtime/executor/performer.hpp"

namespace orrery::runtime {

// At hop h a rank has the keys of the rank h places before it in the ring; gathered ones are in the
// order of ranks.
AttentionKeys Performer::block_keys(const Call& call, const plan::AttentionSizes& op,
                                    std::int64_t hop, std::size_t operand) const {
    const std::int64_t blocks = op.keys / op.queries;
    const std::int64_t owner = (part_.rank - hop + part_.ranks) % part_.ranks;
    return {read(call, operand), blocks > 1 ? 0 : owner, blocks};
}

// Reads qkv, keys, and of a further hop the sums and their lse; of the first one sinks, where there
// are some.
void Performer::compute(const plan::AttentionBlock& op, const Call& call) {
    Attention attention;
    attention.shape = shape_of(op);
    attention.mask = attention_mask(call, op.window);
    attention.dropout = attention_dropout(call, op);
    attention.scale = op.scale;
    attention.qkv = read(call, 0);
    attention.lse = written(call, 1);
    attention.part = part_;
    attention.keys = block_keys(call, op, op.hop, 1);
    attention.continues = op.hop > 0;
    attention.scores = {op.soft_cap, sinks_of(call, op, 2)};
    // The last hop's result has its own tensor; those before leave sums.
    attention.ends = op.gathered() || op.hop + 1 == part_.ranks;
    if (attention.continues) attention.sums = read(call, 2);
    (attention.ends ? attention.context : attention.sums) = written(call, 0);
    call.kernels.attention(attention);
}

// Reads dcontext, qkv, keys, context, lse, and of a further hop dq; of the first one sinks.
void Performer::compute(const plan::AttentionBlockBackward& op, const Call& call) {
    AttentionBackward attention;
    attention.shape = shape_of(op);
    attention.mask = attention_mask(call, op.window);
    attention.dropout = attention_dropout(call, op);
    attention.scale = op.scale;
    attention.dcontext = read(call, 0);
    attention.qkv = read(call, 1);
    attention.context = read(call, 3);
    attention.lse = read(call, 4);
    attention.part = part_;
    attention.keys = block_keys(call, op, op.hop, 2);
    attention.dkv = written(call, 0);
    attention.dq = written(call, 1);
    attention.continues = op.hop > 0;
    attention.scores = {op.soft_cap, sinks_of(call, op, 5)};
    if (op.sinks) put_sink_gradients(call, op.heads, 2, attention.dsinks, attention.accumulate);
    call.kernels.attention_backward(attention);
}

namespace {

// Columns of rows that have all their heads, and of a part's rows, which begin with these.
struct Section {
    std::int64_t first = 0, width = 0, first_of_part = 0;
};

std::vector<Section> sections_of(const plan::Rearrange& op) {
    const std::int64_t width = op.width, kv_width = op.kv_width, parts = op.parts;
    const std::int64_t q_width = width - op.both();
    std::vector<Section> sections = {{0, q_width, 0}};
    if (kv_width == 0) return sections;
    sections.push_back({q_width, kv_width, q_width / parts});
    sections.push_back({q_width + kv_width, op.values(), (q_width + kv_width) / parts});
    return sections;
}

// The other way.
Rearrange undone(Rearrange op, const Buffer& from, const Buffer& to) {
    op.from = from;
    op.to = to;
    std::swap(op.from_first, op.to_first);
    std::swap(op.from_strides, op.to_strides);
    return op;
}

// Section of all rows to the parts.
Rearrange section_apart(const plan::Rearrange& op, const Section& section, const Buffer& from,
                        const Buffer& to) {
    const std::int64_t rows = op.rows, width = op.width, parts = op.parts;
    Rearrange copy;
    copy.counts = {rows, parts};
    copy.run = section.width / parts;
    copy.from = from;
    copy.to = to;
    copy.from_first = section.first;
    copy.to_first = section.first_of_part;
    copy.from_strides = {width, copy.run};
    copy.to_strides = {width / parts, rows * (width / parts)};
    return copy;
}

// [parts][samples][rows][width] to [samples][parts][rows][width].
Rearrange samples_together(const plan::Rearrange& op, std::int64_t samples, const Buffer& from,
                           const Buffer& to) {
    const std::int64_t parts = op.parts;
    Rearrange copy;
    copy.counts = {parts, samples};
    copy.run = op.rows / (parts * samples) * op.width;
    copy.from = from;
    copy.to = to;
    copy.from_strides = {samples * copy.run, copy.run};
    copy.to_strides = {copy.run, parts * copy.run};
    return copy;
}

// Columns of rows of one width to columns of rows of another.
Rearrange columns(std::int64_t rows, std::int64_t run, const Buffer& from, std::int64_t from_first,
                  std::int64_t from_width, const Buffer& to, std::int64_t to_first,
                  std::int64_t to_width) {
    return {{rows, 1}, run, from, to, from_first, to_first, {from_width, 0}, {to_width, 0}};
}

}  // namespace

void Performer::compute(const plan::Rearrange& op, const Call& call) {
    const std::int64_t rows = op.rows, width = op.width, kv = op.both(), last = op.kv_width;
    const Buffer from = read(call, 0), to = written(call, 0);
    switch (op.form) {
        case plan::Rearrangement::keys:
            return call.kernels.rearrange(columns(rows, kv, from, width - kv, width, to, 0, kv));
        case plan::Rearrangement::gradients:
            call.kernels.rearrange(columns(rows, width - kv, from, 0, width - kv, to, 0, width));
            return call.kernels.rearrange(
                columns(rows, kv, read(call, 1), 0, kv, to, width - kv, width));
        case plan::Rearrangement::heads_apart:
            for (const Section& section : sections_of(op))
                call.kernels.rearrange(section_apart(op, section, from, to));
            return;
        case plan::Rearrangement::heads_together:
            for (const Section& section : sections_of(op))
                call.kernels.rearrange(undone(section_apart(op, section, to, from), from, to));
            return;
        case plan::Rearrangement::samples_together:
            return call.kernels.rearrange(samples_together(op, program_.tokens.samples, from, to));
        case plan::Rearrangement::samples_apart:
            return call.kernels.rearrange(
                undone(samples_together(op, program_.tokens.samples, to, from), from, to));
        case plan::Rearrangement::columns_apart:
            call.kernels.rearrange(
                columns(rows, width - last, from, 0, width, to, 0, width - last));
            return call.kernels.rearrange(
                columns(rows, last, from, width - last, width, written(call, 1), 0, last));
        case plan::Rearrangement::columns_together:
            call.kernels.rearrange(
                columns(rows, width - last, from, 0, width - last, to, 0, width));
            return call.kernels.rearrange(
                columns(rows, last, read(call, 1), 0, last, to, width - last, width));
    }
}

}  // namespace orrery::runtime
