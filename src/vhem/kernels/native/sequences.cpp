#include <nanobind/nanobind.h>
void bind_sequences(nanobind::module_&) {}
