#include "runtime/topology/kernel_file.hpp"

#include <algorithm>
#include <fstream>

namespace orrery::runtime {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
    std::vector<fs::path> paths;
    std::error_code missing;
    for (fs::directory_iterator at(folder, missing), end; !missing && at != end;
         at.increment(missing))
        paths.push_back(at->path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

}  // namespace orrery::runtime
