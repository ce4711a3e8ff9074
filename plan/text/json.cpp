#include "plan/text/json.hpp"

#include <nlohmann/json.hpp>
#include <type_traits>

#include "plan/text/print_parts.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

using Json = nlohmann::ordered_json;

Json id_json(std::int64_t id) {
    return id < 0 ? Json(nullptr) : Json(id);
}

Json tensor_json(const Block& block, std::size_t index) {
    const Tensor& tensor = block.tensors[index];
    Json json = {{"name", tensor.name},
                 {"role", name(tensor.role)},
                 {"dtype", name(tensor.dtype)},
                 {"dims", tensor.dims}};
    if (index < block.scratch_offsets.size() && block.scratch_offsets[index] >= 0)
        json["scratch_offset"] = block.scratch_offsets[index];
    return json;
}

template <typename Value>
Json value_json(const Value& value) {
    if constexpr (std::is_enum_v<Value>)
        return spelling(value);
    else
        return value;
}

Json op_json(const Op& op, const Mesh& mesh) {
    Json shape = Json::object(), numbers = Json::object();
    walk_spec(op.spec, [&](FieldUse use, std::string_view field, const auto& value, const auto&) {
        (use == FieldUse::number ? numbers : shape)[std::string(field)] = value_json(value);
    });
    Json json = {{"kind", name(op.kind())},   {"label", op.label},
                 {"phase", name(op.phase)},   {"dtype", name(op.dtype)},
                 {"stream", name(op.stream)}, {"shape", std::move(shape)}};
    if (!numbers.empty()) json["numbers"] = std::move(numbers);
    if (op.group != GroupKind::none) {
        json["group"] = name(op.group);
        json["group_size"] = mesh.group_size(op.group);
    }
    json["reads"] = op.reads;
    json["writes"] = op.writes;
    if (op.parts > 1) json["part"] = {{"index", op.part}, {"of", op.parts}};
    if (!op.after.empty()) json["after"] = op.after;
    return json;
}

Json parameter_json(const DeclaredParameter& declared) {
    const ParameterSpec& spec = declared.spec;
    return {{"tensor", declared.tensor},
            {"dims", spec.dims},
            {"cut", spelling(spec.cut)},
            {"sections", spec.sections},
            {"start", spelling(spec.start)},
            {"decays", spec.decays},
            {"padding", spec.padding},
            {"second_use", spec.second_use},
            {"pipeline_ranks", spec.pipeline_ranks},
            {"partial_gradient", spec.partial_gradient},
            {"experts", spec.experts},
            {"sign_rate", spec.sign_rate},
            {"frozen", spec.frozen}};
}

Json block_json(const Block& block, std::size_t number, const Mesh& mesh) {
    Json tensors = Json::array();
    for (std::size_t i = 0; i < block.tensors.size(); ++i)
        tensors.push_back(tensor_json(block, i));
    Json ops = Json::array();
    for (const Op& op : block.ops)
        ops.push_back(op_json(op, mesh));
    Json reuse = Json::array();
    for (const ReuseEdge& edge : block.reuse)
        reuse.push_back({{"earlier", edge.earlier}, {"later", edge.later}});
    Json parameters = Json::array();
    for (const DeclaredParameter& declared : block.parameters)
        parameters.push_back(parameter_json(declared));
    return {{"number", number},
            {"name", block.name},
            {"input", id_json(block.input)},
            {"output", id_json(block.output)},
            {"scratch_bytes", block.scratch_bytes},
            {"tensors", std::move(tensors)},
            {"parameters", std::move(parameters)},
            {"ops", std::move(ops)},
            {"reuse", std::move(reuse)}};
}

