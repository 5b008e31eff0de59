/*
 * fake_wire.c - the fake between processes: a sequenced-packet socket per connection, and a thread
 * that is the device.
 *
 * Requests and answers go over the socket; the bytes are copied once, by the device of the process
 * that they come to, from the other process's memory (process_vm_readv): those of a WRITE at the
 * responder, those of a READ at the requester, behind the responder's answer. So nothing comes into
 * the memory of a pair that is in the error state, as with devices, whatever the other end has yet
 * to do. The thread is called fake-nic, so that measurements can leave its time out.
 */
#include "tests/fakerdma/fake_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_BUFFER (4 << 20)
#define TAKEN_MOST    4u /* messages of a pair before it is the next one's turn */

enum message_type { MESSAGE_CONNECT = 1, MESSAGE_ACCEPT, MESSAGE_REJECT, MESSAGE_WORK, MESSAGE_BULK, MESSAGE_DONE };

enum client { CLIENT_NO_READS = 1, CLIENT_MUTE = 2 }; /* imm of MESSAGE_CONNECT */

struct message {
        uint32_t type, seq;
        int32_t result;
        uint32_t op, rkey, len, imm, answer;
        uint64_t remote, local, key;
        int32_t pid;
        struct rdx_party party;
        uint32_t data_len;
        char data[];
};
#define MESSAGE_HEAD (offsetof(struct message, data))
#define MESSAGE_MOST (MESSAGE_HEAD + FAKE_SEND_MOST)

/* A message that comes. Under the lock */
union incoming {
        struct message message;
        char room[MESSAGE_MOST];
};

/* In the data of MESSAGE_BULK. */
struct bulk {
        uint32_t op, rkey, len;
        uint64_t remote, local;
};
_Static_assert(FAKE_BULK_MOST * sizeof(struct bulk) <= FAKE_SEND_MOST, "they fit into a message");

static int epoll_fd = -1;
static int answering = -1; /* a descriptor that stays open where its pair is closed meanwhile: a refusal is told yet */

static bool send_message(int fd, const struct message *message, const void *data)
{
        struct iovec iov[2] = {{(void *)(uintptr_t)message, MESSAGE_HEAD},
                               {(void *)(uintptr_t)data, message->data_len}};
        struct msghdr head = {.msg_iov = iov, .msg_iovlen = message->data_len > 0 ? 2 : 1};
        ssize_t n = sendmsg(fd, &head, MSG_NOSIGNAL | MSG_DONTWAIT);

        FAKE_MUST(n >= 0 || errno != EAGAIN); /* as many as can be outstanding fit into the socket */
        return n >= 0;
}

static bool read_message(int fd, struct message *message, int flags)
{
        ssize_t n = recv(fd, message, MESSAGE_MOST, flags);

        return n >= (ssize_t)MESSAGE_HEAD && (size_t)n == MESSAGE_HEAD + message->data_len;
}

