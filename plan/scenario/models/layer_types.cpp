#include "plan/scenario/models/layer_types.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::plan {
namespace {

void report_word(Reading& reading, const Section& section, std::size_t layer, const Json& word) {
    Diagnostic& fault =
        reading.report("S010", fmt::format("{}/{}", section.pointer("layer_types"), layer),
                       "layer_types changes the computation in a way that is not modelled");
    fault.arithmetic = fmt::format("layer {}: {}", layer, word.dump());
    fault.help.push_back(fmt::format("\"{}\" or \"{}\"", kFullWord, kSlidingWord));
}

void report_count(Reading& reading, const Section& section, const Model& model, std::size_t words) {
    Diagnostic& fault = reading.report("S011", section.pointer("layer_types"),
                                       "layer_types needs a word for each layer");
    fault.arithmetic =
        fmt::format("{} words, {} = {}", words, reading.shown("model.layers"), model.layers);
}

}  // namespace

void add_sliding_kind(Model& model, std::int64_t window) {
    model.kinds.front().name = "full";
    model.kinds.push_back(model.kinds.front());
    model.kinds.back().name = "sliding";
    model.kinds.back().attention().window = window;
}

void read_layer_types(Reading& reading, Section& section, Model& model, std::int64_t usual_period) {
    section.known("layer_types");
    if (!reading.good({"model.layers"})) return;
    const Json* words = section.find("layer_types");
    if (words == nullptr || words->is_null()) {
        for (std::int64_t layer = 0; layer < model.layers; ++layer)
            model.kind_of_layer.push_back(
                usual_period > 0 && (layer + 1) % usual_period != 0 ? kSlidingKind : kFullKind);
        return;
    }
    if (!words->is_array() || static_cast<std::int64_t>(words->size()) != model.layers)
        return report_count(reading, section, model, words->is_array() ? words->size() : 0);
    for (std::size_t layer = 0; layer < words->size(); ++layer) {
        const Json& word = (*words)[layer];
        if (word != kFullWord && word != kSlidingWord) {
            model.kind_of_layer.clear();  // of all layers, or of none
            return report_word(reading, section, layer, word);
        }
        model.kind_of_layer.push_back(word == kFullWord ? kFullKind : kSlidingKind);
    }
}

void write_sliding_layers(const Model& model, Json& out) {
    std::int64_t window = 0;
    for (const LayerSpec& kind : model.kinds)
        window = std::max(window, kind.attention().window);
    Json words = Json::array();
    for (std::int64_t layer = 0; layer < model.layers; ++layer) {
        const std::size_t kind = model.kind_of(layer);
        const bool slides =
            window > 0 ? model.kinds[kind].attention().window > 0 : kind != kFullKind;
        words.push_back(slides ? kSlidingWord : kFullWord);
    }
    out["layer_types"] = std::move(words);
    out["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
}

void read_qwen_windows(Reading& reading, Section& section, Model& model) {
    bool windowed = false;
    std::int64_t window = is_null(reading, "sliding_window") ? 0 : 4096;
    std::int64_t whole_layers = 28;
    section.boolean("use_sliding_window", windowed);
    section.integer("sliding_window", window, {}, Presence::optional, "attention_window");
    section.integer("max_window_layers", whole_layers, {0, kMostLayers});
    if (!windowed || window == 0) return;
    if (section.has("layer_types")) {
        add_sliding_kind(model, window);
        return read_layer_types(reading, section, model, 0);
    }
    if (whole_layers >= model.layers) return;
    if (whole_layers == 0) {
        model.attention().window = window;
        return;
    }
    add_sliding_kind(model, window);
    for (std::int64_t layer = 0; layer < model.layers; ++layer)
        model.kind_of_layer.push_back(layer < whole_layers ? kFullKind : kSlidingKind);
}

void write_qwen_windows(const Model& model, Json& out) {
    // A window that no layer sees may stay where it was written, null where it was null.
    const std::int64_t window = model.kinds.back().attention().window;
    out["use_sliding_window"] = window > 0;
    if (window > 0) out["sliding_window"] = window;
}

}  // namespace orrery::plan
