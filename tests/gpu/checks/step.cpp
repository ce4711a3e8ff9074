// The loss, and what is done to gradients and scalars at the end of a step.
#include <iterator>
#include <string>
#include <vector>

#include "tests/gpu/checks/checks.hpp"

namespace orrery::runtime::gpu_check {
namespace {

using plan::DType;

std::vector<std::int32_t> targets_of(std::int64_t rows, std::int64_t vocabulary) {
    std::vector<std::int32_t> targets;
    for (std::int64_t row = 0; row < rows; ++row)
        targets.push_back(row % 5 == 3 ? -1 : static_cast<std::int32_t>(row * 11 % vocabulary));
    return targets;
}

void check_loss_of(World& world, const LogitsPart& part, const std::string& variant) {
    const std::int64_t n = part.rows * part.columns;
    const Values logits = normals(n, 1);
    const std::vector<std::int32_t> targets =
        targets_of(part.rows, part.first_column + part.columns);
    Values peaks(static_cast<std::size_t>(part.rows), 4.25);
    Values sums;
    for (std::int64_t row = 0; row < part.rows; ++row)
        sums.insert(sums.end(), {20 + static_cast<double>(row), -1.5});

    world.begin("cross_entropy_max", variant);
    Tensor& of_max = world.in(logits);
    Tensor& largest = world.out(DType::fp32, part.rows);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.cross_entropy_max({part, at(of_max), at(largest)});
    });
    if (part.soft_cap > 0)
        world.expect_close("largest", largest, 16);
    else
        world.expect_same("largest", largest);

    world.begin("cross_entropy_sum", variant);
    Tensor& of_sum = world.in(logits);
    Tensor& known = world.in(DType::fp32, peaks);
    Tensor& told = world.tokens(targets);
    Tensor& found = world.out(DType::fp32, 2 * part.rows);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.cross_entropy_sum(
            {part, at.at<std::int32_t>(told), at(of_sum), at(known), at(found)});
    });
    // The exponent's rounding is of a number of up to 8, and is what the exponential is off.
    world.expect_close("sums", found, 16 + roundings_of_sum(part.columns));

    world.begin("cross_entropy_sum", variant + ", finds the largest");
    Tensor& of_both = world.in(logits);
    Tensor& told_too = world.tokens(targets);
    Tensor& peaks_found = world.out(DType::fp32, part.rows);
    Tensor& sums_found = world.out(DType::fp32, 2 * part.rows);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.cross_entropy_sum({part, at.at<std::int32_t>(told_too), at(of_both),
                                   at(peaks_found), at(sums_found), true});
    });
    world.expect_close("largest", peaks_found, part.soft_cap > 0 ? 16 : 0);
    world.expect_close("sums", sums_found, 16 + roundings_of_sum(part.columns));

    // Two parts with the numbers above, the second one's largest logits a little higher.
    world.begin("cross_entropy_join", variant);
    Values two_sums = sums, two_peaks = peaks;
    two_sums.insert(two_sums.end(), sums.begin(), sums.end());
    for (const double peak : peaks)
        two_peaks.push_back(peak + 0.75);
    Tensor& part_sums = world.in(DType::fp32, two_sums);
    Tensor& part_peaks = world.in(DType::fp32, two_peaks);
    Tensor& wanted = world.tokens(targets);
    Tensor& joined = world.out(DType::fp32, 2 * part.rows);
    Tensor& highest = world.out(DType::fp32, part.rows);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.cross_entropy_join({part.rows, 2, part.columns, at.at<std::int32_t>(wanted),
                                    at(part_sums), at(part_peaks), at(joined), at(highest)});
    });
    world.expect_same("largest", highest);
    world.expect_close("sums", joined, 4);

    world.begin("cross_entropy_backward", variant);
    Tensor& gradient = world.in(logits);
    Tensor& peak = world.in(DType::fp32, peaks);
    Tensor& sum = world.in(DType::fp32, sums);
    Tensor& target = world.tokens(targets);
    Tensor& scale = world.in(DType::fp32, {1024});
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.cross_entropy_backward({part, at.at<std::int32_t>(target), 0.01,
                                        at.at<float>(scale), at(peak), at(sum), at(gradient)});
    });
    world.expect_close("logits", gradient, 16);

    // Of a part with the sums above, in rows whose largest logit and sum are a little higher.
    world.begin("cross_entropy_rescale", variant);
    constexpr std::int64_t kHidden = 72;
    Values all_sums = sums, all_peaks = peaks;
    for (double& sum_of_row : all_sums)
        sum_of_row *= 1.5;
    for (double& peak_of_row : all_peaks)
        peak_of_row += 0.25;
    Tensor& dlogits = world.in(logits);
    Tensor& part_dx = world.in(normals(part.rows * kHidden, 5));
    Tensor& words = world.in(normals(part.rows * kHidden, 6));
    Tensor& own_sums = world.in(DType::fp32, sums);
    Tensor& own_peaks = world.in(DType::fp32, peaks);
    Tensor& row_sums = world.in(DType::fp32, all_sums);
    Tensor& row_peaks = world.in(DType::fp32, all_peaks);
    Tensor& of_rows = world.tokens(targets);
    Tensor& loss_scale = world.in(DType::fp32, {1024});
    Tensor& dx = world.out(part.rows * kHidden);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.cross_entropy_rescale({part, at.at<std::int32_t>(of_rows), 0.01,
                                       at.at<float>(loss_scale), kHidden, at(own_sums),
                                       at(own_peaks), at(row_sums), at(row_peaks), at(part_dx),
                                       at(words), at(dlogits), at(dx)});
    });
    world.expect_close("dlogits", dlogits, 16);
    world.expect_close("dx", dx, 16);
}

