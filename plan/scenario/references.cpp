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

void report_missing_file(Reading& reading, const std::string& pointer, const std::string& reference,
                         const std::string& kind, const Folders& folders) {
    reading.unreadable = true;
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
    }
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
    const std::string path = find_file(reference, reading.document().source(pointer), folders);
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
