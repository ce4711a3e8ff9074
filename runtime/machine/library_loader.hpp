// Shared libraries by name, at run time: a program that names them at link time would not start on
// a machine without them. Tests bring libraries of their own.
#pragma once

#include <memory>
#include <string>

namespace orrery::runtime {

class LoadedLibrary {
  public:
    virtual ~LoadedLibrary() = default;
    virtual std::string path() const = 0;
    virtual void* symbol(const char* name) const = 0;  // null where it has none of that name

    // As a function pointer; null likewise.
    template <typename Function>
    Function* function(const char* name) const {
        return reinterpret_cast<Function*>(symbol(name));
    }
};

class LibraryLoader {
  public:
    virtual ~LibraryLoader() = default;
    // Null where it cannot be loaded; `problem` then says why, unless there is just no such file.
    virtual std::unique_ptr<LoadedLibrary> open(const std::string& file, std::string& problem) = 0;
};

// That of the system (dlopen), by its search path. Libraries stay loaded: unloading those of CUDA
// is known to crash.
class SystemLoader : public LibraryLoader {
  public:
    std::unique_ptr<LoadedLibrary> open(const std::string& file, std::string& problem) override;
};

}  // namespace orrery::runtime