// Runs that begin and end anywhere, some neighbours, some of more than a block's tile.
std::vector<SteppedRun> runs_of(std::int64_t n) {
    const std::int64_t most = n - 140;
    return {{{0, 16}, false},         {{16, 9}, true},     {{25, 3}, false},
            {{40, 64}, true, 0.01},   {{120, most}, true}, {{120 + most, 7}, true, 0.02},
            {{128 + most, 12}, false}};
}

void check_adamw(World& world, const std::string& variant, DType gradients, bool clips, bool skips,
                 std::int64_t n, const std::vector<SteppedRun>& runs = {}) {
    const bool masters = world.dtype() != DType::fp32;
    world.begin("adamw", variant);
    Values second = normals(n, 3);
    for (double& v : second)
        v *= v;
    Tensor& g = world.in(gradients, normals(n, 1));
    Tensor& m = world.in(DType::fp32, normals(n, 2));
    Tensor& v = world.in(DType::fp32, second);
    Tensor& master = world.in(DType::fp32, normals(n, 4));
    Tensor& parameters = world.in(normals(n, 4));
    Tensor& bins = world.in(DType::fp64, {700, 1e-9, 0, 0, 0});
    Tensor& flags = world.in(DType::fp32, {0, skips ? 1.0 : 0.0});
    world.run([&](Kernels& kernels, const Place& at) {
        AdamW op;
        op.elements = n;
        op.learning_rate = 3e-4;
        op.weight_decay = 0.1;
        op.correction1 = 0.271;
        op.correction2 = 0.003;
        if (clips) op.norm_bins = at.at<double>(bins);
        op.clip_norm = 1;
        op.skip_where = {at.at<float>(flags), at.at<float>(flags) + 1};
        op.gradients = at(g);
        op.m = at(m);
        op.v = at(v);
        if (masters) op.master = at(master);
        op.parameters = at(parameters);
        if (!runs.empty()) op.runs = {kernels.keep(runs), std::ssize(runs)};
        kernels.adamw(op);
    });
    world.expect_same("m", m);
    world.expect_same("v", v);
    world.expect_same("master", master);
    world.expect_same("parameters", parameters);
}

void check_unscale(World& world, double extreme, bool accumulate) {
    const std::int64_t n = 1031;
    world.begin("unscale", std::to_string(extreme) + (accumulate ? ", accumulated" : ""));
    Values values = normals(n, 1);
    values[1000] = extreme;
    Tensor& g = world.in(values);
    Tensor& scale = world.in(DType::fp32, {65536});
    Tensor& overflow = world.in(DType::fp32, {accumulate ? 1.0 : 0.5});
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.unscale({n, at.at<float>(scale), at(g), at.at<float>(overflow), accumulate});
    });
    world.expect_same("gradients", g);
    world.expect_same("overflow", overflow);
}

void check_loss_scale(World& world, bool overflows, std::int32_t steps) {
    world.begin("update_loss_scale", overflows ? "overflow" : "none");
    Tensor& overflow = world.in(DType::fp32, {overflows ? 1.0 : 0.0});
    Tensor& scale = world.in(DType::fp32, {1024});
    Tensor& counters = world.tokens({steps, 1});
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.update_loss_scale({{10, 2, 1},
                                   at.at<float>(overflow),
                                   at.at<float>(scale),
                                   at.at<std::int32_t>(counters)});
    });
    world.expect_same("scale", scale);
    world.expect_same("counters", counters);
}

void check_judge(World& world, double batch_loss, std::int32_t counted) {
    world.begin("judge_loss", std::to_string(batch_loss) + " after " + std::to_string(counted));
    Tensor& loss = world.in(DType::fp64, {batch_loss});
    Tensor& accepted = world.in(DType::fp64, {3.0, 3.5, 2.5});
    Tensor& count = world.tokens({counted});
    Tensor& spiked = world.out(DType::fp32, 1);
    world.run([&](Kernels& kernels, const Place& at) {
        JudgeLoss op;
        op.rule = {3, 1.5};
        op.loss = at.at<double>(loss);
        op.accepted = at.at<double>(accepted);
        op.count = at.at<std::int32_t>(count);
        op.spiked = at.at<float>(spiked);
        kernels.judge_loss(op);
    });
    world.expect_same("accepted", accepted);
    world.expect_same("count", count);
    world.expect_same("spiked", spiked);
}

}  // namespace

