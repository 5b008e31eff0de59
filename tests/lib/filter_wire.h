/*
 * filter_wire.h - gives the filter "serialise" (engine/drive/filter.c) its bytes. A daemon has
 * none, and refuses that word.
 */
#ifndef MILLRACE_TESTS_FILTER_WIRE_H
#define MILLRACE_TESTS_FILTER_WIRE_H

/* From here on, in this process. Before a drive with that filter is opened. */
void filter_wire_use(void);

#endif
