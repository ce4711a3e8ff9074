// How a recorded step's model and batch were spread over ranks: by what its messages are of. Sums
// over hidden states within a layer are of tensor-parallel ranks, transfers of pipeline ranks, what
// is of the size of parameters of data-parallel ones; whether that is summed, scattered or gathered
// again is the stage of ZeRO. Internal to inferred_scenario.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calib/compare/inferred_layers.hpp"
#include "calib/compare/inferred_scenario.hpp"

namespace orrery::compare {

struct InferredLayout {
    std::int64_t tensor = 1, pipeline = 1, data = 1, virtual_stages = 1;
    std::int64_t micro_batches = 1;
    std::int64_t total_layers = 0;
    Certainty tensor_certainty = Certainty::certain;
    Certainty layers_certainty = Certainty::certain;
    std::string layers_evidence;
    bool words_are_cut = false;            // tensor-parallel ranks share out the vocabulary
    bool embedding_group_reduces = false;  // first and last stage sum up the gradient of its matrix
    bool nothing_is_reduced = false;       // no gradient is summed up by any rank of the files
    // Of the rank with both embedding and head; 0: not known.
    double parameters_seen = 0, parameters_of_layers = 0;
    std::vector<InferredKey> keys;  // of "layout", and of "training" what messages tell

    std::int64_t ranks() const { return tensor * pipeline * data; }
};

// `element_bytes`: of an activation.
InferredLayout infer_layout(const std::vector<RankLayers>& ranks, double element_bytes);

}  // namespace orrery::compare
