#!/usr/bin/env python3
"""Takes the guards of durability out, one at a time, and says which test notices.

    mutate.py [--list] [--only REGEX] [--stages NAME,...] [--again] [--out FILE] [--work FOLDER]

Every flush in engine/, server/ and loop/ is found by its name (fsync, fdatasync, the functions that stand for one, RWF_DSYNC); NAMED below has
other single lines on which an invariant of docs/design.md hangs. For each, a copy of the source in FOLDER (build/mutants) is changed, built, and
given to the tests, stage after stage, until one fails. Results are kept in FOLDER/results.json, and what has one is not run again without --again.
--stages takes only those stages ("quick": the unit tests that a row names); what none of them notices has no result yet.
--out writes them as Markdown (docs/mutations.md is made so), with the rows of FILE that this folder has no result for, marked. What survives and is not
in REDUNDANT, with its reason, makes the exit status 1; so does a mutation that cannot be built, which says nothing. A text that is not in its file
exactly once is no mutation any more: the exit status is 2, and nothing is run.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEARCHED = ("engine", "remote", "cluster", "server", "loop")
FLUSH = re.compile(r"(?<![\w.>])(fsync|fdatasync|folder_sync|index_sync_folder)\(((?:[^()]|\([^()]*\))*)\)")
DSYNC = re.compile(r"\bRWF_DSYNC\b")
RING_FLUSH = "io_uring_prep_fsync(sqe, io->fd, IORING_FSYNC_DATASYNC)"
UNBUILT = re.compile(r"^make: \*\*\* \[.*\.o\] Error", re.M)  # what a test is made of
FUNCTION = re.compile(r"^[a-z].*?(\w+)\([^;]*$")

# Stages. "unit NAME ..." are those unit tests alone, quick; UNIT is all of the engine's. "cluster NAME" is one test of nodes on loopback.
POWER, UNIT, CRASH, FAULTS, SIM, SIMDRIVE, CLUSTER = "power", "unit", "crash", "faults", "sim", "simdrive", "cluster"
SEEDS = {SIM: "1-3000", SIMDRIVE: "1-600"}
MARK = " \\*"
FLUSH_STAGES = (POWER, UNIT, SIMDRIVE, CRASH)
FLUSH_TESTS = {  # of those flushes that a quick unit test is for
    "engine/drive/damage.c eng_damage_mark_lost: fsync(l->files.dir_fd)": "unit test_open_flush",
    "engine/drive/identity.c eng_folder_upgrade: fsync(dir_fd)": "unit test_identity",
    "engine/drive/replay.c flush_last: fdatasync(fd)": "unit test_open_flush",
    "engine/drive/segment.c eng_segments_flush: fdatasync(segment->write_fd)": "unit test_open_flush",
    "engine/drive/segment_open.c scan_open: fdatasync(segment->fd.read_fd)": "unit test_open_flush",
}
PROGRAMS = ("programs", "power-bin")
BUILT = {UNIT: ("build/release/lib/libengine.a",), SIM: ("sim-bin",), SIMDRIVE: ("sim-bin",)}  # else PROGRAMS

# (what is lost, file, text, what takes its place, stages)
NAMED = [
    ("SYNC answers without a flush", "engine/drive/write.c", "if (!l->writes.sync_more)\n", "if (true)\n", (POWER,)),
    ("a SYNC shares the flush that runs already", "engine/drive/write.c", "op->next = l->writes.sync_waiting;\n        l->writes.sync_waiting = op;",
     "struct eng_op **group = l->writes.flushing > 0 ? &l->writes.sync_running : &l->writes.sync_waiting;\n        op->next = *group;\n        *group = op;",
     (POWER, UNIT, FAULTS)),
    ("a PUT sends its record before its shards are durable", "engine/object/put.c", "put->striped && put->touched != 0)", "put->striped && put == NULL)", (POWER,)),
    ("an upload that lacks a shard, and met a change of the drives, is not looked at", "engine/object/put.c", "if (put->drives[i] == ENG_NO_DRIVE)",
     "if (put->drives == NULL)", ("unit test_put_late",)),
    ("a PUT's record names shards on a drive that was replaced while it waited for its turn", "engine/object/objects.c", "return put->proofs != NULL ? strip_shards(put) : lost_shards(put);",
     "return put->proofs != NULL ? strip_shards(put) : lost_shards(put) && put->value == NULL;", ("unit test_put_late",)),
    ("a home's PUT names shards without a proof", "engine/object/objects.c", "return proof.drive_key == view->drive_key[slot];", "return true;", ("unit test_put_late",)),
    ("a home's record names an id below the bound that its session has told (G3)", "engine/serve/serve_call.c", "made.count >= atomic_load(&home->bounds[made.loop]));", "made.count > 0);", ("unit test_home",)),
    ("what a home reads is not kept for it when its session has ended (G7)", "remote/home_server.c", "s->unpin_at = loop_now(server) + HOME_PINS_NS;", "s->unpin_at = loop_now(server);", ("unit test_home_pins",)),
    ("an orphan collection takes what a home reads (G5)", "engine/upkeep/orphans.c", "        if (store->coord->homes != NULL)\n                        store->coord->homes->each_pinned", "        if (store->coord->homes != NULL && orphans == NULL)\n                        store->coord->homes->each_pinned", ("unit test_home_pins",)),
    ("a leader process that has not begun is ended by a stop", "server/node_leader.c", "        srv_signals(&signals);\n", "        sigemptyset(&signals);\n", ("unit test_node_leader",)),
    ("a service manager is told that a node stops which begins anew", "server/node_process.c", "if (!n->distrusts || n->signo != 0) /* systemd", "if (n->server != NULL) /* systemd", ("cluster test_another_etcd_is_not_taken",)),
    ("a node that is to begin anew is not ended by a signal", "server/node_process.c", "                node_told_to_end(n, signo);\n", "                (void)0;\n", ("cluster test_a_node_that_is_to_begin_anew",)),
    ("a drive that hangs keeps its node out of a reseed", "server/node_reseed.c", "now - gate->asks[i]->begun < GATE_LATE_NS)", "now >= gate->asks[i]->begun)", ("cluster test_a_drive_that_hangs",)),
    ("a second signal does not end the waiting for a leader process", "server/node_process.c", "if (n->hurried && !told) {", "if (n->hurried && told) {", ("cluster test_a_second_signal",)),
    ("a leader process that does not end in time is left to itself", "server/node_leader.c", "&& leader->ends_by != 0 && lp_clock()", "&& leader->ends_by == 1 && lp_clock()", ("unit test_node_leader",)),
    ("a leader process that is told to end once more has more time", "server/node_leader.c", "leader->pid != 0 && !leader->killed && leader->ends_by == 0", "leader->pid != 0", ("unit test_node_leader",)),
    ("a leader process that the kernel holds up is taken for one that has ended", "server/node_leader.c", "        leader->killed = true;\n", "        leader->pid = 0;\n", ("unit test_node_leader",)),
    ("a node waits for the end of a leader process that the kernel holds up", "server/node_leader.c", "for (ms = 0; ms < KILLED_MS; ms++)", "for (ms = 0; ms < UINT32_MAX; ms++)", ("unit test_node_leader",)),
    ("SYNC goes to whichever incarnation there is", "engine/object/put.c", "                        sync->op.incarnation = put->proofs[i].incarnation;\n", "                        sync->op.incarnation = 0;\n", ("unit test_home",)),
    ("a home may write shards of others' uploads", "remote/served_op.c", "return node == net_peer_node(r->request->peer) && boot == r->request->boot;", "return true;", ("unit test_home_drive",)),
    ("changes wait for a home whose answers give it no lease", "remote/home_server.c", "if ((w->seen.flags & HOME_MORE) == 0)\n                s->reader", "if (s != NULL)\n                s->reader", ("unit test_home_lease",)),
    ("a home joins, and operators ask, on a link that may be plain", "remote/home_server.c", "return request->link == (request->operation == HOME_JOIN ? NET_CONTROL : NET_LOG);", "return request->link < NET_LINKS;", ("unit test_home_rules",)),
    ("a node that was removed joins again", "cluster/join.c", "number == join->number && other->state == CL_NODE_GONE", "number == join->number && other->state == CL_NODE_GONE && join->boot != 0", ("unit test_node",)),
    ("a home's WRITE begins a session", "remote/served_op.c", "status = is_of_home(r) ? REM_DONE : served_admit(served, r, (r->op.flags & ENG_OP_ANEW) != 0);", "status = served_admit(served, r, (r->op.flags & ENG_OP_ANEW) != 0 || is_of_home(r));", ("unit test_home_drive",)),
    ("a SYNC of a home is done by another incarnation", "remote/drive_server.c", "|| ((head->flags & REM_HOME) != 0 && head->incarnation == 0);", "|| (head->flags & REM_HOME) != 0;", ("unit test_home_drive",)),
    ("a change of the configuration is answered before homes have it", "engine/bucket/bucket_queue.c", "        if (change->touched.what != 0)\n                change_is_read(change, rv);\n        else\n                change_reply(change, rv);", "        if (change->touched.what != 0)\n                eng_feed_add(change->store, &change->touched);\n        if (change->store == NULL)\n                change_is_read(change, rv);\n        else\n                change_reply(change, rv);", ("unit test_home_session",)),
    ("homes are told a configuration that is still being read", "engine/home/home_state.c", "if (store->coord->phase != ENG_PHASE_OPEN)", "if (store == NULL)", ("unit test_home",)),
    ("a home believes its copies when it has the first page of what it missed", "engine/home/home_state.c", "        reading->more = reading->all || reading->version != eng_feed_version(store);\n", "        reading->more = false;\n", ("unit test_home_lease",)),
    ("a home believes its copies when it has asked a leader that is not open", "engine/home/home_state.c", "        reading->more = true;\n", "        reading->more = false;\n", ("unit test_home_lease",)),
    ("rows that are gone stay in a copy", "engine/bucket/home_copy.c", "                if (out != NULL)\n                        out->rows[out->count++].row.key = key;\n                n++;", "                if (out != NULL && false)\n                        out->rows[out->count++].row.key = key;\n                n++;", ("unit test_home",)),
    ("a home lists the configuration", "engine/serve/serve_call.c", "if (!is_of_bucket(&s->call))", "if (!is_of_bucket(&s->call) && s->store == NULL)", ("unit test_home",)),
    ("a session outlives the connection that a call was lost on", "remote/home_link.c", "        link_lost(link, call, s->joins);\n", "", ("unit test_home_lost",)),
    ("a session outlives the connection that the end of a pin was lost on", "remote/home_link.c", "link_lost(u->link, call, u->joins);", "(void)u->joins;", ("unit test_home_lost",)),
    ("a change that waited for long is sent all the same", "remote/home_link.c", "return !s->asked->reads && link_clock(s->hl->link) >= s->asked_clock + WAIT_MOST_NS;", "return false;", ("unit test_home_lost",)),
    ("a change of a client that has closed is begun", "gateway/http/http.c", "if (changes_something(req) && gw_conn_gave_up(req->conn)) {", "if (false && gw_conn_gave_up(req->conn) && changes_something(req)) {", ("gave_up",)),
    ("one pool's 503 does not say that it is one pool's", "gateway/http/reply.c", "if (!gw_pool_alone(req->loop->gw) && gw_pool_answers(req->loop->gw))", "if (false)", ("unit test_pools",)),
    ("a gateway that no pool answers says that it is one pool's fault", "gateway/http/reply.c", " && gw_pool_answers(req->loop->gw))", ")", ("unit test_pools",)),
    ("lifecycle rules make no way for clients of other nodes", "gateway/s3/lifecycle_page.c", "uint64_t sum = eng_homes_calls(gw->store);", "uint64_t sum = 0;", ("unit test_lifecycle_run",)),
    ("an endpoint is avoided for one pool's 503", "client/http/client_request.c", "|| (what != NULL && strcmp(what, \"pool\") == 0))", "|| (what != NULL && request->client == NULL))", ("unit test_several_endpoints",)),
    ("a refusal is believed that an attempt before may explain", "client/http/doubt.c", "if (!request->in_doubt || !doubt_changes(request)", "if (true || !doubt_changes(request)", ("unit test_lost_answers",)),
    ("curl's own copy of a request leaves no doubt", "client/http/client_request.c", "if (request->sends > 1)\n                request->in_doubt = true;", "", ("unit test_lost_answers",)),
    ("what is to be sent once goes over a kept connection", "client/http/attempt.c", "request->fresh ? 1L : 0L", "0L", ("unit test_lost_answers",)),
    ("transfers of a lost session wait while another is opened", "client/rdma/connection.c", "        mr_grants_sweep(connection);\n        mr_grants_look(connection);\n", "        mr_grants_sweep(connection);\n", ("unit test_grants",)),
    ("a home goes by an older leader's word", "remote/home_link.c", "|| eng_term_compare(&joined.term, &link->term) < 0) {", ") {", ("unit test_home_session",)),
    ("orphan collection takes what a home uploads", "engine/upkeep/orphans.c", "        if (store->coord->homes != NULL && made.node >= ENG_MAKER_HOMES)\n                return store->coord->homes->is_past(store->coord->homes->arg, made.node, (uint32_t)made.run, made.loop, made.count);", "        if (store->coord->homes != NULL && made.node >= ENG_MAKER_HOMES)\n                return true;", ("unit test_home_session",)),
    ("a completed object that lacks a shard is looked for by the next day's walk", "engine/object/complete.c", "if (txn->result == 0 && eng_value_lacks_shards(", "if (txn->result == 0 && c->count == 0 && eng_value_lacks_shards(", ("unit test_put_late",)),
    ("what a home could not write is looked at by no walk", "engine/serve/serve_call.c", "if (txn->result == 0 && eng_value_lacks_shards(put->value->data, put->value->len))", "if (txn->result == 0 && s->store == NULL && eng_value_lacks_shards(put->value->data, put->value->len))", ("unit test_home",)),
    ("mending names shards that are not durable", "engine/upkeep/rebuild_write.c", "        sync_drives(rebuild, rebuild->touched);", "        (void)sync_drives;", (POWER,)),
    ("a repair that fails leaves what it has written unflushed", "engine/upkeep/rebuild_write.c", "sync_drives(rebuild, rebuild->touched & rebuild->el->view.in & rebuild->el->view.up);",
     "(void)rv;", ("unit test_rebuild",)),
    ("an epoch is decided by a leader whose key another has taken", "cluster/leader.c", "l->cas.other_count = 1;", "l->cas.other_count = 0;", ("unit test_leader",)),
    ("a group with one member takes changes", "engine/txn/txn.c", "live < (txn->store->m == 0 || txn->moves ? 1u : 2u)", "live < 1u", ("unit test_groups",)),
    ("a record that one member has in the end is acknowledged", "engine/txn/txn.c", "if (result == 0 && is_alone(txn))", "if (result == 0 && is_alone(txn) && txn->moves)", ("unit test_groups",)),
    ("an object counts with as few shards as its home proves", "engine/object/objects.c", "                        if (there < need)\n                                return true;\n                }\n        return false;\n}\n\nstatic bool lacks_proof", "                        if (there < need)\n                                return false;\n                }\n        return false;\n}\n\nstatic bool lacks_proof", ("unit test_home",)),
    ("a record counts when one member has it", "engine/txn/txn.c", "txn->waiting &= ~eng_bit(fo->slot);\n                progress", "txn->waiting = 0;\n                progress",
     (POWER, UNIT, FAULTS)),
    ("a record is committed without waiting for its appends", "engine/txn/txn.c", "!txn->held && txn->waiting == 0)\n                commit(txn);",
     "!txn->held)\n                commit(txn);", (POWER, UNIT, FAULTS)),
    ("recovery does not complete the logs of the others", "engine/epoch/reconcile.c", "for (; s->pg <= store->pg_count; s->pg++, s->to = 0) {",
     "for (; s->pg <= store->pg_count && s->store == NULL; s->pg++, s->to = 0) {", (POWER, UNIT, FAULTS)),
    ("an append of an older epoch is taken", "engine/drive/append.c", "if (op->epoch < eng_epochs_fence(l))\n                return -ESTALE;",
     "if (op->epoch == UINT64_MAX)\n                return -ESTALE;", ("unit test_replay", UNIT, SIMDRIVE, FAULTS, POWER)),
    ("a commit of an older epoch is taken", "engine/drive/append.c", "if (op->epoch < eng_epochs_fence(l)) {", "if (op->epoch == UINT64_MAX) {", ("unit test_replay", UNIT, FAULTS, POWER)),
    ("a frame of an older epoch is taken", "engine/drive/write.c", "if (op->epoch < eng_epochs_fence(l))\n", "if (op->epoch == UINT64_MAX)", ("unit test_local_data", UNIT, SIMDRIVE, FAULTS, POWER)),
    ("what was sent to a drive before it was out is taken behind its VOID record", "engine/drive/append.c", "                atomic_store(&l->epochs.fence, op->epoch);", "                atomic_store(&l->epochs.fence, 0);", ("unit test_replay",)),
    ("a copy that does not reach a drive leaves it in", "engine/resync/resync.c", "if (rv == -EHOSTUNREACH)", "if (rv == -EHOSTDOWN && resync->repair)", ("unit test_down",)),
    ("a drive that does not answer has failed", "engine/base/events.c", "f->unreachable = rv == -EHOSTUNREACH;", "f->unreachable = false;", ("unit test_down",)),
    ("a group without a current member does not keep others from going on", "engine/placement/place.c", "eng_is_majority(next, prev) && eng_groups_current(groups, count, after, next)", "eng_is_majority(next, prev)", ("unit test_groups", SIM)),
    ("fewer than half go on where each group has a member", "engine/placement/place.c", "eng_is_majority(next, prev) && eng_groups_current", "eng_groups_current", ("unit test_groups", SIM)),
    ("a node has more shards than it need have", "engine/placement/place.c", "(ENG_DRIVES_MAX + 1) +\n", "0 +\n", ("unit test_place",)),
    ("a rack has more shards than it need have", "engine/placement/place.c", "(unsigned)__builtin_popcountll(have & domains->rack[slot]);", "0;", ("unit test_place",)),
    ("ids of a node's boots are compared by epoch", "engine/base/object_id.c", "out->run = out->node == 0 ? be32toh(epoch) : counter >> COUNT_BITS;", "out->run = be32toh(epoch);", ("unit test_object_id",)),
    ("ids of other nodes are past", "engine/base/object_id.c", "return made->node == eng_maker(store) && made->run < o->boot;", "return made->run < o->boot;", ("unit test_object_id",)),
    ("an entry of a page may end behind it", "engine/drive/wire.c", "e->size > left || ", "", ("unit test_wire",)),
    ("a short value of any length is believed", "engine/drive/wire.c", "e->value_len == sizeof(struct eng_listed)", "true", ("unit test_wire",)),
    ("a leader's pages are believed", "engine/object/merge_home.c", "rv == 0 && !page_answers(merge, answer)", "rv == 0 && merge == NULL && !page_answers(merge, answer)", ("unit test_home",)),
    ("the record of an epoch waits for a drive that is gone", "engine/epoch/coord.c", "        eng_epoch_append_without(store, slot);\n", "", ("unit test_coord",)),
    ("an epoch that a member has left undecided comes into force", "engine/epoch/epoch_append.c", "        case APPEND_PROPOSED:\n                all->failed |= all->to & gone;\n", "        case APPEND_PROPOSED:\n", ("unit test_decided",)),
    ("what was written to a drive before it was down counts until it is back", "engine/epoch/coord.c", "        eng_down_write_off(c);\n", "", ("unit test_remote_store",)),
    ("an OPEN ends no renewals before its drive has its fence", "remote/grant.c", "        grant_see(g, term);\n        g->any = true;", "        g->any = true;", ("unit test_grants",)),
    ("a grant is no longer than the lease", "remote/grant.c", "#define GRANT_NUMERATOR   5u", "#define GRANT_NUMERATOR   4u", ("unit test_grants",)),
    ("a drive server that begins takes any OPEN at once", "remote/grant.c", ".bound = eng_term_is_none(durable) ? 0 : now + g->grant_ns", ".bound = 0", ("unit test_grants",)),
    ("a ping behind RELEASE grants", "remote/grant.c", "if (g->released && eng_term_same(&g->seen, term))", "if (g->released && now == 0)", ("unit test_grants",)),
    ("a repair that failed and is to be tried again does not count as healing", "engine/upkeep/walk_worker_look.c", "worker->asked = worker->owes;", "worker->asked = false;", ("unit test_heal",)),
    ("an upload that an epoch keeps out for long ends its leader", "engine/object/put_stripe.c", "return op->result == -ESTALE && !op->deposed && (put->store->options.cluster != NULL || eng_is_home(put->store));", "return op->result == -ESTALE && op->deposed && put == NULL;", ("unit test_decided",)),
    ("a CAS that a full etcd refused is asked about until its deadline", "cluster/etcd_cas.c", "                if (cas->full) {", "                if (cas->full && cas->steps > 99) {", ("unit test_etcd_cas",)),
    ("a node joins in that cannot open what others seal", "net/wire_frame.c", "at < 0 || secrets_find(ours, theirs->key[0]) < 0", "at < 0", ("unit test_wire_frame",)),
    ("a node is admitted whatever its keys are", "net/admission.c", "        if (verdict == NET_SECRETS_APART)\n                refusal_set(conn, NET_REASON_KEYS, 0, 0);\n        return verdict != NET_SECRETS_APART;", "        return true;", ("unit test_net",)),
    ("what lies behind a password is digested", "server/cluster_secrets.c", "strcpy(of_root.credentials.secret_key, read.secret_key);", "memcpy(of_root.credentials.access_key, read.access_key, strlen(read.access_key));", ("unit test_cluster_secrets",)),
    ("a lease counts from when its pings were answered", "cluster/leader.c", "p->shown_at = ping->sent;", "p->shown_at = leader_now(l);", ("unit test_leader_pings",)),
    ("a ping counts as sent when it is answered", "remote/remote_term.c", "                ping->count = head.count;\n", "                ping->count = head.count;\n                ping->sent = client_now(ping->client);\n", ("unit test_leader_pings",)),
    ("each round of questions waits for a node that is silent", "cluster/elector.c", "a->waited = a->since == 0;", "a->waited = true;", ("unit test_leader_pings",)),
    ("who tries does not say which slots are silent", "cluster/elector.c", "return a->since != 0 && lp_now(e->loop) - a->since >= CL_ABSENT_NS;", "return false;", ("unit test_leader_pings",)),
    ("a leader that falls silent is not looked at more often", "cluster/elector.c", "(verdict == CL_HEARD && !fresh) ||", "(verdict == CL_HEARD && !fresh && e->round == 0) ||", ("unit test_leader_pings",)),
    ("a start does not hear that a slot is silent", "engine/base/events.c", "silence->store->events->slot_silent(silence->store);", "silence->store->stopping = false;", ("unit test_leader_pings",)),
    ("a lease counts another incarnation", "remote/leader_lease.c", "return slots[i].incarnation == m->incarnation &&", "return m->incarnation != 0 &&", ("unit test_grants",)),
    ("a lease counts pings from before a member was one", "remote/leader_lease.c", "if (!lease_has(&before, &members[i]))", "if (!lease_has(lease, &members[i]))", ("unit test_grants",)),
    ("an older leader's session outlives OPEN", "remote/drive_server.c", "eng_term_same(term, &served->admitted) ? REM_DONE : REM_DEPOSED;", "eng_term_same(term, term) ? REM_DONE : order < 0 ? REM_DONE : REM_DEPOSED;", ("unit test_terms",)),
    ("a drive takes operations of older terms", "engine/drive/term.c", "        op->deposed = true;\n        return -ESTALE;\n}\n\n/* ---- OPEN", "        return 0;\n}\n\n/* ---- OPEN", ("unit test_term",)),
    ("a drive that was opened anew needs no OPEN", "engine/drive/term.c", "if (order > 0 || (order == 0 && !terms->opened))", "if (order > 0)", ("unit test_term",)),
    ("OPEN is answered before what was taken on ahead of it", "engine/drive/log.c", "if (at->op != NULL || at->written)\n                        behind = at;", "if (at->written)\n                        behind = at;", ("unit test_term", SIMDRIVE)),
    ("the index has no term", "engine/drive/batch.c", "batch->has_term = l->terms.dirty;", "batch->has_term = false;", ("unit test_term", SIMDRIVE)),
    ("the log has no term", "engine/drive/replay.c", "return eng_terms_take(r->l, body, rec->body_len, rec->file);", "return 0;", ("unit test_term", SIMDRIVE)),
    ("a log file goes with its TERM record", "engine/drive/term.c", "        eng_log_file_needed(l, file, 1);\n", "", ("unit test_term", SIMDRIVE)),
    ("a new leader of a full drive waits for room", "engine/drive/log.c", "return !keeps ? left : left > TERM_BYTES ? left - TERM_BYTES : 0;", "return keeps ? left : left + 0;", ("unit test_full",)),
    ("a new leader of a full drive waits for what an old one appends", "engine/drive/log.c", "append->written || eng_term_compare(&append->op->term, term) >= 0)", "append->written || eng_term_compare(&append->op->term, term) != 0 || term != NULL)", ("unit test_term", "unit test_full")),
    ("what follows a lost COMMIT is done", "remote/served_op.c", "(r->op.kind != ENG_OP_COMMIT && r->head.commits == served->commits)", "r->op.kind != ENG_OP_COMMIT", ("unit test_remote_faults",)),
    ("a COMMIT behind a lost one counts", "remote/served_op.c", "r->head.commits == served->commits + 1", "r->head.commits > served->commits", ("unit test_remote_faults",)),
    ("an operation for an earlier incarnation is done", "remote/drive_server.c", "if (!begins && head->incarnation != served->incarnation)", "if (!begins && head->incarnation == 0)", ("unit test_remote_faults",)),
    ("a loop that stood still takes nodes for mute", "remote/remote_call.c", "if (now > d->mute_due + REM_MUTE_LOOK_NS)", "if (false)", ("unit test_remote_faults",)),
    ("what a mute node was asked is waited for", "remote/remote_call.c", "atomic_store_explicit(&d->mute, true, memory_order_relaxed);", "continue;", ("unit test_remote_faults",)),
    ("an older session goes on", "remote/drive_server.c", "return same && r->head.session == served->session ?", "return same && r->head.session != 0 ?", ("unit test_remote_faults",)),
    ("an older session may be begun", "remote/drive_server.c", "if (same && r->head.session <= served->session)", "if (same && r->head.session == 0)", ("unit test_remote_faults",)),
    ("operations for a drive that was replaced are done", "remote/drive_server.c", "(memcmp(head->drive_id, served->identity.drive_id, FMT_ID) != 0 &&", "(head->drive_id[0] == 255 &&", ("unit test_remote_faults",)),
    ("COMMITs wait for the credit of APPENDs", "remote/remote_call.c", "(op->kind == ENG_OP_APPEND || op->kind == ENG_OP_WRITE ? 0 : 1)", "(op->kind == ENG_OP_WRITE ? 0 : 1)", ("unit test_remote_faults",)),
    ("a slow drive may have every buffer for peers", "remote/served_op.c", "*slots >= lp_share_free(r->at, LP_SHARE_PEER)", "lp_share_free(r->at, LP_SHARE_PEER) == 0", ("unit test_remote_faults",)),
    ("superseded values are forgotten as they are sent", "remote/served_watch.c", "served->report_first < next)", "next > 0)", ("unit test_remote_faults",)),
    ("a refusal of before the session counts", "remote/remote_drive.c", "if (begun != d->begun || d->told == begun", "if (d->told == begun", ("unit test_remote_faults",)),
    ("a late answer of an incarnation before fails the drive", "remote/remote_call.c", "op->result == -EIO && prefix.incarnation == d->incarnation", "op->result == -EIO", ("unit test_remote_faults",)),
    ("what waited for a buffer is sent in a later session", "remote/remote_call.c", "if (c->session != c->drive->session || c->begun != c->drive->begun)", "if (c->session == 0)", ("unit test_remote_faults",)),
    ("the slot of a read that is asked for no more goes back while bytes may come", "remote/remote_call.c", "        atomic_fetch_add(&c->drive->calls, 1); /* as if it were not answered */\n", "        atomic_fetch_add(&c->drive->calls, 1);\n        c->left(c->home, c->slot);\n        c->slot = NULL;\n        atomic_fetch_sub(&c->drive->calls, 1);\n", ("unit test_remote_faults",)),
    ("a shard that did not come is not asked for again", "engine/object/get_stripe.c", "s->silent |= 1u << shard;", "s->bad |= 1u << shard;", ("unit test_hedge",)),
    ("a read waits for a node that says nothing", "remote/remote_call.c", "(op->kind == ENG_OP_READ && op->read.left == NULL)", "op->kind == ENG_OP_READ", ("unit test_remote_faults",)),
    ("what a drive's opening told of its log counts for ever", "remote/remote_drive.c", "        if (!atomic_load(&d->lacks))\n", "        if (!atomic_load(&d->lacks) && d->facts->damage[0] == 0)\n", ("unit test_remote_drive",)),
    ("busy is believed of any operation", "remote/remote_call.c", "status == REM_BUSY && rem_may_wait(c->op->kind)", "status == REM_BUSY", ("unit test_remote_faults",)),
    ("a record is written with a checksum of other bytes", "remote/served_op.c", "r->op.append.body_crc != era_crc32c(0, r->body->data, r->body->len)", "r->body->len == 0", ("unit test_remote_faults",)),
    ("values of a remote drive are believed", "remote/remote_call.c", "if (eng_value_check(value->data, value->len) != 0)", "if (value->len == 0)", ("unit test_remote_faults",)),
    ("bodies that connections left have no bound", "remote/served_op.c", "atomic_fetch_add(bytes, len) + len <= REM_APPEND_BYTES", "atomic_fetch_add(bytes, len) + len > 0", ("unit test_remote_faults",)),
    ("a store closes under drives that have no slot", "engine/store/store.c", "i < store->unplaced_count; i++)\n                if (store->unplaced[i].local != NULL && eng_drive_awaits_file(", "i < store->unplaced_count; i++)\n                if (store->unplaced[i].local != NULL && store->members[i].local != NULL && eng_drive_awaits_file(", ("unit test_recover",)),
    ("a CAS whose key is as it was counts as failed (R1)", "cluster/etcd_cas.c", "cas_pause(cas, -ETIMEDOUT, \"no answer, and", "cas_end(cas, CL_CAS_LOST, 0, \"no answer, and", ("unit test_etcd_cas",)),
    ("a CAS that was overtaken counts as failed (R1)", "cluster/etcd_cas.c", "cas->step = now[0].mod_revision;\n                cas_walk(cas);", "cas_end(cas, CL_CAS_LOST, 0, \"\");", ("unit test_etcd_cas",)),
    ("the own value counts though it is the old one (R1)", "cluster/etcd_cas.c", "if (now->mod_revision == cas->mod_revision) {", "if (now->mod_revision == cas->mod_revision && !bytes_equal(now->value, cas->value)) {", ("unit test_etcd_cas",)),
    ("a transaction goes to another member after it was sent (R1)", "cluster/etcd_call.c", "if (sent && call->changes)", "if (sent && call->changes && call->tries > 0)", ("unit test_etcd_client",)),
    ("a full etcd has not carried anything out (R1)", "cluster/etcd_read.c", "return ETCD_FULL;", "return ETCD_REFUSED;", ("unit test_etcd_read",)),
    ("etcd's revision may fall (R2)", "cluster/etcd_seen.c", "revision < seen->revision ?", "revision < 0 ?", ("unit test_etcd_read",)),
    ("an answer is judged by what was seen after it was asked for (R2)", "cluster/etcd_client.c", "struct cl_seen known = *floor;", "struct cl_seen known = client->seen;", ("unit test_etcd_client",)),
    ("pieces of two answers make one", "remote/remote_call.c", "prefix->total != c->whole->len || prefix->total_crc != c->whole_crc", "prefix->total != c->whole->len", ("unit test_remote_faults",)),
    ("a short write to the log passes", "engine/drive/log.c", "res < 0 || (uint32_t)res != log->write_len || eng", "res < 0 || eng", ("unit test_log test_local", UNIT, FAULTS)),
    ("a record read back is not summed", "engine/drive/recread.c", "era_crc32c(0, r->record + sizeof(rec), rec.body_len) != rec.body_crc", "false", ("unit test_recread", UNIT, FAULTS)),
    ("a record's header is not summed", "engine/drive/rec.c", "rec->header_crc == rec_crc(rec) && ", "", ("unit test_log test_replay test_tear", UNIT, POWER)),
    ("a replayed body is not summed", "engine/drive/replay_file.c", "return era_crc32c(0, *body, rec->body_len) == rec->body_crc;", "return 1;", ("unit test_tear test_replay", POWER, UNIT)),
    ("the chain of records is not checked", "engine/drive/replay_file.c", " || rec->prev_crc != prev_crc)", ")", ("unit test_replay test_tear", UNIT, POWER)),
    ("damage in the middle of the log passes for its end", "engine/drive/replay.c",
     "r->rest.damage != 0 || (file->salvaged", "(file->salvaged", ("unit test_replay test_tear", UNIT)),
    ("a page that is bad when frames are taken in does not condemn the index", "engine/drive/open.c", "rv = open_take_location(intake, frame, &location);\n        eng_local_index_error(intake->l, rv);",
     "rv = open_take_location(intake, frame, &location);", ("unit test_intake",)),
    ("the log goes on in a file with a torn batch", "engine/drive/replay.c", "if (r->rest.records)\n                return 0;", "if (r->files == NULL)\n                return 0;", ("unit test_tear test_replay", UNIT, SIMDRIVE, POWER)),
    ("the index says it covers what is pending", "engine/drive/append.c", "if (oldest != NULL) {\n                assert(", "if (l->drive.owner == NULL) {\n                assert(", ("unit test_replay test_local test_log", UNIT, POWER, CRASH)),
    ("a frame's header is not summed", "engine/drive/frame.c", "return frame_header_crc(frame) == frame->header_crc ? 0 : -EBADMSG;", "return 0;", ("unit test_frame", UNIT, FAULTS)),
    ("payload is not summed", "engine/drive/frame.c", "if (era_crc32c(0, bytes + (at - first), part) == frame->block_crc[at / FMT_CRC_BLOCK])", "if (part > 0)", ("unit test_frame", UNIT, FAULTS)),
    ("payload that is read with its CRC is not compared", "engine/drive/frame.c", "return era_crc32c(whole, block + to, len - to) == expected;", "return true;", ("unit test_frame", UNIT, FAULTS)),
    ("rows of the index are not summed", "engine/drive/index_rows.c", "return crc == index_crc(key, key_len, row, len) ? 0 : -EBADMSG;", "return 0;", ("unit test_index_damage test_index", UNIT)),
    ("log files go in which something lives", "engine/drive/file.c", " && file->live_names == 0 && file->pins == 0", " && file->pins == 0", ("unit test_log test_local test_replay", UNIT, POWER, CRASH)),
    ("log files go that the durable index does not cover", "engine/drive/file.c", "|| file->number >= l->covered.file)", ")", ("unit test_log test_local test_replay", UNIT, POWER, CRASH)),
    ("log files go whose tombstones still hide something", "engine/drive/file.c", "(oldest || file->tombstones == 0)", "true", ("unit test_reclaim_log", UNIT, SIMDRIVE, POWER, CRASH)),
    ("log files go from the middle without a FREED record", "engine/drive/file.c", "if (oldest || file->freed) {", "if (file != NULL) {", ("unit test_freed", UNIT, POWER)),
    ("how a log file ended is not told before the next one goes", "engine/drive/file.c", "if (before == NULL || before->end_crc == 0)", "if (before != NULL)", ("unit test_log_end", UNIT, SIMDRIVE)),
    ("a log file that does not end as it should has ended with a tear", "engine/drive/replay.c", "if (known != NULL && known->end_crc != 0)", "if (known == NULL)", ("unit test_log_end", UNIT, SIMDRIVE)),
    ("records of a torn batch count once the records before it are damaged", "engine/drive/replay.c", "return end != 0 ? end : UINT64_MAX;", "return end == 1 ? end : UINT64_MAX;", ("unit test_log_end", SIMDRIVE)),
    ("how a log file ended is forgotten at a restart", "engine/drive/open.c", "file->end_crc = row->end_crc;", "(void)0;", ("unit test_log_end", UNIT)),
    ("log files go with the last copy of an epoch", "engine/drive/file.c", "if (file->epochs == 0)\n", "if (file != NULL)\n", ("unit test_reclaim_log", UNIT, POWER, CRASH)),
    ("dead shards go while a reader has them", "engine/txn/deferred_delete.c", "return p != NULL;", "return el == NULL;", ("unit test_store", UNIT, SIM, "reads", FAULTS)),
    ("a segment found is appended to", "engine/drive/segment_open.c", "segment->sealed = true;", "segment->sealed = false;", ("unit test_segment_open", UNIT, POWER)),
    ("the end of a segment is where its data ends", "engine/drive/segment_open.c", "if (at > segment->end)", "if (segment == NULL)", ("unit test_segment_open", UNIT, POWER)),
    ("what the index knows of a segment may be behind its end", "engine/drive/segment_open.c", "if (row != NULL && segment->end < row->indexed_to)", "if (segment == NULL)", ("unit test_segment_open", UNIT, POWER)),
    ("what is left of a lost stripe stays on the drive that leaves", "engine/upkeep/rebuild_write.c", "if (copy_remnants(rebuild))", "if (rebuild->unit == NULL && copy_remnants(rebuild))", ("unit test_rebuild_lost",)),
    ("a shard on a drive that is away counts as gone", "engine/object/get_stripe.c", "(get->el->view.map->gone & eng_bit(slot)) != 0;", "drive_of(get, s, shard) < 0;", ("unit test_rebuild_lost",)),
    ("a stripe that is lost ends the repair", "engine/upkeep/rebuild_write.c", "if (rv == -EAGAIN || !eng_get_lost(rebuild->get, &at))", "if (rv != 0 || !eng_get_lost(rebuild->get, &at))", ("unit test_rebuild_lost",)),
    ("a null version is moved apart", "engine/upkeep/rebuild_plan.c", "eng_value_field(value, len, FMT_FIELD_VERSION, &n) != NULL);", "(eng_value_field(value, len, FMT_FIELD_VERSION, &n) != NULL || len > 0));", ("unit test_move_apart",)),
    ("an orphan collection takes what a move has written", "engine/upkeep/orphans.c", "if (eng_rebuild_oldest(el, oldest, &epoch)) {", "if (bound == NULL && eng_rebuild_oldest(el, oldest, &epoch)) {", ("unit test_move_apart",)),
    ("a move that comes to nothing leaves what it has written", "engine/upkeep/rebuild.c", "rebuild->anew && !rebuild->txn.appended", "rebuild->anew && rebuild->txn.appended", ("unit test_move_apart",)),
    ("a move that comes to nothing is a failure of the walk", "engine/upkeep/walk_worker_look.c", "if (m->all && m->apart != 0) {", "if (m->all && m->apart == UINT64_MAX) {", ("unit test_move_apart",)),
    ("what lies too close is moved to where it would lie no better", "engine/placement/place.c", "fullest = n > most ? i : fullest;", "fullest = n < most ? i : fullest;", ("unit test_place",)),
    ("a repair does not wait for another one of the same object", "engine/upkeep/rebuild.c", "rebuild->waits = find_rebuild(rebuild->el, &rebuild->txn) != NULL;", "rebuild->waits = rebuild->el == NULL;", ("unit test_rebuild", SIM)),
    ("a drive for which memory is lacking is given up", "engine/epoch/recover.c", 'eng_error_set(error, -ENOMEM, "%s: no memory to open it"', 'eng_error_set(error, -EIO, "%s: no memory to open it"', ("unit test_recover",)),
    ("a drive that lost the end of its log keeps what it had forgotten", "engine/epoch/recover.c", "eng_rebalance_behind(store, behind(store, chosen, present));", "(void)behind;", ("unit test_rebalance",)),
    ("who is no node learns of the cluster what HELLO is judged by", "net/admission.c", "        if (name[0] == '\\0')\n",
     "        if (net_hello_judge(&net->self, &conn->hello, lp_wall_ms(), &conn->version, &conn->refusal) != NET_REASON_NONE)\n                return;\n        if (name[0] == '\\0')\n",
     ("unit test_link_faults",)),
    ("a drive that has gone is brought up to date", "engine/epoch/catch_up.c", "if ((gone & eng_bit(i)) || store", "if ((gone & 0) || store", ("unit test_grow", SIM)),
    ("a drive that is taken back ends the adding of others, which lack names", "engine/epoch/rebalance.c", "promoted &= ~c->wish.gone;", "(void)c;", ("unit test_grow",)),
    ("a drive that is removed goes though another one failed meanwhile", "engine/epoch/rebalance.c", "if (!can_go(store, c->wish.gone & ~c->said_gone, promoted))", "if (false && !can_go(store, c->wish.gone & ~c->said_gone, promoted))", ("unit test_coord",)),
    ("a member with a damaged log counts before its names were compared", "engine/epoch/recover.c", "damaged = damaged_logs(store, present);", "damaged = damaged_logs(store, present) & 0;", ("unit test_recover",)),
    ("a member that lacks the last epoch in force counts", "engine/epoch/lost.c", "lose(find, i, ENG_LOST_EPOCH);", "(void)0;", ("unit test_lost", SIM)),
    ("a member that lacks records which others applied counts", "engine/epoch/lost.c", "lose(find, i, ENG_LOST_RECORDS);", "(void)0;", ("unit test_lost", SIM)),
    ("a member that an epoch took in which it lacks counts", "engine/epoch/lost.c", "lose(find, i, ENG_LOST_CATCH_UP);", "(void)0;", ("unit test_lost", SIM)),
    ("a member that was taken in before an epoch that reached one drive does not count", "engine/epoch/lost.c", " && !was_taken_in(m, i, tail.in_force)", " && (!was_taken_in(m, i, tail.in_force) || m != NULL)", ("unit test_recover",)),
    ("an epoch that was never in force does not say that it was to end an addition", "engine/epoch/epoch_body.c", "(added & drive ? FMT_EPOCH_ADDED : 0)", "(added & drive ? 0 : 0)", ("unit test_added", SIM)),
    ("an epoch that was never in force ends the addition of a drive", "engine/epoch/recover.c", "c->added |= flags & FMT_EPOCH_ADDED ? drive : 0;", "c->added |= flags == UINT8_MAX ? drive : 0;", ("unit test_added", SIM)),
    ("names are forgotten while a member of their group is out", "engine/epoch/migrated_drop.c", " || mask == 0 || !all_in(&c->view, store->pg_count))", " || mask == 0 || (c->store == NULL && !all_in(&c->view, store->pg_count)))", ("unit test_added",)),
    ("a member that was one before counts, where no epoch is known to have been in force", "engine/epoch/lost.c", "return in_force != 0 && own->number", "return own->number", ("unit test_no_tail",)),
    ("a drive whose log ends before what its index covers counts", "engine/epoch/lost.c", "lose(find, i, ENG_LOST_LOG);", "(void)0;", ("unit test_lost", SIM)),
    ("a drive from which the group has gone is given a name", "engine/resync/resync.c", "return (writers & view->in & view->up & slot) != 0;",
     "return (view->in & view->up & slot) != 0;", ("unit test_agree", SIM)),
    ("a drive that was being removed opens the store for reading alone", "engine/epoch/recover.c", "(leaving != 0 && eng_placement_can_form(view->map, next", "(leaving == 0 && eng_placement_can_form(view->map, next",
     ("unit test_rebalance",)),
    ("shards go on one member's word", "engine/txn/deferred_delete.c", "return speakers != 0 && (speakers & ~deferred->reported) == 0;", "return speakers != 0;", ("unit test_agree", SIM)),
    ("shards go while a lookup of before is under way", "engine/txn/deferred_delete.c", "!lookups_under_way(el, pg, deferred->upto))", "!lookups_under_way(el, pg, 0))", ("unit test_deferred_delete", SIM, "reads")),
    ("a name that differs is decided before all members have answered", "engine/resync/agree.c", "else if ((all & ~(have | agree->absent)) == 0)", "else if (all != 0)", ("unit test_agree", SIM)),
    ("a name that one member lacks is taken from the others", "engine/resync/agree.c", "(!eng_outvoted(have, agree->absent) && !agree->head_denies) || agree->has_versions;", "have != 0 && agree->absent == 0;", ("unit test_agree", SIM)),
    ("a head that most members have lost is taken from the others", "engine/resync/agree.c", "agree->has_versions = rv == 0;", "agree->has_versions = rv > 0;", ("unit test_old_rows",)),
    ("a hold is asked of one member", "engine/object/delete.c", "eng_txn_lookup_all(txn, 0, delete_version_found);", "eng_txn_lookup(txn, 0, delete_version_found);", ("unit test_old_rows",)),
    ("a copy is of what one member has", "engine/resync/resync.c", "eng_txn_lookup_all(txn, ENG_OP_WANT_INLINE, members_have);", "eng_txn_lookup(txn, ENG_OP_WANT_INLINE, members_have);", ("unit test_old_rows",)),
    ("a member that cannot answer is passed over", "engine/txn/words.c", "return left == 0 || (unsigned)", "return left != ENG_DRIVES_MAX || (unsigned)", ("unit test_old_rows",)),
    ("a bucket is empty whatever one member has", "engine/bucket/bucket_look.c", "look->found = true;", "look->found = look->store == NULL;", ("unit test_old_rows",)),
    ("a bucket is empty where one member says so", "engine/bucket/bucket_look.c", "return eng_outvoted(have, absent);", "return absent != 0 && have != UINT64_MAX;", ("unit test_old_rows",)),
    ("a name is not there on one member's word", "engine/txn/words.c", "return eng_outvoted((members | (speakers & view->up)) & ~absent, absent);", "return absent != 0 && (view->up | members) != 0;", ("unit test_words", SIM)),
    ("a drive that catches up is compared with one member alone", "engine/epoch/catch_up.c", "return good;\n        return read", "return good & -good;\n        return read", ("unit test_words",)),
    ("a drive that catches up drops what one member lacks", "engine/resync/resync.c", "if (!resync->repair && rv == -EHOSTDOWN && only_condemned_differ(txn))", "if (!resync->repair && rv == -EHOSTDOWN && (only_condemned_differ(txn) || txn->words.absent != 0))", ("unit test_words",)),
    ("a bad page of the index ends the process", "engine/drive/index_guard.c", "if (guard_now != NULL && info->si_code > 0) {", "if (guard_now == NULL && info->si_code > 0) {", ("unit test_index_damage test_index_rot", UNIT)),
    ("a bucket takes entries of its number along", "engine/bucket/bucket_drop.c", "eng_name_text(&drop->text_end, drop->bucket, ENG_ENTRY_KINDS, 0);", "drop->text_end = drop->text; eng_name_successor(&drop->text_end);", ("unit test_entries",)),
    ("a text that the member read later lacks is forgotten", "engine/bucket/text_load.c", "for (; load->next < load->count; load->next++)\n                if (merged_add", "for (; load->next > load->count; load->next++)\n                if (merged_add", ("unit test_entries",)),
    ("loops are not told that an entry has changed", "engine/bucket/text_set.c", "eng_entry_tell(el, tc->bucket, tc->kind);", "(void)el;", ("unit test_entries",)),
    ("an entry that nobody has whole is not there", "engine/bucket/text_load.c", "eng_entry_load(load->store, load->found[i].bucket, load->found[i].text);", "if (!load->found[i].text->damaged) eng_entry_load(load->store, load->found[i].bucket, load->found[i].text);", ("unit test_entries",)),
    ("a key that is switched off signs", "gateway/people/people.c", "!key->active ||", "key == NULL ||", ("unit test_people",)),
    ("a key that is switched off leaves its sessions open", "gateway/people/people.c", "!= 0 || !key->active)\n                people->gw->service", "!= 0)\n                people->gw->service", ("unit test_people",)),
    ("a user with keys can be deleted", "gateway/people/people_change.c", "return has_any(people, GW_ACCESS_KEY, who->account, who->name);", "return false;", ("unit test_people",)),
    ("an unreadable user with keys can be deleted", "gateway/people/people_change.c", "((rv == 0 || rv == -EIO) && is_referred_to", "(rv == 0 && is_referred_to", ("unit test_people",)),
    ("a key of a user called - is the root's", "gateway/people/entity.c", "(is_name(who->of, 64) && !is_dash(who->of))", "is_name(who->of, 64)", ("unit test_people",)),
    ("JSON that lacks a byte for want of memory is taken", "s3/json_load.c", "        if (out_of_json_memory) {", "        if (out_of_json_memory && json == NULL) {", ("unit test_every_allocation",)),
    ("another entity of the same number is taken for it", "gateway/people/people.c", "if (!gw_entity_same(&(*out)->entity->who, who))", "if ((*out)->entity == NULL)", ("unit test_people",)),
    ("a policy that cannot be read forbids nothing", "gateway/rights/who.c", "if (policies->broken || ", "if (", ("unit test_permit",)),
    ("an attached policy that is missing forbids nothing", "gateway/rights/who.c", "if (policy == NULL || who->policies == GW_IDENTITY_MAX)", "if (policy == NULL)\n                        continue;\n                if (who->policies == GW_IDENTITY_MAX)", ("unit test_permit",)),
    ("a bucket policy that cannot be read is none", "gateway/rights/rights_decide.c", "c->unreadable = rv != 0 && rv != -ENOENT;", "c->unreadable = rv == -EXDEV;", ("unit test_permit",)),
    ("strangers have headers of answers as they like", "gateway/s3/auth.c", "if (asks_for_headers(req)) {", "if (asks_for_headers(req) && false) {", ("unit test_permit",)),
    ("what was found is decided by the policy of another bucket of that name", "gateway/http/permit.c", "if (ask.bucket_id != 0 && (ask.found", "if (ask.bucket_id == UINT64_MAX && (ask.found", ("unit test_existing_tags",)),
    ("nobody asks again when the object is found", "gateway/s3/request_rights.c", "req->object_decides = permitted == GW_PERMITTED_IF;", "req->object_decides = false;", ("unit test_existing_tags",)),
    ("an entry of a batch is not asked about again when it is found", "gateway/rdma/entry.c", "entry->object_decides = permitted == GW_PERMITTED_IF;", "entry->object_decides = false;", ("unit test_get_batch",)),
    ("the source of a copy is not asked about again when it is found", "gateway/s3/copy.c", "copy->source_decides = permitted == GW_PERMITTED_IF;", "copy->source_decides = false;", ("unit test_existing_tags",)),
    ("tags that allow a change may go before it is made", "gateway/s3/version_ids.c", "change->if_tags = req->object_decides;", "change->if_tags = false;", ("unit test_existing_tags",)),
    ("the object that may be changed may go before it is", "gateway/s3/version_ids.c", "memcpy(change->id, object->id, ENG_ID_LEN);", "change->if_id = false;", ("unit test_existing_tags",)),
    ("tags are changed whatever there was", "engine/object/update.c", "        return change->if_tags &&\n", "        return change->if_tags && change->set_hold &&\n", ("unit test_versions",)),
    ("tags that cannot be read are none", "gateway/rights/conditions.c", "        return c->existing_known;\n}\n\n/* A tag", "        return ask != NULL;\n}\n\n/* A tag", ("unit test_existing_tags",)),
    ("the bucket's owner gives another's objects away", "gateway/rights/rights_decide.c", "c->policies.denies_only = true;", "c->policies.denies_only = false;", ("unit test_permit",)),
    ("a bucket is made that another pool was said to have", "engine/bucket/bucket_pool.c", "return rv == 0 ? -EREMOTE : rv == -ENOENT ? 0 : rv;", "return rv == 0 || rv == -ENOENT ? 0 : rv;", ("unit test_bucket_pool",)),
    ("a bucket that is there is said to be in another pool", "engine/bucket/bucket_pool.c", "        if (eng_bucket_find(store->coord_loop, name) != NULL)\n                return -EEXIST;\n", "", ("unit test_bucket_pool",)),
    ("the pool of a bucket is taken away", "engine/bucket/bucket_pool.c", "return old == NULL ? -ENOENT : -EPERM;", "return old == NULL ? -ENOENT : 0;", ("unit test_bucket_pool",)),
    ("a home says the pool of a name under another number", "engine/bucket/bucket_pool.c", " || bucket_pool_number(name) != id)", ")", ("unit test_bucket_pool",)),
    ("the pool of a name is that of another name of its number", "engine/bucket/bucket_pool.c", "return same_name(of, name) ? 0 : -ENOENT;", "return 0;", ("unit test_bucket_pool",)),
    ("builds that do not look for pools of buckets open the drive", "engine/bucket/text_set.c", "FMT_FEATURE_VERSIONS | (tc->kind == ENG_ENTRY_BUCKET_POOL ? FMT_FEATURE_POOLS : 0)", "FMT_FEATURE_VERSIONS", ("unit test_bucket_pool",)),
    ("a change of users begins again when a bucket is made", "engine/bucket/config_digest.c", "text->kind == ENG_ENTRY_BUCKET_POOL ? &digests->bucket_pools : &digests->entries", "&digests->entries", ("unit test_bucket_pool",)),
    ("a bucket is said not to be there by a pool that may be old", "gateway/http/pools.c", "        if (!eng_is_current(store))\n                return -EHOSTDOWN;\n", "", ("unit test_pools",)),
    ("users are believed by an old directory", "gateway/http/pools.c", "(of == directory || !is_of_directory(req, access_key) || eng_is_current(directory))", "(of == directory || !is_of_directory(req, access_key) || true)", ("unit test_pools",)),
    ("what a bucket's policy would say is a refusal while its pool does not answer", "gateway/http/permit.c", "if (ask.bucket_lost && ask.req != NULL)", "if (ask.bucket_lost && ask.req != NULL && ask.bucket_id == 0)", ("unit test_rights_old",)),
    ("rights are decided by copies that may be old", "gateway/http/permit.c", "return gw_ask_decided(&ask) && permitted;", "return permitted;", ("unit test_rights_old",)),
    ("an access log is delivered by a policy that may be withdrawn", "gateway/s3/log_delivery.c", "        if (!eng_is_current(rv == 0 ? bucket->store : logs->loop->gw->store))", "        if (logs == NULL)", ("unit test_rights_old",)),
    ("rights in IAM are decided by copies that may be old", "gateway/rights/trust.c", "return gw_ask_decided(ask) && verdict.allowed;", "return verdict.allowed;", ("unit test_rights_old",)),
    ("buckets of a pool that is not known yet are left out of lists", "gateway/http/pools.c", "return pools_are_missing(gw) ? -EHOSTDOWN : 0;", "return pools_are_missing(gw) ? 0 : 0;", ("unit test_pools",)),
    ("buckets of a pool that cannot answer are left out of lists", "gateway/http/pools.c", "|| had_buckets(gw->pools.list[i].store)) && !pool_answers(gw->pools.list[i].store))", "|| had_buckets(gw->pools.list[i].store)) && !pool_answers(gw->store))", ("unit test_pools",)),
    ("a pool that no entry names has to answer for lists of buckets", "gateway/http/pools.c", "if (((named >> gw->pools.list[i].number & 1) != 0 ||", "if ((named >> gw->pools.list[i].number <= named ||", ("unit test_pools",)),
    ("a number is given to another pool while its configuration is lost", "cluster/directory.c", "|| (view->pools[i].is_led && !view->pools[i].has_config))", "|| (view->pools[i].is_led && view->pools[i].bad))", ("unit test_node",)),
    ("a pool gets folders of a removed node", "cluster/new_cluster.c", "if (member != NULL && member->node.state == CL_NODE_GONE) {", "if (member != NULL && member->number == 0) {", ("unit test_node",)),
    ("a reseed lets a removed node in", "cluster/reseed.c", "node.state = stays_removed(r, number) ? CL_NODE_GONE : CL_NODE_IN;", "node.state = stays_removed(r, number) && len == 0 ? CL_NODE_GONE : CL_NODE_IN;", ("unit test_reseed",)),
    ("a reseed guesses which pool is which", "cluster/reseed_plan.c", "        if (without > 1)\n", "        if (without > 99)\n", ("unit test_reseed",)),
    ("a node keeps a map for each epoch", "engine/home/home_store.c", "if (home->epoch != NULL && eng_epoch_same_placement(&before, of))", "if (home->epoch != NULL && eng_epoch_same_placement(&before, of) && of == NULL)", ("unit test_home",)),
    ("a bucket that another gateway was quicker with is an error", "gateway/s3/op_bucket.c", "else if (rv == -EREMOTE)", "else if (rv == 1)", ("unit test_pools",)),
    ("ACLs count where the bucket's owner owns all", "gateway/rights/rights_decide.c", "c->acls = service->takes_acls != NULL && service->takes_acls(bucket->store, bucket->id);", "c->acls = service->takes_acls != NULL;", ("unit test_permit",)),
    ("public ACLs that are to be ignored count", "gateway/rights/acl_grant.c", "service->ignores_public_acls == NULL || service->ignores_public_acls(bucket->store, bucket->id);", "service->ignores_public_acls == NULL;", ("unit test_permit",)),
    ("an object gets a public ACL in spite of the block", "gateway/s3/acl_request.c", "if (s3_acl_is_public(&acl) && gw_blocks_public_acls(req->store, req->bucket_id))", "if (s3_acl_is_public(&acl) && req->bucket_id == UINT64_MAX)", ("unit test_permit",)),
    ("who is made under a name gets what a policy gave to the former", "access/names_match.c", "return s3_str_eq(id, name->id) ? ACC_GRANT_DIRECT : ACC_GRANT_NONE;", "return name->id.len > 0 ? ACC_GRANT_DIRECT : ACC_GRANT_NONE;", ("unit test_permit",)),
    ("a star for several parts of an ARN means nothing", "access/pattern_match.c", "if (arn->whole != NULL && arn_whole", "if (arn->whole != NULL && request != NULL && parts == NULL && arn_whole", ("unit test_policy_match",)),
    ("what is missing is told to everybody", "gateway/s3/request_rights.c", "return gw_permit(&ask, NULL) ? error : S3_ERR_ACCESS_DENIED;", "return gw_permit(&ask, NULL) ? error : error;", ("unit test_permit",)),
    ("a condition on what is not known allows", "access/condition_match.c", "return deny == (values.unknown == ACC_UNKNOWN);", "return true;", ("unit test_permit",)),
    ("an entity is deleted that is another than the one seen", "gateway/people/people_change.c", "if (rv == 0 && change->generation != 0 && change->generation != generation)\n                return -ESTALE;\n        if (rv == -EIO", "if (rv == -EIO", ("unit test_people",)),
    ("a second entity gets an id that somebody has", "gateway/people/people_change.c", "|| gw_index_has_id(&people->index, entity->id)", "", ("unit test_people",)),
    ("a key is made for somebody else than it was decided about", "gateway/iam/call.c", "entity, &decided, iam_changed, call));", "entity, call == NULL ? &decided : NULL, iam_changed, call));", ("unit test_iam_decided",)),
    ("a change is made of somebody else than it was decided about", "gateway/iam/call.c", "entity, call->generation, &decided, iam_changed", "entity, call->generation, call == NULL ? &decided : NULL, iam_changed", ("unit test_iam_decided",)),
    ("somebody else is renamed than it was decided about", "gateway/iam/call.c", "entity->who.name, call->generation, &decided,", "entity->who.name, call->generation, call == NULL ? &decided : NULL,", ("unit test_iam_decided",)),
    ("what somebody else has is deleted", "gateway/iam/call.c", "who, generation, &decided, iam_changed", "who, generation, call == NULL ? &decided : NULL, iam_changed", ("unit test_iam_decided",)),
    ("a decision keeps its last look at a name, not the first", "gateway/iam/iam_decided.c", "if (gw_entity_same(&call->seen[i].who, who))\n                        return;", "if (gw_entity_same(&call->seen[i].who, who)) {\n                        call->seen[i].generation = generation;\n                        return;\n                }", ("unit test_people_terms",)),
    ("a name of a file is whoever's it is here", "gateway/people/people_terms.c", "strcasecmp(there->id, seen->id) == 0 ? 0 : -EREMCHG", "strcasecmp(there->id, seen->id) == 0 ? 0 : 0", ("unit test_people_terms",)),
    ("what was decided about nobody is made for whoever comes", "gateway/people/people_terms.c", "return generation == seen->generation ? 0 : -ESTALE;", "return generation == seen->generation || seen->generation == GW_PEOPLE_UNSEEN ? 0 : -ESTALE;", ("unit test_people_terms",)),
    ("an id has a line's end", "gateway/people/people_change.c", "if (!gw_entity_id_valid(entity->who.kind, entity->id))", "if (strlen(entity->id) > GW_ENTITY_ID_MAX)", ("unit test_people_terms",)),
    ("an import takes an id with a line's end", "gateway/people/people_admin.c", "return gw_entity_id_valid(call->entity->who.kind, call->entity->id) ? 0 : -EILSEQ;", "return 0;", ("unit test_people_terms",)),
    ("a policy that is a boundary can be deleted", "gateway/people/people_change.c", "has_any(people, GW_LIST_ATTACHED, policy->who.account, arn) ||\n               has_any(people, GW_LIST_BOUNDED, policy->who.account, arn);", "has_any(people, GW_LIST_ATTACHED, policy->who.account, arn);", ("unit test_people",)),
    ("the first account's root gets keys that can be taken away", "gateway/people/people_change.c", "return -EPERM; /* the settings have it */", "(void)node;", ("unit test_people",)),
    ("changes of people are not one after the other", "gateway/people/people_change.c", "        if (first)\n                people_change_begin(people);", "        if (first || people != NULL)\n                people_change_begin(people);", ("unit test_people",)),
    ("the text of an entity may say what is not known", "gateway/people/entity.c", "decode_set(entity, room, pairs, i, value);\n        return false;", "decode_set(entity, room, pairs, i, value);\n        return true;", ("unit test_people",)),
    ("an index page is not summed", "third_party/lmdb/mdb.c", "(sum && mdb_page_sum(env, mp) != sum) ||", "(sum && sum == 0) ||", ("unit test_index_rot test_index_damage", SIMDRIVE)),
    ("the rows of owners are not kept", "engine/drive/index_owners.c", "rv = owners_change(txn, name, name_len, value, value_len, true);", "rv = value == NULL;", ("unit test_index_owners", UNIT)),
    ("a name whose shards nobody can tell owns nothing", "engine/drive/index_owners.c", "if (rv != 0 || unknown > 0)", "if (rv != 0)", ("unit test_index_owners", UNIT)),
    ("read errors have no budget", "engine/drive/unreliable.c", "atomic_store_explicit(&l->unreliable, true, memory_order_relaxed);", "(void)now;", ("unit test_unreliable", UNIT)),
    ("a read error ends its drive", "engine/drive/unreliable.c", "return res < 0 && !eng_io_again(res);", "return res < 0 && res != -EIO && !eng_io_again(res);", ("unit test_unreliable test_unreadable_store", SIMDRIVE)),
    ("a log that is full fails its drive", "engine/drive/log.c", "if (eng_io_full(res)) {", "if (eng_io_full(res) && log == NULL) {", ("unit test_full", SIMDRIVE)),
    ("drives of a part are taken for two bytes each", "engine/record/value.c", "(out->head.number & FMT_PART_NARROW) != 0 ? 1 : 2;", "(out->head.number & FMT_PART_NARROW) != 0 ? 2 : 2;", ("unit test_value", UNIT)),
    ("an index that knows more than its log is relied on", "engine/drive/replay.c", "if (reach->file != 0 && !(behind", "if (reach->file == UINT64_MAX && !(behind", ("unit test_replay", SIMDRIVE)),
    ("a drive whose loop has ended has failed", "engine/drive/local.c", "l->cut_off = rv == -ECANCELED;", "l->cut_off = false;", ("unit test_local",)),
    ("a log that lost its end is forgotten by a restart", "engine/drive/damage.c", "        d->there = true;\n        return damage_remember(l, NO_EPOCH);\n}\n\n/* What", "        return 0;\n}\n\n/* What", ("unit test_replay",)),
    ("damage in the log is not remembered", "engine/drive/damage.c", "                describe(d);\n        return damage_remember(l, NO_EPOCH);", "                describe(d);\n        return 0;", ("unit test_replay test_tear", SIMDRIVE)),
    ("changes are queued without a bound", "engine/drive/append.c", "if (l->log.queue_bytes + l->pgs.pending_bytes + len > bound)", "if (len > bound)", ("unit test_invariants",)),
    ("a segment is written to where it was written before (I3)", "engine/drive/segment_open.c", "segment->sealed = true;", "segment->sealed = false; segment->end = SEGMENT_FIRST_FRAME;", ("unit test_invariants", SIMDRIVE)),
    ("a history that was given up is heard again", "engine/epoch/recover.c", "if (contradicted(store, m) || was_given_up(store, m))", "if (contradicted(store, m) || (was_given_up(store, m) && m == NULL))", ("unit test_force", SIM)),
    ("frames are moved without a flush before the index names them (I3)", "engine/drive/reclaim_segment.c", "        eng_sync_own(l, &rc->sync, reclaim_segment_synced);", "        rc->sync.result = 0;\n        eng_local_hold(l);\n        reclaim_segment_synced(&rc->sync);", ("unit test_reclaim_segment", SIMDRIVE)),
    ("a drive that a walk could not read has no more names", "engine/walk/walk.c", "walk->failed |= eng_bit(src->slot);", "(void)0;", ("unit test_walk",)),
    ("one 'try again' ends a drive's part in a walk", "engine/walk/walk.c", "&& ++src->tries < TRIES) {", "&& src == NULL) {", ("unit test_walk",)),
    ("a drive that lacks a name has it, to a walk", "engine/walk/walk.c", "                        least = e;\n                        row->have = 0;", "                        least = e;", ("unit test_walk",)),
    ("a walk that could not read the names of a group has looked at all", "engine/upkeep/walk_worker.c", "if (all && (worker->walk->failed != 0 || worker->el->view.lost != 0) && is_uncovered(worker)) {", "if (all && is_uncovered(worker) && worker->walk == NULL) {", ("unit test_heal", SIM)),
    ("a walk that began in the middle does not go round", "engine/upkeep/walk_worker.c", "if (tour != &worker->all || tour->round || worker->order->start.len == 0)", "if (tour != NULL)", ("unit test_heal", SIM)),
    ("repairs that come later pass those that wait", "engine/base/pacer.c", "next = (due < now ? now : due) + cost;", "next = due < now ? now + cost : due;", ("unit test_pacer",)),
    ("a repair that is cut off has spent what it did not use", "engine/base/pacer.c", "next = due > turn->cost ? due - turn->cost : 0;", "next = due;", ("unit test_pacer",)),
    ("a loop that ends waits for a drive for ever", "loop/ring.c", "if (now >= end)\n                        rv = -ETIMEDOUT;\n                else if", "if", ("unit test_io",)),
    ("the store's oldest work waits for ever for buffers", "loop/arena.c", "if (line->first == NULL || line >= &loop->arena.shares[LP_SHARE_INTERNAL])", "if (line->first == NULL)", ("unit test_arena",)),
    ("an older connection of a link stays open beside the newer one (R11)", "net/admission.c", "        if (inbound->conn != NULL)\n", "        if (conn == NULL)\n", ("unit test_link_faults",)),
    ("connections of a node's older process stay open (R11)", "net/admission.c", "        net_inbound_end(conn->peer, at, \"a newer process of the node has connected\");\n", "",
     ("unit test_link_faults",)),
    ("connections to a node's older process stay open (R11)", "net/admission.c", "                        net_link_newer_boot(&conn->peer->links[link], conn->boot);\n", "", ("unit test_admission",)),
    ("who holds connections open keeps a node of the same address out", "net/admission.c", "                oldest = oldest_of_address;\n", "                oldest = NULL;\n", ("unit test_link_faults",)),
    ("who was removed while it connected stays", "net/admission.c", "part->known != NULL && part->removals == conn->removals &&", "part->known != NULL &&", ("unit test_admission",)),
    ("a HELLO that comes late ends the newer connection (R11)", "net/admission.c", "if (conn->sequence <= inbound->seen) {", "if (inbound->seen == UINT64_MAX) {", ("unit test_link_faults",)),
    ("an older process of a node is admitted", "net/admission.c", "if (conn->boot < newest) {", "if (newest == UINT64_MAX) {", ("unit test_link_faults",)),
    ("a plain connection proves nothing", "net/admission.c", "net_hello_proves(conn->hello_body, conn->hello_len, control->secret)) {", "conn->hello_len > 0) {", ("unit test_link_faults",)),
    ("whoever answers on a plain connection proves nothing", "net/link.c", "if (plain && !net_welcome_proves(", "if (plain && conn == NULL && !net_welcome_proves(", ("unit test_link_faults",)),
    ("a node may say that it is another", "net/admission.c", "else if (!stream->ops->is_named(conn->stream, name))", "else if (stream == NULL)", ("unit test_link_faults",)),
    ("another node may answer at a node's address", "net/link.c", "if (!plain && !ops->is_named(conn->stream, part->known->name))", "if (!plain && part->known == NULL && !ops->is_named(conn->stream, part->known->name))", ("unit test_net_tls",)),
    ("a bulk is believed without its checksum", "net/link_conn.c", "if (conn->bulk_crc != conn->head.bulk_crc)", "if (conn->rx != NET_RX_BULK)", ("unit test_link_faults",)),
    ("a lane gets its credit back before the peer has answered", "net/peer_call.c", "                        return; /* its answer has come, the rest of it within frame_ms */\n                conn->to.entries[call->entry].call = NULL;\n",
     "                        return;\n                conn->to.entries[call->entry].call = NULL;\n                link->lanes[call->lane].bytes -= call->cost;\n                conn->to.entries[call->entry].cost = 0;\n",
     ("unit test_net",)),
    ("small calls to a drive that hangs take the whole connection", "net/peer_call.c", "                if (!lane_may_have_more(lane->calls,", "                if (lane == NULL && !lane_may_have_more(lane->calls,", ("unit test_peer_call",)),
    ("calls that wait for a drive that hangs leave no room for others", "net/peer_call.c", "if (!lane_may_have_more(link->lanes[call->lane].waiting, link->waiting_shared, link_waits_most(link))) {", "if (link->waiting >= link_waits_most(link)) {", ("unit test_peer_call",)),
    ("bodies of one connection take all memory for bodies", "net/peer_request.c", "+ size + conn->from.bytes <=", "+ size <=", ("unit test_peer_call",)),
    ("what a socket took before it failed was not sent", "net/tls.c", "        if (sum > 0)\n                return (ssize_t)sum; /*", "        if (sum > 0 && rv == 0)\n                return (ssize_t)sum; /*", ("unit test_net_tls",)),
    ("a connection finds no memory when others hold all of it", "net/peer_request.c", "            conn->from.bytes == 0)", "            conn == NULL)", ("unit test_peer_call",)),
    ("a call whose deadline comes behind a wait ends its connection", "net/peer_call.c", "                        conn->out_since = lp_now(conn->at->lp); /* its time to end begins */\n", "", ("unit test_peer_call",)),
    ("who writes slowly holds a buffer for ever (R12)", "net/link_conn.c", "if (conn->frame_since != 0 && !conn->stalled && now", "if (conn->frame_since == 1 && now", ("unit test_link_faults",)),
    ("who reads slowly holds buffers for ever (R12)", "net/link_conn.c", "if (conn_is_stuck(conn) && now", "if (conn_is_stuck(conn) && frame_ns == 0 && now", ("unit test_link_faults",)),
    ("a request that was lost keeps its memory (R12)", "net/peer_request.c", "        if (conn->from.asked)\n", "        if (conn->from.asked && request == NULL)\n", ("unit test_link_faults",)),
    ("a piece to hash that was added while another was hurried waits for company", "engine/base/hasher.c", "stream->again |= stream->added;", "stream->again = false;", ("unit test_hasher",)),
    ("groups that are asked for hold up the walk of all", "engine/upkeep/walk_worker.c", "return worker->all.under_way && (worker->all_rows > 0", "return worker->now == NULL && (worker->all_rows > 0", ("unit test_heal",)),
    ("a member that lacks a name differs from nobody", "engine/walk/walk.c", "if ((asked & ~row->have) != 0)\n                return true;", "if ((asked & ~row->have) != 0)\n                return false;", ("unit test_agree",)),
    ("a name that nobody can decide waits for tomorrow's walk", "engine/upkeep/heal.c", "rest_for(heal, failed || undecided, parts, helped)", "rest_for(heal, failed, parts, helped)", ("unit test_agree",)),
    ("a walk whose repairs failed has failed nowhere", "engine/upkeep/walk_worker_look.c", "n->failed_objects += !is_done(rv) && rv != -ECANCELED;", "(void)0;", (SIM,)),
    ("damage that a scrub remembered over a restart is told to nobody", "engine/upkeep/scrub_drive.c", "if (s->unrepaired > 0)\n                eng_scrub_names_soon(s->el->store);\n        scrubber_go(s);", "if (s->unrepaired > UINT32_MAX)\n                eng_scrub_names_soon(s->el->store);\n        scrubber_go(s);", ("unit test_scrub",)),
    ("damage that a scrub finds waits for the end of the round", "engine/upkeep/scrub_drive.c", "if (s->op.scrub.names != NULL)\n                return;", "if (s->damaged > 0)\n                return;", ("unit test_scrub",)),
    ("a frame that was discarded or moved is damaged for a scrub", "engine/drive/scrub_segment.c", "return rv != 0 ? rv : location->segment == state->segment && location->offset == state->position;", "return rv != 0 ? rv : location->segment != 0 || state == NULL;", ("unit test_scrub_segment",)),
    ("a place where no frame is found is forgotten", "engine/drive/scrub_segment.c", "if (state->gap != 0 && state->gap < state->position)", "if (state->gap > state->position)", ("unit test_scrub_segment",)),
    ("a shard in a gap counts as held", "engine/drive/rot.c", "return location->offset >= rot->offset && location->offset < rot->offset + rot->length;", "return false;", ("unit test_scrub_segment",)),
    ("what rotted in a segment that is gone is remembered for ever", "engine/drive/rot.c", "if (!rot_has_file(l, &one)) {", "if (rot_has_file(l, &one) && one.segment == 0) {", ("unit test_scrub_segment",)),
    ("a file that is being read may be closed to make room (I7)", "engine/drive/fds.c", "                fd_leave_idle(fd);\n                fd->users++;", "                fd->users++;", ("unit test_fds",)),
    ("files stay open without a bound", "engine/drive/fds.c", "while (l->fds.open > most && (fd = ", "while (l->fds.open > most && l->fds.most == 0 && (fd = ", ("unit test_fds",)),
    ("a file is lost for want of a descriptor", "engine/drive/fds.c", "        if (eng_io_again(o->result))\n                return -EAGAIN;", "        if (o == NULL)\n                return -EAGAIN;", ("unit test_fds",)),
    ("a loop touches pages of the index that are not in memory", "engine/drive/pages.c", "if (there == count)", "if (there <= count)", ("unit test_pages",)),
    ("pages that come and go are read without end", "engine/drive/pages.c", "if (++wait->tries > ENG_PAGES_TRIES) {", "if (wait->tries > ENG_PAGES_TRIES) {", ("unit test_pages",)),
    ("a page of the index that does not come is waited for", "engine/drive/pages.c", "eng_watch_begin(l, &r->watch);", "(void)r->watch;", ("unit test_pages",)),
    ("where the kernel may not be asked for pages each is read at every look", "engine/drive/resident.c", "if (resident->blind && !resident->deaf)", "if (resident->blind && resident->deaf)", ("unit test_resident",)),
    ("a page that was in memory a second ago is not asked for while an I/O hangs", "engine/drive/resident.c", "((strict ? window->read : window->pages)", "(window->pages", ("unit test_resident",)),
    ("a start gives members what a drive holds that their group went from", "engine/epoch/reconcile.c", "eng_mask members = eng_writers(&s->store->coord->view, pg) & ~but;", "eng_mask members = ~but;", ("unit test_former_member",)),
    ("a start makes records visible that a member which has failed meanwhile may lack", "engine/epoch/reconcile.c", "if (view->writable && (view->in & ~view->up) != 0) {", "if (view->writable && view->in == 0) {", ("unit test_reconcile", SIM)),
    ("a store opened for reading answers with what it cannot know to count", "engine/epoch/reconcile.c", "return is_whole(s, pg) ? highest(s, pg) : known;", "return highest(s, pg);", ("unit test_reconcile", SIM)),
    ("a record that no member can give ends drives", "engine/epoch/reconcile.c", "if (s->store->m == 0) {", "if (s->store != NULL) {", ("unit test_reconcile",)),
    ("a repair that was asked for and failed waits for the daily walk", "engine/upkeep/walk_worker_look.c", "eng_walk_worker_missed(worker, m->pg);", "", ("unit test_heal",)),
    ("a slot that left earlier is the truth of a lost group", "engine/placement/truth.c", "if (number > highest)", "if (false)", ("unit test_truth", "unit test_lost_groups")),
    ("a slot joins that lacks what a lost group has acknowledged", "engine/epoch/catch_up.c", "!eng_lost_may_join(store, i))", "false)", ("unit test_lost_groups",)),
    ("a slot that catches up stays when its group is lost", "engine/epoch/lost_groups.c", "if (!lost_lets_join(map, c->next_shape", "if (false && !lost_lets_join(map, c->next_shape", ("unit test_lost_groups",)),
    ("what is pending on the truth of a lost group is dropped", "engine/epoch/catch_up.c", "return e->pending && eng_lost_counts(", "return false && e->pending && eng_lost_counts(", ("unit test_lost_groups",)),
    ("a slot that was back leaves as it left before", "engine/epoch/lost_groups.c", "return c->view.epoch | verdict;", "return c->view.left[slot] | verdict;", ("unit test_lost_groups",)),
    ("half of a pool goes on without the other's groups", "engine/placement/truth.c", "return eng_is_majority(next, all);", "return next != 0 && all != 0;", ("unit test_truth", "unit test_lost_groups")),
    ("losing groups step by step ends nowhere", "engine/epoch/lost_groups.c", "eng_groups_may_lose(next, eng_lost_counted(store))", "eng_groups_may_lose(next, prev)", ("unit test_lost_groups",)),
    ("who left before a slot that lost writes is the truth", "engine/placement/truth.c", "const uint64_t number = left[slot] & ~FMT_EPOCH_NO_TRUTH;", "const uint64_t number = left[slot] & FMT_EPOCH_NO_TRUTH ? 0 : left[slot];", ("unit test_truth", "unit test_lost_groups")),
    ("a slot that lost writes is a truth", "engine/epoch/lost_groups.c", "if ((log_lost || eng_drive_damage(drive) != NULL) && (c->believed", "if (false && (c->believed", ("unit test_lost_groups",)),
    ("a lost group never comes back while a slot is being removed", "engine/epoch/catch_up.c", " || (catch_up->gains && c->view.lost != 0)", "", ("unit test_lost_groups",)),
    ("slots leave for good while groups are lost", "engine/epoch/rebalance.c", "return c->view.lost == 0 && gaining(", "return gaining(", ("unit test_lost_groups",)),
    ("what never gained its groups is their truth when a removal is over", "engine/epoch/rebalance.c", "if (c->wish.gone & c->shape.leaving)\n", "if (false)\n", ("unit test_lost_groups",)),
    ("slots wait for lost groups that are yet to come to them, and for each other", "engine/placement/truth.c", "if ((groups[i].before & eng_bit(slot)) != 0 && (groups", "if (((groups[i].before | groups[i].after) & eng_bit(slot)) != 0 && (groups", ("unit test_truth", "unit test_lost_groups")),
    ("what comes back waits for sources of lost groups that are yet to come to it", "engine/epoch/catch_up.c", "wanted &= view->map->groups[pg].before | view->map->adding;", "wanted &= view->map->all;", ("unit test_lost_groups",)),
    ("what had gained groups, and was out, has gained them still", "engine/epoch/catch_up.c", "c->gained &= ~eng_bit(catch_up->slot);", "(void)c;", ("unit test_lost_groups",)),
    ("slots that are being added end a leader that loses groups", "engine/epoch/lost_groups.c", " | c->shape.adding | c->wish.adding);", ");", ("unit test_grow",)),
    ("a slot that had caught up when groups were lost is never taken up again", "engine/epoch/catch_up.c", "} else if (store->members[slot].state == ENG_DRIVE_JOINING) {", "} else if (false) {", ("unit test_grow",)),
    ("a slot that is being added is a member without the names of a lost group", "engine/epoch/lost_groups.c", "if (adding & eng_bit(slot))", "if (false)", ("unit test_grow",)),
    ("a slot whose log lost its end, and that only did not answer, is taken to have its shards", "engine/epoch/lost_groups.c", "if (log_lost && store->m > 0) {", "if (false) {", ("unit test_lost_groups",)),
    ("the next leader does not know whom the operator believes", "engine/epoch/lost_groups.c", "                        c->believed |= eng_bit(slot);\n", "                        c->believed |= 0;\n", ("unit test_lost_groups",)),
    ("what a decided epoch has removed makes a majority", "engine/epoch/coord.c", "const eng_mask in = c->view.in & ~c->said_gone;", "const eng_mask in = c->view.in;", ("unit test_lost_groups",)),
    ("a slot is believed for ever", "engine/epoch/lost_groups.c", "c->believed &= ~c->next_in;", "(void)c;", ("unit test_lost_groups",)),
    ("a slot whose log is damaged is a truth", "engine/epoch/lost_groups.c", "(log_lost || eng_drive_damage(drive) != NULL)", "log_lost", ("unit test_lost_groups",)),
    ("a slot that was given up keeps others from being the truth", "engine/epoch/lost_groups.c", "if ((c->next_in | c->given_up) & eng_bit(slot))", "if (c->next_in & eng_bit(slot))", ("unit test_lost_groups",)),
    ("a slot that is believed is doubted again", "engine/epoch/lost_groups.c", "(c->believed & eng_bit(slot)) == 0", "c->believed != 1", ("unit test_lost_groups",)),
    ("orphans are never collected again after a group was lost", "engine/epoch/lost_groups.c", "atomic_store(&store->unsettled_lost, false);", "c = store->coord;", ("unit test_lost_groups",)),
    ("orphans are collected though a slot is out that may have what was under way", "engine/epoch/lost_groups.c", "if (c->view.lost == 0 && (c->view.in & c->view.up) == c->view.map->all)", "if (c->view.lost == 0)", ("unit test_lost_groups",)),
    ("any slot is given up for lost groups", "engine/epoch/force.c", "outlook->losing && (slots == 0 || (slots & ~outlook->missed) != 0)", "outlook->losing && slots == 0", ("unit test_lost_groups",)),
    ("a lost group closes a pool of which a member lost writes", "engine/placement/truth.c", "(groups[i].before & aside) != 0 && ", "", ("unit test_truth",)),
    ("nobody leads who lacks some groups", "cluster/election.c", "return serves || may_lose_groups(e, &info, there) ?", "return serves || (e->count > CL_NODES_MAX && may_lose_groups(e, &info, there)) ?", ("unit test_election",)),
    ("a node takes the key from one that has just taken it", "cluster/election.c", "if (w->newest < e->owner)", "if (w->newest < e->owner && !w->answered)", ("unit test_election",)),
    ("a node that is cut off goes by how long the key has stood", "cluster/election.c", "w->heard_ns < silent)", "w->heard_ns < silent / 1000000)", ("unit test_election",)),
    ("slots that were given up count towards half", "cluster/election.c", "& ~(info->gone | info->given_up | info->adding)", "& ~(info->gone | info->adding)", ("unit test_election",)),
    ("an epoch does not have who lost writes", "engine/epoch/lost_groups.c", "return c->view.left[slot] | verdict;", "return c->view.left[slot] & ~FMT_EPOCH_NO_TRUTH;", ("unit test_lost_groups",)),
    ("a bucket is deleted though a lost group may have its objects", "engine/bucket/bucket_look.c", "if (view->lost != 0) {", "if (false) {", ("unit test_lost_groups",)),
    ("a leader that is new does not know who left last", "engine/epoch/lost_groups.c", "memcpy(c->view.left, chosen->epoch + at, FMT_EPOCH_LEFT(epoch->drives));", "", ("unit test_lost_groups",)),
    ("a DISCARD of an epoch that is over is done", "engine/drive/write.c", "if (op->epoch < eng_epochs_fence(l)) { /* by now", "if (false) { /* by now", ("unit test_local_data",)),
    ("a cluster's drive that failed is never asked again", "engine/epoch/down.c", "} else if (failed_is_asked(store, slot)) {", "} else if (failed_is_asked(store, slot) && store == NULL) {", ("unit test_returns",)),
    ("a drive that failed is tried though it says that it has failed", "engine/epoch/down.c", "return rv == -EHOSTUNREACH ||", "return rv == -EIO || rv == -EHOSTUNREACH ||", ("unit test_returns",)),
    ("a slot that flaps is taken in at once", "engine/epoch/down.c", "r->at += r->pause;", "", ("unit test_returns",)),
    ("a node joins by a number that another one has", "cluster/join.c", "if (number == join->number) {", "if (false) {", ("unit test_node",)),
    ("a number that was used is given to a new name", "cluster/names.c", "if (view->boots[number] != 0 ||", "if (false ||", ("unit test_node",)),
    ("a node gets another number than its drives have", "cluster/names.c", "if (take->bound != 0)\n                return take->bound;", "if (false)\n                return take->bound;", ("unit test_node",)),
    ("a name goes on with drives of another number", "cluster/names.c", "(take->bound == 0 || take->bound == take->number)", "true", ("unit test_node",)),
    ("a node takes the number of another one's drives", "cluster/names.c", "if (owner == NULL || strcmp(owner, take->name) == 0)", "if (owner == NULL || strcmp(owner, take->name) != 99)", ("unit test_node",)),
    ("two nodes announce one drive", "cluster/join.c", "if (names_drive(other, node->drives[i])) {", "if (names_drive(other, node->drives[i]) && other == NULL) {", ("unit test_node",)),
    ("a cluster is made over one that is there", "cluster/new_cluster.c", "if (create->more != create->view->has_format) {", "if (create->more && !create->view->has_format) {", ("unit test_node",)),
    ("a pool that was half made is made anew", "cluster/new_cluster.c", "pool->has_config ? check_pool(create, pool) : make_pool(create, number);", "pool->has_config && create->k > 1000 ? check_pool(create, pool) : make_pool(create, number);", ("unit test_node",)),
    ("a run that was cut off makes fewer pools than were meant", "cluster/new_cluster.c", "!create->more && highest != 0 ? highest", "false ? highest", ("unit test_node",)),
    ("the first of a cluster's pools is written first", "cluster/new_cluster.c", "create->more ? create->first + i : create->last - i;", "create->first + i;", ("unit test_node",)),
    ("a folder is dealt to two pools", "cluster/new_cluster.c", "const bool had = some_pool_has(create->view, member->node.drives[i]);", "const bool had = create->k > 1000 && some_pool_has(create->view, member->node.drives[i]);", ("unit test_node",)),
    ("a node that is not ready yet to lead is passed over", "cluster/hand_over.c", "} else if (prepare->said == REM_SAID_AGAIN) {", "} else if (prepare->said == REM_SAID_AGAIN && h->client == NULL) {", ("unit test_hand_over",)),
    ("a leader that hands over waits for ever for a node that gets ready", "cluster/hand_over.c", "(h->ready == 0 && lp_now(h->loop) >= h->until)", "(h->ready == 0 && h->until == 0)", ("unit test_hand_over",)),
    ("a node that is ready to lead is not kept so", "cluster/hand_over.c", "hand_over_later(h, KEEP_NS);", "(void)KEEP_NS;", ("unit test_hand_over",)),
    ("no other node is asked when the first will not be ready to lead", "cluster/hand_over.c", "                h->at++;", "                h->at = h->count;", ("unit test_hand_over",)),
    ("another node is asked when the one that was ready to lead is not any more", "cluster/hand_over.c", "        if (h->ready != 0) {", "        if (h->ready != 0 && prepare->said == REM_SAID_DONE) {", ("unit test_hand_over",)),
    ("a node that hands over asks itself", "cluster/hand_over.c", "if (order[i] != node)", "if (pool != NULL)", ("unit test_hand_over",)),
    ("a pool that is given back goes to a node whose turn is later", "cluster/hand_over.c", "!(before && order[i] == node)", "!(before && order[i] == 0)", ("unit test_hand_over",)),
    ("who asks for the next leader has stopped though a question is under way", "cluster/hand_over.c", "if (!h->out)", "if (h->stopped != NULL)", ("unit test_hand_over",)),
    ("a node that is prepared waits for its turn", "cluster/election.c", "if (w->prepared && w->node == e->node)", "if (w->prepared && w->node == 0)", ("unit test_election",)),
    ("others do not let a node that is prepared go first", "cluster/election.c", "(others ? CL_PREPARED_NS : 0)", "(others ? 0u : 0u)", ("unit test_election",)),
    ("a node that distrusts etcd gets ready to lead", "remote/served_term.c", "if (options->prepare != NULL && !atomic_load(&server->distrusts))", "if (options->prepare != NULL)", ("unit test_terms test_hand_over",)),
    ("a home that joins before the pool is served is turned away", "remote/home_server.c", "        w->since = loop_now(server);", "        w->since = 0;", ("unit test_home_session",)),
    ("a home's older JOIN waits beside its newer one", "remote/home_server.c", "if (w->node == node) {\n                        LIST_REMOVE(w, held);", "if (w->node == 0) {\n                        LIST_REMOVE(w, held);", ("unit test_home_session",)),
    ("a home waits for its JOIN at a leader that hands over", "remote/home_link.c", "if (link->state == LINK_JOINING && party != link->at) {", "if (link->state == LINK_JOINING && party != link->at && link->stopped) {", ("unit test_home_session",)),
    ("all pools are led by the same node", "cluster/election.c", "(at + count - (pool - 1) % count) % count", "(at + count) % count", ("unit test_election",)),
    ("what a node led goes to one other when it dies", "cluster/election.c", "turned = (pool - 1) / count;", "turned = 0;", ("unit test_election",)),
    ("a node that was drained keeps a pool", "cluster/election.c", "own = count; /*", "own = 0; /*", ("unit test_election",)),
    ("a drive is served for another pool that names it", "server/node_folders.c", "const bool own = folder->state == ENG_FOLDER_DRIVE &&", "const bool own = false &&", ("unit test_node_folders",)),
    ("a change goes to the first pool where none is named", "server/admin_pools.c", "if (!named && count > 1 &&", "if (false &&", ("unit test_admin_pools",)),
    ("read-only is said to be on before all pools heed it", "server/admin_pools.c", "post && lp_clock() < until)", "post && lp_clock() > until)", ("unit test_admin_pools",)),
    ("a reseed forgets a pool that nobody has reported", "cluster/reseed_plan.c", "most = p->found->reports[i].pools > most ? p->found->reports[i].pools : most;", "most += 0;", ("unit test_reseed",)),
    ("a boot number is given twice around a reseed", "cluster/reseed.c", "txn_compare(r, CL_KEY_BOOT, r->next_node, r->found.boot_revision[r->next_node]);", "txn_compare(r, CL_KEY_BOOT, CL_NODE_LAST, 0);", ("unit test_reseed",)),
    ("nodes are fenced for a reseed that cannot be", "cluster/reseed_plan.c", "if (plan_numbers(&p) != 0 || find_pools(&p) != 0)", "if (find_pools(&p) != 0)", ("unit test_reseed",)),
    ("boot numbers rise with each attempt of a reseed", "cluster/reseed_plan.c", "bool put = p->found->has_request &&", "bool put = p->found->count > ENG_DRIVES_MAX &&", ("unit test_reseed",)),
    ("a node that waits reports again and again", "cluster/reseed_judge.c", "(seen || now - put->at < CL_REPORT_SEEN_NS)", "((seen && put->len == 0) || now - put->at < CL_REPORT_SEEN_NS)", ("unit test_reseed",)),
    ("a reseed gives a pool another number", "cluster/reseed_plan.c", "number != 0 && pool->number != 0 && pool->number != number", "false", ("unit test_reseed",)),
    ("a reseed leaves the leader key of a pool", "cluster/reseed.c", "write_delete(r, CL_KEY_LEADER, pool->number);", "write_delete(r, CL_KEY_LEADER, pool->number + 40);", ("unit test_reseed",)),
    ("an adopted store's epoch has the number that the store would give next", "engine/epoch/adopt_body.c", "epoch.number += FMT_EPOCH_FORCED_STEP;", "epoch.number += 1;", ("unit test_adopt",)),
    ("a store is adopted while a slot is out", "engine/epoch/adopt_body.c", "if (out != 0)", "if (false)", ("unit test_adopt",)),
    ("a drive that lacks the newest epoch is adopted", "cluster/adopt.c", "if (drives[i].known.epoch != newest->known.epoch ||", "if (", ("unit test_adopt",)),
    ("folders are marked though one is open", "cluster/adopt.c", "for (i = 0; rv == 0 && i < count; i++)\n                rv = mark_folder(", "for (i = 0; i < held; i++)\n                rv = mark_folder(", ("unit test_adopt",)),
    ("a cluster is made of a claim that was changed", "cluster/adopt.c", "adopt_compare(adopt, 0, CL_KEY_CONFIG, CL_POOL, adopt->config_revision);", "adopt_compare(adopt, 0, CL_KEY_FORMAT, 0, 0);", ("unit test_adopt",)),
    ("a claim that is behind the store is kept", "cluster/adopt.c", "memcmp(pool->epoch.parent, want.parent, CL_ID) != 0 || ", "", ("unit test_adopt",)),
    ("a cluster that was made of an older state of a store has it", "cluster/adopt.c", "if (view->has_format && !plan->marked && !plan->is_pool)", "if (false)", ("unit test_adopt",)),
    ("a marked store is adopted by as many drives as may have gone on elsewhere", "engine/epoch/adopt_body.c", "return eng_is_majority(slots, info.in) && (", "return true || (", ("unit test_adopt",)),
    ("an unmarked store is adopted without a drive", "cluster/adopt.c", "(out->marked && eng_epoch_is_most(", "(eng_epoch_is_most(", ("unit test_adopt",)),
    ("a claim is put beside a cluster", "cluster/adopt.c", "pool->has_config ? pool->config_revision : 0, 1);", "pool->has_config ? pool->config_revision : 0, 0);", ("unit test_adopt",)),
    ("a cluster is made beside a reseed that was asked for since", "cluster/adopt.c", "adopt_compare(adopt, 1, CL_KEY_RESEED, 0, view->request_revision);", "adopt_compare(adopt, 1, CL_KEY_FORMAT, 0, 0);", ("unit test_adopt",)),
    ("a folder that was marked since it was looked at is opened", "engine/drive/open.c", "if (found.features & ~expected->features & FMT_FEATURE_SITES)", "if (false)", ("unit test_adopt",)),
    ("a running store of one machine takes a cluster's drive", "engine/epoch/hot_add.c", "if (a->store->options.one_machine && (identity.features & FMT_FEATURE_SITES))", "if (false)", ("unit test_adopt",)),
    ("a new cluster takes the claim of a store that is adopted", "cluster/new_cluster.c", "if (memcmp(epoch->parent, none, CL_ID) != 0)", "if (memcmp(epoch->parent, none, CL_ID) > 1000)", ("unit test_adopt",)),
    ("an adopted pool's generation is one that its drives know", "cluster/adopt.c", "out->generation++;", "out->generation += out->generation == 0;", ("unit test_adopt",)),
    ("a boot number is taken twice", "cluster/boot.c", "take->boot = ++boot.boot;", "take->boot = boot.boot > 0 ? boot.boot : ++boot.boot;", ("unit test_node",)),
    ("a cluster's generation changes under a node that runs", "cluster/directory.c", "return cl_generation_judge(&seen, &found);", "return CL_SEEN_FINE;", ("unit test_node",)),
    ("a cluster's generation is another than a node's folders have seen", "cluster/directory.c", "if (cl_generation_judge(&seen, &found) != CL_SEEN_FINE)", "if (false)", ("unit test_node",)),
    ("a cluster whose format was deleted is taken for a new one", "cluster/directory.c", "d->known.generation == 0 && seen.generation.number == 0 ?", "true ?", ("unit test_node",)),
    ("one bad entry of a node blinds all nodes", "cluster/directory.c", "view_add_node(view, number, key);\n                return 0;", "view_add_node(view, number, key);\n                return view->count > 0 && view->members[view->count - 1].revision == key->mod_revision ? 0 : -EBADMSG;", ("unit test_node",)),
    ("a cluster's epoch is written before etcd has it", "engine/epoch/epoch_append.c", "if (store->options.cluster == NULL) {\n                epoch_submit_to(all, to);", "if (true) {\n                epoch_submit_to(all, to);", ("unit test_decided",)),
    ("a cluster's start asks for a majority", "engine/base/placement.c", "if (map->decided)", "if (false)", ("unit test_decided",)),
    ("a cluster's start takes an epoch that drives know better than etcd", "engine/epoch/recover.c", "if (c->decided != NULL && eng_decided_denied(", "if (false && eng_decided_denied(", ("unit test_decided",)),
    ("the number of an epoch that was decided and never in force is used again", "engine/epoch/decided.c", "eng_epoch_of(c->decided)->number > newest", "false", ("unit test_decided",)),
    ("what a lookup found is said without a lease", "engine/txn/lookup.c", "if (!eng_is_current(lookup->store)) {", "if (false) {", ("unit test_decided",)),
    ("that a name is absent is said without a lease", "engine/txn/lookup.c", "eng_is_current(lookup->store) ? -ENOENT : -EHOSTDOWN", "-ENOENT", ("unit test_decided",)),
    ("a condition is judged without a lease", "engine/txn/txn.c", "(rv == 0 || rv == -ENOENT) && !eng_is_current(txn->store)", "false", ("unit test_decided",)),
    ("a listing is said without a lease", "engine/object/merge.c", "rv == 0 && !eng_is_current(merge->el->store)", "false", ("unit test_decided",)),
    ("a cluster's store goes on when a group has no current member", "engine/epoch/coord.c", "if (store->options.cluster != NULL) { /* the next start waits for the drives */", "if (false) {", ("unit test_decided",)),
    ("one member's word sets aside all others of a cluster", "engine/epoch/recover.c", "__builtin_popcountll(aside) < __builtin_popcountll(present) &&", "true ||", ("unit test_decided",)),
    ("an epoch that adds a drive is proposed while etcd is silent", "engine/epoch/decided.c", "return cluster != NULL && cluster->answers != NULL &&", "return false && cluster != NULL && cluster->answers != NULL &&", ("unit test_decided",)),
    ("a drive that takes itself out waits for etcd's answer before", "engine/epoch/decided.c", "((view->in | view->joining) & ~view->up) == 0 && !cluster", "!cluster", ("unit test_decided",)),
    ("a start goes on without a majority of the last epoch in force", "engine/epoch/recover.c", "return eng_could_form(store, present, in) && eng_is_majority(present, base);", "return eng_could_form(store, present, in);", ("unit test_recover",)),
    ("a store opens for reading although those that are missing may have gone on", "engine/epoch/recover.c", "if (!c->view.writable && (present == 0 || could_go_on(store, ~opened_slots(store), in, c->base))) {", "if (!c->view.writable && present == 0 && could_go_on(store, ~opened_slots(store), in, c->base)) {", ("unit test_recover",)),
    ("an epoch takes in a drive while another leaves", "engine/epoch/coord.c", "if ((c->view.in & ~c->view.up) != 0) /* those that leave first", "if (c->view.in == 0) /* those that leave first", (SIM,)),
    ("an epoch that some member lacks is in force", "engine/epoch/coord.c", "if (failed != 0) { /* it was not in force", "if (failed == c->view.in) { /* it was not in force", (SIM,)),
    ("changes go on while an epoch begins", "engine/epoch/coord.c", "        c->view.paused = true;\n", "        c->view.paused = false;\n", (SIM,)),
    ("an index that lacks rows of owners answers", "engine/drive/index_owners.c", "return rv == 0 ? making.complete : rv;", "return rv == 0 ? 1 : rv;", ("unit test_index_owners",)),
    ("the sweep of orphans forgets that versions own shards", "engine/drive/index_owners.c", "rv = there ? owner_put(txn, key, head.pg) : owner_delete(txn, key);",
     "rv = there && name[0] != FMT_SPACE_VERSION ? owner_put(txn, key, head.pg) : owner_delete(txn, key);", ("unit test_orphans",)),
    ("a record that is dead is damaged for a scrub", "engine/drive/scrub_log.c", "rv = value->len >= sizeof(*head) && head->log_file == rec->file && head->log_position == rec->position;", "rv = value->len >= sizeof(*head) && head->log_file != 0;", ("unit test_scrub_log",)),
    ("a place in the log that tells no name is forgotten", "engine/drive/scrub_log.c", "if (gap != 0 && gap < rec->position && ((state->gap & NOT_ZERO) != 0 || rec->position > eng_round_up(gap, FMT_BLOCK)))", "if (gap != 0 && rec->position < gap)", ("unit test_scrub_log",)),
    ("zeroes at the end of a log file are a place that tells no name", "engine/drive/scrub_log.c", "return !s->lost && (bytes == NULL || memcmp(bytes, zeroes, sizeof(zeroes)) == 0);", "return bytes == NULL;", ("unit test_scrub_log",)),
    ("a log file goes before it is known how the one before it ended", "engine/drive/file.c", "before->number != file->number - 1 || before->end_crc != 0)\n                return true;", "before->number != file->number - 1 || before->end_crc != 1)\n                return true;", ("unit test_log_end", SIMDRIVE)),
    ("replay does not look ahead for how files ended", "engine/drive/replay.c", "else if (rec->type == FMT_RECORD_ENDS)", "else if (rec->type == FMT_RECORD_ENDS && r == NULL)", ("unit test_log_end", SIMDRIVE)),
    ("what a copy replaces or deletes is dead", "engine/drive/batch_write.c", "if (!eng_value_has_shards(&head) || entry->copied || ", "if (!eng_value_has_shards(&head) || ", ("unit test_copy",)),
    ("a drive that comes is compared while changes of before are still being committed", "engine/epoch/coord.c", "if (c->again || unconfirmed(c))", "if (c->view.in == 0)", ("unit test_coord", SIM)),
    ("the end of a log file is taken from a damaged header", "engine/drive/file.c", "if (!head.begun || head.header.prev_file", "if (head.header.prev_file", ("unit test_log_end", SIMDRIVE)),
    ("the end of a log file is taken from another file's header", "engine/drive/file.c", "head.header.prev_file != look->number - 1 ||", "look->number == 0 ||", ("unit test_log_end", SIMDRIVE)),
    ("the end of a log file is taken from a header of before", "engine/drive/file.c", "(look->generation != 0 && head.header.generation != look->generation))", "look->generation == UINT64_MAX)", ("unit test_log_end", SIMDRIVE)),
    ("an opening that fails forgets how far the log had come", "engine/drive/append.c", "if (l->reach.file != 0)\n                *out", "if (l->reach.file == UINT64_MAX)\n                *out", ("unit test_replay", SIMDRIVE)),
    ("how far upkeep had come is not read after a restart", "engine/walk/kept.c", "eng_txn_lookup(txn, 0, kept_found);", "kept_found(txn, -ENOENT);", ("unit test_verify", "unit test_heal")),
    ("a damaged copy is written anew while members differ", "engine/upkeep/verify_copies.c", "v->to_resync != 0 && !differ && v->round", "v->to_resync != 0 && v->round", ("unit test_agree", SIM)),
    ("a verification asks no drive again that could not look", "engine/upkeep/verify.c", "v->turned_away[drive]++;\n        return true;", "v->turned_away[drive]++;\n        return v->store == NULL;", ("unit test_verify",)),
    ("a verification asks a drive for ever that cannot look", "engine/upkeep/verify.c", "if (v->turned_away[drive] == AGAIN_MAX)", "if (v->store == NULL)", ("unit test_verify",)),
    ("a drive that answers again has fewer tries left", "engine/upkeep/verify_copies.c", "v->turned_away[slot] = 0;", "(void)0;", ("unit test_verify",)),
    ("a version with a hold is deleted", "engine/object/key_rows.c", "if (object.hold)", "if (object.hold && store == NULL)", ("unit test_versions", SIM)),
    ("retention ends by the wall clock", "engine/object/key_rows.c", "object.retention.until_ms <= eng_lock_now(store)", "object.retention.until_ms <= eng_lock_wall(store)", (SIM,)),
    ("who may bypass GOVERNANCE bypasses COMPLIANCE", "engine/object/key_rows.c", "return object.retention.mode == ENG_RETENTION_GOVERNANCE && bypass_governance ? 0 : -EACCES;", "return bypass_governance ? 0 : -EACCES;", (SIM,)),
    ("retention that lasts is shortened", "engine/object/update.c", "if (next->mode == now->mode && next->until_ms >= now->until_ms)", "if (next->mode == now->mode)", (SIM,)),
    ("a bucket with lock has the versioning that its rules say", "engine/object/key_rows.c", "if (out->lock)\n                out->versioning", "if (out->lock && txn == NULL)\n                out->versioning", ("unit test_versions",)),
    ("a null version under lock is replaced", "engine/object/key_rows.c", "                rv = eng_version_unprotected(txn->store, txn->old, false);\n        else if (rv == -ENOENT)", "                rv = 0;\n        else if (rv == -ENOENT)", ("unit test_versions", SIM)),
    ("the lock clock follows the wall clock", "engine/base/lock_clock.c", "int64_t now = wall_ms < bound ? wall_ms : bound;", "int64_t now = bound < 0 ? bound : wall_ms;", ("unit test_lock_clock", SIM)),
    ("a start gains whatever the wall clock is ahead by", "engine/base/lock_clock.c", "clock->frozen = ahead > from.budget_ms;", "clock->frozen = ahead < 0 && from.budget_ms < 0;", ("unit test_lock_clock", SIM)),
    ("what a start gains is not taken from the budget", "engine/base/lock_clock.c", "lock_budget(clock, out->at_ns) - gain}", "lock_budget(clock, out->at_ns)}", ("unit test_lock_clock", SIM)),
    ("one member's damage makes the mark of the others none", "engine/bucket/lock_mark.c", "if (mark->unread && !mark->found)", "if (mark->unread && mark->found)", ("unit test_lock_clock",)),
    ("a version is deleted wherever it is among those of its key", "engine/object/delete.c", "(del->place != ENG_PLACE_OLDER) ? 0 : -ESTALE;", "(del->place != ENG_PLACE_OLDER) ? 0 : del->place > ENG_PLACE_ALONE ? -ESTALE : 0;", ("unit test_versions", SIM)),
    ("a delete marker that is not alone goes", "engine/object/delete.c", "if (rv == 0 && del->place == ENG_PLACE_ALONE)", "if (rv == 0 && del->place > ENG_PLACE_ALONE)", ("unit test_versions", SIM)),
    ("the next newest version is asked of one member", "engine/object/key_scan.c", "scan->what == ENG_SCAN_UPLOAD ? 1 : 2;", "scan->what == ENG_SCAN_UPLOAD ? 1 : 1;", ("unit test_versions",)),
    ("a row above the newest is there whatever the head says", "engine/object/key_scan.c", "2 * scan->above_count > said;", "scan->above_count + said > 0;", ("unit test_versions",)),
    ("a key's head is asked of one member", "engine/object/key_rows.c", "                eng_txn_lookup_newest(txn, flags, look_found);", "                eng_txn_lookup(txn, flags, look_found);", ("unit test_versions",)),
    ("a key whose head cannot be read is unchangeable", "engine/object/key_rows.c", "rv == -EIO && look->rules.versioning != ENG_VERSIONING_NEVER", "rv == -EIO && look->rules.versioning > ENG_VERSIONING_SUSPENDED", ("unit test_versions",)),
    ("a bucket that nobody knows never had versioning", "engine/object/key_rows.c", "        if (bucket == NULL)\n                return -EIDRM;\n", "        memset(out, 0, sizeof(*out));\n        if (bucket == NULL)\n                return 0;\n", ("unit test_versions",)),
    ("a head has no voice about a version that half of the members have", "engine/resync/agree.c", "(null && rows.versions.null_number != agree_number(agree));", "(null && rows.versions.null_number != agree_number(agree));\n                agree->head_denies = false;", ("unit test_versions",)),
    ("a head goes on naming a version that most members lack", "engine/resync/agree.c", "if (agree->keep || agree->repaired == 0 || !is_version(agree)) {", "if (agree->op.kind < 99 || agree->repaired == 0 || !is_version(agree)) {", ("unit test_versions",)),
    ("an old head on one member is copied to those that have lost theirs", "engine/resync/agree.c", "if (rv == 0 && !agree_says_versions(agree))", "if (rv > 0 && !agree_says_versions(agree))", ("unit test_old_rows",)),
    ("a head whose version all have lost stays", "engine/upkeep/heads.c", "if (atomic_exchange(&store->head_checked, true))", "if (name->len != 0 || atomic_exchange(&store->head_checked, true))", ("unit test_versions",)),
    ("an old head hides its key", "engine/txn/lookup.c", "        lookup->doubted |= eng_bit(lookup->head_slot);\n", "", ("unit test_old_rows test_versions",)),
    ("rules of a bucket are changed by who has read others", "engine/bucket/bucket_rules.c", "b->bucket.rules.generation != wanted.generation ? -ESTALE : 0;", "wanted.generation == UINT64_MAX ? -ESTALE : 0;", ("unit test_bucket_rules",)),
    ("versioning goes back to never", "engine/bucket/bucket_rules.c", "if (was_versioned && wanted->versioning == ENG_VERSIONING_NEVER)", "if (was_versioned && wanted->versioning > ENG_VERSIONING_SUSPENDED)", ("unit test_bucket_rules",)),
    ("a lock comes before the mark of the lock clock", "engine/bucket/bucket_rules.c", "if (rv == 0 && rules->bucket.rules.lock)", "if (rv > 0 && rules->bucket.rules.lock)", ("unit test_lock_clock test_bucket_rules",)),
    ("records that need a feature come before the drives have it", "engine/bucket/features.c", "        if (lack == 0) {\n", "        if (lack == 0 || store != NULL) {\n", ("unit test_bucket_rules", SIM)),
    ("who watches entries is not told", "engine/bucket/entries.c", "if (entries->changed != NULL)", "if (entries->changed != NULL && el == NULL)", ("unit test_entries",)),
    ("a format cut short between drives stays so", "engine/store/store.c", "rv = finish_format(o, probes, error);", "(void)finish_format;", (POWER,)),
]

# Without these nothing is lost; why they are there all the same. By title.
REDUNDANT = {
    "engine/object/key_rows.c: a bucket that nobody knows never had versioning": "whoever asks has been admitted by txn_admit(), which refuses such a bucket, and a bucket with transactions is not dropped",
    "engine/drive/reclaim_segment.c: frames are moved without a flush before the index names them (I3)": "no batch of the index begins before what was written to segments is "
                                                                                                       "flushed (batch.c), moved frames too",
    "engine/drive/index.c eng_index_condemn: fsync(fd)": "the mark is an empty file: its name is all there is, and that is flushed with the folder",
    "engine/epoch/coord.c: an epoch takes in a drive while another leaves": "those that stay are enough for an epoch by themselves, which is looked at before the one that "
                                                                            "is taken in is counted; so a start that cannot count it goes on with them",
    "engine/drive/file.c: log files go that the durable index does not cover": "file_is_dead() asks the same of each file once more",
    "engine/resync/agree.c: an old head on one member is copied to those that have lost theirs": "who reads the key finds that the version is gone, and the head is written "
                                                                                                  "anew (V35)",
}


def kind_of(stage):
    """What --stages calls it."""
    return "quick" if stage.startswith(f"{UNIT} ") else stage.split()[0]


class Mutation:
    def __init__(self, title, path, start, end, text, stages):
        self.title, self.path, self.start, self.end, self.text, self.stages = title, path, start, end, text, stages


def function_at(source, at):
    name = "?"
    for line in source[:at].splitlines():
        match = FUNCTION.match(line)
        if match:
            name = match.group(1)
    return name


def is_code(source, at):
    """Neither in a comment line nor in the head of a definition."""
    line = source[source.rfind("\n", 0, at) + 1:source.find("\n", at)]
    return not re.match(r"\s*(/?\*|//)", line) and not re.match(r"[a-z]", line)


def unused(source, match):
    """What stands before a call that is a statement of its own: else the compiler warns of one without effect."""
    before = source[source.rfind("\n", 0, match.start()) + 1:match.start()]
    return "(void)" if not before.strip() and source[match.end()] == ";" else ""


def flushes(root):
    for folder in SEARCHED:
        for path in sorted((root / folder).rglob("*.c")):
            source, where = path.read_text(), path.relative_to(root).as_posix()
            found = [(m.start(), m.end(), f"{unused(source, m)}(0 ? {m.group(0)} : 0)", m.group(1)) for m in FLUSH.finditer(source) if is_code(source, m.start())]
            found += [(m.start(), m.end(), "0", "RWF_DSYNC") for m in DSYNC.finditer(source) if is_code(source, m.start())]
            at = source.find(RING_FLUSH)
            if at >= 0:
                found.append((at, at + len(RING_FLUSH), "io_uring_prep_nop(sqe)", "fdatasync of the ring"))
            count = {}
            for start, end, text, what in sorted(found):
                base = f"{where} {function_at(source, start)}: {what}{re.sub(r'[ ]+', ' ', source[start + len(what):end]) if '(' in source[start:end] and what in source[start:end] else ''}"
                count[base] = count.get(base, 0) + 1
                quick = (FLUSH_TESTS[base],) if base in FLUSH_TESTS else ()
                yield Mutation(base if count[base] == 1 else f"{base}, no. {count[base]}", where, start, end, text, (*quick, *FLUSH_STAGES))


def times_in(root, where, text):
    path = root / where
    return path.read_text().count(text) if path.is_file() else 0


def out_of_date(root):
    """What is wrong with NAMED and REDUNDANT, as the sources are: lines."""
    wrong = [f"its text is {times_in(root, where, old)} times in {where}: {title}" for title, where, old, _, _ in NAMED if times_in(root, where, old) != 1]
    if wrong:
        return wrong
    titles = [m.title for m in everything(root)]
    wrong += [f"there are two of this name: {title}" for title in sorted(set(titles)) if titles.count(title) > 1]
    return wrong + [f"a reason is given for what is not taken out: {title}" for title in REDUNDANT if title not in titles] + \
        [f"a test is named for what is not taken out: {title}" for title in FLUSH_TESTS if title not in titles]


def named(root):
    for title, where, old, new, stages in NAMED:
        at = (root / where).read_text().index(old)
        yield Mutation(f"{where}: {title}", where, at, at + len(old), new, stages)


def everything(root):
    return [*flushes(root), *named(root)]


def copy_source(work):
    """The working tree as it is, without what git ignores; a build that is there stays."""
    source = work / "src"
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        target = source / name
        if not (ROOT / name).is_file() or (target.exists() and target.read_bytes() == (ROOT / name).read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        shutil.copymode(ROOT / name, target)
    there = set(names)
    for folder in (*SEARCHED, "tests", "include"):
        for path in (source / folder).rglob("*.[ch]"):
            if path.relative_to(source).as_posix() not in there or not (ROOT / path.relative_to(source)).is_file():
                path.unlink()  # it is gone from the tree
    (source / "build").mkdir(exist_ok=True)
    venv = source / "build/venv"
    if not venv.exists():
        venv.unlink(missing_ok=True)  # a link to one that has gone
        venv.symlink_to((ROOT / "build/venv").resolve())
    return source


class Bench:
    """The copy, and how the tests are run in it."""

    def __init__(self, source, seed):
        self.source, self.seed = source, seed
        self.broken = set()  # unit tests that fail on the source as it is: they say nothing
        self.python = "build/venv/bin/python"

    def make(self, *targets):
        return self.run(["nice", "make", "-s", "-j1", *targets], 900)

    def run(self, command, seconds, **env):
        """(passed, the last lines of what it printed)"""
        try:
            done = subprocess.run(command, cwd=self.source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=seconds, check=False, env={**os.environ, "MILLRACE_BUILD": "build/release", **env})
        except subprocess.TimeoutExpired as error:
            return False, f"more than {seconds} s: {(error.stdout or b'')[-300:]}"
        return done.returncode == 0, done.stdout

    def pytest(self, seconds, *arguments, **env):
        return self.run([self.python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments], seconds, **env)

    def stage(self, name):
        if name == POWER:
            for seed in (self.seed, self.seed + 1):  # credentials on the drives, and from the environment
                passed, text = self.pytest(600, "tests/power/test_power.py", SEED=str(seed), POWER_POINTS="280", POWER_ENOUGH="1", POWER_KEEP="0")
                if not passed:
                    break
            return passed, text
        if name.startswith(UNIT):
            wanted = name.split()[1:] or [p.stem for p in (self.source / "tests/unit/engine").glob("test_*.c") if p.stem not in self.broken]
            units = self.source / "tests/unit"  # of one name in two folders engine's is meant
            sources = [path for test in wanted for path in list(units.glob(f"engine/{test}.c")) or units.glob(f"*/{test}.c")]
            programs = sorted(f"build/release/unit/{path.parent.name}/{path.stem}" for path in sources)
            passed, text = self.make(*programs)
            return self.run(["python3", "tools/unit.py", "--timeout", "120", *programs], 3600) if passed else (passed, text)
        if name in SEEDS:
            passed, text = self.make("sim-bin")
            return self.run([f"build/release/{name}", "--seeds", SEEDS[name]], 900) if passed else (passed, text)
        if name == CRASH:
            return self.pytest(400, "tests/crash", CRASH_SECONDS="20", SEED=str(self.seed))
        if name.startswith(CLUSTER):
            return self.pytest(900, "tests/integration/test_cluster.py", "-k", name.split()[1])
        suites = {FAULTS: "test_faults.py", "reads": "test_reads.py", "gave_up": "test_gave_up.py"}
        return self.pytest(900, f"tests/integration/{suites[name]}", SEED=str(self.seed))

    def new_failures(self, text):
        """Of the unit programs that failed there, those that pass on the source as it is."""
        failed = set(re.findall(r"^FAIL \S*/(test_\w+):", text, re.M)) - self.broken
        for name in sorted(failed):
            passed, _ = self.stage(f"{UNIT} {name}")
            if not passed:
                self.broken.add(name)
        return failed - self.broken


SAYS = [r"^FAILED seed \d+(?: at event [^:]*)?: (.*)$", r"^E +cut \d+:\S+ in phase '(\w+)': (.*)$", r"^E +(\w+(?:\.\w+)*(?:Error|Mismatch): .*)$", r"^ *not ok \d+ - (\w+)", r"^FAILED (\S+)", r"^FAIL (.*)$"]
# Paths of machines, and what of a message is of no use in a table.
CUTS = [(r"/(?:dev|tmp|home|root|work)/\S*/", ""), (r"<(\d+ \w[\w ]*?) \{.*", r"\1"), (r": \(200, b'.*", ""), (r"; drive\d.*", ""), (r"^tests\.support\.daemon\.", ""), (r"\|", "/")]


def gist(text):
    """One line that says what went wrong."""
    for pattern in SAYS:
        match = re.search(pattern, text, re.M)
        if match:
            return shorten(": ".join(match.groups()))
    return shorten(text.strip().splitlines()[-1]) if text.strip() else ""


def shorten(text):
    for pattern, instead in CUTS:
        text = re.sub(pattern, instead, text)
    return text[:120]


def judge(bench, mutation, only):
    """(stage that caught it, or None; what it said)"""
    path = bench.source / mutation.path
    source = path.read_text()
    changed = source[:mutation.start] + mutation.text + source[mutation.end:]
    path.write_text(changed)
    try:
        for stage in mutation.stages:
            kind = stage.split()[0]
            if only and kind_of(stage) not in only:
                continue
            passed, text = bench.make(*BUILT.get(kind, PROGRAMS))
            if not passed:
                return "build", gist(text)
            passed, text = bench.stage(stage)
            if not passed and kind == UNIT and re.search(r"^FAIL ", text, re.M):
                path.write_text(source)
                passed = not bench.new_failures(text)
                path.write_text(changed)
            if not passed:
                return "build" if UNBUILT.search(text) else kind, gist(text)
        return None, ""
    finally:
        path.write_text(source)


def rows_of(path):
    """The rows of a page made before: {title: row}"""
    rows = [line for line in path.read_text().splitlines() if line.startswith("| ")] if path.is_file() else []
    return {row.split(" | ")[0].removeprefix("| "): row for row in rows[1:]}


def marked(row):
    title, stage, text = row.removesuffix(" |").split(" | ", 2)
    return " | ".join((title, stage.removesuffix(MARK) + MARK, text)) + " |"


def table(mutations, results, before):
    lines = ["# Mutations", "",
             "<!-- Made by `tools/mutate.py --out docs/mutations.md`. -->", "",
             "This page is for maintainers who ask what a flush, or another line that an invariant depends on, is",
             "for. Each row is a mutation: `tools/mutate.py` removed or changed the line in a copy of the source,",
             "and ran the tests until one failed. [invariants.md](invariants.md) says which rows prove what.", "",
             "- `power` is `tests/power`; `unit` is the engine's unit tests; `sim` and `simdrive` are the",
             "  simulators; `crash`, `faults`, `reads` and `gave_up` are suites of their own; `cluster` is one test of",
             "  `tests/integration/test_cluster.py`.",
             "- *nothing*: no test can fail, for the reason given. **survived**: a test is missing.",
             "- Rows marked \\* are results of an earlier run on older sources: slow tests do not run each time.", "",
             "| removed or changed | detected by | first failure, or why there is none |", "|---|---|---|"]
    for mutation in mutations:
        title = mutation.title.replace("|", "/")
        if mutation.title not in results or results[mutation.title][0] == "build":
            lines += [marked(before[title])] if title in before else []
            continue
        stage, text = results[mutation.title]
        if stage is None:
            stage, text = ("nothing" if mutation.title in REDUNDANT else "**survived**"), REDUNDANT.get(mutation.title, "")
        lines.append(f"| {title} | {stage} | {text} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--stages", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, default=ROOT / "build/mutants")
    parser.add_argument("--seed", type=int, default=2)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    source = copy_source(arguments.work)
    wrong = out_of_date(source)
    if wrong:
        print("\n".join(f"mutate.py: {line}" for line in wrong), file=sys.stderr)
        return 2
    mutations = [m for m in everything(source) if re.search(arguments.only, m.title)]
    if arguments.list:
        print("\n".join(m.title for m in mutations))
        return 0
    kept = arguments.work / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    bench, only = Bench(source, arguments.seed), list(filter(None, arguments.stages.split(",")))
    kinds = {stage.split()[0] for m in mutations for stage in m.stages if not only or kind_of(stage) in only}
    for targets in sorted({BUILT.get(kind, PROGRAMS) for kind in kinds}):
        passed, text = bench.make(*targets)
        if not passed:
            print(text)
            return 1
    for mutation in mutations:
        if mutation.title in results and not arguments.again and results[mutation.title][0] != "build":
            continue
        started = time.monotonic()
        stage, text = judge(bench, mutation, only)
        partial = stage is None and only and any(kind_of(s) not in only for s in mutation.stages)
        verdict = stage or ("not yet" if partial else "redundant" if mutation.title in REDUNDANT else "SURVIVED")
        if not partial:
            results[mutation.title] = [stage, text]
        print(f"{verdict:9} {time.monotonic() - started:4.0f} s  {mutation.title}  [{text}]", flush=True)
        kept.write_text(json.dumps(results, indent=1))
    if arguments.out:
        arguments.out.write_text(table(everything(source), results, rows_of(arguments.out)))
    judged = [m.title for m in mutations if m.title in results]
    survived = [title for title in judged if results[title][0] is None and title not in REDUNDANT]
    unbuilt = [title for title in judged if results[title][0] == "build"]
    print(f"{len(mutations)} mutations, {len(mutations) - len(judged)} without a result, {len(survived)} survived without a reason, {len(unbuilt)} could not be built")
    return 1 if survived or unbuilt else 0


if __name__ == "__main__":
    sys.exit(main())
