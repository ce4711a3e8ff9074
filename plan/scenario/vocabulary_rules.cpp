// Rules of layout.vocabulary_parallel: a pipeline whose ranks can share out the words, and nothing
// beside it that counts on embedding and head lying whole at its ends.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plan/scenario/rules.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::plan {
namespace {

constexpr char kShared[] = "layout.vocabulary_parallel";

void refuse_sharing(Reading& reading, const char* message, std::string arithmetic,
                    std::string help) {
    Diagnostic& fault = reading.report_field("S049", kShared, message);
    fault.arithmetic = std::move(arithmetic);
    fault.help.push_back(std::move(help));
}

struct Excluded {
    const char* key;
    bool there;
    const char* arithmetic;
    const char* help;
};

}  // namespace

void check_vocabulary(Reading& reading, const Scenario& scenario) {
    const Layout& layout = scenario.layout;
    const Training& training = scenario.training;
    if (!layout.shares_vocabulary() || !reading.good({kShared})) return;
    if (reading.good({"layout.pipeline_parallel"}) && layout.pipeline_parallel == 1)
        refuse_sharing(reading, "without a pipeline there are no ranks to share out the vocabulary",
                       "pipeline_parallel = 1",
                       "pipeline_parallel of at least 2, or vocabulary_parallel \"none\"");
    const bool known = reading.good({"layout.schedule"});
    if (known && !layout.imported.schedule.grid.empty())
        refuse_sharing(reading, "a schedule from a file says nothing of passes over the vocabulary",
                       fmt::format("schedule = {}", layout.schedule), "the name of a schedule");
    if (known && layout.vocabulary_parallel == VocabularyParallel::interlaced &&
        layout.schedule != "1f1b")
        refuse_sharing(reading, "\"interlaced\" is an order of its own, made from 1f1b",
                       fmt::format("schedule = {}", layout.schedule),
                       "\"schedule\": \"1f1b\", or \"vocabulary_parallel\": \"vocab-1\" or "
                       "\"vocab-2\"");
    // Embedding and head are no work of the stages at the ends then.
    const std::vector<std::int64_t>& layers = layout.layers_per_stage;
    if (reading.good({"layout.layers_per_stage"}) &&
        std::count(layers.begin(), layers.end(), 0) > 0)
        refuse_sharing(reading, "a stage without layers has nothing to do",
                       fmt::format("layers_per_stage = [{}]", fmt::join(layers, ", ")),
                       "layers on every stage, or vocabulary_parallel \"none\"");
    const Excluded excluded[] = {
        {"model.num_nextn_predict_layers", scenario.model.mtp_layers > 0,
         "the model predicts further tokens, with losses of their own", "a model without them"},
        {"layout.optimizer_post_validation", layout.optimizer_post_validation,
         "optimizer_post_validation = true", "optimizer_post_validation false"},
        {"layout.staleness", layout.staleness > 0, "steps are under way at once", "no staleness"},
        {"layout.overlap_expert_communication", layout.overlap_expert_communication,
         "overlap_expert_communication = true", "overlap_expert_communication false"},
        {"layout.offload", layout.offload.activations != KeptOn::none,
         "offload.activations moves what the passes keep", "activations on the device"},
        {"layout.activation_stash", layout.activation_stash != ActivationStash::same,
         "activation_stash rounds what stages receive", "activation_stash \"same\""},
        {"training.defer_embedding_gradient", training.framework.defer_embedding_gradient,
         "defer_embedding_gradient = true", "defer_embedding_gradient false"},
        {"training.loss_chunks", training.loss_chunks > 1,
         "loss_chunks makes the logits in backward", "loss_chunks 1"},
        {"training.loss_logits",
         training.framework.loss_logits == LossLogits::copied ||
             training.framework.loss_logits == LossLogits::gathered,
         "loss_logits needs the logits of all words", "\"in_place\" or \"fused\""},
        {"training.lora", training.lora.on(), "adapters freeze the vocabulary", "no adapters"},
    };
    for (const Excluded& other : excluded)
        if (other.there && reading.good({other.key}))
            refuse_sharing(reading, "pipeline ranks cannot share out the vocabulary beside this",
                           other.arithmetic,
                           fmt::format("{}, or vocabulary_parallel \"none\"", other.help));
}

}  // namespace orrery::plan
