#include "plan/checks/validate_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "plan/check.hpp"
#include "plan/checks/binding_faults.hpp"
#include "plan/checks/operand_faults.hpp"
#include "plan/checks/pair_faults.hpp"
#include "plan/checks/sharding_faults.hpp"
#include "plan/checks/staleness_faults.hpp"
#include "plan/checks/validation_faults.hpp"
#include "plan/memory/arena.hpp"

namespace orrery::plan {
namespace {

using Faults = std::vector<std::string>;

std::string of_rank(const Program& program) {
    return "pipeline rank " + std::to_string(program.pipeline_rank) + ": ";
}

const Procedure* procedure_of(const Program& program, const Step& step) {
    return step.procedure < 0 ? nullptr
                              : &program.procedures[static_cast<std::size_t>(step.procedure)];
}

// Each micro-batch goes forward once at each stage, and then back, in one or in two.
void check_schedule(const Plan& plan, const Program& program, Faults& faults) {
    enum Done { nothing, forward, half, all };
    std::map<std::pair<std::int32_t, std::int32_t>, Done> done;  // by stage and micro-batch
    for (const Step& step : program.steps) {
        const Action& a = step.action;
        if (!is_compute(a.kind)) continue;
        Done& now = done[{a.stage, a.micro_batch}];
        const bool second_half = a.kind == ActionKind::backward_weight;
        const Done before = a.kind == ActionKind::forward ? nothing : second_half ? half : forward;
        if (now != before)
            faults.push_back(of_rank(program) + to_text(a) +
                             (a.kind == ActionKind::forward ? " twice"
                              : second_half                 ? " without its one backward_input"
                                                            : " without its one forward"));
        now = a.kind == ActionKind::forward ? forward : ends_micro_batch(a.kind) ? all : half;
    }
    const std::size_t expected =
        program.stages.size() * static_cast<std::size_t>(plan.micro_batches);
    const auto complete = static_cast<std::size_t>(
        std::count_if(done.begin(), done.end(), [](const auto& d) { return d.second == all; }));
    if (complete != expected)
        faults.push_back(of_rank(program) + std::to_string(complete) + " of " +
                         std::to_string(expected) + " micro-batch passes are complete");
}

// Residents by one of their steps, in order; among those of a step in order of their ids.
class ByStep {
  public:
    template <typename StepOf>
    ByStep(const std::vector<Resident>& residents, std::size_t steps, StepOf step_of)
        : begin_(steps + 3), ids_(residents.size()) {
        for (const Resident& resident : residents)
            ++begin_[step_of(resident) + 2];
        for (std::size_t step = 1; step < begin_.size(); ++step)
            begin_[step] += begin_[step - 1];
        for (std::size_t i = 0; i < residents.size(); ++i)
            ids_[begin_[step_of(residents[i]) + 1]++] = static_cast<std::int32_t>(i);
    }
    std::span<const std::int32_t> of(std::size_t step) const {
        return {ids_.data() + begin_[step], begin_[step + 1] - begin_[step]};
    }

  private:
    std::vector<std::uint32_t> begin_;  // by step, into ids_
    std::vector<std::int32_t> ids_;
};

// What is alive at a moment, by address. Of two that begin together the first is known. Places are
// kept: most of what comes lies where something lay before.
class Alive {
  public:
    explicit Alive(const Program& program) : program_(program) {}

    void leave(std::int32_t id) {
        const std::int64_t begin = address_of(program_, id);
        const auto at = place(begin);
        if (at != all_.end() && at->begin == begin && at->id == id) at->id = kNobody;
    }
    // Whether it shares memory with another.
    bool enter(std::int32_t id) {
        const std::int64_t begin = address_of(program_, id), end = begin + bytes(id);
        auto at = place(begin);
        if (at == all_.end() || at->begin != begin) at = all_.insert(at, {begin, kNobody});
        if (at->id != kNobody) return true;
        at->id = id;
        const auto next = std::find_if(std::next(at), all_.end(), is_taken);
        if (next != all_.end() && end > next->begin) return true;
        const auto before = std::find_if(std::make_reverse_iterator(at), all_.rend(), is_taken);
        return before != all_.rend() && before->begin + bytes(before->id) > begin;
    }

  private:
    static constexpr std::int32_t kNobody = -1;

    struct Place {
        std::int64_t begin = 0;
        std::int32_t id = kNobody;
    };
    static bool is_taken(const Place& place) { return place.id != kNobody; }

