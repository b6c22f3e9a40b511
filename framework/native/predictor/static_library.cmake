# libpaddock.a: the predictor in C with the kernels of all instruction sets, for programs that carry no files along.
#
# It is one object. The kernels of all sets define the same names, inline functions of the C++ library among them, and
# enter themselves into tables when a program starts. So the objects of a set are joined to one whose names are all local
# but for three that get the set's name behind them, and these with all else to one that shows the C interface only:
# nothing is mixed with another set's or the program's, and a linker takes all of it or nothing.
option(PADDOCK_STATIC "Build libpaddock.a, where GNU's linker and objcopy are there" ON)
set(JOIN ${CMAKE_LINKER} -r --force-group-allocation)
set(CAN_JOIN -1)
if(PADDOCK_STATIC AND UNIX AND NOT APPLE AND CMAKE_LINKER AND CMAKE_OBJCOPY AND NOT PADDOCK_SANITIZE)
  execute_process(COMMAND ${CMAKE_LINKER} --help OUTPUT_VARIABLE LINKER_HELP ERROR_QUIET)
  string(FIND "${LINKER_HELP}" force-group-allocation CAN_JOIN)
endif()
if(CAN_JOIN LESS 0)
  return()
endif()

set(STATIC ${CMAKE_CURRENT_BINARY_DIR}/static)
file(MAKE_DIRECTORY ${STATIC})
set(ENTRIES paddock_kernel_table paddock_row_rules paddock_picture_rows)
set(OBJECTS INCLUDE,\\.o$)  # a precompiled header is among the objects of a target too
set(SET_OBJECTS)
set(STATIC_SETS)
foreach(isa ${ISAS})
  file(GENERATE OUTPUT ${STATIC}/${isa}.objects
    CONTENT "$<JOIN:$<FILTER:$<TARGET_OBJECTS:paddock_cpu_${isa}>,${OBJECTS}>,\n>\n")
  set(names)
  foreach(entry ${ENTRIES})
    list(APPEND names --redefine-sym ${entry}=${entry}_${isa} --keep-global-symbol=${entry}_${isa})
  endforeach()
  add_custom_command(OUTPUT ${STATIC}/${isa}.o
    COMMAND ${JOIN} -o ${STATIC}/${isa}.o @${STATIC}/${isa}.objects
    COMMAND ${CMAKE_OBJCOPY} ${names} ${STATIC}/${isa}.o
    DEPENDS paddock_cpu_${isa} ${STATIC}/${isa}.objects VERBATIM)
  list(APPEND SET_OBJECTS ${STATIC}/${isa}.o)
  string(APPEND STATIC_SETS "PADDOCK_SET(${isa})")
endforeach()

# What finds the kernels is another one here.
add_library(paddock_sets OBJECT ${NATIVE}/op/isa.cc)
target_include_directories(paddock_sets PRIVATE ${NATIVE})
target_compile_options(paddock_sets PRIVATE ${WARNINGS})
if(HAS_NO_GNU_UNIQUE)
  target_compile_options(paddock_sets PRIVATE -fno-gnu-unique)
endif()
target_compile_definitions(paddock_sets PRIVATE "PADDOCK_STATIC_SETS=${STATIC_SETS}")

file(GENERATE OUTPUT ${STATIC}/paddock.objects
  CONTENT "$<JOIN:$<FILTER:$<FILTER:$<TARGET_OBJECTS:paddock>,${OBJECTS}>,EXCLUDE,/op/isa\\.cc>,\n>\n$<TARGET_OBJECTS:paddock_sets>\n")
set(LOCAL_NAMES)
foreach(isa ${ISAS})
  foreach(entry ${ENTRIES})
    list(APPEND LOCAL_NAMES --localize-symbol=${entry}_${isa})
  endforeach()
endforeach()
set(ARCHIVE ${CMAKE_CURRENT_BINARY_DIR}/libpaddock.a)
if(PADDOCK_INPLACE)
  set(ARCHIVE ${CMAKE_CURRENT_SOURCE_DIR}/framework/lib/libpaddock.a)
endif()
add_custom_command(OUTPUT ${ARCHIVE}
  COMMAND ${JOIN} -o ${STATIC}/paddock.o @${STATIC}/paddock.objects ${SET_OBJECTS}
  COMMAND ${CMAKE_OBJCOPY} ${LOCAL_NAMES} ${STATIC}/paddock.o
  COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=paddock_* --strip-unneeded ${STATIC}/paddock.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${ARCHIVE}
  COMMAND ${CMAKE_AR} rcs ${ARCHIVE} ${STATIC}/paddock.o
  DEPENDS paddock paddock_sets ${STATIC}/paddock.objects ${SET_OBJECTS} VERBATIM)
add_custom_target(paddock_static ALL DEPENDS ${ARCHIVE})
install(FILES ${ARCHIVE} DESTINATION framework/lib)
