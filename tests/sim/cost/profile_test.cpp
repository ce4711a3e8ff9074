#include "sim/cost/profile.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/cost/tiny_profile.hpp"

namespace orrery::sim {
namespace ORRERY_TEST_FILE {

// The message of the error that the tiny profile gives after one replacement in its text.
std::string error_after(const std::string& from, const std::string& to) {
    std::string text = tiny_profile_text();
    const std::size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    text.replace(place, from.size(), to);
    try {
        parse_profile(text, "tiny.json");
    } catch (const ProfileError& error) {
        return error.what();
    }
    return "no error";
}

TEST(Profile, ReadsWhatIsWritten) {
    const Profile profile = parse_profile(tiny_profile_text(), "tiny.json");
    EXPECT_EQ(profile.device, "tiny");
    EXPECT_EQ(profile.hardware.capacity_bytes.value, 16e9);
    EXPECT_EQ(profile.hardware.capacity_bytes.source, "made up");
    EXPECT_EQ(profile.hardware.power_w.source, "its sticker");
    ASSERT_NE(profile.hardware.peak("bf16"), nullptr);
    EXPECT_EQ(profile.hardware.peak("bf16")->value, 120);
    EXPECT_EQ(profile.hardware.peak("fp16"), nullptr);
    ASSERT_EQ(profile.attention.forward.size(), 2u);
    EXPECT_EQ(profile.attention.forward[0].head_dim, 64);
    EXPECT_EQ(profile.attention.forward[1].head_dim, 128);
    EXPECT_EQ(profile.attention.forward[1].held_out->rows, 9);
    EXPECT_TRUE(profile.collectives_json.empty());
}

TEST(Profile, KeepsTheCollectivesForTheirOwnReader) {
    std::string text = tiny_profile_text();
    text.insert(text.rfind('}'), R"(, "collectives": {"a": [1, 2]})");
    EXPECT_EQ(parse_profile(text, "tiny.json").collectives_json, R"({"a":[1,2]})");
}

Profile with(const std::string& section) {
    std::string text = tiny_profile_text();
    text.insert(text.rfind('}'), ", " + section);
    return parse_profile(text, "tiny.json");
}

TEST(Profile, StretchesKernelsByHowManyRanksShareTheMachine) {
    const Profile profile = with(
        R"("sharing": {"source": "made up", "relative_sd": 0.1, "stretch": [[1, 0.75], [4, 1.25]]})");
    ASSERT_TRUE(profile.sharing);
    EXPECT_EQ(profile.sharing->of(1), 0.75);
    EXPECT_EQ(profile.sharing->of(2), 1);  // half way from 1 to 4 in octaves
    EXPECT_EQ(profile.sharing->of(4), 1.25);
    EXPECT_EQ(profile.sharing->of(64), 1.25);
    for (const char* wrong : {"[]", "[[1, 0]]", "[[2, 1], [1, 1]]", "[[1, 9]]", "[[1.5, 1]]"})
        EXPECT_THROW(
            with(fmt::format(
                R"("sharing": {{"source": "made up", "relative_sd": 0.1, "stretch": {}}})", wrong)),
            ProfileError)
            << wrong;
}

// The tiny device has 10 multiprocessors, here threads of a rank: with 3 ranks 30 threads, which
// have 20 cores.
TEST(Profile, SharesOutCoresThatAreFewerThanThreads) {
    const Profile profile = with(
        R"("sharing": {"source": "made up", "relative_sd": 0.1, "stretch": [[1, 1], [2, 1.25]]},
           "machine": {"processor": "p", "cores": 20, "kernels": "k", "date": "d", "version": "v"})");
    EXPECT_EQ(profile.hardware.multiprocessors.value, 10);
    EXPECT_EQ(profile.stretch_of(1), 1);
    EXPECT_EQ(profile.stretch_of(2), 1.25);
    EXPECT_EQ(profile.stretch_of(3), 1.25 * 30 / 20);
}

TEST(Profile, NamesFileAndPlaceOfAFault) {
    EXPECT_EQ(error_after("\"power_w\"", "\"power\""), "tiny.json: /hardware/power_w: missing");
    EXPECT_EQ(error_after("\"measured\": false, \"source\": \"made up\", \"t0_us\": 5",
                          "\"measured\": false, \"source\": \"made up\", \"t1\": 0, \"t0_us\": 5"),
              "tiny.json: /gemm/bf16/t1: unknown key");
    EXPECT_EQ(error_after("\"rate_tflops\": 100", "\"rate_tflops\": 0"),
              "tiny.json: /gemm/bf16/rate_tflops: must be positive");
    EXPECT_EQ(error_after("\"rate_tflops\": 100", "\"rate_tflops\": \"fast\""),
              "tiny.json: /gemm/bf16/rate_tflops: a number is expected");
    EXPECT_EQ(error_after("\"version\": 1", "\"version\": 2"),
              "tiny.json: /version: this program reads version 1");
    EXPECT_EQ(error_after("orrery profile", "profile"),
              "tiny.json: /format: \"orrery profile\" is expected");
    EXPECT_EQ(error_after("\"compute_slowdown\": 1.2", "\"compute_slowdown\": 0.9"),
              "tiny.json: /overlap/compute_slowdown: 0.9 is below 1");
    EXPECT_EQ(error_after("\"compute_slowdown\": 1.2", "\"compute_slowdown\": 9"),
              "tiny.json: /overlap/compute_slowdown: a factor from 1 to 8 is expected");
    EXPECT_EQ(error_after("\"sequence\": [512, 8192]", "\"sequence\": [8192, 512]"),
              "tiny.json: /attention/forward/128/sequence: 0 < low <= high is expected");
    EXPECT_EQ(error_after("\"64\":", "\"64x\":"),
              "tiny.json: /attention/forward/64x: a head size is expected as key");
}

TEST(Profile, ReadsTheCurvesOfSingleKernels) {
    const auto with_kernels = [](const std::string& kernels) {
        std::string text = tiny_profile_text();
        const std::string after = "\"resident_bytes\"";
        return text.insert(text.find(after), "\"kernels\": {" + kernels + "}, ");
    };
    const std::string numbers = R"({"t0_us": 3, "GBps": 100, "relative_sd": 0.1, "held_out":
        {"rows": 4, "mean_abs_error": 0.1, "median_abs_error": 0.1, "p95_abs_error": 0.2}})";
    const Profile profile =
        parse_profile(with_kernels(R"("source": "a bench", "norm": )" + numbers), "tiny.json");
    const auto& norm = profile.memory.kernels[static_cast<std::size_t>(plan::OpKind::norm)];
    ASSERT_TRUE(norm.has_value());
    EXPECT_EQ(norm->source, "a bench");
    EXPECT_EQ(norm->t0_us, 3);
    EXPECT_EQ(norm->GBps, 100);
    EXPECT_EQ(norm->relative_sd, 0.1);
    EXPECT_EQ(norm->held_out.rows, 4);
    EXPECT_FALSE(profile.memory.kernels[static_cast<std::size_t>(plan::OpKind::rope)].has_value());
    for (const char* key : {"gemm", "attention", "all_reduce", "normal"})
        EXPECT_THAT(
            [&] {
                parse_profile(with_kernels('"' + std::string(key) + "\": " + numbers), "tiny.json");
            },
            testing::ThrowsMessage<ProfileError>(
                "tiny.json: /memory/kernels/" + std::string(key) +
                ": the name of a memory-bound kernel is expected as key"));
}

