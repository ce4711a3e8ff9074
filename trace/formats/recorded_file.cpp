#include "trace/formats/recorded_file.hpp"

#include <sys/stat.h>

#include <fmt/format.h>

#include "trace/formats/chakra.hpp"
#include "trace/formats/kineto.hpp"
#include "trace/formats/nsys.hpp"
#include "trace/formats/sqlite_database.hpp"

namespace orrery::trace {
namespace {

[[noreturn]] void say_how_to_export(const std::string& path) {
    const std::string base = path.substr(0, path.rfind('.'));
    throw TraceFileError(TraceFault::unreadable, path,
                         fmt::format("a report that only Nsight Systems reads; this exports it: "
                                     "nsys export --type sqlite --output {}.sqlite {}",
                                     base, path));
}

}  // namespace

std::vector<RecordedTrace> read_recorded(const std::string& path) {
    if (begins_as_sqlite(path)) return read_nsys(path);
    struct stat status {};
    if (is_nsys_report_name(path) && ::stat(path.c_str(), &status) == 0) say_how_to_export(path);
    std::vector<RecordedTrace> traces;
    traces.push_back(is_chakra_name(path) ? read_chakra(path) : read_kineto(path, true));
    return traces;
}

}  // namespace orrery::trace
