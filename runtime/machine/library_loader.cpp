#include "runtime/machine/library_loader.hpp"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace orrery::runtime {
namespace {

class SystemLibrary : public LoadedLibrary {
  public:
    explicit SystemLibrary(void* handle) : handle_(handle) {}

    std::string path() const override {
        link_map* map = nullptr;
        if (dlinfo(handle_, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) return "";
        std::error_code ignored;
        const auto resolved = std::filesystem::canonical(map->l_name, ignored);
        return ignored ? map->l_name : resolved.string();
    }

    void* symbol(const char* name) const override { return dlsym(handle_, name); }

  private:
    void* handle_;
};

}  // namespace

std::unique_ptr<LoadedLibrary> SystemLoader::open(const std::string& file, std::string& problem) {
    void* handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle != nullptr) return std::make_unique<SystemLibrary>(handle);
    const char* error = dlerror();
    const std::string text = error == nullptr ? "" : error;
    // The message begins with the file that is missing: this one, or one that it needs.
    if (text.rfind(file + ": cannot open", 0) != 0) problem = text;
    return nullptr;
}

}  // namespace orrery::runtime
