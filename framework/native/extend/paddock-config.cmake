# find_package(paddock), with -Dpaddock_DIR=$(python -m framework.extend --cmake). Targets:
#   paddock::predictor  programs in C or C++17 that run exported models (paddock.h, paddock.hpp)
#   paddock::static     the same programs, with all of the library in them
#   paddock::paddock    MODULE libraries of operators in C++20 (paddock/operator.h)
if(NOT TARGET paddock::paddock)
  get_filename_component(_paddock_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  find_library(PADDOCK_LIBRARY paddock PATHS "${_paddock_root}/lib" NO_DEFAULT_PATH REQUIRED)
  foreach(_paddock_target predictor paddock)
    add_library(paddock::${_paddock_target} SHARED IMPORTED)
    set_target_properties(paddock::${_paddock_target} PROPERTIES
      IMPORTED_LOCATION "${PADDOCK_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${_paddock_root}/include")
  endforeach()
  set_property(TARGET paddock::paddock PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_20)
  if(EXISTS "${_paddock_root}/lib/libpaddock.a")
    add_library(paddock::static STATIC IMPORTED)
    set_target_properties(paddock::static PROPERTIES
      IMPORTED_LOCATION "${_paddock_root}/lib/libpaddock.a"
      IMPORTED_LINK_INTERFACE_LANGUAGES CXX
      INTERFACE_INCLUDE_DIRECTORIES "${_paddock_root}/include"
      INTERFACE_LINK_LIBRARIES "-pthread;${CMAKE_DL_LIBS};m")
  endif()
endif()
foreach(_paddock_part ${paddock_FIND_COMPONENTS})
  if(NOT TARGET paddock::${_paddock_part})
    set(paddock_FOUND FALSE)
    set(paddock_NOT_FOUND_MESSAGE "paddock has no part '${_paddock_part}'; it has predictor, static (where it was built) and paddock")
  endif()
endforeach()
