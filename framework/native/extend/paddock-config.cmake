# find_package(paddock) for libraries of operators: link a MODULE library with paddock::paddock.
#   cmake -Dpaddock_DIR=$(python -m framework.extend --cmake) ...
if(NOT TARGET paddock::paddock)
  get_filename_component(_paddock_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  find_library(PADDOCK_LIBRARY paddock PATHS "${_paddock_root}/lib" NO_DEFAULT_PATH REQUIRED)
  add_library(paddock::paddock SHARED IMPORTED)
  set_target_properties(paddock::paddock PROPERTIES
    IMPORTED_LOCATION "${PADDOCK_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${_paddock_root}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
