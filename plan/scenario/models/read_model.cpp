// Models in Hugging Face config.json keys, by the family that model_type names.
#include <filesystem>

#include "plan/scenario/models/family.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

void read_name(Reading& reading, Section& section, Model& model) {
    std::string hugging_face;
    section.text("_name_or_path", hugging_face);
    if (section.text("name", model.name) && !model.name.empty()) return;
    const Source& source = reading.document().source("/model");
    if (!hugging_face.empty()) {
        model.name = hugging_face;
    } else if (source.kind == Source::Kind::file && source.text != reading.document().name()) {
        // A config.json is called by its folder: "org/name/config.json".
        const std::filesystem::path path(source.text);
        model.name = path.filename() == kModelConfig && path.has_parent_path()
                         ? path.parent_path().filename().string()
                         : path.stem().string();
    } else {
        model.name = model.family;
    }
}

}  // namespace

void read_model(Reading& reading, Model& model) {
    Section section(reading, "/model", "model", Section::Null::is_absent);
    if (!section.exists()) return;
    const Family* family = read_family(reading, section);
    if (family == nullptr) {
        reading.mark_bad("/model");  // without its family, no other key can be judged
        return;
    }
    model.family = family->name;
    section.integer("vocab_size", model.vocabulary, kVocabularySizes, Presence::required,
                    "vocabulary");
    read_name(reading, section, model);
    family->read(reading, section, model);
    refuse_unmodelled(reading, section);
    section.finish_tolerant();
    refuse_other_families(reading, section, *family);
}

void write_model(const Model& model, Json& out) {
    for (const Family& family : families())
        if (model.family == family.name) family.write(model, out);
}

}  // namespace orrery::plan