Json stage_json(const Stage& stage) {
    Json parts = Json::array();
    for (const StagePart& part : stage.parts) {
        parts.push_back({{"forward", part.forward},
                         {"backward", part.backward},
                         {"layer", id_json(part.layer)},
                         {"bucket", id_json(part.bucket)},
                         {"recompute", id_json(part.recompute)}});
        if (part.other_bucket >= 0) parts.back()["other_bucket"] = part.other_bucket;
        if (part.backward_input >= 0) parts.back()["backward_input"] = part.backward_input;
        if (part.quantize >= 0) parts.back()["quantize"] = part.quantize;
        if (part.backward_weight >= 0) parts.back()["backward_weight"] = part.backward_weight;
    }
    return {{"index", stage.index}, {"parts", std::move(parts)}};
}

Json bucket_json(const Bucket& bucket) {
    Json shares = Json::array(), states = Json::array();
    for (const Share& share : bucket.shares)
        shares.push_back({{"group", name(share.group)}, {"elements", share.elements}});
    for (const BucketState& state : bucket.states)
        states.push_back({{"kind", name(state.kind)},
                          {"dtype", name(state.dtype)},
                          {"extent", name(state.extent)},
                          {"offset", state.offset}});
    Json json = {{"stage", bucket.stage},
                 {"first_position", bucket.first_position},
                 {"last_position", bucket.last_position},
                 {"elements", bucket.elements},
                 {"tied_elements", bucket.tied_elements},
                 {"replicated_elements", bucket.replicated_elements},
                 {"partial_elements", bucket.partial_elements},
                 {"parameters", id_json(bucket.parameters)},
                 {"gradients", id_json(bucket.gradients)},
                 {"optimizer", id_json(bucket.optimizer)},
                 {"shares", std::move(shares)},
                 {"states", std::move(states)}};
    if (bucket.expert_elements > 0) json["expert_elements"] = bucket.expert_elements;
    return json;
}

// Null: the tensor lies in the block's scratch, or nothing touches it.
Json slot_json(const Slot& slot) {
    if (slot.frame == Frame::none) return nullptr;
    Json json = {{"frame", name(slot.frame)}};
    if (slot.frame == Frame::resident) json["resident"] = slot.resident;
    if (slot.piece != 0) json["piece"] = slot.piece;
    json["offset"] = slot.offset;
    if (slot.share != GroupKind::none) json["share"] = name(slot.share);
    return json;
}

template <typename Thing>
Json list_json(const std::vector<Thing>& things, Json (*json_of)(const Thing&)) {
    Json list = Json::array();
    for (const Thing& thing : things)
        list.push_back(json_of(thing));
    return list;
}

Json procedure_json(const Procedure& procedure) {
    Json uses = Json::array();
    for (const BlockUse& use : procedure.uses)
        uses.push_back({{"block", use.block},
                        {"layer", id_json(use.layer)},
                        {"position", id_json(use.position)},
                        {"bucket", id_json(use.bucket)},
                        {"fence", use.fence},
                        {"slots", list_json(use.slots, slot_json)}});
    return {{"name", procedure.name}, {"uses", std::move(uses)}};
}

Json resident_json(const Resident& resident) {
    Json json = {{"name", resident.name},           {"category", name(resident.category)},
                 {"bytes", resident.bytes},         {"first_step", resident.first_step},
                 {"last_step", resident.last_step}, {"offset", resident.offset},
                 {"reuses", resident.reuses}};
    if (resident.tier != Tier::device) json["tier"] = name(resident.tier);
    if (resident.within >= 0) json["within"] = resident.within;
    if (resident.copy_of >= 0) json["copy_of"] = resident.copy_of;
    if (resident.turns > 1) json["turns"] = resident.turns;
    return json;
}

