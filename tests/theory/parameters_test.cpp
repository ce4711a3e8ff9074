// Every shipped model has as many parameters as its authors published, as the closed form of its
// family gives from the keys of its file, and as its own "source" says; and it builds a plan, which
// counts them again from its buckets.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/theory/theory_scenarios.hpp"

namespace orrery::theory {
namespace ORRERY_TEST_FILE {

namespace fs = std::filesystem;
using nlohmann::json;

// As Hugging Face counts the stored weights (a tied table once), or as the papers print them.
const std::map<std::string, std::int64_t> kPublished = {
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"llama-7b", 6'738'415'616},
    {"llama-13b", 13'015'864'320},
    {"llama-33b", 32'528'943'616},
    {"llama-65b", 65'285'660'672},
    {"llama2-7b", 6'738'415'616},
    {"llama2-13b", 13'015'864'320},
    {"llama2-70b", 68'976'648'192},
    {"llama3-8b", 8'030'261'248},
    {"llama3-70b", 70'553'706'496},
    {"llama3.1-405b", 405'853'388'800},
    {"llama3.2-1b", 1'235'814'400},
    {"mistral-7b", 7'241'732'096},
    {"mistral-nemo-12b", 12'247'782'400},
    {"mistral-large-123b", 122'610'069'504},
    {"qwen2.5-0.5b", 494'032'768},
    {"qwen2.5-1.5b", 1'543'714'304},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen2.5-14b", 14'770'033'664},
    {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},
    {"gemma-2b", 2'506'172'416},
    {"gemma-7b", 8'537'680'896},
    {"gemma2-9b", 9'241'705'984},
    {"gemma3-1b", 999'885'952},
    {"olmo2-7b", 7'298'617'344},
    {"phi3-mini-4k", 3'821'079'552},
    {"deepseek-v2-lite", 15'706'484'224},
    {"deepseek-v2", 235'741'434'880},
    {"deepseek-v3", 671'026'404'352 + 11'610'067'968},
    {"kimi-k2", 1'026'408'209'408},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-8b", 8'190'735'360},
    {"opt-125m", 125'239'296},
    {"opt-1.3b", 1'315'758'080},
    {"opt-6.7b", 6'658'473'984},
    {"opt-13b", 12'853'473'280},
    {"bloom-560m", 559'214'592},
    {"bloom-7b1", 7'069'016'064},
    {"bloom-176b", 176'247'271'424},
    {"falcon-7b", 6'921'720'704},
    {"falcon-40b", 41'303'293'952},
    {"pythia-410m", 405'334'016},
    {"pythia-1.4b", 1'414'647'808},
    {"pythia-6.9b", 6'857'302'016},
    {"pythia-12b", 11'846'072'320},
    {"gpt-neox-20b", 20'554'567'680},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'630'071'296},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen1.5-moe-a2.7b", 14'315'784'192},
    {"qwen2-57b-a14b", 57'408'658'944},
    {"qwen3-235b-a22b", 235'093'634'560},
};

// In billions, to the digits that the papers print (Narayanan et al. 2021, table 1; Brown et al.
// 2020, table 2.1; Zhang et al. 2022; Almazrouei et al. 2023; xAI 2024).
const std::map<std::string, std::pair<double, double>> kRounded = {
    {"megatron-1.7b", {1.7, 0.05}},
    {"megatron-3.6b", {3.6, 0.05}},
    {"megatron-7.5b", {7.5, 0.05}},
    {"megatron-18b", {18.4, 0.05}},
    {"megatron-39b", {39.1, 0.05}},
    {"megatron-76b", {76.1, 0.05}},
    {"megatron-145b", {145.6, 0.05}},
    {"megatron-310b", {310.1, 0.05}},
    {"megatron-530b", {529.6, 0.05}},
    {"megatron-1t", {1008.0, 0.05}},
    {"gpt3-1.3b", {1.3, 0.05}},
    {"gpt3-6.7b", {6.7, 0.05}},
    {"gpt3-13b", {13.0, 0.2}},
    {"gpt3-175b", {175, 0.5}},
    {"opt-66b", {66, 0.5}},
    {"opt-175b", {175, 0.5}},
    {"falcon-180b", {180, 1.5}},
    {"falcon2-11b", {11, 0.2}},
    {"grok-1", {314, 2}},
    {"llama4-scout", {107.770, 0.0005}},
    {"llama4-maverick", {400.712, 0.0005}},
};

std::vector<fs::path> shipped() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(fs::path(library()) / "models"))
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    return files;
}

json content(const fs::path& path) {
    std::ifstream file(path);
    return json::parse(file);
}

// 12h² + 13h per layer (two norms of 2h, 4h² + 4h of attention, 8h² + 5h of MLP), a final norm.
std::int64_t gpt_layers(std::int64_t layers, std::int64_t h) {
    return layers * (12 * h * h + 13 * h) + 2 * h;
}

// Of an MLP, or of a router and its experts.
std::int64_t mlp_matrices(const json& m) {
    const std::int64_t h = m["hidden_size"];
    const std::int64_t experts =
        m.value("num_local_experts", m.value("num_experts", std::int64_t{0}));
    const std::int64_t ffn =
        m.value("moe_intermediate_size", m["intermediate_size"].get<std::int64_t>());
    // What every token goes through beside them, and the vector that weighs it (Qwen2-MoE).
    const std::int64_t shared = m.value("shared_expert_intermediate_size", std::int64_t{0});
    const std::int64_t beside = shared > 0 ? 3 * h * shared + h : 0;
    return experts > 0 ? experts * (h + 3 * h * ffn) + beside : 3 * h * ffn;
}

// Three matrices of the MLP, two RMSNorms, grouped queries with heads of d; a final norm.
std::int64_t llama_layers(const json& m, std::int64_t d, std::int64_t bias_per_head) {
    const std::int64_t h = m["hidden_size"];
    const std::int64_t q = m["num_attention_heads"].get<std::int64_t>() * d;
    const std::int64_t qkv = q + 2 * m["num_key_value_heads"].get<std::int64_t>() * d;
    return m["num_hidden_layers"].get<std::int64_t>() *
               (h * qkv + bias_per_head * qkv + q * h + mlp_matrices(m) + 2 * h) +
           h;
}

// Attention and an MLP of 8h² without biases, behind `norms` LayerNorms.
std::int64_t falcon_layers(const json& m) {
    const std::int64_t h = m["hidden_size"];
    const std::int64_t heads = m["num_attention_heads"];
    const bool newer = m["new_decoder_architecture"];
    const std::int64_t kv = newer ? m["num_kv_heads"].get<std::int64_t>() : 1;
    const std::int64_t norms = newer ? m.value("num_ln_in_parallel_attn", 2) : 1;
    return m["num_hidden_layers"].get<std::int64_t>() *
               (h * (heads + 2 * kv) * (h / heads) + 9 * h * h + 2 * norms * h) +
           2 * h;
}

// What layers have beside those of a Llama: norms behind the branches, of heads, of whole rows.
std::int64_t more_norms(const json& m, std::int64_t head_dim) {
    const std::string family = m["model_type"];
    const std::int64_t h = m["hidden_size"], heads = m["num_attention_heads"];
    std::int64_t each = 0;
    if (family == "gemma2" || family == "gemma3_text" || family == "grok-1") each += 2 * h;
    if (family == "qwen3" || family == "qwen3_moe" || family == "gemma3_text") each += 2 * head_dim;
    if (family == "olmo2")
        each += (heads + m["num_key_value_heads"].get<std::int64_t>()) * head_dim;
    return m["num_hidden_layers"].get<std::int64_t>() * each;
}

// Latents, their norms and what they are multiplied to; dense layers first, then experts with a
// router and some that every token goes through (arXiv 2405.04434, section 2).
std::int64_t deepseek_layers(const json& m) {
    const auto of = [&](const char* key) { return m[key].get<std::int64_t>(); };
    const std::int64_t h = of("hidden_size"), heads = of("num_attention_heads");
    const std::int64_t plain = of("qk_nope_head_dim"), turned = of("qk_rope_head_dim"),
                       value = of("v_head_dim"), kv = of("kv_lora_rank");
    const std::int64_t queries = heads * (plain + turned);
    const std::int64_t q =
        m["q_lora_rank"].is_null() ? h * queries : of("q_lora_rank") * (h + 1 + queries);
    const std::int64_t attention =
        q + h * (kv + turned) + kv + kv * heads * (plain + value) + heads * value * h;
    const std::int64_t expert = 3 * h * of("moe_intermediate_size"),
                       dense = of("first_k_dense_replace");
    const std::int64_t mixture =
        of("n_routed_experts") * (h + expert) + of("n_shared_experts") * expert;
    // A further token: a layer, three norms, two states to one.
    const std::int64_t further = m.value("num_nextn_predict_layers", std::int64_t{0}) *
                                 (attention + 2 * h + mixture + 3 * h + 2 * h * h);
    return of("num_hidden_layers") * (attention + 2 * h) + dense * 3 * h * of("intermediate_size") +
           (of("num_hidden_layers") - dense) * mixture + h + further;
}

// Biases of all linears, a sink for each head; of experts, and of the router, too.
std::int64_t gpt_oss_layers(const json& m) {
    const std::int64_t h = m["hidden_size"], d = m["head_dim"], f = m["intermediate_size"];
    const std::int64_t heads = m["num_attention_heads"], kv = m["num_key_value_heads"];
    const std::int64_t qkv = (heads + 2 * kv) * d, experts = m["num_local_experts"];
    const std::int64_t attention = qkv * (h + 1) + (heads * d + 1) * h + heads;
    const std::int64_t expert = 2 * f * (h + 1) + h * (f + 1);
    return m["num_hidden_layers"].get<std::int64_t>() *
               (attention + experts * (h + 1 + expert) + 2 * h) +
           h;
}

// Every n-th layer has experts and one that every token goes through, as wide as each of them.
std::int64_t llama4_layers(const json& m) {
    const std::int64_t h = m["hidden_size"], d = m["head_dim"], f = m["intermediate_size"];
    const std::int64_t heads = m["num_attention_heads"], kv = m["num_key_value_heads"];
    const std::int64_t layers = m["num_hidden_layers"], experts = m["num_local_experts"];
    const std::int64_t mixed = layers / m["interleave_moe_layer_step"].get<std::int64_t>();
    return layers * (h * (2 * heads + 2 * kv) * d + 2 * h) +
           mixed * (experts * (h + 3 * h * f) + 3 * h * f) +
           (layers - mixed) * 3 * h * m["intermediate_size_mlp"].get<std::int64_t>() + h;
}

std::int64_t closed_form(const json& m) {
    const std::string family = m["model_type"];
    const std::int64_t vocabulary = m["vocab_size"];
    if (family == "gpt2") {
        const std::int64_t h = m["n_embd"];
        return gpt_layers(m["n_layer"], h) + (vocabulary + m["n_positions"].get<int>()) * h;
    }
    const std::int64_t h = m["hidden_size"];
    const std::int64_t tables = (m["tie_word_embeddings"].get<bool>() ? 1 : 2) * vocabulary * h;
    if (family == "bloom") return gpt_layers(m["n_layer"], h) + tables + 2 * h;
    if (family == "opt")
        return gpt_layers(m["num_hidden_layers"], h) + tables +
               (m["max_position_embeddings"].get<int>() + 2) * h;
    if (family == "gpt_neox") return gpt_layers(m["num_hidden_layers"], h) + tables;
    if (family == "falcon") return falcon_layers(m) + tables;
    if (family == "gpt_oss") return gpt_oss_layers(m) + tables;
    if (family == "llama4_text") return llama4_layers(m) + tables;
    if (family.starts_with("deepseek")) return deepseek_layers(m) + tables;
    const std::int64_t heads = m["num_attention_heads"];
    const std::int64_t head_dim = m.value("head_dim", h / heads);
    const bool biased = family == "qwen2" || family == "qwen2_moe";
    return llama_layers(m, head_dim, biased ? 1 : 0) + more_norms(m, head_dim) + tables;
}

// "… ; 124,439,808 parameters"
std::int64_t claimed(const std::string& source) {
    const std::size_t end = source.find(" parameters");
    if (end == std::string::npos) return 0;
    std::size_t begin = end;
    while (begin > 0 && (source[begin - 1] == ',' || std::isdigit(source[begin - 1]) != 0))
        --begin;
    std::int64_t number = 0;
    for (std::size_t i = begin; i < end; ++i)
        if (source[i] != ',') number = 10 * number + (source[i] - '0');
    return number;
}

class ShippedModel : public testing::TestWithParam<fs::path> {};

TEST_P(ShippedModel, HasThePublishedParametersAndAPlan) {
    const json file = content(GetParam());
    const std::string name = GetParam().stem().string();
    EXPECT_EQ(file["name"], name);
    const plan::Scenario asked =
        scenario({"model=models/" + GetParam().filename().string(),
                  "training.framework=megatron-2021", "training.sequence_length=128"});
    ASSERT_EQ(asked.model.name, name);
    const plan::Plan plan = plan::build_plan(asked);  // which holds its buckets against the count
    const std::int64_t parameters = plan.conserved.parameters;
    EXPECT_EQ(parameters, closed_form(file));
    const std::int64_t stated = claimed(file["source"]);
    if (stated != 0) {
        EXPECT_EQ(parameters, stated);
    }
    if (const auto exact = kPublished.find(name); exact != kPublished.end()) {
        EXPECT_EQ(parameters, exact->second);
    } else if (const auto rounded = kRounded.find(name); rounded != kRounded.end()) {
        EXPECT_NEAR(static_cast<double>(parameters) / 1e9, rounded->second.first,
                    rounded->second.second);
    } else {
        EXPECT_TRUE(name == "tiny-gpt" || name == "tiny-moe")
            << "a model without a published count";
    }
}

INSTANTIATE_TEST_SUITE_P(Library, ShippedModel, testing::ValuesIn(shipped()),
                         [](const auto& tested) {
                             std::string name = tested.param.stem().string();
                             for (char& c : name)
                                 if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                             return name;
                         });

TEST(ShippedModels, CoverTheField) {
    std::map<std::string, int> by_family;
    for (const fs::path& path : shipped())
        ++by_family[content(path)["model_type"]];
    for (const char* family :
         {"gpt2", "llama", "qwen2", "mistral", "gemma", "opt", "bloom", "falcon", "gpt_neox"})
        EXPECT_GE(by_family[family], 2) << family;
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::theory
