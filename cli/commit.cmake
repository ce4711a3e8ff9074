# Writes OUTPUT, which says what commit SOURCE is at; "unknown" where it is no working tree of git. Run at each build; the
# file is touched only where it changes.
set(commit "unknown")
if(EXISTS ${SOURCE}/.git)
    execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
        WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE said RESULT_VARIABLE failed ERROR_QUIET
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed EQUAL 0 AND said MATCHES "^[0-9a-f]+(-dirty)?$")
        set(commit ${said})
    endif()
endif()
set(text "// Written by cli/commit.cmake.\nnamespace orrery::cli {\nextern const char* const kCommit;\n")
string(APPEND text "const char* const kCommit = \"${commit}\";\n}\n")
set(before "")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
endif()
