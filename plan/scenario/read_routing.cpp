// training.routing: how often experts are taken to be chosen, for the price of a step.
#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr NumberRange kConcentration = {0.01, 1e6, false, true};
constexpr NumberRange kExponent = {0, 10, false, true};
constexpr NumberRange kBalanceLoss = {0, 100, false, true};
constexpr NumberRange kBiasRate = {0, 1, true, false};
constexpr NumberRange kCapacityFactor = {0, 1000, false, true};
constexpr char kExpertCounts[] = "counts";

bool is_expert_count(const Json& value) {
    return value.is_number_integer() && value >= 0 && value <= kLargestCount;
}

bool read_row(Reading& reading, const std::string& pointer, const Json& row,
              std::vector<std::int64_t>& counts) {
    bool sound = row.is_array() && !row.empty();
    std::int64_t sum = 0;
    if (sound)
        for (const Json& count : row) {
            if (!is_expert_count(count)) {
                sound = false;
                break;
            }
            counts.push_back(count.get<std::int64_t>());
            sum += counts.back();
        }
    if (sound && sum > 0) return true;
    reading.report("S006", pointer, "a row of counts has one for each expert, not all of them 0");
    return false;
}

bool read_counts(Section& section, const std::string& at, const KeySpec&, Presence,
                 ExpertRouting& routing) {
    section.known(at);
    const Json* value = section.find(at);
    if (value == nullptr) {
        section.require(at);
        return false;
    }
    if (!value->is_array() || value->empty()) {
        section.wrong_type(at, "an array of rows of counts, a count for each expert");
        return false;
    }
    const std::string pointer = section.pointer(at);
    for (std::size_t i = 0; i < value->size(); ++i) {
        std::vector<std::int64_t> counts;
        if (!read_row(section.reading(), fmt::format("{}/{}", pointer, i), (*value)[i], counts))
            return false;
        routing.counts.push_back(std::move(counts));
    }
    return true;
}

template <ExpertLoad load>
bool is_load(const ExpertRouting& routing) {
    return routing.distribution == load;
}

bool is_balanced(const ExpertRouting& routing) {
    return routing.balance_loss > 0;
}

bool drops(const ExpertRouting& routing) {
    return routing.drops();
}

bool is_drawn(const ExpertRouting& routing) {
    return is_load<ExpertLoad::dirichlet>(routing) || is_load<ExpertLoad::zipf>(routing);
}

}  // namespace

const Keys<ExpertRouting>& routing_keys() {
    static const Keys<ExpertRouting> keys = {
        choice<&ExpertRouting::distribution>(
            "distribution",
            "All alike often; at random; by shares of a Dirichlet distribution or of Zipf's law; "
            "or as counted"),
        number<&ExpertRouting::alpha>("alpha", "The smaller, the less alike", kConcentration)
            .where("with \"distribution\": \"dirichlet\"", is_load<ExpertLoad::dirichlet>),
        number<&ExpertRouting::exponent>("exponent", "The larger, the less alike", kExponent)
            .where("with \"distribution\": \"zipf\"", is_load<ExpertLoad::zipf>),
        count<&ExpertRouting::seed>("seed", "Of which expert has which share", {0, kLargestSeed})
            .where("with \"distribution\": \"dirichlet\" or \"zipf\"", is_drawn),
        number<&ExpertRouting::balance_loss>(
            "balance_loss",
            "What the balance of experts within each sequence, or each micro-batch, counts for in "
            "the loss; 0: nothing",
            kBalanceLoss)
            .also({"moe_aux_loss_coeff", "router_aux_loss_coef", "aux_loss_alpha"}),
        choice<&ExpertRouting::balance_of>(
            "balance_of",
            "Within what: a sequence (seq_aux_loss), or a micro-batch on all ranks that share it "
            "out (aux_loss), so that another micro_batch_size is another loss")
            .where("with \"balance_loss\"", is_balanced),
        number<&ExpertRouting::capacity_factor>(
            "capacity_factor",
            "Rows that an expert takes, as a multiple of those it gets when all are chosen alike "
            "often: further ones are dropped, and their tokens go on without it; 0: all come",
            kCapacityFactor)
            .written_if(drops)
            .also({"moe_expert_capacity_factor", "expert_capacity_factor"}),
        choice<&ExpertRouting::capacity_of>(
            "capacity_of",
            "Of which tokens: of a sequence, the same in every layout; or, as in Megatron-LM, of "
            "what a rank has of a micro-batch, so that another layout drops others")
            .where("with \"capacity_factor\"", drops),
        choice<&ExpertRouting::drop_policy>(
            "drop_policy",
            "Which of an expert's tokens stay: those that it is weighed most by, or the first ones")
            .where("with \"capacity_factor\"", drops)
            .also({"moe_token_drop_policy"}),
        flag<&ExpertRouting::pads_to_capacity>(
            "pad_to_capacity",
            "Each expert's rows are filled up to its capacity, so that as many come to each")
            .where("with \"capacity_of\": \"rank\"",
                   [](const ExpertRouting& from) {
                       return drops(from) && from.capacity_of == CapacityUnit::rank;
                   })
            .also({"moe_pad_expert_input_to_capacity"}),
        number<&ExpertRouting::z_loss>(
            "z_loss",
            "What the mean square of the logarithm of a token's router's exponentials counts for "
            "in the loss; 0: nothing",
            kBalanceLoss)
            .written_if([](const ExpertRouting& from) { return from.z_loss != 0; })
            .also({"moe_z_loss_coeff", "router_z_loss_coef"}),
        number<&ExpertRouting::bias_rate>(
            "bias_rate",
            "What a step adds to the router's bias of an expert that fewer tokens than the mean "
            "have chosen, and takes from that of one that more have",
            kBiasRate)
            .where("where the model's router has a bias")
            .written_if([](const ExpertRouting& from) {
                return from.bias_rate != ExpertRouting{}.bias_rate;
            })
            .also({"moe_router_bias_update_rate"}),
        own<ExpertRouting>(kExpertCounts, KeyType::list,
                           "How often each expert was chosen, in rows: of a layer, or of a step")
            .of_entries(KeyType::list)
            .where("with \"distribution\": \"counts\"", is_load<ExpertLoad::counts>)
            .read_by(read_counts)
            .written_by(
                [](const KeySpec&, const ExpertRouting& from) { return Json(from.counts); }),
    };
    return keys;
}

void read_routing(Reading& reading, ExpertRouting& routing) {
    read_object(reading, "/training/routing", "training.routing", routing_keys(), routing);
}

}  // namespace orrery::plan