    std::int64_t bytes(std::int32_t id) const {
        return program_.residents[static_cast<std::size_t>(id)].bytes;
    }
    std::vector<Place>::iterator place(std::int64_t begin) {
        return std::lower_bound(all_.begin(), all_.end(), begin,
                                [](const Place& one, std::int64_t at) { return one.begin < at; });
    }

    const Program& program_;
    std::vector<Place> all_;
};

// Residents alive together must not share memory, and steps touch only what is alive.
void check_memory(const Program& program, Faults& faults) {
    const auto last = static_cast<std::int32_t>(program.steps.size());
    for (const Resident& r : program.residents)
        if (r.first_step < 0 || r.last_step < r.first_step || r.last_step >= last) {
            faults.push_back(of_rank(program) + r.name + " lives outside the steps");
            return;
        }
    const ByStep births(program.residents, program.steps.size(),
                        [](const Resident& r) { return static_cast<std::size_t>(r.first_step); });
    const ByStep deaths(program.residents, program.steps.size(), [](const Resident& r) {
        return static_cast<std::size_t>(r.last_step) + 1;
    });
    Alive alive(program);
    for (std::size_t step = 0; step < program.steps.size(); ++step) {
        for (const std::int32_t id : deaths.of(step))
            if (program.residents[static_cast<std::size_t>(id)].within < 0) alive.leave(id);
        for (const std::int32_t id : births.of(step)) {
            const Resident& r = program.residents[static_cast<std::size_t>(id)];
            if (r.bytes == 0 || r.within >= 0) continue;
            if (alive.enter(id))
                faults.push_back(of_rank(program) + r.name + " shares memory with another");
        }
    }
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        const auto check_life = [&](std::int32_t id) {
            const Resident& r = program.residents[static_cast<std::size_t>(id)];
            const auto now = static_cast<std::int32_t>(s);
            if (now < r.first_step || now > r.last_step)
                faults.push_back(of_rank(program) + to_text(step.action) + " touches " + r.name +
                                 " outside its life");
        };
        for (std::size_t f = 0; f < kFrames; ++f)
            if (const std::int32_t id = step.resident(static_cast<Frame>(f)); id >= 0)
                check_life(id);
        for (const Transfer& transfer : step.transfers)
            if (transfer.resident >= 0) check_life(transfer.resident);
    }
}

// The communication of a plan across programs as a graph: nodes that must happen together are one.
class CommunicationGraph {
  public:
    explicit CommunicationGraph(const Plan& plan)
        : plan_(plan), beyond_programs_(beyond_programs()) {
        for (const Program& program : plan.programs)
            add_program(program);
    }

    void check(Faults& faults) {
        faults.insert(faults.end(), outsiders_.begin(), outsiders_.end());
        if (!sends_.empty()) faults.push_back("a send without its receive");
        if (!receives_.empty()) faults.push_back("a receive without its send");
        for (const auto& [pair, list] : sent_)
            if (received_[pair] != list)
                faults.push_back("ranks " + std::to_string(pair.first) + " and " +
                                 std::to_string(pair.second) +
                                 " do not agree on the order of their transfers");
        for (const auto& [key, count] : collective_members_)
            if (count != members_expected(key.first))
                faults.push_back("a collective over " + std::string(name(key.first)) +
                                 " lacks members");
        if (has_cycle()) faults.push_back("communication in a cycle: the plan would deadlock");
    }

  private:
    // Receiving stage, micro-batch or statistic, whether onward, whether of a statistic.
    using TransferKey = std::tuple<std::int32_t, std::int32_t, bool, bool>;
    using CollectiveKey = std::pair<GroupKind, int>;

    // Of a block's ops those of groups that reach beyond one program: within, its ranks agree on
    // the order.
    std::vector<std::vector<GroupKind>> beyond_programs() const {
        std::vector<std::vector<GroupKind>> groups;
        for (const Block& block : plan_.blocks) {
            std::vector<GroupKind>& of = groups.emplace_back();
            for (const Op& op : block.ops)
                if (is_communication(op.kind()) &&
                    (op.group == GroupKind::embedding || op.group == GroupKind::model ||
                     op.group == GroupKind::world))
                    of.push_back(op.group);
        }
        return groups;
    }

    std::size_t members_expected(GroupKind kind) const {
        return kind == GroupKind::embedding ? 2 : plan_.programs.size();
    }

    std::size_t find(std::size_t node) {
        while (parent_[node] != node)
            node = parent_[node] = parent_[parent_[node]];
        return node;
    }

    std::size_t new_node() {
        parent_.push_back(parent_.size());
        return parent_.size() - 1;
    }

