// The section "layout": its keys, and those that are more than a value.
#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"
#include "plan/scenario/schedule_file.hpp"
#include "plan/schedule/schedule.hpp"

namespace orrery::plan {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;  // so that a product of all degrees fits 64 bits
constexpr std::int64_t kMostPipeline = 4096;  // each pipeline rank knows its way to each other
constexpr std::int64_t kMostContext = 1024;
constexpr std::int64_t kMostChunks = 10'000;
constexpr NumberRange kRowBound = {1, 1e6, false, true};
constexpr std::int64_t kStalest = 64;  // as many copies of parameters and gradients, and one

bool is_count(const Json& value) {
    return value.is_number_integer() && value >= 0 && value <= kLargestCount;
}

void read_layers(Reading& reading, Section& section, Layout& layout, bool& even) {
    reading.remember("layout.layers_per_stage", section.pointer("layers_per_stage"), "\"even\"");
    const Json* value = section.find("layers_per_stage");
    even = value == nullptr || *value == "even";
    if (even) return;
    if (!value->is_array()) {
        section.wrong_type("layers_per_stage", "\"even\" or an array of counts")
            .help.push_back(
                "an array has one count for each stage, pipeline_parallel × virtual_pipeline of "
                "them");
        return;
    }
    for (std::size_t i = 0; i < value->size(); ++i) {
        const Json& count = (*value)[i];
        if (is_count(count)) {
            layout.layers_per_stage.push_back(count.get<std::int64_t>());
            continue;
        }
        reading.mark_bad(section.pointer("layers_per_stage"));
        reading.report("S006", section.pointer("layers_per_stage") + '/' + std::to_string(i),
                       "a stage holds a whole number of layers");
    }
}

bool read_staleness(Section& section, const std::string& at, const KeySpec& spec, Presence,
                    Layout& layout) {
    if (layout.data_parallel_mode == DataParallelMode::parameter_server) {
        layout.staleness = 1;
        return section.integer(at, layout.staleness, spec.integers);
    }
    section.known(at);
    if (!section.has(at) || !section.good("data_parallel_mode")) return false;
    section.reading()
        .report("S048", section.pointer(at),
                "synchronous steps are computed with every update of those before")
        .help.push_back("leave staleness out, or \"data_parallel_mode\": \"parameter_server\"");
    return false;
}

bool of_parameter_server(const Layout& layout) {
    return layout.data_parallel_mode == DataParallelMode::parameter_server;
}

std::vector<std::string_view> schedule_words() {
    static const std::vector<std::string> names = schedule_names();
    return {names.begin(), names.end()};
}

// Embedded, so that what is resolved needs no other file.
Json written_schedule(const KeySpec&, const Layout& layout) {
    if (layout.imported.schedule.grid.empty()) return layout.schedule;
    return {{"name", layout.schedule}, {"rows", csv_rows(to_csv(layout.imported.schedule.grid))}};
}

Keys<Layout> degrees() {
    return {
        count<&Layout::tensor_parallel>(
            "tensor_parallel", "Ranks that each layer's matrices are cut among", {1, kMostRanks})
            .also({"tp", "tensor_model_parallel_size", "tensor_parallel_size",
                   "tensor_parallel_degree"}),
        count<&Layout::pipeline_parallel>("pipeline_parallel",
                                          "Ranks in a row that each hold some of the layers",
                                          {1, kMostPipeline})
            .also({"pp", "pipeline_model_parallel_size", "pipeline_parallel_size",
                   "pipeline_parallel_degree"}),
        count<&Layout::context_parallel>("context_parallel",
                                         "Ranks that each sequence is cut among", {1, kMostContext})
            .also({"cp", "context_parallel_size", "context_parallel_degree"}),
        choice<&Layout::context_algorithm>(
            "context_algorithm", "How context-parallel ranks see each other's keys and values")
            .written_if([](const Layout& from) { return from.context_parallel > 1; })
            .also({"cp_comm_type"}),
        count<&Layout::expert_parallel>(
            "expert_parallel",
            "Ranks that a layer's experts are spread over, of those of the tensor-, context- and "
            "data-parallel ones that are in a row",
            {1, kMostRanks})
            .also({"ep", "expert_model_parallel_size"}),
        count<&Layout::expert_tensor_parallel>("expert_tensor_parallel",
                                               "Ranks that each expert's matrices are cut among",
                                               {1, kMostRanks})
            .written_if([](const Layout& from) { return from.expert_tensor_parallel > 1; })
            .also({"etp", "expert_tensor_parallel_size"}),
        number<&Layout::expert_row_bound>(
            "expert_row_bound",
            "Rows for which a rank has room in a layer of experts, as a multiple of those that "
            "come "
            "when all experts are chosen alike often; a run to which more come stops",
            kRowBound)
            .written_if([](const Layout& from) {
                return from.expert_row_bound != Layout{}.expert_row_bound;
            }),
        choice<&Layout::expert_dispatcher>(
            "expert_dispatcher",
            "How rows go to experts: one for each of a token's experts, one to each rank that has "
            "any of them, or all to every rank")
            .written_if([](const Layout& from) {
                return from.expert_dispatcher != ExpertDispatcher::alltoall;
            })
            .also({"moe_token_dispatcher_type"}),
        flag<&Layout::expert_gradients_by_source>(
            "expert_gradients_by_source",
            "Gradients of experts are kept apart by the rank whose rows they come of, and summed "
            "in pairs in the order of ranks: the same bits whatever expert_parallel is, for as "
            "much memory as all experts' gradients")
            .written_if([](const Layout& from) { return from.expert_gradients_by_source; }),
        flag<&Layout::overlap_expert_communication>(
            "overlap_expert_communication",
            "A forward and a backward pass of two micro-batches take turns, so that one computes "
            "while the other's rows are on their way to and from experts; one more micro-batch "
            "is in flight")
            .written_if([](const Layout& from) { return from.overlap_expert_communication; })
            .also({"overlap_moe_expert_parallel_comm"}),
        count<&Layout::data_parallel>(
            "data_parallel",
            "Copies of the model, each with its share of the batch; \"auto\": all devices that the "
            "other degrees leave",
            {1, kMostRanks})
            .or_word("auto")
            .initially("\"auto\"")
            .also({"dp", "data_parallel_size"}),
        count<&Layout::virtual_pipeline>("virtual_pipeline",
                                         "Stages of each pipeline rank (chunks of its layers)",
                                         {1, kMostChunks})
            .also({"vpp", "vp", "virtual_pipeline_model_parallel_size"}),
    };
}

Keys<Layout> pipeline_and_states() {
    return {
        own<Layout>("schedule", KeyType::text,
                    "Order in which pipeline ranks work: a kind by its name, a file of actions "
                    "(.csv), or its rows",
                    schedule_keys())
            .of_words(schedule_words())
            .written_by(written_schedule)
            .also({"pipeline_schedule"}),
        choice<&Layout::vocabulary_parallel>(
            "vocabulary_parallel",
            "Whether pipeline ranks share out the words of embedding and head, and whether they "
            "wait for each other within a micro-batch's loss (interlaced) or go on meanwhile: "
            "until "
            "its sums and then its gradient have come together (vocab-1), or until both have at "
            "once, for more work (vocab-2)")
            .written_if([](const Layout& from) { return from.shares_vocabulary(); }),
        own<Layout>("layers_per_stage", KeyType::list,
                    "Layers of each stage, in the order of stages; \"even\": as alike as they can "
                    "be, embedding and head not counted")
            .or_word("even")
            .initially("\"even\"")
            .of_entries(KeyType::whole_number)
            .written_by(
                [](const KeySpec&, const Layout& from) { return Json(from.layers_per_stage); }),
        flag<&Layout::sequence_parallel>("sequence_parallel",
                                         "Tensor ranks share out the tokens too where no matrix is "
                                         "cut (Korthikanti et al. 2022)")
            .also({"sp"}),
        count<&Layout::zero_stage>("zero_stage",
                                   "What data-parallel ranks share out: 1 the optimizer's states, "
                                   "2 gradients too, 3 parameters too (FSDP)",
                                   {0, 3})
            .also({"zero"}),
        count<&Layout::zero_group_size>(
            "zero_group_size",
            "Data-parallel ranks that share out states among them (hybrid sharding); \"all\": of "
            "the whole data-parallel group",
            {1, kMostRanks})
            .or_word("all"),
        flag<&Layout::reshard_after_forward>("reshard_after_forward",
                                             "With ZeRO-3: gathered parameters are let go after "
                                             "forward and gathered again in backward"),
    };
}

Keys<Layout> the_rest() {
    return {
        flag<&Layout::optimizer_post_validation>(
            "optimizer_post_validation",
            "The optimizer steps before all stages have told the norm of their gradients, and "
            "takes it back where it must")
            .written_if([](const Layout& from) { return from.optimizer_post_validation; }),
        choice<&Layout::data_parallel_mode>(
            "data_parallel_mode", "Whether a step waits for the updates of all steps before it")
            .written_if(of_parameter_server),
        count<&Layout::staleness>(
            "staleness", "Updates that a step's parameters may lack; 1 unless given", {0, kStalest})
            .where("with \"data_parallel_mode\": \"parameter_server\"")
            .read_by(read_staleness)
            .written_if(of_parameter_server)
            .initially("1"),
        own<Layout>("offload", KeyType::object,
                    "Where what a device need not hold all the time is kept", specs(offload_keys()))
            .written_by([](const KeySpec&, const Layout& from) {
                return written(offload_keys(), from.offload);
            })
            .written_if([](const Layout& from) { return from.offload.any(); })
            .also({"offload_optimizer", "offload_param", "optimizer_cpu_offload", "cpu_offload"}),
        choice<&Layout::activation_stash>(
            "activation_stash", "In what activations wait for backward: as they are, or rounded")
            .written_if(
                [](const Layout& from) { return from.activation_stash != ActivationStash::same; }),
        count<&Layout::micro_batch_size>("micro_batch_size", "Sequences of one micro-batch")
            .in("sequences")
            .also({"mbs", "micro_batch", "train_micro_batch_size_per_gpu", "local_batch_size"}),
        count<&Layout::global_batch_size>("global_batch_size",
                                          "Sequences of one step, of all data-parallel ranks")
            .in("sequences")
            .required()
            .also({"gbs", "global_batch", "train_batch_size", "batch_size"}),
    };
}

}  // namespace

const Keys<Layout>& layout_keys() {
    static const Keys<Layout> keys =
        joined(degrees(), pipeline_and_states(), recompute_keys(), the_rest());
    return keys;
}

Json written_layout(const Layout& layout) {
    return written(layout_keys(), layout);
}

void read_layout(Reading& reading, Layout& layout, LayoutChoices& choices) {
    Section section(reading, "/layout", "layout");
    if (!section.exists()) return;
    read_keys(section, layout_keys(), layout);
    choices.data_parallel_auto = layout.data_parallel == 0;
    if (choices.data_parallel_auto) layout.data_parallel = 1;  // until it is settled
    read_schedule(reading, section, layout);
    read_layers(reading, section, layout, choices.layers_even);
    read_recompute(reading, section, layout);
    section.finish();
    read_offload(reading, layout.offload);
}

}  // namespace orrery::plan
