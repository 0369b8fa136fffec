# Stands in for ESP-IDF's tools/cmake/project.cmake, which no package index has: components as static libraries, with the
# flags that ESP-IDF gives every C file.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
cmake_policy(SET CMP0079 NEW)

function(idf_component_register)
  cmake_parse_arguments(given "" "" "SRCS;INCLUDE_DIRS;PRIV_INCLUDE_DIRS;REQUIRES;PRIV_REQUIRES" ${ARGN})
  get_filename_component(name ${CMAKE_CURRENT_LIST_DIR} NAME)
  set(COMPONENT_LIB __idf_${name})
  add_library(${COMPONENT_LIB} STATIC ${given_SRCS})
  target_compile_options(${COMPONENT_LIB} PRIVATE ${COLIBRI_CPU}
    $<$<COMPILE_LANGUAGE:C>:-Og -std=gnu17 -ffunction-sections -fdata-sections -Wall -Werror=all -Wextra -fno-jump-tables
    -Wno-unused-parameter -Wno-sign-compare -Wno-enum-conversion -Wno-error=unused-function -gdwarf-4>)
  target_include_directories(${COMPONENT_LIB} PUBLIC ${given_INCLUDE_DIRS} PRIVATE ${given_PRIV_INCLUDE_DIRS})
  target_include_directories(${COMPONENT_LIB} SYSTEM PRIVATE ${COLIBRI_LIBC})
  set(COMPONENT_LIB ${COMPONENT_LIB} PARENT_SCOPE)
  set_property(GLOBAL APPEND PROPERTY components ${COMPONENT_LIB})
endfunction()

macro(project name)
  _project(${name} C ASM)
  include(${COLIBRI_CONFIG})
  add_subdirectory(${COLIBRI_COMPONENT} component)
  add_subdirectory(main)
  get_property(all GLOBAL PROPERTY components)
  list(REMOVE_ITEM all __idf_main)
  target_link_libraries(__idf_main PUBLIC ${all}) # main requires every component
endmacro()
