/*
 * fuzz_net_link.c - a node that another one talks to, which may be anybody: the input is a list of
 * things that this one does, with frames whose checksums are right or wrong, in pieces of any
 * length, while time passes. Nothing of it is left when its connection has ended.
 *
 * Things: 0 new connection as a stranger; 1 the same with a right HELLO; 2 raw bytes; 3 a frame; 4
 * time passes; 5 the handler lets go of what it holds; 6 the connection ends; 7 a HELLO of any
 * fields.
 */
#include "tests/unit/net/memory_net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mem_node two;
static struct mem_end *end;
static uint64_t sequence;

struct input {
        const uint8_t *at;
        size_t left;
};

static void input_take(struct input *input, void *to, size_t len)
{
        size_t n = len < input->left ? len : input->left;

        memset(to, 0, len);
        if (n > 0)
                memcpy(to, input->at, n);
        input->at += n;
        input->left -= n;
}

static uint8_t input_byte(struct input *input)
{
        uint8_t byte;

        input_take(input, &byte, 1);
        return byte;
}

static void end_close(void)
{
        if (end != NULL)
                mem_close(&end->base);
        end = NULL;
        mem_settle();
}

static void do_connect(void)
{
        end_close();
        end = mem_dial_raw(&two, "node-1", true);
        mem_settle();
}

static void do_hello(struct input *input, bool any)
{
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, ++sequence);
        uint8_t bytes[NET_HELLO_SIZE];

        if (any) {
                input_take(input, (uint8_t *)&hello + NET_CLUSTER_LEN, sizeof(hello) - NET_CLUSTER_LEN);
                hello.boot = 5 - hello.boot % 2; /* a higher one, or number, would be remembered by the runs to come */
                hello.sequence = sequence - hello.sequence % 2;
        }
        do_connect();
        net_hello_write(&hello, NULL, bytes);
        raw_send(end, bytes, sizeof(bytes));
        mem_settle();
}

/* Sent in pieces, so that it is cut anywhere. */
static void send_pieces(struct input *input, const uint8_t *bytes, size_t len)
{
        size_t at = 0, piece;

        while (at < len) {
                piece = (size_t)input_byte(input) * 8 + 1;
                piece = piece < len - at ? piece : len - at;
                raw_send(end, bytes + at, piece);
                at += piece;
                mem_settle();
        }
}

static void do_bytes(struct input *input)
{
        uint8_t bytes[256];
        size_t len = input_byte(input);

        input_take(input, bytes, len);
        send_pieces(input, bytes, len);
}

static void do_frame(struct input *input)
{
        static uint8_t body[NET_BODY_MAX], bulk[4096];
        struct net_wire_head head = {.version = 1, .kind = NET_FRAME_REQUEST};
        uint8_t how = input_byte(input);
        struct raw_frame *frame;

        if (how & 1)
                input_take(input, &head.version, NET_HEAD_CRC - 4);
        else
                input_take(input, &head.id, 1);
        if (!(how & 2))
                head.id |= 1;
        head.code = how >> 5;
        head.body_len = how & 4 ? (head.body_len + input_byte(input) * 7) % (NET_BODY_MAX + 1) : 0;
        head.bulk_len = how & 8 ? (head.bulk_len + input_byte(input) * 13) % sizeof(bulk) : 0;
        if (!(how & 16))
                head.room = (uint32_t)input_byte(input) << 10;
        frame = raw_frame(&head, body, bulk);
        if (how & 1 && input_byte(input) == 7)
                frame->bytes[input_byte(input) % frame->len] ^= 1;
        send_pieces(input, frame->bytes, frame->len);
        free(frame);
}

static void one_thing(struct input *input)
{
        uint8_t what = input_byte(input) % 8;

        if (end == NULL && what >= 2 && what != 7)
                do_hello(input, false);
        switch (what) {
        case 0:
                do_connect();
                break;
        case 1:
                do_hello(input, false);
                break;
        case 2:
                do_bytes(input);
                break;
        case 3:
                do_frame(input);
                break;
        case 4:
                mem_pass(input_byte(input) * 10);
                break;
        case 5:
                mem_release(&two);
                break;
        case 6:
                end_close();
                break;
        default:
                do_hello(input, true);
        }
        if (two.node.held_count > 32)
                mem_release(&two);
        if (end != NULL)
                end->len = 0; /* it reads what comes */
        mem_settle();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct input input = {data, size};
        unsigned things;

        if (two.node.net == NULL) {
                struct net_options options = node_options(2, 6);

                mem_node_start(&two, &options);
                mem_knows(&two, 1);
        }
        for (things = 0; things < 64 && input.left > 0; things++)
                one_thing(&input);
        end_close();
        while (two.node.held_count > 0) /* behind one that waited another may come */
                mem_release(&two);
        two.node.lines[0] = '\0';
        if (atomic_load(&two.node.net->alive) != 0 || mem_stats(&two).body_memory != 0 || mem_stats(&two).guests != 0)
                abort();
        if (two.node.net->loops[0].conns != NULL || two.node.net->loops[1].conns != NULL)
                abort();
        return 0;
}
