#include <algorithm>
#include <array>
#include <utility>

#include "plan/check.hpp"
#include "plan/text/lines.hpp"
#include "plan/text/print_parts.hpp"
#include "plan/text/runs.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

std::string id_text(char letter, std::int64_t id) {
    return letter + (id < 0 ? "-" : std::to_string(id));
}

class ProgramPrinter {
  public:
    ProgramPrinter(const Plan& plan, const Program& program)
        : plan_(plan), program_(program), usual_(plan, program) {}

    std::string text() const {
        std::string out = "program " + std::to_string(program_.pipeline_rank) + "  arena " +
                          std::to_string(program_.arena_bytes) + " bytes" + tier_sizes() + '\n' +
                          fixed_line();
        for (const Stage& stage : program_.stages)
            out += stage_lines(stage);
        out += bucket_lines();
        for (std::size_t i = 0; i < program_.procedures.size(); ++i)
            out += procedure_lines(i);
        out += resident_lines();
        std::vector<std::string> steps;
        for (const Step& step : program_.steps)
            for (std::string& piece : step_text(step))
                steps.push_back(std::move(piece));
        return out + "  steps " + std::to_string(program_.steps.size()) + '\n' +
               wrapped("    ", steps, 4);
    }

  private:
    std::string tier_sizes() const {
        std::string text;
        if (program_.host_bytes > 0)
            text += "  host " + std::to_string(program_.host_bytes) + " bytes";
        if (program_.disk_bytes > 0)
            text += "  disk " + std::to_string(program_.disk_bytes) + " bytes";
        return text;
    }

    std::string fixed_line() const {
        const auto& p = program_;
        std::vector<std::string> pieces = {
            "scratch " + id_text('r', p.scratch), "workspace " + id_text('r', p.workspace),
            "frames " + id_text('r', p.frames[0]) + ' ' + id_text('r', p.frames[1]),
            "scalars " + id_text('r', p.scalars)};
        if (p.recomputed >= 0) pieces.push_back("recomputed " + id_text('r', p.recomputed));
        if (p.quantized >= 0) pieces.push_back("quantized " + id_text('r', p.quantized));
        if (p.beside_scratch >= 0)
            pieces.push_back("beside " + id_text('r', p.beside_scratch) + ' ' +
                             id_text('r', p.beside_frames[0]) + ' ' +
                             id_text('r', p.beside_frames[1]));
        if (p.amendment >= 0) pieces.push_back("amendment " + id_text('p', p.amendment));
        auto ring = [&](const char* what, const std::vector<std::int32_t>& slots) {
            if (slots.empty()) return;
            pieces.emplace_back(what);
            for (std::int32_t slot : slots)
                pieces.push_back(id_text('r', slot));
        };
        ring("parameter_ring", p.parameter_ring);
        ring("gradient_ring", p.gradient_ring);
        return wrapped("  fixed ", pieces, 8);
    }

    std::string block_name(std::int32_t id) const {
        ORRERY_CHECK(id >= 0 && static_cast<std::size_t>(id) < plan_.blocks.size(),
                     "a program uses a block that the plan lacks");
        return spelled(plan_.blocks[static_cast<std::size_t>(id)].name) + ' ' + id_text('b', id);
    }

    static std::string times(std::size_t count) {
        return count > 1 ? "×" + std::to_string(count) : "";
    }

    std::string stage_lines(const Stage& stage) const {
        auto fields = [](const StagePart& p) {
            return RunFields{{p.layer, p.bucket, p.other_bucket}, {}};
        };
        const auto of_experts = [&](const StagePart& p) {
            return p.other_bucket >= 0 &&
                   program_.buckets[static_cast<std::size_t>(p.other_bucket)].experts;
        };
        auto same = [&](const StagePart& a, const StagePart& b) {
            return of_experts(a) == of_experts(b) && a.forward == b.forward &&
                   a.backward == b.backward && a.recompute == b.recompute &&
                   a.backward_input == b.backward_input && a.backward_weight == b.backward_weight &&
                   a.quantize == b.quantize;
        };
        Table table(4);
        for (std::size_t i = 0; i < stage.parts.size();) {
            const StagePart& part = stage.parts[i];
            const std::size_t count = printed_run(stage.parts, i, same, fields);
            const std::vector<std::int64_t> first = fields(part).stepping;
            const std::vector<std::int64_t> second =
                fields(stage.parts[count > 1 ? i + 1 : i]).stepping;
            std::vector<std::string> again;
            if (part.recompute >= 0) again.push_back("recompute " + block_name(part.recompute));
            if (part.backward_input >= 0)
                again.push_back("input " + block_name(part.backward_input));
            if (part.backward_weight >= 0)
                again.push_back("weight " + block_name(part.backward_weight));
            if (part.quantize >= 0) again.push_back("quantize " + block_name(part.quantize));
            table.add(
                {block_name(part.forward), block_name(part.backward), times(count),
                 field("layer ", first[0], second[0], count),
                 field("bucket ", first[1], second[1], count),
                 field(of_experts(part) ? "experts " : "frozen ", first[2], second[2], count)},
                std::move(again));
            i += count;
        }
        return "  stage " + std::to_string(stage.index) + '\n' + table.text();
    }

