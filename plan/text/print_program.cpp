#include <algorithm>
#include <array>
#include <utility>

#include "plan/check.hpp"
#include "plan/text/lines.hpp"
#include "plan/text/print_parts.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

std::string id_text(char letter, std::int64_t id) {
    return letter + (id < 0 ? "-" : std::to_string(id));
}

// A field over a run of alike things: it steps by the same amount from each to the next.
struct Progression {
    std::int64_t first = 0;
    std::int64_t step = 0;

    std::int64_t at(std::size_t n) const { return first + step * static_cast<std::int64_t>(n); }
    std::string text(std::size_t count) const {
        std::string out = std::to_string(first);
        if (step != 0) out += ".." + std::to_string(at(count - 1));
        return out;
    }
};

// How many things from `begin` on are one run: equal in `same`, their fields in progressions.
template <typename Thing, typename Same, typename Fields>
std::size_t run_length(const std::vector<Thing>& things, std::size_t begin, Same same,
                       Fields fields) {
    std::size_t end = begin + 1;
    for (; end < things.size() && same(things[begin], things[end]); ++end) {
        const auto first = fields(things[begin]);
        const auto second = fields(things[begin + 1]);
        const auto now = fields(things[end]);
        for (std::size_t f = 0; f < first.size(); ++f)
            if (now[f] != Progression{first[f], second[f] - first[f]}.at(end - begin))
                return end - begin;
    }
    return end - begin;
}

// The run to print: within one bucket, but across buckets where three or more step evenly.
template <typename Thing, typename Same, typename Fields>
std::size_t printed_run(const std::vector<Thing>& things, std::size_t begin, Same same,
                        Fields fields) {
    const std::size_t within = run_length(
        things, begin,
        [&](const Thing& a, const Thing& b) { return same(a, b) && a.bucket == b.bucket; }, fields);
    const std::size_t across = run_length(things, begin, same, fields);
    return across >= 3 ? std::max(within, across) : within;
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
        using Fields = std::array<std::int64_t, 7>;
        auto fields = [](const StagePart& p) {
            return Fields{p.layer,       p.stash_offset,    p.bucket,          p.recomputed_offset,
                          p.kept_offset, p.deferred_offset, p.quantized_offset};
        };
        auto same = [](const StagePart& a, const StagePart& b) {
            return a.forward == b.forward && a.backward == b.backward &&
                   a.recompute == b.recompute && a.backward_input == b.backward_input &&
                   a.backward_weight == b.backward_weight && a.quantize == b.quantize;
        };
        Table table(4);
        for (std::size_t i = 0; i < stage.parts.size();) {
            const StagePart& part = stage.parts[i];
            const std::size_t count = printed_run(stage.parts, i, same, fields);
            const Fields first = fields(part);
            const Fields second = fields(stage.parts[count > 1 ? i + 1 : i]);
            auto field = [&](const char* what, std::size_t f, std::int64_t unsaid) {
                if (first[f] == unsaid && second[f] == unsaid) return std::string();
                return what + Progression{first[f], second[f] - first[f]}.text(count);
            };
            std::vector<std::string> again;
            if (part.recompute >= 0) again.push_back("recompute " + block_name(part.recompute));
            if (part.recomputed_offset >= 0) again.push_back(field("recomputed @", 3, -1));
            if (part.backward_input >= 0)
                again.push_back("input " + block_name(part.backward_input));
            if (part.backward_weight >= 0) {
                again.push_back("weight " + block_name(part.backward_weight));
                again.push_back(field("kept @", 4, -1));
                again.push_back(field("deferred @", 5, -1));
            }
            if (part.quantize >= 0) {
                again.push_back("quantize " + block_name(part.quantize));
                again.push_back(field("quantized @", 6, -1));
            }
            table.add({block_name(part.forward), block_name(part.backward), times(count),
                       field("layer ", 0, -1), field("bucket ", 2, -1), field("stash @", 1, -1)},
                      std::move(again));
            i += count;
        }
        std::string bytes = "stash " + std::to_string(stage.stash_bytes) + " bytes";
        if (stage.kept_bytes > 0) bytes += "  kept " + std::to_string(stage.kept_bytes) + " bytes";
        if (stage.deferred_bytes > 0)
            bytes += "  deferred " + std::to_string(stage.deferred_bytes) + " bytes";
        return "  stage " + std::to_string(stage.index) + "  " + bytes + '\n' + table.text();
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
                       count("elements ", b.elements), count("padded ", b.padded),
                       unless_zero("tied ", b.tied_elements),
                       unless_zero("replicated ", b.replicated_elements),
                       unless_zero("partial ", b.partial_elements)},
                      {"states " + id_text('r', b.parameters) + ' ' + id_text('r', b.gradients) +
                       ' ' + id_text('r', b.optimizer)});
        }
        return table.text();
    }

    std::string procedure_lines(std::size_t index) const {
        using Fields = std::array<std::int64_t, 3>;
        const Procedure& procedure = program_.procedures[index];
        auto fields = [](const BlockUse& u) { return Fields{u.layer, u.position, u.bucket}; };
        auto same = [](const BlockUse& a, const BlockUse& b) {
            return a.block == b.block && a.gathered == b.gathered && a.reducing == b.reducing &&
                   a.fence == b.fence && a.from == b.from && a.to == b.to;
        };
        Table table(4);
        for (std::size_t i = 0; i < procedure.uses.size();) {
            const BlockUse& use = procedure.uses[i];
            const std::size_t count = printed_run(procedure.uses, i, same, fields);
            const Fields first = fields(use);
            const Fields second = fields(procedure.uses[count > 1 ? i + 1 : i]);
            auto field = [&](const char* what, std::size_t f) {
                if (first[f] == -1 && second[f] == -1) return std::string();
                return what + Progression{first[f], second[f] - first[f]}.text(count);
            };
            auto resident = [](const char* what, std::int32_t id) {
                return id < 0 ? std::string() : what + id_text('r', id);
            };
            // Copies alone have the second: one column does for both.
            auto joined = [](const std::string& a, const std::string& b) {
                return a.empty() || b.empty() ? a + b : a + ' ' + b;
            };
            table.add({block_name(use.block), times(count), field("layer ", 0),
                       field("position ", 1), field("bucket ", 2),
                       joined(resident("gathered ", use.gathered), resident("from ", use.from)),
                       joined(resident("reducing ", use.reducing), resident("to ", use.to)),
                       use.fence ? "fence" : ""});
            i += count;
        }
        return "  procedure " + id_text('p', static_cast<std::int64_t>(index)) + ' ' +
               in_quotes(procedure.name) + '\n' + table.text();
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
            say('h', step.stored, usual.stored);
            if (step.after_transfers) said.emplace_back("waits");
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