Json step_json(const Step& step) {
    if (step.transfers.empty()) {
        Json json = {{"action", to_text(step.action)},
                     {"procedure", id_json(step.procedure)},
                     {"stash", id_json(step.stash)},
                     {"input", id_json(step.input)},
                     {"output", id_json(step.output)}};
        if (step.after_transfers) json["after_transfers"] = true;
        if (step.beside_last) json["beside_last"] = true;
        if (step.kept >= 0) json["kept"] = step.kept;
        if (step.deferred >= 0) json["deferred"] = step.deferred;
        if (step.received >= 0) json["received"] = step.received;
        if (step.stored >= 0) json["stored"] = step.stored;
        return json;
    }
    Json transfers = Json::array();
    for (const Transfer& transfer : step.transfers) {
        transfers.push_back({{"action", to_text(transfer.action)},
                             {"peer", transfer.peer},
                             {"bytes", transfer.bytes},
                             {"resident", id_json(transfer.resident)}});
        if (transfer.share != GroupKind::none) transfers.back()["share"] = name(transfer.share);
    }
    return {{"action", to_text(step.action)}, {"transfers", std::move(transfers)}};
}

Json program_json(const Program& program) {
    return {{"pipeline_rank", program.pipeline_rank},
            {"arena_bytes", program.arena_bytes},
            {"host_bytes", program.host_bytes},
            {"disk_bytes", program.disk_bytes},
            {"scratch", id_json(program.scratch)},
            {"workspace", id_json(program.workspace)},
            {"frames", {id_json(program.frames[0]), id_json(program.frames[1])}},
            {"scalars", id_json(program.scalars)},
            {"recomputed", id_json(program.recomputed)},
            {"quantized", id_json(program.quantized)},
            {"amendment", id_json(program.amendment)},
            {"parameter_ring", program.parameter_ring},
            {"gradient_ring", program.gradient_ring},
            {"stages", list_json(program.stages, stage_json)},
            {"buckets", list_json(program.buckets, bucket_json)},
            {"procedures", list_json(program.procedures, procedure_json)},
            {"residents", list_json(program.residents, resident_json)},
            {"steps", list_json(program.steps, step_json)}};
}

}  // namespace

std::string plan_json(const Plan& plan, std::optional<std::int32_t> rank) {
    const std::vector<bool> used =
        rank ? blocks_used(plan, *rank) : std::vector<bool>(plan.blocks.size(), true);
    Json blocks = Json::array();
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        if (used[b]) blocks.push_back(block_json(plan.blocks[b], b, plan.mesh));
    Json programs = Json::array();
    for (const Program& program : plan.programs)
        if (!rank || program.pipeline_rank == *rank) programs.push_back(program_json(program));
    const Mesh& mesh = plan.mesh;
    const Conserved& conserved = plan.conserved;
    Json mesh_json = {{"tensor", mesh.tensor},
                      {"context", mesh.context},
                      {"data", mesh.data},
                      {"pipeline", mesh.pipeline}};
    if (mesh.shard > 0) mesh_json["shard"] = mesh.shard;
    if (mesh.expert > 0) {
        mesh_json["expert"] = mesh.expert;
        mesh_json["expert_split"] = mesh.expert_split;
    }
    Json json = {{"mesh", std::move(mesh_json)},
                 {"tokens",
                  {{"samples", plan.tokens.samples},
                   {"sequence", plan.tokens.sequence},
                   {"zigzag", plan.tokens.zigzag},
                   {"seed", plan.tokens.seed}}},
                 {"micro_batches", plan.micro_batches},
                 {"schedule", plan.schedule},
                 {"exchange_block", plan.exchange_block},
                 {"conserved",
                  {{"layers", conserved.layers},
                   {"parameters", conserved.parameters},
                   {"tokens_per_step", conserved.tokens_per_step},
                   {"model_flops_per_step", conserved.model_flops_per_step},
                   {"hardware_flops_per_step", conserved.hardware_flops_per_step}}},
                 {"blocks", std::move(blocks)},
                 {"programs", std::move(programs)}};
    if (plan.exchange_before >= 0) json["exchange_before"] = plan.exchange_before;
    if (!plan.statistics.empty()) json["statistics"] = plan.statistics;
    if (!plan.statistics_before.empty()) json["statistics_before"] = plan.statistics_before;
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace orrery::plan