void check_loss(World& world) {
    const std::int64_t columns = world.large() ? 50257 : 700;
    check_loss_of(world, {9, 33, 0, 33}, "whole");
    check_loss_of(world, {13, columns, columns, columns - 20}, "second part, padded");
    check_loss_of(world, {4, 40, 80, 0}, "padding alone");
    check_loss_of(world, {9, 33, 33, 20, 1.5}, "second part, padded, capped");
    check_loss_of(world, {5, 72, 72, 50, 1.5}, "second part, padded, capped");
    for (const bool accumulate : {false, true}) {
        world.begin("cross_entropy", accumulate ? "added" : "");
        Values values;
        for (const double x : normals(2500, 1))
            values.insert(values.end(), {1 + x * x, x});
        Tensor& sums = world.in(DType::fp32, values);
        Tensor& loss = world.in(DType::fp32, {3});
        world.run([&](Kernels& kernels, const Place& at) {
            kernels.cross_entropy({2500, 0.01, at(sums), at(loss), accumulate});
        });
        world.expect_close("loss", loss, 2);  // summed in fp64
    }
}

void check_gradients(World& world) {
    const std::int64_t n = world.large() ? (std::int64_t{1} << 22) + 3 : 5003;
    world.begin("gradient_norm");
    Values gradients = normals(n, 1);
    for (std::size_t i = 0; i < gradients.size(); ++i)
        gradients[i] *= std::exp2(-static_cast<double>(i % 40));
    Tensor& g = world.in(gradients);
    Tensor& bins = world.in(DType::fp64, {0x1p-12, 0x1p-30, 0, 0, 0});
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gradient_norm({n, at(g), at.at<double>(bins)});
    });
    world.expect_same("bins", bins);
    world.begin("gradient_norm", "of runs");
    std::vector<ElementRun> runs;
    for (const SteppedRun& run : runs_of(n))
        runs.push_back(run);
    Tensor& with_gaps = world.in(gradients);
    Tensor& of_runs = world.in(DType::fp64, {0x1p-12, 0x1p-30, 0, 0, 0});
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.gradient_norm(
            {n, at(with_gaps), at.at<double>(of_runs), {kernels.keep(runs), std::ssize(runs)}});
    });
    world.expect_same("bins", of_runs);
    check_unscale(world, 1, false);
    check_unscale(world, 1, true);
    check_unscale(world, INFINITY, false);
    check_unscale(world, std::nan(""), true);
    for (const std::int64_t elements :
         {world.large() ? (std::int64_t{1} << 20) + 5 : 777, std::int64_t{800}}) {
        check_adamw(world, "plain", world.dtype(), false, false, elements);
        check_adamw(world, "fp32 gradients, clipped", DType::fp32, true, false, elements);
        check_adamw(world, "skipped", world.dtype(), true, true, elements);
    }
    const std::int64_t elements = world.large() ? (std::int64_t{1} << 20) + 5 : 9001;
    check_adamw(world, "runs", world.dtype(), true, false, elements, runs_of(elements));
    check_adamw(world, "runs, skipped", world.dtype(), true, true, elements, runs_of(elements));
}

void check_scalars(World& world) {
    check_loss_scale(world, true, 5);
    check_loss_scale(world, false, 9);
    check_loss_scale(world, false, 3);
    check_judge(world, 2.9, 7);
    check_judge(world, 9, 7);
    check_judge(world, 9, 2);
    check_judge(world, std::nan(""), 3);
    world.begin("loss_share");
    Tensor& loss = world.in(DType::fp32, {2.75});
    Tensor& share = world.out(DType::fp64, 1);
    Tensor& none = world.out(DType::fp64, 1);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.loss_share({at(loss), at.at<double>(share)});
        kernels.loss_share({{}, at.at<double>(none)});
    });
    world.expect_same("share", share);
    world.expect_same("share of none", none);
    const Values sums = {700, 0x1p-40, -3, 0, 1e300}, others = {1, 0x1p-53, 3, 0, 1e300};
    world.begin("add", "statistics");
    Tensor& own = world.in(DType::fp64, sums);
    Tensor& before = world.in(DType::fp64, others);
    Tensor& both = world.out(DType::fp64, 5);
    world.run([&](Kernels& kernels, const Place& at) {
        kernels.add({5, at(own), at(before), at(both)});
    });
    world.expect_same("sum", both);
    world.begin("cast", "statistics");
    Tensor& handed = world.in(DType::fp64, sums);
    Tensor& kept = world.out(DType::fp64, 5);
    world.run([&](Kernels& kernels, const Place& at) { kernels.cast({5, at(handed), at(kept)}); });
    world.expect_same("copy", kept);
    world.begin("bring");
    const std::vector<std::int32_t> tokens = {5, 1, 4};
    Tensor& to = world.tokens({0, 0, 0});
    world.run(
        [&](Kernels& kernels, const Place& at) { kernels.bring(tokens, at.at<std::int32_t>(to)); });
    world.expect_same("tokens", to);
}

}  // namespace orrery::runtime::gpu_check
