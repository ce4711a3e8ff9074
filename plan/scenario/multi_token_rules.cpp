// Rules of multi-token prediction: what it is not computed beside.
#include <fmt/format.h>

#include <string>

#include "plan/scenario/rules.hpp"

namespace orrery::plan {

void check_multi_token(Reading& reading, const Scenario& scenario) {
    const Model& model = scenario.model;
    if (model.mtp_layers == 0 || !reading.good({"model.mtp_layers"})) return;
    const auto refuse = [&](bool is_so, const char* field, const char* message,
                            const std::string& arithmetic, const char* help) {
        if (!is_so || !reading.good({field})) return;
        Diagnostic& fault = reading.report_field("S042", field, message);
        if (!arithmetic.empty()) fault.arithmetic = arithmetic;
        fault.help.emplace_back(help);
    };
    constexpr const char* kModel = "model.mtp_layers";
    refuse(
        model.tied_embeddings, kModel,
        "multi-token prediction embeds on the last stage, where a tied head is the table's second "
        "use already",
        "tied embeddings", "no further tokens, or embeddings that are not tied");
    refuse(model.learned_positions || model.embedding_norm, kModel,
           "what multi-token prediction embeds has no positions and no norm of the embedding's",
           model.learned_positions ? "learned positions" : "a norm behind the embedding",
           "no further tokens, or a model with rotary positions");
    const Training& training = scenario.training;
    refuse(training.sequence_length < 2, "training.sequence_length",
           "the token after the next one is beyond the sequence",
           fmt::format("sequence_length = {}", training.sequence_length),
           "sequence_length of at least 2");
    refuse(training.loss_chunks > 1, "training.loss_chunks",
           "the head has the logits of two losses, which are not made in chunks",
           fmt::format("loss_chunks = {}", training.loss_chunks), "loss_chunks 1");
    refuse(training.lora.on(), "training.lora.rank", "multi-token prediction has no adapters",
           fmt::format("training.lora.rank = {}", training.lora.rank),
           "no further tokens, or no adapters");
}

}  // namespace orrery::plan