    void add_program(const Program& program) {
        std::vector<std::size_t> order;
        std::map<GroupKind, int> count;
        for (const Step& step : program.steps) {
            if (!step.transfers.empty()) {
                order.push_back(new_node());
                for (const Transfer& t : step.transfers)
                    match(program, t, order.back());
            }
            const Procedure* procedure = procedure_of(program, step);
            if (procedure == nullptr) continue;
            for (const BlockUse& use : procedure->uses)
                for (const GroupKind group :
                     beyond_programs_[static_cast<std::size_t>(use.block)]) {
                    order.push_back(new_node());
                    join_collective({group, count[group]++}, order.back());
                    const auto end = program.pipeline_rank + 1;
                    if (group == GroupKind::embedding && end != 1 &&
                        end != static_cast<std::int32_t>(plan_.programs.size()))
                        outsiders_.push_back(of_rank(program) +
                                             "reduces a tied embedding between the ends");
                }
        }
        orders_.push_back(std::move(order));
    }

    void match(const Program& program, const Transfer& t, std::size_t node) {
        const bool send = is_send(t.action.kind);
        std::int32_t receiver = t.action.stage;
        if (send) receiver += hop_to_peer(t.action.kind);
        const TransferKey key{receiver, t.action.micro_batch, goes_onward(t.action.kind),
                              carries_statistic(t.action.kind)};
        const auto pair = send ? std::make_pair(program.pipeline_rank, t.peer)
                               : std::make_pair(t.peer, program.pipeline_rank);
        (send ? sent_ : received_)[pair].push_back(key);
        auto& waiting = send ? receives_ : sends_;
        const auto other = waiting.find(key);
        if (other == waiting.end()) {
            (send ? sends_ : receives_)[key] = node;
            return;
        }
        parent_[find(node)] = find(other->second);
        waiting.erase(other);
    }

    void join_collective(const CollectiveKey& key, std::size_t node) {
        ++collective_members_[key];
        const auto [it, fresh] = collectives_.emplace(key, node);
        if (!fresh) parent_[find(node)] = find(it->second);
    }

    bool has_cycle() {
        // Those after each, one node's behind another's.
        std::vector<std::size_t> first_after(parent_.size() + 2), before(parent_.size());
        for (std::vector<std::size_t>& order : orders_)
            for (std::size_t i = 0; i < order.size(); ++i) {
                order[i] = find(order[i]);
                if (i == 0) continue;
                ++first_after[order[i - 1] + 2];
                ++before[order[i]];
            }
        for (std::size_t n = 1; n < first_after.size(); ++n)
            first_after[n] += first_after[n - 1];
        std::vector<std::size_t> after(first_after.back());
        for (const std::vector<std::size_t>& order : orders_)
            for (std::size_t i = 1; i < order.size(); ++i)
                after[first_after[order[i - 1] + 1]++] = order[i];
        std::vector<std::size_t> ready;
        std::size_t roots = 0;
        for (std::size_t n = 0; n < parent_.size(); ++n) {
            if (find(n) != n) continue;
            ++roots;
            if (before[n] == 0) ready.push_back(n);
        }
        std::size_t visited = 0;
        while (!ready.empty()) {
            const std::size_t n = ready.back();
            ready.pop_back();
            ++visited;
            for (std::size_t i = first_after[n]; i < first_after[n + 1]; ++i)
                if (--before[after[i]] == 0) ready.push_back(after[i]);
        }
        return visited != roots;
    }

    const Plan& plan_;
    std::vector<std::vector<GroupKind>> beyond_programs_;  // by block
    std::vector<std::size_t> parent_;
    std::vector<std::vector<std::size_t>> orders_;  // by program
    std::map<TransferKey, std::size_t> sends_;      // not yet matched
    std::map<TransferKey, std::size_t> receives_;
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<TransferKey>> sent_, received_;
    Faults outsiders_;  // of the group of first and last pipeline rank
    std::map<CollectiveKey, std::size_t> collectives_;
    std::map<CollectiveKey, std::size_t> collective_members_;
};

// Forward FLOPs of the plan: phase forward only, all ranks.
// Forward work of a loss in chunks is done in the backward action.
double forward_flops(const Plan& plan) {
    double total = 0;
    const auto add = [&](std::int32_t block) {
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops)
            if (op.phase == Phase::forward) total += flops(op);
    };
    for (const Program& program : plan.programs)
        for (const Stage& stage : program.stages)
            for (const StagePart& part : stage.parts) {
                add(part.forward);
                add(part.backward_input >= 0 ? part.backward_input : part.backward);
            }
    return total * plan.micro_batches *
           static_cast<double>(plan.mesh.tensor * plan.mesh.context * plan.mesh.data);
}

