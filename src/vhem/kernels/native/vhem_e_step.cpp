#include <nanobind/nanobind.h>
void bind_vhem(nanobind::module_&) {}
