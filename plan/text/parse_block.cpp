#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <type_traits>

#include "plan/text/reader.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

constexpr std::string_view kDTypeWords = "an element type (u8, i32, bf16, fp16, fp32)";

std::string names_of_streams() {
    std::vector<std::string_view> names;
    for (std::size_t stream = 0; stream < kStreams; ++stream)
        names.push_back(name(static_cast<Stream>(stream)));
    return fmt::format("{}", fmt::join(names, ", "));
}

class BlockReader {
  public:
    BlockReader(Reader& reader, const Mesh& mesh) : reader_(reader), mesh_(mesh) {}

    Block read(std::int32_t number) {
        reader_.expect_word("block");
        const std::size_t here = reader_.place();
        if (reader_.index("the number of a block") != number)
            reader_.fail_at(here, "block " + std::to_string(number));
        block_.name = reader_.name("the name of the block");
        if (reader_.accept_word("phase"))
            usual_phase_ = reader_.one_of<Phase>("a phase", from_name<Phase>);
        while (reader_.at_name()) {
            const Mention mention = read_reference();
            declare(mention);
            if (reader_.accept_word("of")) read_whole();
        }
        while (reader_.at_number())
            read_op();
        const std::size_t footer = reader_.place();
        read_footer();
        settle_order();
        resolve();
        if (usual_phase(block_) != usual_phase_)
            reader_.fail_at(footer, fmt::format("{} to be the phase of most ops of {}",
                                                name(usual_phase_), block_.name));
        return std::move(block_);
    }

  private:
    // A tensor referred to somewhere in the text.
    struct Mention {
        TensorReference reference;
        std::size_t place = 0;
    };
    struct Operands {
        std::vector<Mention> reads;
        std::vector<Mention> writes;
    };

    Mention read_reference() {
        Mention mention;
        mention.place = reader_.place();
        mention.reference.name = reader_.name("a tensor");
        if (reader_.accept_sign(":"))
            mention.reference.role = reader_.one_of<Role>("the role of a tensor", role_from_name);
        if (reader_.accept_sign("#"))
            mention.reference.number = reader_.integer("the number of a tensor from 2 on", 2);
        return mention;
    }

    // [32,64]; their product with so many bytes of an element is bounded.
    std::vector<std::int64_t> read_dims(std::int64_t bytes) {
        std::vector<std::int64_t> dims;
        const std::size_t here = reader_.place();
        reader_.expect_sign("[");
        while (!reader_.at_sign("]")) {
            if (!dims.empty()) reader_.expect_sign(",");
            dims.push_back(reader_.integer("a dimension"));
            if (__builtin_mul_overflow(bytes, dims.back(), &bytes) || bytes > kLargest)
                reader_.fail_at(here, "a tensor of at most 2⁵⁰ bytes");
        }
        reader_.expect_sign("]");
        return dims;
    }

    // Rows of the parts that add up to those of the whole.
    std::vector<std::int64_t> read_sections(std::int64_t rows) {
        const std::size_t here = reader_.place();
        std::vector<std::int64_t> sections;
        std::int64_t sum = 0;
        reader_.expect_sign("[");
        while (!reader_.at_sign("]")) {
            if (!sections.empty()) reader_.expect_sign(",");
            sections.push_back(reader_.integer("a number of rows", 0, rows - sum));
            sum += sections.back();
        }
        reader_.expect_sign("]");
        if (sum != rows) reader_.fail_at(here, fmt::format("sections of {} rows in all", rows));
        return sections;
    }