// Whether one rank has the first and the last stage.
bool holds_both_ends(const Plan& plan) {
    std::size_t stages = 0;
    for (const Program& program : plan.programs)
        stages += program.stages.size();
    return std::any_of(plan.programs.begin(), plan.programs.end(), [&](const Program& program) {
        return program.stages.front().index == 0 &&
               program.stages.back().index + 1 == static_cast<std::int32_t>(stages);
    });
}

// Whether it is the plan of this scenario's layout, of this many programs.
void check_layout(const Plan& plan, const Scenario& scenario, Faults& faults) {
    const Layout& layout = scenario.layout;
    const auto check = [&](const char* what, std::int64_t planned, std::int64_t asked) {
        if (planned != asked)
            faults.push_back(std::string("the plan is for ") + what + ' ' +
                             std::to_string(planned) + ", the scenario asks for " +
                             std::to_string(asked));
    };
    check("tensor_parallel", plan.mesh.tensor, layout.tensor_parallel);
    check("context_parallel", plan.mesh.context, layout.context_parallel);
    check("data_parallel", plan.mesh.data, layout.data_parallel);
    check("pipeline_parallel", plan.mesh.pipeline, layout.pipeline_parallel);
    check("pipeline_parallel", static_cast<std::int64_t>(plan.programs.size()),
          layout.pipeline_parallel);
    check("micro-batches:", plan.micro_batches, layout.micro_batches());
    check("sequence_length", plan.tokens.sequence, scenario.training.sequence_length);
}

// Whether attention is counted as if it multiplied what a window then hides: unfused it does, and
// blocks of keys that travel are counted whole.
bool multiplies_masked(const Scenario& scenario) {
    return scenario.training.framework.attention_kernel == AttentionKernel::unfused ||
           scenario.layout.balances_context();
}

// Multiplications per token with keys beyond the windows.
std::int64_t masked_products(const Scenario& scenario) {
    const Model& model = scenario.model;
    std::int64_t products = 0;
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
        const SoftmaxAttention& attention = model.kinds[kind].attention();
        // Between chunks nothing is multiplied.
        const std::int64_t hidden =
            attends_in_chunks(scenario, attention)
                ? 0
                : scenario.training.sequence_length - attention_span(scenario, attention);
        products +=
            model.layers_of(kind) * (attention.q_width() + attention.context_width()) * hidden;
    }
    return products;
}

// Multiplications per token that further tensor ranks repeat: one matrix of each linear's adapters,
// as wide as the model, is whole on every rank; so are those that make latents, and the projection
// of multi-token prediction, of all tokens where tensor ranks do not share these out.
std::int64_t repeated_products(const Scenario& scenario) {
    const SoftmaxAttention& attention = scenario.model.attention();
    const Latents& latents = attention.latents;
    std::int64_t whole = 0;
    const std::int64_t further = scenario.model.mtp_layers;
    if (latents.on() && !scenario.layout.sequence_parallel)
        whole = (scenario.model.layers + further) *
                (latents.q_rank + latents.kv_rank + attention.rotary_dim);
    if (!scenario.layout.sequence_parallel) whole += further * 2 * scenario.model.hidden;
    const Lora& lora = scenario.training.lora;
    std::int64_t adapted = 0;
    for (const char* linear : {"qkv", "projection", "fc1", "fc2"})
        adapted += lora.adapts(linear) ? 1 : 0;
    return (scenario.layout.tensor_parallel - 1) *
           (adapted * scenario.model.layers * lora.rank + whole) * scenario.model.hidden;
}

// Multiplications per token that experts do beyond those of its choices, where rows are filled up;
// less than none where there is no capacity for all: of a rank's rows in whole ones.
double filled_products(const Scenario& scenario) {
    const ExpertRouting& routing = scenario.training.routing;
    if (!routing.drops()) return 0;
    const Layout& layout = scenario.layout;
    const auto sequence = static_cast<double>(scenario.training.sequence_length);
    const double rank = static_cast<double>(layout.micro_batch_size) * sequence /
                        static_cast<double>(layout.context_parallel * layout.tensor_parallel);
    const double unit = routing.capacity_of == CapacityUnit::rank ? rank : sequence;
    double products = 0;
    for (std::size_t kind = 0; kind < scenario.model.kinds.size(); ++kind) {
        const ExpertMlp* experts = scenario.model.kinds[kind].experts();
        if (experts == nullptr) continue;
        const auto all = static_cast<double>(experts->routing.experts);
        const auto chosen = static_cast<double>(experts->routing.chosen);
        const double capacity = std::ceil(unit * chosen / all * routing.capacity_factor);
        const double most = routing.pads_to_capacity ? capacity * all : unit * chosen;
        const double rows = std::round(std::min(most, capacity * all) * rank / unit);
        products += static_cast<double>(scenario.model.layers_of(kind)) * (rows / rank - chosen) *
                    (experts->expert.gated() ? 3 : 2) * static_cast<double>(scenario.model.hidden) *
                    static_cast<double>(experts->expert.ffn_hidden);
    }
    return products;
}