    // Who shares it out, and where its states lie.
    static std::vector<std::string> bucket_states(const Bucket& bucket) {
        std::vector<std::string> pieces;
        for (const Share& share : bucket.shares)
            pieces.push_back("shared " + std::to_string(share.elements) + ':' +
                             std::string(name(share.group)));
        pieces.push_back("states " + id_text('r', bucket.parameters) + ' ' +
                         id_text('r', bucket.gradients) + ' ' + id_text('r', bucket.optimizer));
        for (const BucketState& state : bucket.states)
            pieces.push_back(std::string(name(state.kind)) + ' ' + std::string(name(state.dtype)) +
                             ' ' + std::string(name(state.extent)) +
                             (state.offset == 0 ? "" : " @" + std::to_string(state.offset)));
        return pieces;
    }

    // Nothing where it is −1 throughout.
    static std::string field(const char* what, std::int64_t first, std::int64_t second,
                             std::size_t count) {
        if (first == -1 && second == -1) return {};
        return what + Progression{first, second - first}.text(count);
    }

    std::string bucket_lines() const {
        Table table(2);
        for (std::size_t i = 0; i < program_.buckets.size(); ++i) {
            const Bucket& b = program_.buckets[i];
            auto count = [](const char* what, std::int64_t n) { return what + std::to_string(n); };
            auto unless_zero = [&](const char* what, std::int64_t n) {
                return n == 0 ? std::string() : count(what, n);
            };
            table.add({count("bucket ", static_cast<std::int64_t>(i)), count("stage ", b.stage),
                       count("position ", b.first_position) + count("..", b.last_position),
                       b.frozen    ? "frozen"
                       : b.experts ? "experts"
                                   : "",
                       count("elements ", b.elements), unless_zero("tied ", b.tied_elements),
                       unless_zero("replicated ", b.replicated_elements),
                       unless_zero("partial ", b.partial_elements),
                       unless_zero("experts ", b.expert_elements)},
                      bucket_states(b));
        }
        return table.text();
    }

    std::string procedure_lines(std::size_t index) const {
        const Procedure& procedure = program_.procedures[index];
        auto fields = [](const BlockUse& u) {
            RunFields found{{u.layer, u.position, u.bucket}, {}};
            for (const Slot& slot : u.slots) {
                found.stepping.insert(found.stepping.end(), {slot.piece, slot.offset});
                found.alternating.push_back(slot.resident);
            }
            return found;
        };
        auto same = [](const BlockUse& a, const BlockUse& b) {
            return a.block == b.block && a.fence == b.fence && have_alike_slots(a, b);
        };
        Table table(4);
        std::vector<std::string> slots;  // behind each row
        for (std::size_t i = 0; i < procedure.uses.size();) {
            const BlockUse& use = procedure.uses[i];
            const std::size_t count = printed_run(procedure.uses, i, same, fields);
            const BlockUse& next = procedure.uses[count > 1 ? i + 1 : i];
            table.add({block_name(use.block), times(count),
                       field("layer ", use.layer, next.layer, count),
                       field("position ", use.position, next.position, count),
                       field("bucket ", use.bucket, next.bucket, count), use.fence ? "fence" : ""});
            const std::int32_t as = told_by(index, i, count);
            slots.push_back(as >= 0 ? "      as " + id_text('p', as) + '\n'
                                    : slot_lines(plan_.blocks[static_cast<std::size_t>(use.block)],
                                                 use, next, count));
            i += count;
        }
        return "  procedure " + id_text('p', static_cast<std::int64_t>(index)) + ' ' +
               in_quotes(procedure.name) + '\n' + interleaved(table.text(), slots);
    }

    // The first procedure before this one whose uses have the slots of a run of this one's; −1:
    // none.
    std::int32_t told_by(std::size_t procedure, std::size_t begin, std::size_t count) const {
        const std::vector<BlockUse>& uses = program_.procedures[procedure].uses;
        for (std::size_t p = 0; p < procedure; ++p) {
            std::size_t n = 0;
            for (; n < count; ++n) {
                const BlockUse& use = uses[begin + n];
                const BlockUse* other = use_like(program_.procedures[p], use);
                if (use.slots.empty() || other == nullptr || other->slots != use.slots) break;
            }
            if (n == count) return static_cast<std::int32_t>(p);
        }
        return -1;
    }

