// How algorithms of products are chosen, on an emulated cuBLASLt that has several of each: by the
// order that it gives them, or where there is a file by their times.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/cuda/cuda_backend.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/storage_error.hpp"
#include "tests/gpu/emulation/cublasLt.h"

namespace orrery::runtime {
namespace {

using emulation::products;
using plan::DType;

constexpr std::int64_t kWorkspace = 256, kMemory = 4096;

std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

nlohmann::json entries_of(const std::string& path) {
    return nlohmann::json::parse(content(path)).at("choices");
}

// What a step's stream has: kernels, with some memory of theirs and a workspace behind it.
struct Rank {
    std::unique_ptr<StreamDriver> driver;
    std::byte* memory;
    std::unique_ptr<Kernels> kernels;

    explicit Rank(const std::string& file = {})
        : driver(make_cuda_driver(0, {file})),
          memory(driver->allocate(kMemory + kWorkspace)),
          kernels(driver->kernels(driver->create_stream(StreamUse::compute), memory + kMemory,
                                  kWorkspace)) {}

    // Of a part of the memory each.
    Gemm product(std::int64_t m = 8, DType dtype = DType::bf16) const {
        Gemm gemm;
        gemm.m = m;
        gemm.n = 8;
        gemm.k = 16;
        gemm.a = {memory, dtype};
        gemm.b = {memory + 1024, dtype};
        gemm.c = {memory + 2048, dtype};
        return gemm;
    }
};

class ProductChoices : public testing::Test {
  protected:
    ProductChoices() { products() = {}; }
    ~ProductChoices() override {
        products() = {};
        emulation::device_name = "Emulated";
    }

