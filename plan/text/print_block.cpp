#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "plan/check.hpp"
#include "plan/text/lines.hpp"
#include "plan/text/print_parts.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

template <typename Value>
std::string value_text(const Value& value) {
    if constexpr (std::is_enum_v<Value>)
        return std::string(spelling(value));
    else
        return fmt::format("{}", value);
}

// "2×32×32".
std::string sizes_text(const OpSpec& spec) {
    std::string text;
    walk_spec(spec, [&](FieldUse use, std::string_view, const auto& value, const auto&) {
        if (use == FieldUse::size) text += (text.empty() ? "" : "×") + value_text(value);
    });
    return text;
}

// "heads=4", "scale=0.25": what is not as a default would have it.
std::vector<std::string> field_texts(const OpSpec& spec) {
    std::vector<std::string> texts;
    walk_spec(spec, [&](FieldUse use, std::string_view name, const auto& value, const auto& usual) {
        if (use != FieldUse::size && value != usual)
            texts.push_back(fmt::format("{}={}", name, value_text(value)));
    });
    return texts;
}

class BlockPrinter {
  public:
    BlockPrinter(const Block& block, const Mesh* mesh)
        : block_(block),
          mesh_(mesh),
          references_(references_of(block.tensors)),
          declared_(block.tensors.size(), false) {
        ORRERY_CHECK(
            block.scratch_offsets.empty() || block.scratch_offsets.size() == block.tensors.size(),
            "a block has a scratch offset per tensor or none");
    }

    std::string text(std::int32_t number) {
        std::string out = "block ";
        if (number >= 0) out += std::to_string(number) + ' ';
        out += spelled(block_.name);
        const Phase phase = usual_phase(block_);
        if (phase != Phase::forward) out += "  phase " + std::string(name(phase));
        out += '\n' + outside_lines();  // in this order: what is declared here is not below
        out += op_lines();
        return out + footer();
    }

  private:
    std::string reference(TensorId id) const {
        return to_text(references_[static_cast<std::size_t>(id)]);
    }

    std::string where(TensorId id) const {  // role and scratch offset
        const auto i = static_cast<std::size_t>(id);
        std::string text(name(block_.tensors[i].role));
        if (!block_.scratch_offsets.empty() && block_.scratch_offsets[i] >= 0)
            text += " @" + std::to_string(block_.scratch_offsets[i]);
        return text;
    }

    std::string type(TensorId id) const {
        const Tensor& tensor = block_.tensors[static_cast<std::size_t>(id)];
        return std::string(name(tensor.dtype)) + ' ' + sizes(tensor.dims);
    }

    std::string sizes(const std::vector<std::int64_t>& dims) const {
        std::string text = "[";
        for (std::size_t i = 0; i < dims.size(); ++i)
            text += (i > 0 ? "," : "") + std::to_string(dims[i]);
        return text + ']';
    }

    // "of [192,64] rows [64,64,64] normal decays": what a parameter is as a whole.
    std::string whole(TensorId id) const {
        for (const DeclaredParameter& declared : block_.parameters) {
            if (declared.tensor != id) continue;
            const ParameterSpec& spec = declared.spec;
            std::string text = "of " + sizes(spec.dims);
            if (spec.experts > 0) text += " ×" + std::to_string(spec.experts);
            text += ' ' + std::string(spelling(spec.cut));
            if (spec.sections.size() > 1) text += ' ' + sizes(spec.sections);
            text += ' ' + std::string(spelling(spec.start));
            if (spec.decays) text += " decays";
            if (spec.padding > 0) text += " padding " + std::to_string(spec.padding);
            if (spec.second_use) text += " second_use";
            if (spec.pipeline_ranks > 1)
                text += " pipeline_ranks " + std::to_string(spec.pipeline_ranks);
            if (spec.partial_gradient) text += " partial_gradient";
            if (spec.sign_rate > 0) text += fmt::format(" sign_rate {}", spec.sign_rate);
            if (spec.frozen) text += " frozen";
            return text;
        }
        return "";
    }

    void declare(TensorId id) {
        declared_[static_cast<std::size_t>(id)] = true;
        order_.push_back(id);
    }

    // Tensors that exist before the block: all but those that an op writes before any reads them.
    std::string outside_lines() {
        std::vector<bool> made(block_.tensors.size(), false);
        std::vector<bool> read(block_.tensors.size(), false);
        for (const Op& op : block_.ops) {
            for (TensorId id : op.reads)
                if (!made[static_cast<std::size_t>(id)]) read[static_cast<std::size_t>(id)] = true;
            for (TensorId id : op.writes)
                if (!read[static_cast<std::size_t>(id)]) made[static_cast<std::size_t>(id)] = true;
        }
        Table table(4);
        for (std::size_t i = 0; i < made.size(); ++i) {
            if (made[i]) continue;
            const auto id = static_cast<TensorId>(i);
            declare(id);
            table.add({reference(id), type(id), where(id), whole(id)});
        }
        return table.text();
    }

    std::string what(const Op& op) const {
        std::string text = std::string(name(op.kind())) + ' ' + sizes_text(op.spec);
        const bool usual = !op.writes.empty() &&
                           block_.tensors[static_cast<std::size_t>(op.writes[0])].dtype == op.dtype;
        if (!usual) text += ' ' + std::string(name(op.dtype));
        if (op.group != GroupKind::none) {
            text += ' ' + std::string(name(op.group));
            if (mesh_ != nullptr) text += '/' + std::to_string(mesh_->group_size(op.group));
        }
        if (op.parts > 1)
            text += " part " + std::to_string(op.part) + " of " + std::to_string(op.parts);
        return text;
    }

