# Run by cpack on the tree that becomes the package.
file(GLOB_RECURSE programs LIST_DIRECTORIES false ${CPACK_TEMPORARY_DIRECTORY}/orrery*)
list(FILTER programs INCLUDE REGEX "/usr/bin/orrery[a-z-]*$")
foreach(program IN LISTS programs)
    file(RPATH_REMOVE FILE ${program})  # its libraries are where the loader looks
    get_filename_component(prefix ${program} DIRECTORY)
    get_filename_component(prefix ${prefix} DIRECTORY)
endforeach()
if(NOT prefix)
    message(FATAL_ERROR "no program below ${CPACK_TEMPORARY_DIRECTORY}")
endif()
set(share ${prefix}/share)

file(MAKE_DIRECTORY ${share}/zsh/vendor-completions)  # where Debian's zsh looks
file(RENAME ${share}/zsh/site-functions/_orrery ${share}/zsh/vendor-completions/_orrery)
file(REMOVE_RECURSE ${share}/zsh/site-functions)

set(docs ${share}/doc/orrery)
file(COPY ${CPACK_ORRERY_SOURCE}/packaging/copyright DESTINATION ${docs})
file(REMOVE ${docs}/LICENSE)  # copyright names it
file(RENAME ${docs}/CHANGELOG.md ${docs}/changelog)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, where it is set
file(WRITE ${docs}/changelog.Debian
    "orrery (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
    "  * As built from source; what changed is in changelog.gz.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
file(GLOB pages ${share}/man/man1/*.1)
execute_process(COMMAND gzip -9nf ${pages} ${docs}/changelog ${docs}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
