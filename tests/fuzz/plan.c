/* libFuzzer target: plan and engine of the extension, by way of plan.py, which turns each input into a conversion.
 *
 * Coverage comes from the extension, which is built with -fsanitize=fuzzer-no-link; this program supplies the fuzzer,
 * the sanitizers and the interpreter. PYTHON is the interpreter whose packages are used. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static PyObject *convert;

static void give_up(void) {
    PyErr_Print();
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0; /* the fuzzer has its own */
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, PYTHON);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) Py_ExitStatusException(status);
    PyObject *module = PyImport_ImportModule("plan");
    if (!module || !(convert = PyObject_GetAttrString(module, "convert"))) give_up();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    PyObject *result = PyObject_CallFunction(convert, "y#", (const char *)data, (Py_ssize_t)size);
    if (!result) give_up();
    Py_DECREF(result);
    return 0;
}
