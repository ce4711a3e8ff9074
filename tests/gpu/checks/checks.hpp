// Every request of runtime/kernels/requests.hpp on random numbers, odd sizes and options.
#pragma once

#include <array>
#include <cmath>

#include "tests/gpu/checks/world.hpp"

namespace orrery::runtime::gpu_check {

// What is left of `terms` roundings of a sum, in roundings of its largest element: they add up as a
// random walk does (each is of a partial sum, which is hardly larger than the whole), and four
// times that is allowed.
inline double roundings_of_sum(std::int64_t terms) {
    return 4 * std::sqrt(static_cast<double>(terms)) + 4;
}

void check_products(World& world);
void check_attention(World& world);
void check_unfused_attention(World& world);
void check_elementwise(World& world);
void check_dropout(World& world);
void check_norms(World& world);
void check_activations(World& world);
void check_rope(World& world);
void check_qk_norms(World& world);
void check_latent_heads(World& world);
void check_tempers(World& world);
void check_embeddings(World& world);
void check_loss(World& world);
void check_gradients(World& world);
void check_scalars(World& world);
void check_routers(World& world);
void check_expert_rows(World& world);
void check_experts(World& world);
void check_eight_bits(World& world);
void check_eight_bit_products(World& world);  // of those: by blocks, and of experts

struct Check {
    const char* name;
    void (*run)(World&);
    bool by_cudnn = false;  // some of it, where that is there
};
inline constexpr std::array kChecks = {Check{"products", check_products},
                                       Check{"attention", check_attention, true},
                                       Check{"unfused_attention", check_unfused_attention},
                                       Check{"elementwise", check_elementwise},
                                       Check{"dropout", check_dropout},
                                       Check{"norms", check_norms},
                                       Check{"activations", check_activations},
                                       Check{"rope", check_rope},
                                       Check{"qk_norms", check_qk_norms},
                                       Check{"latent_heads", check_latent_heads},
                                       Check{"tempers", check_tempers},
                                       Check{"embeddings", check_embeddings},
                                       Check{"loss", check_loss},
                                       Check{"gradients", check_gradients},
                                       Check{"scalars", check_scalars},
                                       Check{"routers", check_routers},
                                       Check{"expert_rows", check_expert_rows},
                                       Check{"experts", check_experts},
                                       Check{"eight_bits", check_eight_bits}};

}  // namespace orrery::runtime::gpu_check