static void watch(int fd)
{
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

        FAKE_MUST(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

static int new_socket(void)
{
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), size = SOCKET_BUFFER;

        FAKE_MUST(fd >= 0);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
        return fd;
}

static void name_socket(struct sockaddr_un *name, const char *address, uint16_t port)
{
        *name = (struct sockaddr_un){.sun_family = AF_UNIX};
        FAKE_MUST(snprintf(name->sun_path, sizeof(name->sun_path), "%s/%s-%u", getenv(FAKE_DIRECTORY), address, port) <
                  (int)sizeof(name->sun_path));
}

/* ---- what comes ------------------------------------------------------------------------------ */

static int copy_from(pid_t pid, void *own, void *other, uint32_t len)
{
        struct iovec here = {own, len}, there = {other, len};
        /* By the system call: a device's DMA is nothing that a sanitizer would see. */
        long n = syscall(SYS_process_vm_readv, pid, &here, 1ul, &there, 1ul, 0ul);

        return n == (long)len ? 0 : -ETIMEDOUT;
}

/*
 * At the requester, of one that was answered: its bytes, if it is a READ. They count if the other
 * end is there yet: one that has gone to the error state may have given its memory to somebody else
 * meanwhile.
 */
static int fetch(pid_t pid, int fd, const struct fake_work *item)
{
        const struct rdx_work *work = &item->work;
        struct pollfd other = {.fd = fd, .events = POLLRDHUP};
        int rv;

        if (work->op != RDX_OP_READ)
                return 0;
        rv = copy_from(pid, work->address, (void *)(uintptr_t)work->remote, work->len);
        return rv == 0 && poll(&other, 1, 0) == 0 ? 0 : -ETIMEDOUT;
}

/* Those up to the one that was answered are executed, in order, as far as their bytes come. */
static void answered(struct rdx_pair *pair, uint32_t seq, int result)
{
        struct fake_work *item;
        int rv = 0;

        for (item = pair->work; item != NULL && rv == 0 && (int32_t)(item->seq - seq) <= 0; item = item->next) {
                if (item->executed)
                        continue;
                rv = item->seq == seq ? result : 0;
                if (rv == 0)
                        rv = fetch(pair->pid, pair->fd, item);
                if (rv == 0 && fake_fault(&item->work))
                        rv = -ETIMEDOUT; /* it was done, and nobody says so */
                item->executed = true;
                item->result = rv;
        }
        while (fake_complete(pair))
                ;
}

static void arrive(struct rdx_listener *listener, int fd, const struct message *message)
{
        struct rdx_arrival *arrival = calloc(1, sizeof(*arrival));
        int size = SOCKET_BUFFER;

        FAKE_MUST(arrival != NULL);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
        arrival->fd = fd;
        arrival->peer = message->party;
        arrival->pid = message->pid;
        arrival->no_reads = (message->imm & CLIENT_NO_READS) != 0;
        arrival->mute = (message->imm & CLIENT_MUTE) != 0;
        fake_arrive(listener, arrival, message->data, message->data_len);
}

static void accept_one(struct rdx_listener *listener)
{
        struct timeval patience = {.tv_sec = 2};
        static union incoming incoming;
        struct message *message = &incoming.message;
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
                return;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (read_message(fd, message, 0) && message->type == MESSAGE_CONNECT && message->data_len <= RDX_PRIVATE_MOST)
                arrive(listener, fd, message);
        else
                close(fd);
}

/* A SEND, or a notice: it carries its bytes. */
static int execute_carried(struct rdx_pair *pair, struct message *message)
{
        struct rdx_work work = {.op = message->op,
                                .len = message->len,
                                .remote = message->remote,
                                .rkey = message->rkey,
                                .imm = message->imm,
                                .address = message->data};

        return fake_execute(pair, &work, fake_copy_here);
}

/* *seq is that of the last one executed. */
static int execute_bulk(struct rdx_pair *pair, const struct message *message, uint32_t *seq)
{
        struct rdx_work work[FAKE_BULK_MOST];
        unsigned i, last, count = message->data_len / sizeof(struct bulk);
        struct bulk bulk;
        int rv;

        for (i = 0; i < count; i++) {
                memcpy(&bulk, message->data + i * sizeof(bulk), sizeof(bulk));
                work[i] = (struct rdx_work){.op = bulk.op,
                                            .len = bulk.len,
                                            .remote = bulk.remote,
                                            .rkey = bulk.rkey,
                                            .address = (void *)(uintptr_t)bulk.local};
        }
        rv = fake_execute_bulk(pair, work, count, &last);
        *seq += last;
        return rv;
}

/*
 * *owed: the answer that what was executed before waits for; the last one stands for all. A refusal
 * is told at once: its pair is over.
 */
static void execute(struct rdx_pair *pair, struct message *message, struct message *owed)
{
        struct message answer = {.type = MESSAGE_DONE, .seq = message->seq};
        int fd = pair->fd;

        answering = fd;
        answer.result = message->type == MESSAGE_BULK ? execute_bulk(pair, message, &answer.seq)
                                                      : execute_carried(pair, message);
        answering = -1;
        if (answer.result != 0)
                send_message(fd, &answer, NULL);
        else if (message->answer != 0)
                *owed = answer;
        if (pair->fd != fd)
                close(fd); /* it was refused */
}

static void lost(struct rdx_pair *pair)
{
        enum fake_state before = pair->state;

        fake_wire_close(pair);
        fake_to_error(pair, -ETIMEDOUT);
        if (before == PAIR_CONNECTING)
                fake_event(pair->channel, RDX_EVENT_REJECTED, pair, -ECONNREFUSED, NULL, 0, NULL);
        else
                fake_event(pair->channel, RDX_EVENT_DOWN, pair, -ECONNRESET, NULL, 0, NULL);
}

static void take_message(struct rdx_pair *pair, struct message *message, struct message *owed)
{
        switch (message->type) {
        case MESSAGE_ACCEPT:
                pair->peer = message->party;
                pair->pid = message->pid;
                pair->state = PAIR_READY;
                fake_event(pair->channel, RDX_EVENT_UP, pair, 0, message->data, message->data_len, NULL);
                break;
        case MESSAGE_REJECT:
                pair->state = PAIR_ERROR;
                fake_event(pair->channel, RDX_EVENT_REJECTED, pair, -ECONNREFUSED, message->data, message->data_len,
                           NULL);
                break;
        case MESSAGE_WORK:
        case MESSAGE_BULK:
                execute(pair, message, owed);
                break;
        case MESSAGE_DONE:
                answered(pair, message->seq, message->result);
                break;
        default:
                lost(pair);
        }
}

/* ---- initiators and targets ------------------------------------------------------------------ */

static void close_link(struct fake_link *link)
{
        struct fake_link **at = &fake.links;

        while (*at != link)
                at = &(*at)->next;
        *at = link->next;
        close(link->pair.fd);
        free(link);
}

static struct fake_link *new_link(int fd)
{
        struct fake_link *link = calloc(1, sizeof(*link));

        FAKE_MUST(link != NULL);
        link->pair.fd = fd;
        link->next = fake.links;
        fake.links = link;
        watch(fd);
        return link;
}

/* What goes over it names its process; nothing is agreed on before. */
static void accept_link(struct fake_target *target)
{
        int fd = accept4(target->fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
                new_link(fd)->target = target;
}

static void serve_link(struct fake_link *link, const struct message *message)
{
        struct rdx_work work = {.op = message->op,
                                .len = message->len,
                                .remote = message->remote,
                                .rkey = message->rkey,
                                .key = message->key,
                                .address = (void *)(uintptr_t)message->local};
        struct message answer = {.type = MESSAGE_DONE, .seq = message->seq, .pid = getpid()};

        link->pair.pid = message->pid;
        answer.result = fake_target_execute(link->target, &link->pair, &work, fake_copy_between);
        send_message(link->pair.fd, &answer, NULL);
}

/* Its answer, or that there will be none. */
static void dialled(struct rdx_pair *pair, int fd, const struct message *answer)
{
        struct fake_work *item = pair->work;
        int result = answer->result;

        if (item == NULL || !item->sent || item->dialled != fd || item->seq != answer->seq)
                return;
        if (result == 0)
                result = fetch(answer->pid, fd, item);
        fake_executed(pair, item->seq, result);
        while (fake_complete(pair))
                ;
        fake_transmit_live(pair);
}

static void link_ready(struct fake_link *link, struct message *message)
{
        struct rdx_pair *initiator = link->initiator;
        int fd = link->pair.fd;

        if (read_message(fd, message, MSG_DONTWAIT)) {
                if (link->target != NULL)
                        serve_link(link, message);
                else
                        dialled(initiator, fd, message);
                return;
        }
        if (errno == EAGAIN && recv(fd, message, 1, MSG_DONTWAIT | MSG_PEEK) != 0)
                return;
        close_link(link);
        if (initiator != NULL && initiator->work != NULL) {
                *message = (struct message){.seq = initiator->work->seq, .result = -ETIMEDOUT};
                dialled(initiator, fd, message);
        }
}

static bool link_of(int fd, struct message *message)
{
        struct fake_target *target;
        struct fake_link *link;

        for (target = fake.targets; target != NULL; target = target->next)
                if (target->fd == fd) {
                        accept_link(target);
                        return true;
                }
        for (link = fake.links; link != NULL; link = link->next)
                if (link->pair.fd == fd) {
                        link_ready(link, message);
                        return true;
                }
        return false;
}

static void name_target(struct sockaddr_un *name, const uint8_t gid[RDX_GID_LEN], uint32_t number)
{
        char hex[2 * RDX_GID_LEN + 1];
        unsigned i;

        for (i = 0; i < RDX_GID_LEN; i++)
                snprintf(hex + 2 * i, 3, "%02x", gid[i]);
        *name = (struct sockaddr_un){.sun_family = AF_UNIX};
        FAKE_MUST(snprintf(name->sun_path, sizeof(name->sun_path), "%s/dct-%s-%06x", getenv(FAKE_DIRECTORY), hex,
                           number) < (int)sizeof(name->sun_path));
}

int fake_wire_target(struct fake_target *target)
{
        struct sockaddr_un name;
        unsigned tries;

        target->fd = new_socket();
        for (tries = 0; tries < 1000; tries++) {
                name_target(&name, target->domain->device->gid, target->number);
                if (bind(target->fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(target->fd, 64) == 0) {
                        watch(target->fd);
                        return 0;
                }
                target->number = (target->number + 1) & 0xffffff;
        }
        close(target->fd);
        return -EADDRINUSE;
}

void fake_wire_untarget(struct fake_target *target)
{
        struct sockaddr_un name;
        struct fake_link *link, *next;

        name_target(&name, target->domain->device->gid, target->number);
        unlink(name.sun_path);
        close(target->fd);
        for (link = fake.links; link != NULL; link = next) {
                next = link->next;
                if (link->target == target)
                        close_link(link);
        }
}

static struct fake_link *dial(struct rdx_pair *pair, const uint8_t gid[RDX_GID_LEN], uint32_t number)
{
        struct sockaddr_un name;
        struct fake_link *link;
        int fd;

        for (link = fake.links; link != NULL; link = link->next)
                if (link->initiator == pair && link->number == number && memcmp(link->gid, gid, RDX_GID_LEN) == 0)
                        return link;
        name_target(&name, gid, number);
        fd = new_socket();
        if (connect(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
                close(fd);
                return NULL;
        }
        link = new_link(fd);
        link->initiator = pair;
        link->number = number;
        memcpy(link->gid, gid, RDX_GID_LEN);
        return link;
}

bool fake_wire_dial(struct rdx_pair *pair, struct fake_work *item)
{
        const struct rdx_work *work = &item->work;
        struct fake_link *link = dial(pair, work->route->port.gid, work->target);
        struct message message = {.type = MESSAGE_WORK,
                                  .seq = item->seq,
                                  .op = work->op,
                                  .rkey = work->rkey,
                                  .len = work->len,
                                  .remote = work->remote,
                                  .key = work->key,
                                  .pid = getpid(),
                                  .local = (uint64_t)(uintptr_t)work->address};

        if (link == NULL)
                return false;
        item->dialled = link->pair.fd;
        return send_message(link->pair.fd, &message, NULL);
}

void fake_wire_hang_up(const struct rdx_pair *initiator)
{
        struct fake_link *link, *next;

        for (link = fake.links; link != NULL; link = next) {
                next = link->next;
                if (link->initiator == initiator)
                        close_link(link);
        }
}

/*
 * A few messages, if there are: as a device does, it tells of work that is done when it has nothing
 * better to do, or of much at once.
 */
static void take_messages(struct rdx_pair *pair, struct message *message)
{
        struct message owed = {.type = 0};
        int fd = pair->fd;
        unsigned n;

        for (n = 0; n < TAKEN_MOST && pair->fd == fd && read_message(fd, message, MSG_DONTWAIT); n++)
                take_message(pair, message, &owed);
        if (owed.type != 0 && pair->fd == fd)
                send_message(fd, &owed, NULL);
        if (n == 0 && (errno != EAGAIN || recv(fd, message, 1, MSG_DONTWAIT | MSG_PEEK) == 0))
                lost(pair);
}

/* Whose descriptor it was when the event was made may be gone by now. */
static void ready(int fd)
{
        static union incoming incoming;
        struct message *message = &incoming.message;
        struct rdx_listener *listener;
        struct rdx_pair *pair;

        if (link_of(fd, message))
                return;
        for (listener = fake.listeners; listener != NULL; listener = listener->next)
                if (listener->fd == fd)
                        accept_one(listener);
        for (pair = fake.pairs; pair != NULL; pair = pair->next)
                if (pair->fd == fd && pair->state != PAIR_NEW)
                        break;
        if (pair != NULL)
                take_messages(pair, message);
}

static void *device_main(void *arg)
{
        struct epoll_event events[16];
        int n, i;

        prctl(PR_SET_NAME, "fake-nic");
        for (;;) {
                n = epoll_wait(epoll_fd, events, 16, -1);
                fake_lock();
                for (i = 0; i < n; i++)
                        ready(events[i].data.fd);
                fake_unlock();
        }
        return NULL;
}

/*
 * A process that was forked has neither the thread nor, as with devices, any use for what its
 * parent had open.
 */
static void after_fork(void)
{
        struct fake_world fresh = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_port = 40000};

        free(fake.keys);
        fake = fresh;
        close(epoll_fd);
}

void fake_wire_start(void)
{
        static bool forks;
        pthread_t thread;

        if (!forks)
                FAKE_MUST(pthread_atfork(NULL, NULL, after_fork) == 0);
        forks = true;

        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* so that the other end's device reaches this memory */
        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        FAKE_MUST(epoll_fd >= 0 && pthread_create(&thread, NULL, device_main, NULL) == 0);
        pthread_detach(thread);
}

/* ---- connecting ------------------------------------------------------------------------------ */

int fake_wire_listen(struct rdx_listener *listener)
{
        struct sockaddr_un name;
        unsigned tries;
        int fd = new_socket();

        for (tries = 0; tries < 1000; tries++) {
                name_socket(&name, listener->address, listener->port);
                if (bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(fd, 64) == 0) {
                        listener->fd = fd;
                        watch(fd);
                        return 0;
                }
                listener->port++;
        }
        close(fd);
        return -EADDRINUSE;
}

void fake_wire_unlisten(struct rdx_listener *listener)
{
        struct sockaddr_un name;

        name_socket(&name, listener->address, listener->port);
        unlink(name.sun_path);
        close(listener->fd);
}

int fake_wire_connect(struct rdx_pair *pair, const void *data, size_t len)
{
        struct message message = {
                .type = MESSAGE_CONNECT, .pid = getpid(), .party = pair->own, .data_len = (uint32_t)len};
        struct sockaddr_un name;

        message.imm =
                (getenv(FAKE_NO_READS) != NULL ? CLIENT_NO_READS : 0) | (getenv(FAKE_MUTE) != NULL ? CLIENT_MUTE : 0);
        name_socket(&name, pair->address, pair->port);
        pair->fd = new_socket();
        if (connect(pair->fd, (struct sockaddr *)&name, sizeof(name)) != 0 || !send_message(pair->fd, &message, data)) {
                close(pair->fd);
                pair->fd = -1;
                return -ECONNREFUSED;
        }
        watch(pair->fd);
        return 0;
}

int fake_wire_accept(struct rdx_pair *pair, const void *data, size_t len)
{
        struct message message = {
                .type = MESSAGE_ACCEPT, .pid = getpid(), .party = pair->own, .data_len = (uint32_t)len};

        if (!send_message(pair->fd, &message, data))
                return -ECONNRESET;
        watch(pair->fd);
        return 0;
}

void fake_wire_reject(struct rdx_arrival *arrival, const void *data, size_t len)
{
        struct message message = {.type = MESSAGE_REJECT, .data_len = (uint32_t)len};

        send_message(arrival->fd, &message, data);
        close(arrival->fd);
}

void fake_wire_send(struct rdx_pair *pair, const struct fake_work *item)
{
        const struct rdx_work *work = &item->work;
        struct message message = {.type = MESSAGE_WORK,
                                  .seq = item->seq,
                                  .op = work->op,
                                  .rkey = work->rkey,
                                  .len = work->len,
                                  .imm = work->imm,
                                  .remote = work->remote,
                                  .answer = work->signalled,
                                  .data_len = work->len};

        send_message(pair->fd, &message, work->address); /* where it fails, the device's thread finds out */
}

/* One answer, of the last, stands for those before it. */
void fake_wire_send_bulk(struct rdx_pair *pair, const struct fake_work *first, unsigned count)
{
        struct message message = {.type = MESSAGE_BULK, .seq = first->seq};
        struct bulk bulk[FAKE_BULK_MOST];
        const struct fake_work *item;
        unsigned i;

        for (i = 0, item = first; i < count; i++, item = item->next) {
                bulk[i] = (struct bulk){.op = item->work.op,
                                        .rkey = item->work.rkey,
                                        .len = item->work.len,
                                        .remote = item->work.remote,
                                        .local = (uint64_t)(uintptr_t)item->work.address};
                message.answer |= item->work.signalled || fake_faults_may(&item->work);
        }
        message.data_len = (uint32_t)(count * sizeof(*bulk));
        send_message(pair->fd, &message, bulk);
}

void fake_wire_close(struct rdx_pair *pair)
{
        if (pair->fd >= 0 && pair->fd != answering)
                close(pair->fd); /* leaves the epoll set by that */
        pair->fd = -1;
}
