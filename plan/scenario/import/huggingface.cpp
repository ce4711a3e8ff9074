#include "plan/scenario/import/huggingface.hpp"

#include <fmt/format.h>

namespace orrery::plan::imports {
namespace {

Diagnostic fault_at(const char* code, const std::string& file, const std::string& message) {
    Diagnostic fault;
    fault.code = code;
    fault.file = file;
    fault.message = message;
    return fault;
}

}  // namespace

bool is_model_config_text(std::string_view text) {
    const ParsedJson parsed = parse_json(text, "");
    return !parsed.incomplete && parsed.value.is_object() &&
           (parsed.value.contains("model_type") || parsed.value.contains("architectures"));
}

Imported import_huggingface(std::string_view text, const std::string& file, const Wishes& wishes) {
    Imported out;
    ParsedJson parsed = parse_json(text, file);
    out.errors = std::move(parsed.errors);
    out.unreadable = parsed.not_json;
    if (parsed.incomplete) return out;
    if (!parsed.value.is_object()) {
        out.errors.push_back(fault_at("I001", file, "a model's config is a JSON object"));
        out.unreadable = true;
        return out;
    }
    if (!wishes.model.empty()) {
        out.errors.push_back(fault_at("I004", file, "this is a model itself, and --model another"));
        return out;
    }
    // Read as it is by the reader of scenarios, which refuses what it does not model.
    out.scenario["model"] = wishes.file.empty() ? parsed.value : Json(wishes.file);
    out.mapped.push_back({"the whole file", "model", out.scenario["model"], false, ""});
    const Json most = parsed.value.value("max_position_embeddings", Json());
    out.missing.push_back({"layout.global_batch_size", "a model's config does not say it", ""});
    out.missing.push_back(
        {"training.sequence_length",
         fmt::format("a model's config does not say it{}",
                     most.is_number_integer()
                         ? fmt::format("; max_position_embeddings is {}", most.dump())
                         : ""),
         ""});
    out.scenario["layout"] = Json::object();
    out.scenario["training"] = Json::object();
    return out;
}

}  // namespace orrery::plan::imports