    // Not yet there.
    const std::string file_ = testing::TempDir() + "/choices.json";
};

TEST_F(ProductChoices, AreTheFastestOfThoseThatDo) {
    const Rank rank(file_);
    rank.kernels->prepare(rank.product());
    products().launches = {};
    for (int i = 0; i < 3; ++i)
        rank.kernels->gemm(rank.product());
    EXPECT_EQ(products().launches[emulation::kFaster], 3);
    EXPECT_EQ(std::accumulate(products().launches.begin(), products().launches.end(), 0), 3);
    EXPECT_EQ(products().wrong_launches, 0);
    ASSERT_EQ(entries_of(file_).size(), 1U);
    EXPECT_DOUBLE_EQ(entries_of(file_)[0].at("us"), 4000);
    EXPECT_DOUBLE_EQ(entries_of(file_)[0].at("first_us"), 8000);
}

// The first two launches of the faster one are slow, and two of the five that count are disturbed.
TEST_F(ProductChoices, AreToldByTheMedianBehindAWarmUp) {
    products().ms = [](std::uint64_t algorithm, std::int64_t before) {
        if (algorithm == emulation::kFaster)
            return before < 2 || before == 5 || before == 7 ? 1000.0 : 4.0;
        return before < 2 ? 1.0 : 8.0;
    };
    const Rank rank(file_);
    rank.kernels->prepare(rank.product());
    ASSERT_EQ(entries_of(file_).size(), 1U);
    EXPECT_DOUBLE_EQ(entries_of(file_)[0].at("us"), 4000);
    EXPECT_DOUBLE_EQ(entries_of(file_)[0].at("first_us"), 8000);
}

TEST_F(ProductChoices, AreSearchedForAndTimedOnceForEachProduct) {
    const Rank rank(file_);
    const Gemm product = rank.product();
    Gemm added = product, elsewhere = product;
    added.accumulate = true;
    elsewhere.a.data = rank.memory + 512;  // aligned as well, as all of it is to 256 bytes
    for (const Gemm& each : {product, added, rank.product(4), product, elsewhere})
        rank.kernels->prepare(each);
    EXPECT_EQ(products().searches, 3);
    EXPECT_EQ(products().launches[emulation::kFaster], products().launches[emulation::kSlowest]);
    const std::int64_t timed = products().launches[emulation::kFaster];
    EXPECT_EQ(timed % 3, 0);
    EXPECT_EQ(entries_of(file_).size(), 3U);
    for (const Gemm& each : {added, rank.product(4), elsewhere, product})
        rank.kernels->gemm(each);
    EXPECT_EQ(products().searches, 3);
    EXPECT_EQ(products().launches[emulation::kFaster], timed + 4);
}

TEST_F(ProductChoices, AreTheFirstOnesAndNotTimedWithoutAFile) {
    const Rank rank;
    for (int i = 0; i < 2; ++i)
        rank.kernels->prepare(rank.product());
    EXPECT_EQ(products().searches, 1);
    EXPECT_EQ(products().several_searched, 0);
    EXPECT_EQ(std::accumulate(products().launches.begin(), products().launches.end(), 0), 0);
    EXPECT_TRUE(rank.driver->choices_id().empty());
    rank.kernels->gemm(rank.product());
    EXPECT_EQ(products().searches, 1);
    EXPECT_EQ(products().launches[emulation::kFirst], 1);
}

TEST_F(ProductChoices, AreTheFirstOnesWhereNobodyHasPrepared) {
    const Rank rank(file_);
    rank.kernels->gemm(rank.product());
    rank.kernels->prepare(rank.product());
    EXPECT_EQ(products().launches[emulation::kFirst], 1);
    EXPECT_EQ(products().searches, 1);
    EXPECT_TRUE(entries_of(file_).empty());
}

// Its rows are counted in the step.
TEST_F(ProductChoices, AreNotMadeBeforehandOfGroupedProducts) {
    const Rank rank(file_);
    GroupedGemm grouped;
    grouped.m = 8;
    grouped.n = 8;
    grouped.k = 16;
    rank.kernels->prepare(grouped);
    EXPECT_EQ(products().searches, 0);
}

TEST_F(ProductChoices, StandInTheFileForWhoComesNext) {
    { Rank(file_).kernels->prepare(Rank(file_).product()); }
    const std::string before = content(file_);
    products() = {};
    products().ms = [](std::uint64_t algorithm, std::int64_t) {
        return algorithm == emulation::kSlowest ? 1.0 : 2.0;
    };
    const Rank next(file_);
    next.kernels->prepare(next.product());
    EXPECT_EQ(products().searches, 0);
    next.kernels->gemm(next.product());
    EXPECT_EQ(products().launches[emulation::kFaster], 1);
    EXPECT_EQ(content(file_), before);
}

// Both have read the file before either has timed.
TEST_F(ProductChoices, AreTheSameOnRanksThatTimeDifferently) {
    const Rank one(file_), other(file_);
    EXPECT_EQ(one.driver->choices_id(), other.driver->choices_id());
    EXPECT_EQ(one.driver->choices_id().size(), 16U);
    one.kernels->prepare(one.product());
    products() = {};
    products().ms = [](std::uint64_t algorithm, std::int64_t) {
        return algorithm == emulation::kSlowest ? 1.0 : 2.0;
    };
    other.kernels->prepare(other.product());
    EXPECT_GT(products().launches[emulation::kSlowest], 0);
    products().launches = {};
    other.kernels->gemm(other.product());
    EXPECT_EQ(products().launches[emulation::kFaster], 1);
    EXPECT_EQ(entries_of(file_).size(), 1U);
}

TEST_F(ProductChoices, OfOtherDevicesAndVersionsStayAndAreNotUsed) {
    const auto prepare_one = [&] {
        const Rank rank(file_);
        rank.kernels->prepare(rank.product());
    };
    prepare_one();
    emulation::device_name = "Another";
    prepare_one();
    products().version = 130200;
    prepare_one();
    EXPECT_EQ(products().several_searched, 3);
    const nlohmann::json entries = entries_of(file_);
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[0].at("device"), "Emulated");
    EXPECT_EQ(entries[0].at("compute_capability"), "9.0");
    EXPECT_EQ(entries[1].at("device"), "Another");
    EXPECT_EQ(entries[1].at("cublaslt"), 130100);
    EXPECT_EQ(entries[2].at("cublaslt"), 130200);
    emulation::device_name = "Emulated";
    products().version = 130100;
    prepare_one();
    EXPECT_EQ(products().several_searched, 3);
}

// What a later version may add to an entry is not lost.
TEST_F(ProductChoices, KeepKeysThatNobodyKnows) {
    { Rank(file_).kernels->prepare(Rank(file_).product()); }
    nlohmann::json json = nlohmann::json::parse(content(file_));
    json["choices"][0]["note"] = "by night";
    write(file_, json.dump());
    const Rank rank(file_);
    rank.kernels->prepare(rank.product(4));
    ASSERT_EQ(entries_of(file_).size(), 2U);
    EXPECT_EQ(entries_of(file_)[0].at("note"), "by night");
}

TEST_F(ProductChoices, LeaveMemoryAsItWas) {
    for (const DType dtype : {DType::bf16, DType::fp32}) {
        const Rank rank(file_);
        std::vector<std::byte> before(kMemory);
        for (std::size_t i = 0; i < before.size(); ++i)
            before[i] = static_cast<std::byte>(i % 61);
        rank.driver->write(rank.memory, before);
        for (const GemmForm form :
             {GemmForm::forward, GemmForm::input_gradient, GemmForm::weight_gradient})
            for (const bool accumulate : {false, true}) {
                Gemm product = rank.product(8, dtype);
                product.form = form;
                product.accumulate = accumulate;
                if (form == GemmForm::forward) product.bias = {rank.memory + 3072, dtype};
                rank.kernels->prepare(product);
                std::vector<std::byte> after(kMemory);
                rank.driver->read(rank.memory, after);
                EXPECT_EQ(std::memcmp(after.data(), before.data(), kMemory), 0);
            }
    }
    EXPECT_EQ(entries_of(file_).size(), 12U);
}

// One for each that does something else before it writes.
TEST_F(ProductChoices, AreThoseOfAnEpilogue) {
    const Rank rank(file_);
    std::vector<std::byte> before(kMemory);
    for (std::size_t i = 0; i < before.size(); ++i)
        before[i] = static_cast<std::byte>(i % 61);
    rank.driver->write(rank.memory, before);
    ActivatedGemm kept, gone, slope;
    kept.product = gone.product = slope.product = rank.product();
    slope.product.form = GemmForm::input_gradient;
    kept.before = slope.before = {rank.memory + 3072, DType::bf16};
    rank.kernels->prepare(rank.product());
    for (const ActivatedGemm& each : {kept, gone, slope, kept})
        rank.kernels->prepare(each);
    std::vector<std::byte> after(kMemory);
    rank.driver->read(rank.memory, after);
    EXPECT_EQ(std::memcmp(after.data(), before.data(), kMemory), 0);
    EXPECT_EQ(products().searches, 4);
    const nlohmann::json entries = entries_of(file_);
    ASSERT_EQ(entries.size(), 4U);
    EXPECT_FALSE(entries[0].contains("epilogue"));
    EXPECT_EQ(entries[1].at("epilogue"), "gelu_kept");
    EXPECT_EQ(entries[1].at("alignment_beside"), 256);
    EXPECT_EQ(entries[2].at("epilogue"), "gelu");
    EXPECT_EQ(entries[2].at("alignment_beside"), 0);
    EXPECT_EQ(entries[3].at("epilogue"), "gelu_slope");
    products() = {};
    const Rank next(file_);
    next.kernels->prepare(kept);
    next.kernels->prepare(slope);
    next.kernels->activated_gemm(gone);
    EXPECT_EQ(products().several_searched, 0);
}

// Sums that are added to others are another choice, and are made elsewhere first: as aligned as
// they can be.
TEST_F(ProductChoices, AreThoseOfBiasGradients) {
    const Rank rank(file_);
    std::vector<std::byte> before(kMemory);
    for (std::size_t i = 0; i < before.size(); ++i)
        before[i] = static_cast<std::byte>(i % 61);
    rank.driver->write(rank.memory, before);
    BiasGradientGemm overwrites;
    overwrites.product = rank.product();
    overwrites.product.form = GemmForm::weight_gradient;
    overwrites.dbias = {rank.memory + 3072 + 64, DType::bf16};
    BiasGradientGemm adds = overwrites;
    adds.product.accumulate = true;
    rank.kernels->prepare(overwrites.product);
    for (const BiasGradientGemm& each : {overwrites, adds, overwrites})
        rank.kernels->prepare(each);
    std::vector<std::byte> after(kMemory);
    rank.driver->read(rank.memory, after);
    EXPECT_EQ(std::memcmp(after.data(), before.data(), kMemory), 0);
    EXPECT_EQ(products().searches, 3);
    const nlohmann::json entries = entries_of(file_);
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_FALSE(entries[0].contains("epilogue"));
    EXPECT_EQ(entries[1].at("epilogue"), "bias_gradient");
    EXPECT_EQ(entries[1].at("alignment_beside"), 64);
    EXPECT_EQ(entries[2].at("epilogue"), "bias_gradient");
    EXPECT_EQ(entries[2].at("accumulate"), true);
    products() = {};
    const Rank next(file_);
    next.kernels->bias_gradient_gemm(adds);
    next.kernels->prepare(overwrites);
    EXPECT_EQ(products().several_searched, 0);
}

TEST_F(ProductChoices, AreRefusedOfAFileThatIsNone) {
    { Rank(file_).kernels->prepare(Rank(file_).product()); }
    const nlohmann::json whole = nlohmann::json::parse(content(file_));
    const auto with = [&](const char* pointer, const nlohmann::json& value) {
        nlohmann::json changed = whole;
        changed[nlohmann::json::json_pointer(pointer)] = value;
        return changed.dump();
    };
    const std::vector<std::pair<std::string, std::string>> broken = {
        {"", "is no file of product choices"},
        {"{}", "is no file of product choices"},
        {content(file_).substr(0, 200), "is no file of product choices"},
        {with("/format", "orrery profile"), "is no file of product choices"},
        {with("/version", 2), "version 2, where this program reads 1"},
        {with("/id", "so"), "id is not 16 hexadecimal digits"},
        {with("/choices", 1), "choices is no list"},
        {with("/choices/0", 1), "entry 1: is no JSON object"},
        {with("/choices/0/form", "sideways"), "entry 1: unknown form sideways"},
        {with("/choices/0/a", "bf17"), "entry 1: unknown dtype bf17"},
        {with("/choices/0/m", -1), "entry 1: m: -1 is no natural number"},
        {with("/choices/0/bias", 1), "entry 1: bias is neither true nor false"},
        {with("/choices/0/us", -1), "entry 1: us is no time"},
        {with("/choices/0/algorithm", "00"), "entry 1: algorithm is not 128 hexadecimal digits"},
        {with("/choices/1", whole["choices"][0]), "entry 2: a second choice for one product"}};
    for (const auto& [text, why] : broken) {
        write(file_, text);
        try {
            make_cuda_driver(0, {file_});
            ADD_FAILURE() << "taken: " << text;
        } catch (const DataError& error) {
            const std::string message = error.what();
            EXPECT_EQ(message.rfind(file_ + ": ", 0), 0U) << message;
            EXPECT_NE(message.find(why), message.npos) << message << " for " << text;
        }
        EXPECT_EQ(content(file_), text);
    }
}

TEST_F(ProductChoices, AreRefusedWhereCublasLtDoes) {
    { Rank(file_).kernels->prepare(Rank(file_).product()); }
    for (const char* digits : {"77", "01"}) {  // unknown; too much workspace
        nlohmann::json json = nlohmann::json::parse(content(file_));
        json["choices"][0]["algorithm"] = digits + std::string(126, '0');
        write(file_, json.dump());
        const Rank rank(file_);
        try {
            rank.kernels->prepare(rank.product());
            ADD_FAILURE() << digits;
        } catch (const DeviceError& error) {
            EXPECT_EQ(std::string(error.what()).rfind(file_ + ": has an algorithm for a ", 0), 0U)
                << error.what();
        }
    }
}

TEST_F(ProductChoices, NeedAFolderThatIsThere) {
    EXPECT_THROW(make_cuda_driver(0, {testing::TempDir() + "/nowhere/choices.json"}), StorageError);
}

TEST_F(ProductChoices, AreNotAddedToAFileThatWasReplaced) {
    const Rank rank(file_);
    std::string replaced = content(file_);
    const std::size_t id = replaced.find(rank.driver->choices_id());
    ASSERT_NE(id, replaced.npos);
    replaced[id] = replaced[id] == '0' ? '1' : '0';
    write(file_, replaced);
    EXPECT_THROW(rank.kernels->prepare(rank.product()), StorageError);
    EXPECT_EQ(content(file_), replaced);
}

}  // namespace
}  // namespace orrery::runtime