    // [192,64] rows [64,64,64] normal decays, behind the share of a parameter that a rank has.
    void read_whole() {
        const auto tensor = static_cast<TensorId>(block_.tensors.size()) - 1;
        const Tensor& share = block_.tensors.back();
        const std::size_t here = reader_.place();
        ParameterSpec spec;
        spec.dims = read_dims(size_bytes(share.dtype));
        if (share.role != Role::parameter || spec.dims.size() != share.dims.size() ||
            spec.dims.empty() || spec.dims.size() > 2)
            reader_.fail_at(here,
                            "the one or two dimensions of a parameter, as many as of its share");
        if (reader_.accept_sign("×"))
            spec.experts = reader_.integer("a number of experts", 1, spec.dims[0]);
        const std::int64_t rows = spec.dims[0] / std::max<std::int64_t>(spec.experts, 1);
        if (spec.experts > 0 && spec.dims[0] % spec.experts != 0)
            reader_.fail_at(here, "as many rows for each expert");
        spec.cut = reader_.one_of<Cut>("how a parameter is cut (whole, rows, columns)",
                                       value_spelled<Cut>);
        if (spec.cut == Cut::columns && spec.dims.size() < 2)
            reader_.fail_at(here, "a matrix, which has columns");
        if (spec.cut == Cut::rows)
            spec.sections =
                reader_.at_sign("[") ? read_sections(rows) : std::vector<std::int64_t>{rows};
        spec.start =
            reader_.one_of<Start>("what a parameter starts as (normal, residual_normal, zero, one)",
                                  value_spelled<Start>);
        spec.decays = reader_.accept_word("decays");
        if (reader_.accept_word("padding"))
            spec.padding = reader_.integer("a number of rows", 0, spec.dims[0]);
        spec.second_use = reader_.accept_word("second_use");
        if (reader_.accept_word("pipeline_ranks"))
            spec.pipeline_ranks = reader_.integer("a number of pipeline ranks", 1, spec.dims[0]);
        if (spec.pipeline_ranks > 1 && (spec.cut != Cut::rows || spec.experts > 0))
            reader_.fail_at(here, "words that are cut by rows where pipeline ranks share them");
        spec.partial_gradient = reader_.accept_word("partial_gradient");
        if (spec.partial_gradient && spec.cut != Cut::whole)
            reader_.fail_at(here, "a whole parameter where gradients are partial");
        if (spec.experts > 0 && (spec.cut == Cut::whole || spec.partial_gradient))
            reader_.fail_at(here, "experts' matrices cut by rows or by columns");
        if (reader_.accept_word("sign_rate")) spec.sign_rate = reader_.real("a rate");
        spec.frozen = reader_.accept_word("frozen");
        block_.parameters.push_back({tensor, std::move(spec)});
    }

    // bf16 [32,64] scratch @4096
    void declare(const Mention& mention) {
        Tensor tensor;
        tensor.name = mention.reference.name;
        tensor.dtype = reader_.one_of<DType>(kDTypeWords, from_name<DType>);
        tensor.dims = read_dims(size_bytes(tensor.dtype));
        tensor.role = reader_.one_of<Role>("the role of a tensor", role_from_name);
        std::int64_t offset = -1;
        if (reader_.accept_sign("@")) offset = reader_.integer("an offset in the scratch");
        block_.tensors.push_back(std::move(tensor));
        block_.scratch_offsets.push_back(offset);
        declared_.push_back(mention);
    }

