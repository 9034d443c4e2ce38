/* The Python face of what takes lines apart: takes buffers, checks what the kernels rely on, lets other threads run
 * meanwhile. Types and meanings are in __init__.py. */
#include <stdlib.h>

#include "arguments.h"
#include "layout.h"

#define PROGRAMS_MAX 256

/* Programs of Python, decoded. */
typedef struct {
    Py_ssize_t count;
    Program programs[PROGRAMS_MAX];
} Programs;

static void close_programs(Programs *programs)
{
    for (Py_ssize_t i = 0; i < programs->count; i++)
        close_program(&programs->programs[i]);
}

/* 0, or -1 with an exception; in any case there is something to close. */
static int open_programs(Programs *programs, PyObject *sequence, Py_ssize_t outputs)
{
    Py_ssize_t count = PySequence_Size(sequence);
    programs->count = 0;
    if (count < 0)
        return -1;
    if (count < 1 || count > PROGRAMS_MAX) {
        PyErr_Format(PyExc_ValueError, "there have to be 1 to %d programs", PROGRAMS_MAX);
        return -1;
    }
    while (programs->count < count) {
        PyObject *item = PySequence_GetItem(sequence, programs->count);
        char *bytes;
        Py_ssize_t size;
        int opened = BAD;
        if (item != NULL && PyBytes_AsStringAndSize(item, &bytes, &size) == 0) {
            opened = open_program(&programs->programs[programs->count], (const uint8_t *)bytes, (size_t)size, outputs);
            programs->count++;
        }
        Py_XDECREF(item);
        if (opened == DONE)
            continue;
        if (opened == NO_MEMORY)
            PyErr_NoMemory();
        else if (!PyErr_Occurred())
            refused("this is not a program for these outputs");
        return -1;
    }
    return 0;
}

static PyObject *py_take_apart(PyObject *self, PyObject *args)
{
    PyObject *programs_of, *bytes, *ends_of, *spans_of, *times, *layouts, *misfits, *result = NULL;
    if (!PyArg_ParseTuple(args, "OSOOOOO:take_apart", &programs_of, &bytes, &ends_of, &spans_of, &times, &layouts,
                          &misfits))
        return NULL;
    Block block;
    Buffers buffers;
    int32_t *spans[BUFFERS_MAX];
    Outputs out = {.spans = spans};
    Py_ssize_t lines;
    buffers.count = 0;
    Programs *programs = malloc(sizeof *programs);
    if (programs == NULL)
        return PyErr_NoMemory();
    programs->count = 0;
    const int64_t *ends = read_block(bytes, &block) < 0 ? NULL : read_array(&buffers, ends_of, 8, 1, &lines);
    if (ends != NULL && (out.span_count = write_spans(&buffers, spans_of, lines, spans)) >= 0 &&
        (out.times = write_array(&buffers, times, 8, 1, lines)) != NULL &&
        (out.layouts = write_array(&buffers, layouts, 1, 1, lines)) != NULL &&
        (out.misfits = write_array(&buffers, misfits, 4, MISFIT_NUMBERS, lines)) != NULL &&
        open_programs(programs, programs_of, out.span_count) == 0) {
        Py_ssize_t fitting, unfit;
        int done;
        Py_BEGIN_ALLOW_THREADS
        done = take_apart(programs->programs, programs->count, &block, ends, lines, &out, &fitting, &unfit);
        Py_END_ALLOW_THREADS
        result = counts_of_lines(done, fitting, unfit);
    }
    close_programs(programs);
    free(programs);
    let_go(&buffers);
    return result;
}

static PyMethodDef methods[] = {
    {"take_apart", py_take_apart, METH_VARARGS, NULL},
    {"pairs", py_pairs, METH_VARARGS, NULL},
    {"integers", py_integers, METH_VARARGS, NULL},
    {"decimals", py_decimals, METH_VARARGS, NULL},
    {"requests", py_requests, METH_VARARGS, NULL},
    {"uris", py_uris, METH_VARARGS, NULL},
    {"gather", py_gather, METH_VARARGS, NULL},
    {"read_objects", py_read_objects, METH_VARARGS, NULL},
    {"object_integers", py_object_integers, METH_VARARGS, NULL},
    {"object_decimals", py_object_decimals, METH_VARARGS, NULL},
    {"object_booleans", py_object_booleans, METH_VARARGS, NULL},
    {"object_times", py_object_times, METH_VARARGS, NULL},
    {"object_texts", py_object_texts, METH_VARARGS, NULL},
    {"object_codes", py_object_codes, METH_VARARGS, NULL},
    {"look_up", py_look_up, METH_VARARGS, NULL},
    {"fill_slots", py_fill_slots, METH_VARARGS, NULL},
    {"sweep", py_sweep, METH_VARARGS, NULL},
    {"is_utf8", py_is_utf8, METH_VARARGS, NULL},
    {"records", py_records, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "elf.agents.sources.native._kernels", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&module);
}
