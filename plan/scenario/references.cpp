#include "plan/scenario/references.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "plan/scenario/suggest.hpp"

namespace orrery::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNames = 8;
constexpr const char* kTopFolder = "scenarios";  // the search upwards ends here

// The folder itself and, when it lies below one called "scenarios", its parents up to that.
std::vector<fs::path> upwards(const std::string& folder, const Files& files) {
    std::vector<fs::path> path = {(fs::path(files.current_folder()) / folder).lexically_normal()};
    if (!path[0].has_filename()) path[0] = path[0].parent_path();
    while (path.back().filename() != kTopFolder) {
        if (path.back() == path.back().parent_path()) return {path[0]};
        path.push_back(path.back().parent_path());
    }
    return path;
}

bool ends_with(const std::string& text, const std::string& end) {
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// "kind/name.json" for each file of the library's folder `kind`, sorted.
std::vector<std::string> library_names(const std::string& kind, const Folders& folders) {
    std::vector<std::string> names;
    for (const std::string& file : folders.files.names((fs::path(folders.library) / kind).string()))
        if (ends_with(file, ".json")) names.push_back(kind + '/' + file);
    return names;
}

// The file of the library that a reference without its folder or its ending means, or one that is
// misspelt; else empty.
std::string meant_file(const std::string& reference, const std::string& kind,
                       const std::vector<std::string>& names) {
    std::string full = fs::path(reference).filename().string();
    if (!ends_with(full, ".json")) full += ".json";
    return nearest(kind + '/' + full, names);
}

}  // namespace

std::string find_file(const std::string& reference, const Source& source, const Folders& folders) {
    const fs::path named(reference);
    if (named.is_absolute()) return folders.files.is_file(reference) ? reference : "";
    const bool set = source.kind == Source::Kind::set;
    const fs::path here = folders.files.current_folder();
    std::vector<fs::path> places = upwards(set ? folders.base : source.folder, folders.files);
    if (set) places.push_back(here);
    places.push_back(here / folders.library);
    for (const fs::path& place : places) {
        std::string path = (place / named).lexically_normal().string();
        if (folders.files.is_file(path)) return path;
    }
    return "";
}

namespace {

// "org/name", as Hugging Face calls its models; paths begin or end otherwise.
bool is_hub_name(const std::string& reference) {
    const std::size_t slash = reference.find('/');
    return slash != std::string::npos && slash > 0 && slash + 1 < reference.size() &&
           reference.find('/', slash + 1) == std::string::npos && reference[0] != '.' &&
           reference[0] != '~' && !ends_with(reference, ".json");
}

// models--org--name/snapshots/<commit>/config.json; the commit is that of refs/main, or the only
// one that is there.
std::string cached_config(const std::string& reference, const Files& files) {
    const std::string hub = files.hugging_face_hub();
    if (hub.empty() || !is_hub_name(reference)) return "";
    std::string folder = "models--" + reference;
    folder.replace(folder.find('/'), 1, "--");
    const fs::path model = fs::path(files.current_folder()) / hub / folder;
    const std::string main = (model / "refs" / "main").string();
    std::string commit, why;
    if (files.is_file(main)) commit = files.read(main, why).value_or("");
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' '))
        commit.pop_back();
    const std::vector<std::string> snapshots = files.names((model / "snapshots").string());
    if (commit.empty() && snapshots.size() == 1) commit = snapshots[0];
    if (commit.empty()) return "";
    std::string path = (model / "snapshots" / commit / kModelConfig).string();
    return files.is_file(path) ? path : "";
}

}  // namespace

std::string find_model_config(const std::string& reference, const Source& source,
                              const Folders& folders) {
    const std::string inside = (fs::path(reference) / kModelConfig).string();
    const std::string path = find_file(inside, source, folders);
    return path.empty() ? cached_config(reference, folders.files) : path;
}

void report_missing_file(Reading& reading, const std::string& pointer, const std::string& reference,
                         const std::string& kind, const Folders& folders) {
    reading.unreadable = true;
    const bool of_hub = kind == "models" && is_hub_name(reference) &&
                        reference.compare(0, kind.size() + 1, kind + '/') != 0;
    const std::vector<std::string> names =
        by_distance(reference, library_names(kind, folders), kMostNames);
    Diagnostic& fault =
        reading.report("S001", pointer, fmt::format("the file {} was not found", reference));
    if (fs::path(reference).is_relative()) {
        const bool set = reading.document().source(pointer).kind == Source::Kind::set;
        fault.note = fmt::format(
            "looked for it beside the {}, in the folders above up to one called "
            "\"scenarios\", {}and in the library",
            set ? "scenario" : "file that names it", set ? "in the current folder " : "");
        if (const std::string hub = folders.files.hugging_face_hub(); of_hub && !hub.empty())
            fault.note += ", and as a model of Hugging Face in " + hub;
    }
    if (of_hub)
        fault.help.push_back("nothing is downloaded: hf download " + reference +
                             " config.json, or name a folder that has its config.json");
    if (names.empty()) {
        fault.help.push_back(fmt::format("the library has no {}", kind));
        return;
    }
    const std::string meant = meant_file(reference, kind, names);
    if (!meant.empty()) fault.help.push_back(fmt::format("did you mean \"{}\"?", meant));
    std::string list;
    for (const std::string& name : names)
        list += (list.empty() ? "" : ", ") + name;
    fault.help.push_back("the library has " + list);
}

std::optional<ParsedJson> parse_file(Reading& reading, const std::string& pointer,
                                     const std::string& reference, const std::string& path,
                                     const Files& files) {
    std::string why;
    const std::optional<std::string> text = files.read(path, why);
    if (!text) {
        reading.unreadable = true;
        reading.report("S001", pointer,
                       fmt::format("the file {} cannot be read: {}", reference, why));
        return std::nullopt;
    }
    ParsedJson parsed = parse_json(*text, reference);
    for (Diagnostic& fault : parsed.errors) {
        fault.origin = "file " + reference;
        reading.errors().push_back(std::move(fault));
    }
    return parsed;
}

void follow_reference(Reading& reading, const std::string& pointer, const std::string& kind,
                      Source::Kind becomes, const Folders& folders) {
    const Json* value = reading.document().find(pointer);
    if (value == nullptr || !value->is_string()) return;
    std::string reference = value->get<std::string>();
    if (becomes == Source::Kind::preset && !ends_with(reference, ".json")) {
        reference = kind + '/' + reference + ".json";
    }
    const Source& source = reading.document().source(pointer);
    std::string path = find_file(reference, source, folders);
    if (path.empty() && kind == "models") {
        path = find_model_config(reference, source, folders);
        if (!path.empty()) reference = (fs::path(reference) / kModelConfig).string();
    }
    if (path.empty()) {
        report_missing_file(reading, pointer, reference, kind, folders);
        return;
    }
    std::optional<ParsedJson> parsed = parse_file(reading, pointer, reference, path, folders.files);
    if (!parsed) return;
    if (parsed->not_json) reading.unreadable = true;
    if (parsed->incomplete) {
        reading.mark_bad(pointer);
        return;
    }
    const std::string folder = fs::path(path).parent_path().string();
    reading.document().put(pointer, std::move(parsed->value), {becomes, reference, folder});
}

}  // namespace orrery::plan
