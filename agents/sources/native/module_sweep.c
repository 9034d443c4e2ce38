/* The Python face of what looks at chunks as a whole. */
#include "arguments.h"
#include "sweep.h"

PyObject *py_sweep(PyObject *self, PyObject *args)
{
    PyObject *bytes, *out_of, *result = NULL;
    char *text;
    Py_ssize_t size, count, longest;
    int is_plain, is_utf8;
    Buffers buffers;
    buffers.count = 0;
    if (!PyArg_ParseTuple(args, "SnO:sweep", &bytes, &longest, &out_of) || PyBytes_AsStringAndSize(bytes, &text, &size) < 0)
        return NULL;
    int64_t *out = write_array(&buffers, out_of, 8, 1, 0);
    if (out != NULL) {
        Py_ssize_t room = buffers.locked[0].len / 8;
        Py_BEGIN_ALLOW_THREADS
        count = find_lines((const uint8_t *)text, size, longest, out, room, &is_plain, &is_utf8);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("nNN", count, PyBool_FromLong(is_plain), PyBool_FromLong(is_utf8));
    }
    let_go(&buffers);
    return result;
}

PyObject *py_is_utf8(PyObject *self, PyObject *args)
{
    PyObject *bytes;
    char *text;
    Py_ssize_t size;
    int valid;
    if (!PyArg_ParseTuple(args, "S:is_utf8", &bytes) || PyBytes_AsStringAndSize(bytes, &text, &size) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    valid = is_valid_utf8((const uint8_t *)text, size);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(valid);
}
