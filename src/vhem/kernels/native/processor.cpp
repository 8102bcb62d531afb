// Which of the compiled modules suits this processor. A module of its own, compiled for any processor: the others may not even
// be loaded before it was asked. (nanobind's functions would make it a hundred times as large.)
#include <Python.h>

#include "instruction_set.hpp"

namespace {

PyObject* answer(PyObject*, PyObject*) { return PyUnicode_FromString(best_instruction_set()); }

PyMethodDef functions[] = {{"best_instruction_set", answer, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyModuleDef_Slot slots[] = {
#if defined(Py_GIL_DISABLED)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_processor", nullptr, 0, functions, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__processor() { return PyModuleDef_Init(&definition); }
