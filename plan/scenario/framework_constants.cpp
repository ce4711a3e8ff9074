// Constants of a training stack, as presets and the keys of training declare them.
#include "plan/scenario/key_tables.hpp"

namespace orrery::plan {
namespace {

constexpr NumberRange kAny = {0, 1e9, false, false};
constexpr NumberRange kFactor = {0, 1000, true, false};
constexpr NumberRange kFactorOrNone = {0, 1000, false, false};
constexpr NumberRange kMegabytes = {0, 1e7, false, false};
constexpr NumberRange kShare = {0, 1, false, true};
constexpr IntegerRange kSome = {1, 1'000'000};

Keys<Framework> kernels_and_types() {
    return {
        choice<&Framework::attention_kernel>("attention_kernel",
                                             "One fused kernel, or products and a softmax between")
            .also({"flash_attention", "use_flash_attn"}),
        choice<&Framework::gradient_dtype>("gradient_dtype", "What gradients are summed in"),
        choice<&Framework::dropout_masks>(
            "dropout_masks", "Kept for backward, or drawn again from the same numbers"),
        choice<&Framework::logits_dtype>("logits_dtype",
                                         "fp32: the loss works on a copy, which is kept"),
        choice<&Framework::loss_logits>("loss_logits", "What the loss makes of the logits"),
        choice<&Framework::loss_kernel>(
            "loss_kernel",
            "Exponentials of the logits: in the passes that need them, or by single operations"),
        choice<&Framework::norm_kernel>(
            "norm_kernel",
            "One kernel, single operations, or one that adds the residual before it, too"),
        choice<&Framework::activation_kernel>(
            "activation_kernel",
            "The function between an MLP's products: a kernel, or the products' own epilogue"),
        choice<&Framework::residual_kernel>(
            "residual_kernel",
            "Residual additions: a kernel, or the product before them, which then rounds once"),
        choice<&Framework::bias_gradient_kernel>(
            "bias_gradient_kernel",
            "Gradients of biases: a kernel, or the epilogue of the weight gradient's product"),
        choice<&Framework::gathered_inputs>("gathered_inputs",
                                            "Sequence parallelism: inputs of products are gathered "
                                            "again in backward, or kept whole"),
        choice<&Framework::expert_products>(
            "expert_products",
            "Products of a rank's experts: all in one, or one after another, then joined"),
        choice<&Framework::expert_biases>(
            "expert_biases",
            "A rank's experts: one kernel for all, or the host launches each one's, and single "
            "operations add its biases and weigh activations without a gate"),
        choice<&Framework::permute_kernel>(
            "permute_kernel",
            "Tokens' rows are copied by expert, and summed, by a kernel each, by the indexing "
            "operations of PyTorch, or, where experts have a capacity, by products with masks"),
        choice<&Framework::sharded_buffers>(
            "sharded_buffers",
            "ZeRO-2 and 3: parameters are gathered, and gradients reduced, where they lie; or "
            "gradients are joined before; or parameters copied out, too; or both, under ZeRO-3 "
            "beside compute"),
        choice<&Framework::count_readings>(
            "count_readings",
            "The host waits to read how many rows came to experts: never, once a forward pass, "
            "before each exchange and product, of which it then launches one for each expert, or "
            "once a forward pass even where rows are filled up"),
        flag<&Framework::recompute_stops_early>(
            "recompute_stops_early", "Recomputation ends with the last op that backward reads of"),
    };
}

Keys<Framework> overlap() {
    return {
        flag<&Framework::overlap_gradient_reduce>("overlap_gradient_reduce",
                                                  "Gradients are summed behind the last backward"),
        flag<&Framework::overlap_parameter_gather>(
            "overlap_parameter_gather",
            "ZeRO-1 and 2: parameters are gathered in the next step, ahead of their use"),
        choice<&Framework::overlap_pipeline_transfers>(
            "overlap_pipeline_transfers",
            "Whether a rank computes while it sends or receives; interleaved: with virtual stages"),
        choice<&Framework::transfer_streams>(
            "transfer_streams", "Streams of the pipeline's transfers that overlap with compute"),
        flag<&Framework::host_waits_for_transfers>("host_waits_for_transfers",
                                                   "Where transfers do not overlap with compute, "
                                                   "the host waits for the device after each"),
        count<&Framework::tensor_overlap_parts>(
            "tensor_overlap_parts",
            "Sequence parallelism: tokens are gathered and summed in so many parts beside products",
            kSome),
        flag<&Framework::overlap_tensor_backward>(
            "overlap_tensor_backward",
            "Backward's tensor all-reduce runs behind the weight gradient"),
        flag<&Framework::defer_embedding_gradient>(
            "defer_embedding_gradient",
            "The head's weight gradient waits for the last stage's other work"),
        flag<&Framework::scatter_gather_transfers>(
            "scatter_gather_transfers",
            "Without sequence parallelism: each tensor rank sends its share, receivers gather"),
        count<&Framework::zero_prefetch>(
            "zero_prefetch", "ZeRO-3: parts that are gathered ahead of their use", {0, kSome.max}),
        number<&Framework::gradient_bucket_mb>("gradient_bucket_mb",
                                               "Gradient of a bucket (1e6 bytes), at least",
                                               {0, 1e9, true, false})
            .in("MB")
            .also({"bucket_size", "reduce_bucket_size"}),
        number<&Framework::gradient_bucket_mb_per_rank>(
            "gradient_bucket_mb_per_rank", "The same for each data-parallel rank", kAny)
            .in("MB"),
        count<&Framework::vocabulary_multiple>(
            "vocabulary_multiple", "The vocabulary is padded to multiples of this × tensor ranks",
            kSome),
    };
}

Keys<Framework> launches_and_factors() {
    return {
        number<&Framework::launch_us>("launch_us", "Host time to launch a kernel or collective",
                                      kAny)
            .in("µs")
            .also({"launch", "launch_overhead"}),
        number<&Framework::backward_launch_factor>(
            "backward_launch_factor", "The same in backward, as a multiple", kFactorOrNone),
        number<&Framework::collective_launch_factor>(
            "collective_launch_factor", "Of a collective, as a multiple", kFactorOrNone),
        number<&Framework::transfer_launch_factor>("transfer_launch_factor",
                                                   "Of a transfer of the pipeline, as a multiple",
                                                   kFactorOrNone),
        count<&Framework::launch_queue>("launch_queue", "Launches that the host may run ahead",
                                        kSome),
        number<&Framework::kernel_factor>(
            "kernel_factor", "Time of every kernel of a step over the profile's", kFactor),
        number<&Framework::straggler_share>(
            "straggler_share",
            "What each doubling of the nodes adds to kernels: a step waits for the slowest",
            kShare),
        number<&Framework::attention_factor>("attention_factor",
                                             "Time of fused attention over the profile's", kFactor),
        number<&Framework::memory_kernel_factor>(
            "memory_kernel_factor", "Time of memory-bound kernels over the profile's", kFactor),
        number<&Framework::column_cast_factor>(
            "column_cast_factor", "Time to cast by columns over that of moving the bytes", kFactor),
        number<&Framework::overlap_factor>(
            "overlap_factor",
            "What compute takes longer while the rank communicates, over the profile's",
            kFactorOrNone),
        number<&Framework::deviation_factor>(
            "deviation_factor", "Spread of the stack's runs over the profile's", kFactor),
        number<&Framework::residual_sd>(
            "residual_sd", "Relative deviation of steps that no kernel explains", kShare),
        number<&Framework::workspace_mb>("workspace_mb", "Workspace of products in the arena",
                                         kMegabytes)
            .in("MB")
            .also({"workspace"}),
        number<&Framework::context_mb>("context_mb", "Driver, libraries and NCCL, beside the arena",
                                       kMegabytes)
            .in("MB"),
        number<&Framework::communicator_mb>(
            "communicator_mb", "Of each process group with more than one rank", kMegabytes)
            .in("MB"),
        number<&Framework::fragmentation>("fragmentation",
                                          "Share of the arena that the allocator loses", kShare),
    };
}

}  // namespace

const Keys<Framework>& framework_constants() {
    static const Keys<Framework> keys =
        joined(kernels_and_types(), overlap(), launches_and_factors());
    return keys;
}

}  // namespace orrery::plan