    // The lines of a table, and behind each its own further ones.
    static std::string interleaved(const std::string& rows,
                                   const std::vector<std::string>& behind) {
        std::string out;
        std::size_t begin = 0;
        for (const std::string& lines : behind) {
            const std::size_t end = rows.find('\n', begin) + 1;
            out += rows.substr(begin, end - begin) + lines;
            begin = end;
        }
        return out;
    }

    std::string resident_lines() const {
        Table table(2);
        table.align_right(3);
        for (std::size_t i = 0; i < program_.residents.size(); ++i) {
            const Resident& r = program_.residents[i];
            const bool always = r.first_step == 0 &&
                                r.last_step + 1 == static_cast<std::int32_t>(program_.steps.size());
            std::string life = "always";
            if (!always)
                life = "steps " + std::to_string(r.first_step) + ".." + std::to_string(r.last_step);
            const auto place =
                r.within < 0 ? "@" + std::to_string(r.offset) : "within " + id_text('r', r.within);
            std::vector<std::string> reuses;
            if (r.tier != Tier::device) reuses.emplace_back(name(r.tier));
            if (r.copy_of >= 0) reuses.push_back("copy of " + id_text('r', r.copy_of));
            if (r.turns > 1) reuses.push_back("turns " + std::to_string(r.turns));
            bool first = true;
            for (std::int32_t old : r.reuses)
                reuses.push_back((std::exchange(first, false) ? "reuses " : "") +
                                 id_text('r', old));
            table.add({"resident " + id_text('r', static_cast<std::int64_t>(i)), in_quotes(r.name),
                       std::string(name(r.category)), std::to_string(r.bytes), place, life},
                      std::move(reuses));
        }
        return table.text();
    }

    static std::string braces(const std::vector<std::string>& said) {
        std::string out;
        for (const std::string& word : said)
            out += (out.empty() ? "" : " ") + word;
        return out.empty() ? out : '{' + out + '}';
    }

    std::string transfer_text(const Transfer& transfer) const {
        const Transfer usual = usual_.transfer(transfer.action);
        std::vector<std::string> said;
        if (transfer.peer != usual.peer) said.push_back("peer " + std::to_string(transfer.peer));
        if (transfer.bytes != usual.bytes)
            said.push_back("bytes " + std::to_string(transfer.bytes));
        if (transfer.resident != usual.resident) said.push_back(id_text('r', transfer.resident));
        if (transfer.share != usual.share)
            said.push_back("share " + std::string(name(transfer.share)));
        return to_text(transfer.action) + braces(said);
    }

    std::vector<std::string> step_text(const Step& step) const {
        if (step.transfers.empty()) {
            ORRERY_CHECK(!is_transfer(step.action.kind), "a transfer step without transfers");
            const Step usual = usual_.compute(step.action);
            std::vector<std::string> said;
            auto say = [&](char letter, std::int32_t id, std::int32_t unsaid) {
                if (id != unsaid) said.push_back(id_text(letter, id));
            };
            say('p', step.procedure, usual.procedure);
            say('s', step.stash, usual.stash);
            say('i', step.input, usual.input);
            say('o', step.output, usual.output);
            say('k', step.kept, usual.kept);
            say('d', step.deferred, usual.deferred);
            say('x', step.received, usual.received);
            say('h', step.stored, usual.stored);
            if (step.after_transfers) said.emplace_back("waits");
            if (step.beside_last) said.emplace_back("beside");
            return {to_text(step.action) + braces(said)};
        }
        Step plain;  // what a transfer step may hold
        plain.action = step.transfers.front().action;
        plain.transfers = step.transfers;
        ORRERY_CHECK(plain == step && is_transfer(step.action.kind),
                     "a step that computes and transfers");
        if (step.transfers.size() == 1) return {transfer_text(step.transfers[0])};
        std::vector<std::string> pieces;
        for (const Transfer& transfer : step.transfers)
            pieces.push_back(transfer_text(transfer));
        pieces.front().insert(0, "exchange(");
        pieces.back() += ')';
        return pieces;
    }

    const Plan& plan_;
    const Program& program_;
    UsualBindings usual_;
};

}  // namespace

std::string program_text(const Plan& plan, const Program& program) {
    return ProgramPrinter(plan, program).text();
}

}  // namespace orrery::plan