    std::vector<std::string> operands(const Op& op) {
        std::vector<std::string> pieces;
        auto add = [&](const std::vector<TensorId>& ids, bool writes) {
            for (std::size_t i = 0; i < ids.size(); ++i) {
                std::string piece = reference(ids[i]);
                if (writes && !declared_[static_cast<std::size_t>(ids[i])]) {
                    declare(ids[i]);
                    piece += ' ' + type(ids[i]) + ' ' + where(ids[i]);
                }
                if (i + 1 < ids.size()) piece += ',';
                if (writes && i == 0) piece.insert(0, "-> ");
                pieces.push_back(std::move(piece));
            }
            if (ids.empty()) pieces.push_back(writes ? "-> nothing" : "nothing");
        };
        add(op.reads, false);
        add(op.writes, true);
        for (std::size_t i = 0; i < op.after.size(); ++i)
            pieces.push_back((i == 0 ? "after " : "") + std::to_string(op.after[i]) +
                             (i + 1 < op.after.size() ? "," : ""));
        const std::vector<std::string> fields = field_texts(op.spec);
        for (std::size_t i = 0; i < fields.size(); ++i)
            pieces.push_back((i == 0 ? "with " : "") + fields[i]);
        return pieces;
    }

    std::string op_lines() {
        const Phase phase = usual_phase(block_);
        std::vector<std::array<std::string, 3>> cells;
        std::array<std::size_t, 3> widths{};
        for (const Op& op : block_.ops) {
            std::string stream(name(op.stream));
            if (op.phase != phase) stream += ' ' + std::string(name(op.phase));
            cells.push_back({what(op), op.label.empty() ? "" : in_quotes(op.label), stream});
            for (std::size_t c = 0; c < widths.size(); ++c)
                widths[c] = std::max(widths[c], columns(cells.back()[c]));
        }
        std::vector<std::vector<std::string>> pieces;
        std::size_t longest = 0;
        for (const Op& op : block_.ops) {
            pieces.push_back(operands(op));
            for (const std::string& piece : pieces.back())
                longest = std::max(longest, columns(piece));
        }
        std::string out;
        for (std::size_t i = 0; i < block_.ops.size(); ++i) {
            std::string start = padded_left(std::to_string(i), 4) + "  ";
            for (std::size_t c = 0; c < widths.size(); ++c)
                if (widths[c] > 0) start += padded(cells[i][c], widths[c]) + "  ";
            out += operand_lines(std::move(start), pieces[i], longest);
        }
        return out;
    }

    // One line; or what is read on the first and what is written below it, to the left by as much
    // as the longest operand of the block needs.
    static std::string operand_lines(std::string start, const std::vector<std::string>& pieces,
                                     std::size_t longest) {
        constexpr std::size_t kArrow = 3;
        const std::size_t indent = columns(start);
        const std::size_t room = kLineColumns - std::min(longest + kArrow, kLineColumns - 8);
        const std::size_t below = std::min(indent, room);
        std::size_t whole = indent;
        for (const std::string& piece : pieces)
            whole += columns(piece) + 1;
        if (whole <= kLineColumns + 1) return wrapped(std::move(start), pieces, indent);
        const auto arrow = std::find_if(pieces.begin(), pieces.end(), [](const std::string& piece) {
            return piece.compare(0, kArrow, "-> ") == 0;
        });
        return wrapped(std::move(start), {pieces.begin(), arrow}, below) +
               wrapped(std::string(below, ' '), {arrow, pieces.end()}, below + kArrow);
    }

    std::string footer() const {
        std::string out;
        if (block_.input >= 0 || block_.output >= 0) {
            out += "    chain  ";
            if (block_.input >= 0) out += reference(block_.input) + ' ';
            out += "->";
            if (block_.output >= 0) out += ' ' + reference(block_.output);
            out += '\n';
        }
        out += "    scratch  " + std::to_string(block_.scratch_bytes) + " bytes";
        if (block_.scratch_offsets.empty() && !block_.tensors.empty()) out += " unplanned";
        out += '\n';
        std::vector<std::string> edges;
        for (const ReuseEdge& edge : block_.reuse)
            edges.push_back(std::to_string(edge.later) + " after " + std::to_string(edge.earlier) +
                            ',');
        if (edges.empty())
            edges.emplace_back("none");
        else
            edges.back().pop_back();
        return out + wrapped("    reuse  ", edges, 11) + order_line();
    }

    // Ids of the tensors in the order of their first mention, where it is not 0, 1, 2, …
    std::string order_line() const {
        if (std::is_sorted(order_.begin(), order_.end())) return "";
        std::vector<std::string> runs;
        for (std::size_t i = 0; i < order_.size();) {
            std::size_t end = i + 1;
            while (end < order_.size() && order_[end] == order_[end - 1] + 1)
                ++end;
            std::string run = std::to_string(order_[i]);
            if (end > i + 1) run += ".." + std::to_string(order_[end - 1]);
            runs.push_back(std::move(run));
            i = end;
        }
        return wrapped("    order  ", runs, 11);
    }

    const Block& block_;
    const Mesh* mesh_;
    std::vector<TensorReference> references_;
    std::vector<bool> declared_;
    std::vector<TensorId> order_;  // tensors as the text mentions them first
};

}  // namespace

std::string block_text(const Block& block, std::int32_t number, const Mesh* mesh) {
    return BlockPrinter(block, mesh).text(number);
}

}  // namespace orrery::plan
