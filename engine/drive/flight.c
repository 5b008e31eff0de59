/*
 * flight.c - I/O that runs on the loop of the op it is for, and what becomes of the op when the
 * drive fails before that I/O is back, or the I/O, a read, takes longer than it may.
 *
 * A drive that hangs may keep the kernel busy for minutes. When it fails, the ops that wait for it
 * are answered at once, so that whoever asked goes on with other drives; memory that the kernel may
 * still write to stays with the I/O until its last completion (I7).
 *
 * The owner loop asks the home loop to give up; home answers the op unless that was done, and tells
 * the owner. Whichever comes last, the end of the I/O or that message, lets the flight's memory go.
 */
#include "engine/drive/local.h"

#include <assert.h>

static struct eng_flight *flight_of(struct lp_msg *msg)
{
        return container_of(msg, struct eng_flight, msg);
}

void eng_flight_begin(struct eng_local *l, struct eng_flight *flight, struct lp_loop *home,
                      void (*give_up)(struct eng_flight *flight), void (*gone)(struct eng_flight *flight))
{
        assert(eng_local_on_loop(l));
        flight->owner = l->drive.owner;
        flight->home = home;
        flight->give_up = give_up;
        flight->gone = gone;
        flight->asked = flight->ended = false;
        TAILQ_INSERT_TAIL(&l->flights, flight, link);
}

void eng_flight_leave(struct eng_local *l, struct eng_flight *flight)
{
        TAILQ_REMOVE(&l->flights, flight, link);
}

void eng_flight_end(struct eng_flight *flight)
{
        assert(!flight->ended);
        flight->ended = true;
        if (!flight->asked)
                flight->gone(flight);
}

static void flight_told(struct lp_msg *msg)
{
        struct eng_flight *flight = flight_of(msg);

        assert(lp_self() == flight->owner && flight->asked);
        flight->asked = false;
        if (flight->ended)
                flight->gone(flight);
}

static void flight_on_home(struct lp_msg *msg)
{
        struct eng_flight *flight = flight_of(msg);

        assert(lp_self() == flight->home && flight->asked);
        flight->give_up(flight);
        flight->msg.run = flight_told;
        lp_post(flight->owner, &flight->msg);
}

void eng_flight_give_up(struct eng_flight *flight)
{
        assert(!flight->ended); /* it has left the list before */
        if (flight->asked)
                return;
        flight->asked = true;
        flight->msg.run = flight_on_home;
        lp_post(flight->home, &flight->msg);
}

void eng_flights_fail(struct eng_local *l)
{
        struct eng_flight *flight;

        TAILQ_FOREACH (flight, &l->flights, link)
                eng_flight_give_up(flight);
}
