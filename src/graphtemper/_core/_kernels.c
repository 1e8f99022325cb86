/* Loops that NumPy and SciPy cannot fuse: sparse product, binned statistics, temperature.
 *
 * Every function computes a block of rows and releases the interpreter lock, so that callers run
 * blocks on several threads. Sums have a fixed order: the result depends neither on the number of
 * threads nor on the vector instructions of the processor. Compile with -ffp-contract=off; a fused
 * multiply-add would round differently. `graphtemper._core.compiled` loads this module.
 *
 * Nothing here trusts its input: types, shapes, row pointers, indices and labels are checked.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Raise it with any change of a signature or of a result; compiled.py refuses other versions. */
#define VERSION 1

#define INLINE static inline __attribute__((always_inline))
/* One copy per instruction set, chosen when the module is loaded. Needs glibc's ifunc. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* ---- arrays ----------------------------------------------------------------------------- */

typedef struct {
    Py_buffer view;
    char kind; /* 'f' float32, 'd' float64, 'i' int32, 'l' int64 */
} Array;

static char kind_of(const Py_buffer *view) {
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=') format++;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (*format == '<') format++;
#endif
    if (format[0] == 0 || format[1] != 0) return 0;
    if (*format == 'f' && view->itemsize == 4) return 'f';
    if (*format == 'd' && view->itemsize == 8) return 'd';
    if (strchr("ilq", *format)) {
        if (view->itemsize == 4) return 'i';
        if (view->itemsize == 8) return 'l';
    }
    return 0;
}

/* Read a C-contiguous array of one of the allowed kinds; the caller releases it. */
static int take(PyObject *object, Array *array, const char *name, const char *kinds, int ndim,
                int writable) {
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &array->view, flags) < 0) return -1;
    array->kind = kind_of(&array->view);
    if (array->view.ndim != ndim || !array->kind || !strchr(kinds, array->kind)) {
        PyErr_Format(PyExc_TypeError, "%s must have %d dimension(s) and one of the types %s.", name,
                     ndim, kinds);
        PyBuffer_Release(&array->view);
        return -1;
    }
    return 0;
}

static void release(Array *arrays, int count) {
    while (count--) PyBuffer_Release(&arrays[count].view);
}

typedef struct {
    const char *name, *kinds;
    int ndim, writable;
} Wanted;

static int take_all(PyObject **objects, Array *arrays, const Wanted *wanted, int count) {
    for (int i = 0; i < count; i++) {
        const Wanted *one = &wanted[i];
        if (take(objects[i], &arrays[i], one->name, one->kinds, one->ndim, one->writable) < 0) {
            release(arrays, i);
            return -1;
        }
    }
    return 0;
}

#define SIZE(array, axis) ((int64_t)(array).view.shape[axis])