    void read_sizes(OpSpec& spec) {
        const std::size_t here = reader_.place();
        std::int64_t product = 4;  // bytes of an element
        bool fits = true, first = true;
        walk_spec(spec, [&](FieldUse use, std::string_view field, auto& value, const auto&) {
            if (use != FieldUse::size) return;
            if (!first) reader_.expect_sign("×");
            first = false;
            read_value(field, spec, value);
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, std::int64_t>)
                fits = fits &&
                       !__builtin_mul_overflow(product, std::max<std::int64_t>(value, 1), &product);
        });
        if (!fits) reader_.fail_at(here, "a shape whose product is less than 2⁶¹");
    }

    void read_fields(OpSpec& spec) {
        std::set<std::string> said;
        if (!reader_.at_word_before("=")) reader_.fail(fields_of(spec));
        while (reader_.at_word_before("=")) {
            const std::size_t field = reader_.place();
            const std::string called = reader_.word("a field");
            reader_.expect_sign("=");
            if (!said.insert(called).second) reader_.fail_at(field, "each field once");
            if (!read_field(spec, called)) reader_.fail_at(field, fields_of(spec));
        }
    }

    // Whether the op has this field, which is read then.
    bool read_field(OpSpec& spec, const std::string& called) {
        bool found = false;
        walk_spec(spec, [&](FieldUse use, std::string_view field, auto& value, const auto&) {
            if (use == FieldUse::size || field != called) return;
            found = true;
            read_value(field, spec, value);
        });
        return found;
    }

    template <typename Value>
    void read_value(std::string_view field, const OpSpec& spec, Value& value) {
        const std::string what = fmt::format("{} of {}", field, name(kind_of(spec)));
        const std::size_t here = reader_.place();
        if constexpr (std::is_same_v<Value, std::int64_t>) {
            value = reader_.integer(what);
        } else if constexpr (std::is_same_v<Value, double>) {
            value = reader_.real(what);
            if (!std::isfinite(value)) reader_.fail_at(here, what + ", finite");
        } else if constexpr (std::is_same_v<Value, bool>) {
            value = reader_.accept_word("true");
            if (!value && !reader_.accept_word("false")) reader_.fail(what + ": true or false");
        } else {
            const auto spelt = value_spelled<Value>(reader_.word(what));
            if (!spelt)
                reader_.fail_at(
                    here, fmt::format("{}: {}", what, fmt::join(Spelling<Value>::names, ", ")));
            value = *spelt;
        }
    }

    static std::string fields_of(const OpSpec& spec) {
        std::vector<std::string_view> fields;
        walk_spec(spec, [&](FieldUse use, std::string_view field, const auto&, const auto&) {
            if (use != FieldUse::size) fields.push_back(field);
        });
        if (fields.empty()) return fmt::format("no field: {} has none", name(kind_of(spec)));
        return fmt::format("a field of {} ({})", name(kind_of(spec)), fmt::join(fields, ", "));
    }

    void read_group(Op& op) {
        if (reader_.peek().kind != TokenKind::word) return;
        op.group = from_name<GroupKind>(reader_.peek().text).value_or(GroupKind::none);
        if (op.group == GroupKind::none) return;
        reader_.word("a process group");
        reader_.expect_sign("/");
        const std::int64_t size = mesh_.group_size(op.group);
        const std::size_t here = reader_.place();
        if (reader_.integer("the size of a group") != size)
            reader_.fail_at(here, std::to_string(size) + ", the ranks of this group in the mesh");
    }

    void read_part(Op& op) {
        const std::size_t here = reader_.place();
        op.part = reader_.index("the number of a part");
        reader_.expect_word("of");
        op.parts = reader_.index("the number of parts");
        if (op.parts < 2 || op.part >= op.parts)
            reader_.fail_at(here, "the number of a part, less than that of all parts");
    }

    void read_op() {
        const std::size_t here = reader_.place();
        if (reader_.index("the number of an op") != static_cast<std::int32_t>(block_.ops.size()))
            reader_.fail_at(here, "op " + std::to_string(block_.ops.size()));
        Op op;
        op.spec = spec_of(reader_.one_of<OpKind>("a kind of op", from_name<OpKind>));
        read_sizes(op.spec);
        const bool dtype_said = from_name<DType>(reader_.peek().text).has_value() &&
                                reader_.peek().kind == TokenKind::word;
        if (dtype_said) op.dtype = reader_.one_of<DType>(kDTypeWords, from_name<DType>);
        read_group(op);
        if (reader_.accept_word("part")) read_part(op);
        if (reader_.peek().kind == TokenKind::quoted) op.label = reader_.in_quotes("a label");
        op.stream =
            reader_.one_of<Stream>("a stream (" + names_of_streams() + ')', from_name<Stream>);
        op.phase = usual_phase_;
        if (reader_.at_word("forward") || reader_.at_word("backward") ||
            reader_.at_word("recompute") || reader_.at_word("optimizer"))
            op.phase = reader_.one_of<Phase>("a phase", from_name<Phase>);
        Operands operands;
        read_list(operands.reads, false);
        reader_.expect_sign("->");
        read_list(operands.writes, true);
        if (!dtype_said && operands.writes.empty())
            reader_.fail_at(here, "the element type of an op that writes nothing");
        if (reader_.accept_word("after")) read_after(op);
        if (reader_.accept_word("with")) read_fields(op.spec);
        block_.ops.push_back(std::move(op));
        operands_.push_back(std::move(operands));
        dtype_said_.push_back(dtype_said);
    }

    void read_list(std::vector<Mention>& into, bool writes) {
        if (reader_.accept_word("nothing")) return;
        do {
            into.push_back(read_reference());
            if (writes && reader_.peek().kind == TokenKind::word &&
                from_name<DType>(reader_.peek().text))
                declare(into.back());
        } while (reader_.accept_sign(","));
    }

    void read_after(Op& op) {
        do {
            const std::size_t here = reader_.place();
            const std::int32_t earlier = reader_.index("the number of an earlier op");
            if (static_cast<std::size_t>(earlier) >= block_.ops.size())
                reader_.fail_at(here, "the number of an earlier op");
            op.after.push_back(earlier);
        } while (reader_.accept_sign(","));
    }

    void read_footer() {
        if (reader_.accept_word("chain")) {
            if (!reader_.at_sign("->")) input_ = read_reference();
            reader_.expect_sign("->");
            if (reader_.at_name()) output_ = read_reference();
        }
        reader_.expect_word("scratch");
        block_.scratch_bytes = reader_.integer("the bytes of the scratch");
        reader_.expect_word("bytes");
        unplanned_ = reader_.accept_word("unplanned");
        reader_.expect_word("reuse");
        if (reader_.accept_word("none")) return;
        do {
            const std::size_t here = reader_.place();
            ReuseEdge edge;
            edge.later = reader_.index("the number of an op, or none");
            reader_.expect_word("after");
            edge.earlier = reader_.index("the number of an op");
            if (edge.earlier >= edge.later ||
                static_cast<std::size_t>(edge.later) >= block_.ops.size())
                reader_.fail_at(here, "an op of this block, after one that is issued before it");
            block_.reuse.push_back(edge);
        } while (reader_.accept_sign(","));
    }

    // Tensors stand in the order of their first mention; "order" says which id each has.
    void settle_order() {
        const std::size_t here = reader_.place();
        if (reader_.accept_word("order")) {
            const std::size_t count = block_.tensors.size();
            std::vector<std::int64_t> ids;
            while (reader_.peek().kind == TokenKind::word && !reader_.at_word("block") &&
                   !reader_.at_word("program")) {
                const Reader::Range range = reader_.range("ids of tensors");
                for (std::int64_t id = range.first; id <= range.last && ids.size() <= count; ++id)
                    ids.push_back(id);
            }
            std::vector<bool> seen(count, false);
            bool permutation = ids.size() == count;
            for (std::int64_t id : ids) {
                permutation = permutation && id >= 0 && id < static_cast<std::int64_t>(count) &&
                              !seen[static_cast<std::size_t>(id)];
                if (permutation) seen[static_cast<std::size_t>(id)] = true;
            }
            if (!permutation)
                reader_.fail_at(here, fmt::format("the ids 0..{}, each once",
                                                  static_cast<std::int64_t>(count) - 1));
            reorder(ids);
        }
        if (!unplanned_) return;
        for (std::int64_t offset : block_.scratch_offsets)
            if (offset >= 0) reader_.fail_at(here, "no offsets where the scratch is unplanned");
        block_.scratch_offsets.clear();
    }

    void reorder(const std::vector<std::int64_t>& ids) {
        std::vector<Tensor> tensors(ids.size());
        std::vector<std::int64_t> offsets(ids.size());
        std::vector<Mention> declared(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto to = static_cast<std::size_t>(ids[i]);
            tensors[to] = std::move(block_.tensors[i]);
            offsets[to] = block_.scratch_offsets[i];
            declared[to] = std::move(declared_[i]);
        }
        for (DeclaredParameter& parameter : block_.parameters)
            parameter.tensor =
                static_cast<TensorId>(ids[static_cast<std::size_t>(parameter.tensor)]);
        std::sort(block_.parameters.begin(), block_.parameters.end(),
                  [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
        block_.tensors = std::move(tensors);
        block_.scratch_offsets = std::move(offsets);
        declared_ = std::move(declared);
    }

    void resolve() {
        const std::vector<TensorReference> references = references_of(block_.tensors);
        std::map<TensorReference, TensorId> ids;
        for (std::size_t i = 0; i < references.size(); ++i) {
            if (declared_[i].reference != references[i])
                reader_.fail_at(
                    declared_[i].place, in_quotes(to_text(declared_[i].reference)),
                    in_quotes(to_text(references[i])) + ", the tensor's name by its place");
            ids[references[i]] = static_cast<TensorId>(i);
        }
        auto resolved = [&](const Mention& mention) {
            const auto id = ids.find(mention.reference);
            if (id == ids.end())
                reader_.fail_at(mention.place, in_quotes(to_text(mention.reference)),
                                "a tensor of block " + spelled(block_.name));
            return id->second;
        };
        for (std::size_t i = 0; i < block_.ops.size(); ++i) {
            Op& op = block_.ops[i];
            for (const Mention& mention : operands_[i].reads)
                op.reads.push_back(resolved(mention));
            for (const Mention& mention : operands_[i].writes)
                op.writes.push_back(resolved(mention));
            if (!dtype_said_[i])
                op.dtype = block_.tensors[static_cast<std::size_t>(op.writes.front())].dtype;
        }
        if (input_) block_.input = resolved(*input_);
        if (output_) block_.output = resolved(*output_);
    }

    Reader& reader_;
    const Mesh& mesh_;
    Block block_;
    Phase usual_phase_ = Phase::forward;
    bool unplanned_ = false;
    std::vector<Mention> declared_;   // by tensor
    std::vector<Operands> operands_;  // by op
    std::vector<bool> dtype_said_;
    std::optional<Mention> input_, output_;
};

}  // namespace

Block read_block(Reader& reader, const Mesh& mesh, std::int32_t number) {
    return BlockReader(reader, mesh).read(number);
}

}  // namespace orrery::plan
