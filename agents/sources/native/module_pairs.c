/* The Python face of what takes lines of names and values apart. */
#include "arguments.h"
#include "pairs.h"

/* The names, and of each an array of places with room for so many rows; how many they are, or -1 with an exception. The
 * names have to be held. */
static Py_ssize_t lock_names(Buffers *buffers, PyObject *names_of, PyObject *spans_of, Py_ssize_t rows, Name *names,
                             int32_t **spans)
{
    Py_ssize_t count = PyTuple_Check(names_of) ? PyTuple_Size(names_of) : -1;
    if (count < 0 || count > BUFFERS_MAX - 2) {
        refused("names have to be a tuple of not too many");
        return -1;
    }
    if (PySequence_Size(spans_of) != count) {
        if (!PyErr_Occurred())
            refused("there have to be places for each name");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        char *bytes;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names_of, i), &bytes, &size) < 0)
            return -1;
        names[i] = (Name){(const uint8_t *)bytes, (size_t)size};
    }
    return write_spans(buffers, spans_of, rows, spans);
}

PyObject *py_pairs(PyObject *self, PyObject *args)
{
    int style;
    PyObject *names_of, *bytes, *ends_of, *spans_of, *misfits;
    if (!PyArg_ParseTuple(args, "iOSOOO:pairs", &style, &names_of, &bytes, &ends_of, &spans_of, &misfits))
        return NULL;
    if (style < LTSV || style >= STYLES)
        return refused("there is no such style of pairs");
    Block block;
    Buffers buffers;
    Name names[BUFFERS_MAX];
    int32_t *spans[BUFFERS_MAX];
    Pairs out = {.names = names, .spans = spans};
    Py_ssize_t lines, fitting, unfit;
    PyObject *result = NULL;
    buffers.count = 0;
    const int64_t *ends = read_block(bytes, &block) < 0 ? NULL : read_array(&buffers, ends_of, 8, 1, &lines);
    if (ends != NULL && (out.count = lock_names(&buffers, names_of, spans_of, lines, names, spans)) >= 0 &&
        (out.misfits = write_array(&buffers, misfits, 4, 2, lines)) != NULL) {
        int done;
        Py_BEGIN_ALLOW_THREADS
        done = take_pairs(style, &block, ends, lines, &out, &fitting, &unfit);
        Py_END_ALLOW_THREADS
        result = counts_of_lines(done, fitting, unfit);
    }
    let_go(&buffers);
    return result;
}
