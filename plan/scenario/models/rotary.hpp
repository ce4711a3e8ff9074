// Rotary positions in a config.json: the base of their frequencies, how these are stretched, and
// the part of a head that they turn. Releases of Hugging Face's transformers before 5 write
// rope_theta and rope_scaling, later ones all of it as rope_parameters. Internal to
// plan/scenario/models.
#pragma once

#include "plan/scenario/models/family.hpp"

namespace orrery::plan {

// A family's own spelling.
struct RotaryKeys {
    const char* theta = "rope_theta";
    const char* share = nullptr;  // of each head; null where a family knows whole heads only
    double usual_share = 1;
    bool by_layer_type = false;      // rope_parameters may have an object for each type of layer
    RopeScaling usual_scaling = {};  // where a config has no key of one
};

// head_dim must be settled. The turned part is a whole even number of elements, rounded down as
// Hugging Face does.
void read_rotary(Reading& reading, Section& section, Model& model, const RotaryKeys& keys = {});
// What rope_parameters say of one type of layer, where they do.
void read_rotary_of_type(Reading& reading, Section& section, const char* type,
                         SoftmaxAttention& attention);
void write_rotary(const Model& model, Json& out, const RotaryKeys& keys = {});

// Counts the keys as known where the model has no rotary positions and they stand there unused.
void pass_over_rotary(Section& section);

}  // namespace orrery::plan