// Biases of routers, which no gradient steps: none of the model's parameters.
std::int64_t router_biases(const Model& model) {
    std::int64_t biases = 0;
    for (std::size_t kind = 0; kind < model.kinds.size(); ++kind)
        if (const ExpertMlp* experts = model.kinds[kind].experts())
            if (experts->routing.biased) biases += model.layers_of(kind) * experts->routing.experts;
    return biases;
}

void check_conserved(const Plan& plan, const Scenario& scenario, Faults& faults) {
    const Conserved expected = conserved_of(scenario);
    const Model& model = scenario.model;
    std::int64_t layers = 0;
    std::int64_t parameters = 0;
    for (const Program& program : plan.programs) {
        for (const Stage& stage : program.stages)
            for (const StagePart& part : stage.parts)
                layers += part.layer >= 0 ? 1 : 0;
        for (const Bucket& bucket : program.buckets) {
            const std::int64_t of_experts =
                bucket.experts ? bucket.elements : bucket.expert_elements;
            parameters +=
                (bucket.elements - bucket.replicated_elements - of_experts) * plan.mesh.tensor +
                bucket.replicated_elements + of_experts * plan.mesh.expert;
        }
    }
    if (layers != expected.layers)
        faults.push_back("the plan has " + std::to_string(layers) + " layers, the model " +
                         std::to_string(expected.layers));
    const std::int64_t padded = padded_vocabulary(scenario);
    const std::int64_t padding = (padded - model.vocabulary) * model.hidden;
    const bool second_copy = model.embeds_at_both_ends() && !holds_both_ends(plan) &&
                             !scenario.layout.shares_vocabulary();
    const std::int64_t held = expected.parameters + padding * (model.tied_embeddings ? 1 : 2) +
                              (second_copy ? padded * model.hidden : 0) + router_biases(model);
    if (parameters != held)
        faults.push_back("the plan holds " + std::to_string(parameters) +
                         " parameters, the scenario asks for " + std::to_string(held));
    const double tokens = static_cast<double>(expected.tokens_per_step);
    const std::int64_t masked = multiplies_masked(scenario) ? masked_products(scenario) : 0;
    const double forward = forward_flops_of(scenario) +
                           2.0 * tokens *
                               (static_cast<double>((1 + model.mtp_layers) * padding + masked +
                                                    repeated_products(scenario)) +
                                filled_products(scenario));
    const double ratio = forward_flops(plan) / forward;
    if (ratio < 1 - 1e-9 || ratio > 1 + 1e-9)
        faults.push_back("forward FLOPs of the plan are " + std::to_string(ratio) +
                         " of what the scenario asks for");
}

}  // namespace

std::vector<std::string> plan_faults(const Plan& plan, const Scenario& scenario) {
    Faults faults;
    check_layout(plan, scenario, faults);
    if (!faults.empty()) return faults;
    faults = operand_faults(plan.blocks, plan.mesh);
    for (const Program& program : plan.programs) {
        check_schedule(plan, program, faults);
        check_memory(program, faults);
        check_bindings(plan, program, faults);
        check_pairs(plan, program, faults);
    }
    check_sharding(plan, faults);
    check_validation(plan, faults);
    check_turns(plan, scenario.layout.staleness, faults);
    CommunicationGraph(plan).check(faults);
    check_conserved(plan, scenario, faults);
    return faults;
}

void validate_plan(const Plan& plan, const Scenario& scenario) {
    const Faults faults = plan_faults(plan, scenario);
    if (faults.empty()) return;
    constexpr std::size_t kShown = 20;  // of what is often one fault in every layer
    std::string all;
    for (std::size_t i = 0; i < std::min(kShown, faults.size()); ++i)
        all += "\n  " + faults[i];
    if (faults.size() > kShown)
        all += "\n  and " + std::to_string(faults.size() - kShown) + " more";
    ORRERY_CHECK(false, "a plan that breaks its rules:" + all);
}

}  // namespace orrery::plan