static int fail(Array *arrays, int count, const char *message) {
    release(arrays, count);
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

/* ---- sparse matrix times dense columns -------------------------------------------------- */

/* How many edges ahead to fetch the row of a neighbour. */
#define AHEAD 16

typedef struct {
    const void *indptr, *indices, *values, *columns;
    void *out;
    int64_t first, last, entries, nodes, width;
} Product;

/* Rows of out = matrix @ columns, summed edge by edge as in SciPy's csr_matvecs, hence the same
 * bits. Returns the first row that is not valid, or -1. A constant WIDTH keeps a row in registers. */
#define DEFINE_ROWS(NAME, INDEX, VALUE, COLUMN)                                                     \
    INLINE int64_t NAME(const Product *p, const int64_t width, const int fixed) {                   \
        const INDEX *restrict indptr = p->indptr, *restrict indices = p->indices;                   \
        const VALUE *restrict values = p->values;                                                   \
        const COLUMN *restrict columns = p->columns;                                                \
        const uint64_t nodes = (uint64_t)p->nodes;                                                  \
        const int64_t lines = (width * (int64_t)sizeof(COLUMN) + 63) / 64;                          \
        for (int64_t row = p->first; row < p->last; row++) {                                        \
            const int64_t start = indptr[row], stop = indptr[row + 1];                              \
            if (start < 0 || stop < start || stop > p->entries) return row;                         \
            COLUMN *restrict out = (COLUMN *)p->out + row * width;                                  \
            COLUMN own[32];                                                                         \
            COLUMN *restrict sum = fixed ? own : out;                                               \
            for (int64_t k = 0; k < width; k++) sum[k] = 0;                                         \
            for (int64_t edge = start; edge < stop; edge++) {                                       \
                if ((uint64_t)(int64_t)indices[edge] >= nodes) return row;                          \
                if (edge + AHEAD < p->entries) {                                                    \
                    const char *next = (const char *)(columns + (int64_t)indices[edge + AHEAD] * width); \
                    for (int64_t line = 0; line < lines; line++)                                    \
                        __builtin_prefetch(next + 64 * line);                                       \
                    __builtin_prefetch(next + width * (int64_t)sizeof(COLUMN) - 1);                 \
                }                                                                                   \
                const COLUMN value = (COLUMN)values[edge];                                          \
                const COLUMN *restrict other = columns + (int64_t)indices[edge] * width;            \
                for (int64_t k = 0; k < width; k++) sum[k] += value * other[k];                     \
            }                                                                                       \
            if (fixed)                                                                              \
                for (int64_t k = 0; k < width; k++) out[k] = sum[k];                                \
        }                                                                                           \
        return -1;                                                                                  \
    }

DEFINE_ROWS(rows_iff, int32_t, float, float)
DEFINE_ROWS(rows_ifd, int32_t, float, double)
DEFINE_ROWS(rows_idd, int32_t, double, double)
DEFINE_ROWS(rows_lff, int64_t, float, float)
DEFINE_ROWS(rows_lfd, int64_t, float, double)
DEFINE_ROWS(rows_ldd, int64_t, double, double)

#define CASE(N) case N: return rows_iff(p, N, 1);

CLONES static int64_t multiply_narrow(const Product *p) {
    switch (p->width) {
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
        CASE(9) CASE(10) CASE(12) CASE(14) CASE(15) CASE(16) CASE(20) CASE(24) CASE(30) CASE(32)
    }
    return rows_iff(p, p->width, 0);
}
CLONES static int64_t multiply_ifd(const Product *p) { return rows_ifd(p, p->width, 0); }
CLONES static int64_t multiply_idd(const Product *p) { return rows_idd(p, p->width, 0); }
CLONES static int64_t multiply_lff(const Product *p) { return rows_lff(p, p->width, 0); }
CLONES static int64_t multiply_lfd(const Product *p) { return rows_lfd(p, p->width, 0); }
CLONES static int64_t multiply_ldd(const Product *p) { return rows_ldd(p, p->width, 0); }

static PyObject *multiply(PyObject *self, PyObject *args) {
    static const Wanted wanted[] = {{"indptr", "il", 1, 0}, {"indices", "il", 1, 0},
                                    {"values", "fd", 1, 0}, {"columns", "fd", 2, 0},
                                    {"out", "fd", 2, 1}};
    PyObject *o[5];
    Array a[5];
    Py_ssize_t first, last;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOnn", &o[0], &o[1], &o[2], &o[3], &o[4], &first, &last))
        return NULL;
    if (take_all(o, a, wanted, 5) < 0) return NULL;
    Product p = {a[0].view.buf, a[1].view.buf, a[2].view.buf, a[3].view.buf, a[4].view.buf,
                 first, last, SIZE(a[1], 0), SIZE(a[3], 0), SIZE(a[3], 1)};
    int64_t rows = SIZE(a[4], 0), bad;
    if (a[0].kind != a[1].kind || a[3].kind != a[4].kind || (a[2].kind == 'd' && a[3].kind == 'f'))
        return fail(a, 5, "the types of the arrays do not fit together."), NULL;
    if (SIZE(a[0], 0) != rows + 1 || SIZE(a[2], 0) != p.entries || SIZE(a[4], 1) != p.width ||
        first < 0 || last < first || last > rows)
        return fail(a, 5, "the shapes of the arrays do not fit together."), NULL;
    Py_BEGIN_ALLOW_THREADS
    int wide = a[0].kind == 'l';
    if (a[3].kind == 'f') bad = wide ? multiply_lff(&p) : multiply_narrow(&p);
    else if (a[2].kind == 'f') bad = wide ? multiply_lfd(&p) : multiply_ifd(&p);
    else bad = wide ? multiply_ldd(&p) : multiply_idd(&p);
    Py_END_ALLOW_THREADS
    release(a, 5);
    if (bad >= 0)
        return PyErr_Format(PyExc_IndexError, "row %lld has an index out of range.", (long long)bad);
    Py_RETURN_NONE;
}

/* ---- module ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"multiply", multiply, METH_VARARGS,
     "multiply(indptr, indices, values, columns, out, first, last): rows of a CSR product."},
    {NULL, NULL, 0, NULL}};

static int set_up(PyObject *module) { return PyModule_AddIntConstant(module, "VERSION", VERSION); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)set_up}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_kernels", .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&definition); }