TEST(Profile, RefusesANumberWithoutSource) {
    EXPECT_EQ(error_after("\"hardware\": {\"source\": \"made up\", ", "\"hardware\": {"),
              "tiny.json: /hardware/capacity_bytes: the number has no source, neither has its "
              "section");
    EXPECT_EQ(error_after("{\"value\": 300, \"source\": \"its sticker\"}", "{\"value\": 300}"),
              "tiny.json: /hardware/power_w/value: the number has no source, neither has its "
              "section");
}

TEST(Profile, RefusesNeighboursBeyondAQuarter) {
    const std::string spans =
        R"("measured": true, "m": [1, 2], "n": [1, 2], "k": [1, 2],
           "held_out": {"rows": 1, "mean_abs_error": 0, "median_abs_error": 0, "p95_abs_error": 0},
           "neighbours": )";
    const std::string from = R"("measured": false, "source": "made up", "t0_us": 5)";
    const std::string rest = R"(, "source": "made up", "t0_us": 5)";
    EXPECT_EQ(error_after(from, spans + "[[9, 9, 9, 1.3]]" + rest),
              "tiny.json: /gemm/bf16/neighbours: ratio 1.3 is outside [0.75, 1.25]");
    for (const char* row : {"[9, 9, 1.1]", "[9, 9, 9, 1.1, 2]", "[9, 9, 9, 1.1, \"backward\"]"})
        EXPECT_EQ(error_after(from, spans + "[" + row + "]" + rest),
                  "tiny.json: /gemm/bf16/neighbours: rows of [log2 m, log2 n, log2 k, ratio] are "
                  "expected, and behind that perhaps \"forward\", \"input_gradient\" or "
                  "\"weight_gradient\"")
            << row;
    for (const char* row : {"[9, 9, 9, 1.1]", "[9, 9, 9, 1.1, \"weight_gradient\"]"})
        EXPECT_EQ(error_after(from, spans + "[" + row + "]" + rest), "no error") << row;
}

TEST(Profile, SaysWhenAFileIsMissingOrNoJson) {
    EXPECT_THROW(load_profile("/nonexistent/profile.json"), ProfileError);
    EXPECT_EQ(error_after("{", "{,").rfind("tiny.json: not JSON: ", 0), 0u);
    EXPECT_EQ(error_after("\"provenance\": [\"made up for tests\"]", "\"provenance\": []"),
              "tiny.json: /provenance: says nothing");
}

// Whatever is shipped must load, fit a screen or two, and be sane against its own datasheet.
TEST(Profile, ShippedProfilesLoad) {
    const std::filesystem::path folder =
        std::filesystem::path(ORRERY_SOURCE_DIR) / "scenarios/profiles";
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".json") continue;
        ++count;
        SCOPED_TRACE(entry.path().string());
        const Profile profile = load_profile(entry.path().string());
        EXPECT_EQ(profile.device, entry.path().stem().string());
        EXPECT_LT(std::filesystem::file_size(entry.path()), 60'000u);
        for (plan::DType dtype : {plan::DType::bf16, plan::DType::fp32}) {
            const auto& curve = profile.gemm[static_cast<std::size_t>(dtype)];
            const Quantity* peak = profile.hardware.peak(std::string(plan::name(dtype)));
            if (!curve) continue;
            ASSERT_NE(peak, nullptr);
            EXPECT_LE(curve->rate_tflops, peak->value);
            EXPECT_LE(curve->neighbours.size(), 400u);
            if (curve->measured) {
                EXPECT_LT(curve->held_out->mean_abs_error, 0.10);
            }
        }
    }
    EXPECT_GE(count, 2);
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::sim
