# cmake -D SOURCES=A;B -D BUILD=Release -D OUTPUT=FILE -P timed_sources.cmake: writes FILE, which defines
# orrery::fit::timed_sources (calib/fit/this_machine.hpp), a digest of the sources and of how they are built.
set(all "${BUILD}\n")
foreach(source IN LISTS SOURCES)
    file(SHA256 ${source} digest)
    string(APPEND all "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${OUTPUT} "namespace orrery::fit {
extern const char* const timed_sources;
const char* const timed_sources = \"${digest}\";
}  // namespace orrery::fit
")
