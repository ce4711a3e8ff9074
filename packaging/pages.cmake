# Manual pages and completions below OUTPUT, as share/ of an installation has them: PROGRAM prints them, by the
# definitions of its own commands.
function(print_to file)
    get_filename_component(folder ${OUTPUT}/${file} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${OUTPUT}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${OUTPUT})
execute_process(COMMAND ${PROGRAM} commands --json OUTPUT_VARIABLE described COMMAND_ERROR_IS_FATAL ANY)
string(JSON count LENGTH "${described}" commands)
math(EXPR last "${count} - 1")
foreach(index RANGE ${last})
    string(JSON command GET "${described}" commands ${index} name)
    print_to(man/man1/orrery-${command}.1 man ${command})
endforeach()
print_to(man/man1/orrery.1 man)
file(WRITE ${OUTPUT}/man/man1/orrery-run.1 ".so man1/orrery.1\n")  # the program behind some of its commands
print_to(bash-completion/completions/orrery completion bash)
print_to(zsh/site-functions/_orrery completion zsh)
print_to(fish/vendor_completions.d/orrery.fish completion fish)
