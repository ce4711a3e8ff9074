#include "plan/scenario/references.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "plan/scenario/suggest.hpp"

namespace orrery::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile_bytes = 64u << 20;
constexpr std::size_t kMostNames = 8;
constexpr const char* kTopFolder = "scenarios";  // the search upwards ends here

bool is_readable_file(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored) && !fs::is_directory(path, ignored);
}

// The folder itself and, when it lies below one called "scenarios", its parents up to that.
std::vector<fs::path> upwards(const std::string& folder) {
    std::error_code ignored;
    std::vector<fs::path> path = {fs::absolute(folder.empty() ? "." : folder, ignored)};
    path[0] = path[0].lexically_normal();
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
    std::error_code error;
    for (fs::directory_iterator it(fs::path(folders.library) / kind, error), end;
         !error && it != end; it.increment(error)) {
        const std::string file = it->path().filename().string();
        if (ends_with(file, ".json")) names.push_back(kind + '/' + file);
    }
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

std::optional<std::string> read_file(const std::string& path, std::string& why) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
        why = "it is a folder";
        return std::nullopt;
    }
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        why = errno == 0 ? "it cannot be opened" : std::strerror(errno);
        return std::nullopt;
    }
    std::string text;
    char block[1 << 16];
    while (file.read(block, sizeof block) || file.gcount() > 0) {
        text.append(block, static_cast<std::size_t>(file.gcount()));
        if (text.size() > kLargestFile_bytes) {
            why = "it is larger than 64 MiB";
            return std::nullopt;
        }
    }
    if (file.bad()) {
        why = "reading it failed";
        return std::nullopt;
    }
    return text;
}

std::string find_file(const std::string& reference, const Source& source, const Folders& folders) {
    const fs::path named(reference);
    if (named.is_absolute()) return is_readable_file(named) ? named.string() : "";
    const bool set = source.kind == Source::Kind::set;
    std::vector<fs::path> places = upwards(set ? folders.base : source.folder);
    std::error_code ignored;
    if (set) places.push_back(fs::current_path(ignored));
    places.push_back(fs::absolute(folders.library, ignored));
    for (const fs::path& place : places) {
        const fs::path path = (place / named).lexically_normal();
        if (is_readable_file(path)) return path.string();
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
    std::string list;
    for (const std::string& name : names)
        list += (list.empty() ? "" : ", ") + name;
    fault.help.push_back("the library has " + list);
}

std::optional<ParsedJson> parse_file(Reading& reading, const std::string& pointer,
                                     const std::string& reference, const std::string& path) {
    std::string why;
    const std::optional<std::string> text = read_file(path, why);
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
    std::optional<ParsedJson> parsed = parse_file(reading, pointer, reference, path);
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
