#include "plan/scenario/models/rotary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "plan/scenario/models/keys.hpp"

namespace orrery::plan {
namespace {

using Kind = RopeScaling::Kind;

constexpr NumberRange kShare = {0, 1, true, false};
constexpr NumberRange kScale = {0, kLargestNumber, true, false};
constexpr NumberRange kStretch = {1, kLargestNumber, false, false};

const std::vector<std::pair<std::string, Kind>> kKinds = {{"default", Kind::none},
                                                          {"linear", Kind::linear},
                                                          {"llama3", Kind::llama3},
                                                          {"yarn", Kind::yarn}};

std::string spelling(Kind kind) {
    return std::find_if(kKinds.begin(), kKinds.end(),
                        [kind](const auto& each) { return each.second == kind; })
        ->first;
}

// Types that Hugging Face has too, and that turn heads by other angles.
bool is_unmodelled(const std::string& type) {
    const auto types = {"dynamic", "longrope", "su", "mrope", "proportional"};
    return std::find(types.begin(), types.end(), type) != types.end();
}

// Says why a type that is not known may be meant all the same.
void explain_type(Reading& reading, const Json& type) {
    if (!type.is_string() || !is_unmodelled(type.get<std::string>())) return;
    Diagnostic& fault = reading.errors().back();
    fault.note = fmt::format("not modelled: rotary positions of type {}", type.dump());
    fault.help.erase(fault.help.begin(),
                     fault.help.end() - 1);  // no neighbour in spelling was meant
}

void require_order(Reading& reading, const Section& rope, const char* low_key, double low,
                   const char* high_key, double high) {
    if (!reading.good_at(rope.pointer(low_key)) || !reading.good_at(rope.pointer(high_key)) ||
        low <= high)
        return;
    reading
        .report("S011", rope.pointer(high_key),
                fmt::format("{} must be {} at least", high_key, low_key))
        .arithmetic = fmt::format("{} = {}, {} = {}", low_key, low, high_key, high);
}

void read_yarn(Reading& reading, Section& rope, RopeScaling& scaling) {
    rope.number("beta_slow", scaling.beta_slow, kPositive);
    rope.number("beta_fast", scaling.beta_fast, kPositive);
    rope.boolean("truncate", scaling.truncate);
    rope.integer("original_max_position_embeddings", scaling.original_max_positions, {},
                 Presence::required);
    // As Hugging Face's modeling_rope_utils: of two scales their ratio.
    double scale = 0;
    rope.number("mscale", scale, kScale);
    rope.number("mscale_all_dim", scaling.mscale_all_dim, kScale);
    scaling.attention_factor =
        scale > 0 && scaling.mscale_all_dim > 0
            ? yarn_scale(scale, scaling.factor) / yarn_scale(scaling.mscale_all_dim, scaling.factor)
            : yarn_scale(1, scaling.factor);
    rope.number("attention_factor", scaling.attention_factor, kPositive);
    require_order(reading, rope, "beta_slow", scaling.beta_slow, "beta_fast", scaling.beta_fast);
}

void read_stretch(Reading& reading, Section& rope, RopeScaling& scaling) {
    if (scaling.kind == Kind::none) return;
    rope.number("factor", scaling.factor, kStretch, Presence::required);
    if (scaling.kind == Kind::linear) return;
    if (scaling.kind == Kind::yarn) return read_yarn(reading, rope, scaling);
    rope.number("low_freq_factor", scaling.low_freq_factor, kPositive, Presence::required);
    rope.number("high_freq_factor", scaling.high_freq_factor, kPositive, Presence::required);
    rope.integer("original_max_position_embeddings", scaling.original_max_positions, {},
                 Presence::required);
    require_order(reading, rope, "low_freq_factor", scaling.low_freq_factor, "high_freq_factor",
                  scaling.high_freq_factor);
}

// What stands under rope_scaling, or under rope_parameters with the base and the share.
void read_object(Reading& reading, const std::string& pointer, const std::string& key,
                 SoftmaxAttention& attention, const RotaryKeys& keys, double& share) {
    Section rope(reading, pointer, "model." + key, Section::Null::is_absent);
    if (!rope.exists()) return;
    const bool whole = key == "rope_parameters";
    attention.rope_scaling = {};
    if (whole) {
        rope.number("rope_theta", attention.rope_theta, kPositive);
        rope.number("partial_rotary_factor", share,
                    keys.share != nullptr ? kShare : NumberRange{1, 1, false, false});
    }
    const std::string type = rope.has("type") && !rope.has("rope_type") ? "type" : "rope_type";
    rope.known("type");  // of two, Hugging Face reads rope_type
    if (!rope.has(type) && !whole) {
        reading.report("S005", rope.pointer(type),
                       fmt::format("model.{} needs the key \"rope_type\"", key));
        return;
    }
    if (!rope.choice<Kind>(type, attention.rope_scaling.kind, kKinds) && rope.has(type)) {
        explain_type(reading, *rope.find(type));
        return;  // the other keys are those of another type
    }
    read_stretch(reading, rope, attention.rope_scaling);
    rope.finish();
}

// Whether rope_parameters have an object for each type of layer.
bool has_types(const Section& section, const std::string& object) {
    const Json* found = section.find(object);
    return found != nullptr && found->is_object() && found->contains("full_attention");
}

void use_rotary(Reading& reading, Model& model, double share) {
    model.learned_positions = false;
    if (model.attention().rope_scaling.attention_factor != 1 && share != 1)
        reading.report_field("S011", "model.head_dim",
                             "positions of type \"yarn\" turn whole heads here");
    model.attention().rotary_dim =
        static_cast<std::int64_t>(static_cast<double>(model.attention().head_dim) * share);
    if (!reading.good({"model.head_dim", "model.hidden", "model.heads"})) return;
    if (model.attention().rotary_dim % 2 == 0) return;
    const bool whole = share == 1;
    reading
        .report_field("S011", "model.head_dim",
                      whole ? "rotary positions need an even head_dim"
                            : "rotary positions need an even part of each head")
        .arithmetic = whole ? fmt::format("head_dim = {}", model.attention().head_dim)
                            : fmt::format("{} × {} = {} elements of head_dim", share,
                                          model.attention().head_dim, model.attention().rotary_dim);
}

}  // namespace

void read_rotary(Reading& reading, Section& section, Model& model, const RotaryKeys& keys) {
    section.number(spelling(reading, section, {keys.theta, "rope_theta"}),
                   model.attention().rope_theta, kPositive, Presence::optional, "rope_theta");
    double share = keys.usual_share;
    if (keys.share != nullptr)
        section.number(spelling(reading, section, {keys.share, "partial_rotary_factor"}), share,
                       kShare);
    const std::string object = spelling(reading, section, {"rope_scaling", "rope_parameters"});
    if (keys.usual_scaling.kind == Kind::yarn) {
        model.attention().rope_scaling = keys.usual_scaling;
        model.attention().rope_scaling.attention_factor = yarn_scale(1, keys.usual_scaling.factor);
    }
    std::string pointer = section.pointer(object);
    if (keys.by_layer_type && has_types(section, object)) pointer += "/full_attention";
    if (section.has(object)) read_object(reading, pointer, object, model.attention(), keys, share);
    use_rotary(reading, model, share);
}

void read_rotary_of_type(Reading& reading, Section& section, const char* type,
                         SoftmaxAttention& attention) {
    const std::string object = "rope_parameters";
    double share = 1;
    if (has_types(section, object))
        read_object(reading, section.pointer(object) + '/' + type, object, attention, {}, share);
}

void write_rotary(const Model& model, Json& out, const RotaryKeys& keys) {
    if (keys.share != nullptr) {
        Json share = out.value("partial_rotary_factor", Json(keys.usual_share));
        share = out.value(keys.share, share);
        if (out.contains("rope_parameters"))
            share = out["rope_parameters"].value("partial_rotary_factor", share);
        out[keys.share] = share;
        if (keys.share != std::string_view("partial_rotary_factor"))
            out.erase("partial_rotary_factor");
    }
    // What stays keeps its place: the text of the text is the text.
    if (keys.theta != std::string_view("rope_theta")) out.erase("rope_theta");
    out.erase("rope_parameters");
    out[keys.theta] = plain(model.attention().rope_theta);
    const RopeScaling& scaling = model.attention().rope_scaling;
    if (scaling.kind == Kind::none) {
        out.erase("rope_scaling");
        return;
    }
    Json& rope = out["rope_scaling"] = {{"rope_type", spelling(scaling.kind)},
                                        {"factor", plain(scaling.factor)}};
    if (scaling.kind == Kind::linear) return;
    if (scaling.kind == Kind::yarn) {
        rope["beta_slow"] = plain(scaling.beta_slow);
        rope["beta_fast"] = plain(scaling.beta_fast);
        rope["truncate"] = scaling.truncate;
        rope["original_max_position_embeddings"] = scaling.original_max_positions;
        rope["attention_factor"] = scaling.attention_factor;
        if (scaling.mscale_all_dim > 0) rope["mscale_all_dim"] = plain(scaling.mscale_all_dim);
        return;
    }
    rope["low_freq_factor"] = plain(scaling.low_freq_factor);
    rope["high_freq_factor"] = plain(scaling.high_freq_factor);
    rope["original_max_position_embeddings"] = scaling.original_max_positions;
}

void pass_over_rotary(Section& section) {
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"})
        section.known(key);
}

}  // namespace orrery::plan
