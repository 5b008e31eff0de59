#!/usr/bin/env python3
"""Breaks the engine on purpose, one way after the other, in a copy of the tree, and shows that a simulator notices: sim, simdrive for those of
engine/drive/, or simnodes for those whose names begin with "nodes-" ("nodes-home-": with a home store on each node; "nodes-lost-": histories that
lose groups; "nodes-moves-": --moves, with homes; "nodes-bounds-": --bounds).

    tests/sim/mutate.py [--list] [--seeds N] [--drive-seeds N] [--nodes-seeds N] [NAME ...]

Each mutation names a text of the engine that must be there exactly once, and what takes its place: if one is not, this list is out of date, nothing is
run, and the exit status is 2. Exits 1 if one is not noticed within N seeds.
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CHUNK = 250  # seeds of one run
OPTIONS = {
    "nodes-home-": ["--homes"],
    "nodes-lost-": ["--loses"],
    "nodes-moves-": ["--homes", "--moves"],
    "nodes-bounds-": ["--bounds"],
}

MUTATIONS = {
    "answers-early": (
        "a change is committed when all members but one have it",
        "engine/txn/txn.c",
        "!= NULL && !txn->held && txn->waiting == 0)\n                commit(txn);",
        "!= NULL && !txn->held && (txn->waiting & (txn->waiting - 1)) == 0)\n                commit(txn);",
    ),
    "answers-before-commit": (
        "a change is answered when its COMMITs are sent, not when they are back",
        "engine/txn/txn.c",
        "        if (n == 0) {\n                atomic_store(store->options",
        "        if (n > 0) {\n                txn_leave(txn, 0);\n        } else {\n                atomic_store(store->options",
    ),
    "no-key-lock": (
        "changes of one key run at the same time",
        "engine/txn/txn.c",
        "        memcpy(name, &txn->bucket, 8);",
        "        memcpy(name, &txn, 8);",
    ),
    "no-settling": (
        "a start copies no record to members that lack it",
        "engine/epoch/reconcile.c",
        "                        if (from >= 0) {",
        "                        if (false) {",
    ),
    "joins-early": (
        "a drive that catches up is a member before its names were compared",
        "engine/epoch/catch_up.c",
        "(c->view.joining & eng_bit(catch_up->slot))) {\n                catch_up->step = STEP_COMPARE;\n                begin_compare(catch_up);",
        "(c->view.joining & eng_bit(catch_up->slot))) {\n                catch_up->step = STEP_LEAVE;\n                eng_epoch_change(store);",
    ),
    "added-forgotten": (
        "a drive counts as added by an epoch that was never in force",
        "engine/epoch/epoch_body.c",
        "(added & drive ? FMT_EPOCH_ADDED : 0)",
        "(added & drive ? 0 : 0)",
    ),
    "stale-counts": (
        "a drive that was out counts as a member at the next start",
        "engine/epoch/recover.c",
        "} else if (d[i].in != FMT_EPOCH_IN) {",
        "} else if (d[i].in == FMT_EPOCH_JOINING) {",
    ),
    "no-sync": (
        "a record names shards that were written and not made durable",
        "engine/object/put.c",
        "if (put->error == 0 && put->striped && put->touched != 0) {",
        "if (put->error == 0 && put->striped && put->touched == 0) {",
    ),
    "no-pins": (
        "shards are discarded while they are read",
        "engine/txn/deferred_delete.c",
        "        return p != NULL;",
        "        return p == NULL && p != NULL;",
    ),
    "sums-other-bytes": (
        "a read of whole units gives their CRC for that of the range",
        "engine/object/get_stripe.c",
        "op->flags = from == offset && wanted == len ? ENG_OP_WANT_CRC : 0;",
        "op->flags = ENG_OP_WANT_CRC;",
    ),
    "one-word": (
        "a name is not there when one member says so and no other has a readable copy",
        "engine/txn/words.c",
        "        return eng_outvoted((members | (speakers & view->up)) & ~absent, absent);",
        "        return absent != 0 && (speakers & view->up & ~words->asked) == 0 && members != 0;",
    ),
    "condition-ignored": (
        "If-None-Match is not looked at",
        "engine/txn/txn.c",
        "                return v == NULL ? 0 : -EEXIST;",
        "                return 0;",
    ),
    "few-may-go-on": (
        "an epoch may have any number of members",
        "engine/placement/place.c",
        "        return eng_epoch_can_write(next, drives, k, m) && 2 * __builtin_popcountll(next) > __builtin_popcountll(prev);",
        "        return __builtin_popcountll(next) >= (int)(m == 0 ? k : k + 1) && drives > 0;",
    ),
    "leaves-early": (
        "a drive that is removed goes before its shards are elsewhere",
        "engine/epoch/rebalance.c",
        "if (c->shape.leaving == 0 || !c->drained || c->store->stopping",
        "if (c->shape.leaving == 0 || c->store->stopping",
    ),
    "leaves-ungained": (
        "a drive that is removed goes before its groups are elsewhere",
        "engine/epoch/rebalance.c",
        "return c->view.lost == 0 && gaining(c, left) == 0 &&",
        "return c->view.lost == 0 &&",
    ),
    "keeps-names": (
        "drives do not forget groups that went from them",
        "engine/epoch/rebalance.c",
        "                next->dropping_migrated |= c->view.map->losing;",
        "                next->dropping_migrated |= 0;",
    ),
    "forgets-uncommitted": (
        "a name that a drive forgets is back after a crash",
        "engine/epoch/migrated_drop.c",
        "op->append.committed = head.seq;",
        "op->append.committed = 0;",
    ),
    "gives-up-at-lost": (
        "a repair ends at the first stripe beyond repair",
        "engine/upkeep/rebuild_write.c",
        "        if (rv == -EAGAIN || !eng_get_lost(rebuild->get, &at))\n                return rv;",
        "        at = 0;\n        if (rv != 0)\n                return rv;",
    ),
    "lost-fails": (
        "an object of which all is repaired that could be is repaired in vain",
        "engine/upkeep/walk_worker_look.c",
        "        return rv == 0 || rv == -ENODATA;",
        "        return rv == 0;",
    ),
    "lost-uncounted": (
        "objects with stripes beyond repair are not counted",
        "engine/upkeep/lost_objects.c",
        "        bool is_new = lost == NULL;",
        "        bool is_new = false;",
    ),
    "lost-for-ever": (
        "an object with stripes beyond repair is counted after it was deleted",
        "engine/upkeep/lost_objects.c",
        "        struct lost_object *lost = lost_object_find(el, id);\n\n        assert(eng_on_loop(el));\n        if (lost != NULL)\n                lost_object_forget(el, lost);",
        "        (void)el;",
    ),
    "away-is-lost": (
        "a shard on a drive that is away counts as gone",
        "engine/object/get_stripe.c",
        "        return (s->damaged >> shard & 1) || slot >= get->store->drive_count ||",
        "        return (s->damaged >> shard & 1) || slot >= get->store->drive_count || !(get->el->view.up & eng_bit(slot)) ||",
    ),
    "remnants-go": (
        "what is left of a stripe beyond repair is not copied from a drive that leaves",
        "engine/upkeep/rebuild_write.c",
        "                if (*target == ENG_NO_DRIVE || !eng_rebuild_is_stored(part, rebuild->stripe, rebuild->copied)",
        "                if (*target != ENG_NO_DRIVE || !eng_rebuild_is_stored(part, rebuild->stripe, rebuild->copied)",
    ),
    "converted-dies": (
        "a plain object that becomes a version is reported dead",
        "engine/object/version.c",
        "        memcpy(rows->versions.null_id, plain->id, FMT_ID);",
        "        memcpy(rows->versions.null_id, plain->id, 0);",
    ),
    "next-ignored": (
        "a key whose newest version is deleted has none",
        "engine/object/delete.c",
        "        if (del->look.rows.versions.newest != del->number) {",
        "        if (del->look.rows.versions.newest != 0) {",
    ),
    "null-twice": (
        "a null version stays when another one comes",
        "engine/object/version.c",
        "        if (is_null_version(version) && versions->null_number != 0) {",
        "        if (is_null_version(version) && versions->null_number == UINT64_MAX) {",
    ),
    "hold-ignored": (
        "a legal hold keeps nothing",
        "engine/object/key_rows.c",
        "        if (object.hold)\n                return -EACCES;",
        "        if (object.hold && store == NULL)\n                return -EACCES;",
    ),
    "end-early": (
        "the log's end moves before all records of a write are taken in",
        "engine/drive/log.c",
        "l->log.end.position = rec->position + eng_rec_size(rec->body_len);",
        "l->log.end.position = l->log.current != NULL ? l->log.current->bytes : rec->position + eng_rec_size(rec->body_len);",
    ),
    "covers-pending": (
        "the index covers records that wait for COMMIT",
        "engine/drive/append.c",
        "        if (oldest != NULL) {",
        "        if (oldest != NULL && l == NULL) {",
    ),
    "answers-before-durable": (
        "a write of the log is answered before it is flushed",
        "engine/drive/log.c",
        "log->write_len, offset, RWF_DSYNC);",
        "log->write_len, offset, 0);",
    ),
    "marks-commit": (
        "a MARKS record applies what waits",
        "engine/drive/pgs.c",
        "if (pg->known <= pg->applied || (first != NULL && first->rec.seq <= pg->known))",
        "if (pg->known <= pg->applied || (first != NULL && first->rec.seq == 0))",
    ),
    "no-freed": (
        "log files in the middle go without a FREED record",
        "engine/drive/file.c",
        "if (oldest || file->freed) {",
        "if (oldest || file->freed || l != NULL) {",
    ),
    "tombstones-go": (
        "log files with tombstones go before older ones",
        "engine/drive/file.c",
        "(oldest || file->tombstones == 0) &&",
        "(oldest || file->tombstones < 1000) &&",
    ),
    "epochs-go": (
        "log files go with the only record of an epoch",
        "engine/drive/file.c",
        "            without_epochs(l, file)) {",
        "            (without_epochs(l, file) || l != NULL)) {",
    ),
    "busy-moves": (
        "values move while a record of their group is on its way",
        "engine/drive/reclaim_log.c",
        "if (rv == 1 && reclaim_log_is_busy(rc, rec->pg)) {",
        "if (rv == 2 && reclaim_log_is_busy(rc, rec->pg)) {",
    ),
    "late-hides": (
        "an older record hides what is newer in the index",
        "engine/drive/append.c",
        "applied = pg->applied > pg->copied ? pg->applied : pg->copied;",
        "applied = 0;",
    ),
    "log-not-flushed": (
        "what a killed process wrote to the log is not flushed",
        "engine/drive/replay.c",
        "rv = fdatasync(fd) == 0 ? 0 : -errno;",
        "rv = 0;",
    ),
    "reach-not-compared": (
        "a log that lost what the index had taken from it behind a record that waits is not noticed",
        "engine/drive/replay.c",
        "if (reach->file != 0 && !(behind",
        "if (reach->file == UINT64_MAX && !(behind",
    ),
    "gap-is-damage": (
        "files that were freed behind the index's position are missed",
        "engine/drive/replay.c",
        "if (r->looking || (next->header.prev_file > file->number && missing && is_explained(r, &gap)))",
        "if (r->looking || (r->l->covered.file == 0 && next->header.prev_file > file->number && missing && is_explained(r, &gap)))",
    ),
    "term-not-durable": (
        "OPEN is answered before the TERM record is durable",
        "engine/drive/term.c",
        "        op->next = terms->waiting;\n        terms->waiting = op;\n        eng_terms_go_on(l);",
        "        open_answer(l, op, 0);",
    ),
    "term-no-fence": (
        "a drive takes operations of older terms",
        "engine/drive/term.c",
        "        op->deposed = true;\n        return -ESTALE;",
        "        return 0;",
    ),
    "nodes-commits-kept": (
        "a session goes on with the COMMIT number of the one before",
        "remote/drive_server.c",
        "                served->commits = 0;\n",
        "",
    ),
    "nodes-slot-kept": (
        "what a peer's request has reserved is not given back",
        "remote/served_op.c",
        "        lp_slot_put(r->at, r->slot);\n        lp_unreserve(r->at, LP_SHARE_PEER, 1);",
        "        lp_slot_put(r->at, r->slot);",
    ),
    "nodes-answers-early": (
        "a change is committed when all members but one have it",
        "engine/txn/txn.c",
        "!= NULL && !txn->held && txn->waiting == 0)\n                commit(txn);",
        "!= NULL && !txn->held && (txn->waiting & (txn->waiting - 1)) == 0)\n                commit(txn);",
    ),
    "nodes-joins-early": (
        "a drive that was down is a member before its names were compared",
        "engine/epoch/catch_up.c",
        "(c->view.joining & eng_bit(catch_up->slot))) {\n                catch_up->step = STEP_COMPARE;\n                begin_compare(catch_up);",
        "(c->view.joining & eng_bit(catch_up->slot))) {\n                catch_up->step = STEP_LEAVE;\n                eng_epoch_change(store);",
    ),
    "nodes-no-settling": (
        "a leader's start copies no record to members that lack it",
        "engine/epoch/reconcile.c",
        "                        if (from >= 0) {",
        "                        if (false) {",
    ),
    "nodes-silent": (
        "an operation that finds no connection tells nothing of its drive",
        "engine/base/events.c",
        "f->unreachable = rv == -EHOSTUNREACH;",
        "f->unreachable = rv == -EHOSTUNREACH;\n        if (f->unreachable) {\n                free(f);\n                return;\n        }",
    ),
    "nodes-incarnation": (
        "an operation for an earlier incarnation is done",
        "remote/drive_server.c",
        "if (!begins && head->incarnation != served->incarnation)",
        "if (!begins && head->incarnation == 0)",
    ),
    "nodes-unknown-is-done": (
        "an operation whose connection has ended is done",
        "remote/remote_call.c",
        "                                           : -EHOSTUNREACH);\n        else if (call->status",
        "                                           : 0);\n        else if (call->status",
    ),
    "nodes-upload-unseen": (
        "an upload that lacks a shard, and met a change of the drives, is not looked at",
        "engine/object/put.c",
        "if (put->drives[i] == ENG_NO_DRIVE)",
        "if (put->drives == NULL)",
    ),
    "nodes-flip": (
        "bulk is believed without its checksum",
        "net/link_conn.c",
        "conn->bulk_crc != conn->head.bulk_crc",
        "conn->bulk_crc == 0 && conn->head.bulk_crc != 0",
    ),
    "nodes-deaf": (
        "a connection on which nothing is heard stays",
        "net/link_conn.c",
        "now - conn->heard > silence_ns * (inbound ? NET_DEAF : 1)",
        "now - conn->heard > 1000 * silence_ns",
    ),
    "nodes-r1": (
        "R1: a change of etcd without an answer is taken for done",
        "cluster/etcd_cas.c",
        "                else\n                        cas_look(cas);",
        "                else\n                        cas_won(cas, cas->mod_revision + 1);",
    ),
    "nodes-r2": (
        "R2: another etcd is not noticed",
        "cluster/etcd_seen.c",
        "        if (seen->cluster_id != 0 && cluster_id != seen->cluster_id)\n                return CL_SEEN_OTHER_CLUSTER;\n"
        "        return revision < seen->revision ? CL_SEEN_LOWER_REVISION : CL_SEEN_FINE;",
        "        return CL_SEEN_FINE;",
    ),
    "nodes-r3": (
        "R3: a store goes on with an epoch that etcd has not decided on",
        "engine/epoch/decided.c",
        "        cluster->propose(cluster->arg, body->data, body->len, decision_came, decision);\n        return 0;",
        "        cluster->propose(cluster->arg, body->data, body->len, free, NULL);\n        decision_came(decision);\n        return 0;",
    ),
    "nodes-r4": (
        "R4: an epoch that etcd has refused is taken for decided",
        "cluster/leader.c",
        'leader_over(l, "an epoch was refused: another process leads the pool (R4)");',
        "is_decided(l, l->config_revision + 1);",
    ),
    "nodes-r5": (
        "R5: an epoch may leave a group without a current member",
        "engine/base/placement.c",
        "return prev != 0 && ((prev & ~next) == 0 || eng_groups_kept(map->groups, map->group_count, gone != 0, next, prev));",
        "return next != 0;",
    ),
    "nodes-r6": (
        "R6: a refused append is an answer",
        "remote/remote_call.c",
        "                remote_deposed_by(c->drive->client, &c->call);\n                remote_call_end(c, -ESTALE);",
        "                remote_call_end(c, 0);",
    ),
    "nodes-r7": (
        "R7: a drive server that begins anew has granted nothing",
        "remote/grant.c",
        ".bound = eng_term_is_none(durable) ? 0 : now + g->grant_ns};",
        ".bound = 0};",
    ),
    "nodes-r13": (
        "R13: a slot that comes back does not drop what is pending there",
        "engine/epoch/catch_up.c",
        "{.kind = ENG_OP_APPEND, .flags = ENG_OP_RESERVE, .epoch = store->coord->view.epoch, .done = voided}",
        "{.kind = ENG_OP_SYNC, .flags = ENG_OP_RESERVE, .epoch = store->coord->view.epoch, .done = voided}",
    ),
    "nodes-lease": (
        "reads are answered without a lease",
        "engine/base/current.c",
        "lp_boot_clock()) < atomic_load(cluster->lease_end);",
        "lp_boot_clock()) != atomic_load(cluster->lease_end);",
    ),
    "nodes-lease-one": (
        "the last node that granted makes a lease, not the first",
        "remote/leader_lease.c",
        "                if (lease->node[i].sent < oldest)",
        "                if (oldest == UINT64_MAX || lease->node[i].sent > oldest)",
    ),
    "nodes-grant": (
        "a drive server that is bound to a leader takes another's OPEN",
        "remote/grant.c",
        "        if (until <= now)\n                return REM_GRANT_YES;",
        "        if (until != 0 || until <= now)\n                return REM_GRANT_YES;",
    ),
    "nodes-grant-short": (
        "a grant is shorter than the lease that it gives",
        "remote/grant.c",
        "* MS_NS / GRANT_DENOMINATOR * GRANT_NUMERATOR;",
        "* MS_NS / GRANT_DENOMINATOR * (GRANT_NUMERATOR - 3);",
    ),
    "nodes-term-volatile": (
        "a drive server that begins anew has forgotten who OPENed it",
        "remote/served_term.c",
        "        eng_drive_term(served->drive, &served->durable.term, served->durable.cluster);\n        served->admitted",
        "        served->admitted",
    ),
    "nodes-home-again": (
        "G1: a change of unknown outcome is sent again",
        "remote/home_link.c",
        "} else if (asked->reads || call->outcome == NET_UNREACHABLE ||",
        "} else if (asked->reads || call->outcome != NET_ANSWERED ||",
    ),
    "nodes-home-discards": (
        "G2: an upload whose PUT has no known outcome is discarded",
        "engine/call/call_send.c",
        ".recorded = call->outcome != ENG_LEADER_NOT_SENT};",
        ".recorded = false};",
    ),
    "nodes-home-past": (
        "G5: an orphan collection goes by bounds that were told after it began",
        "remote/home_server.c",
        "count < s->past[loop]);",
        "count < atomic_load(&s->bounds[loop]));",
    ),
    "nodes-home-lease": (
        "a home believes its copies without a lease",
        "remote/home_link.c",
        "atomic_store(&link->lease_end, link->sent + HOME_LEASE_NS);",
        "atomic_store(&link->lease_end, UINT64_MAX);",
    ),
    "nodes-home-pages": (
        "a home believes its copies with the first page of what it has missed",
        "engine/home/home_state.c",
        "reading->more = reading->all || reading->version != eng_feed_version(store);",
        "reading->more = false;",
    ),
    "nodes-home-waits": (
        "a change of the configuration is answered before sessions have it",
        "engine/bucket/config_feed.c",
        "if (reader->has < version && reader->until > now &&",
        "if (reader->has > version && reader->until > now &&",
    ),
    "nodes-home-opening": (
        "a leader that is opening gives homes what it has read of its configuration",
        "engine/home/home_state.c",
        "        if (store->coord->phase != ENG_PHASE_OPEN) /* what is read",
        "        if (store->coord->phase == ENG_PHASE_NEW) /* what is read",
    ),
    "nodes-home-strangers": (
        "a leader that has just begun does not wait for sessions of its predecessor",
        "remote/home_server.c",
        "        eng_feed_strangers(server->options.store, HOME_GRANT_NS);\n",
        "",
    ),
    "nodes-moves-strangers": (
        "G7: a leader that has just begun discards what homes read by the word of its predecessor",
        "remote/home_server.c",
        "        eng_pins_strangers(server->options.store, HOME_PINS_NS);\n",
        "",
    ),
    "nodes-bounds-owner": (
        "a node takes the leader key from one that has just taken it, by what was told of the leader before",
        "cluster/election.c",
        "if (w->newest < e->owner)",
        "if (w->newest < e->owner && !w->answered)",
    ),
    "nodes-opened-twice": (
        "a drive that the start is still opening is opened by the look for drives that are away, too",
        "engine/epoch/hot_add.c",
        "        return store->options.cluster != NULL && !(eng_recover_opening(store) & eng_bit((unsigned)(m - store->members)));",
        "        return store->options.cluster != NULL;",
    ),
    "nodes-lost-first": (
        "whoever comes first is the truth of a lost group, also if it left earlier",
        "engine/placement/truth.c",
        "                if (number > highest)\n                        last = 0;\n                if (number >= highest) {",
        "                if (number >= 1 || number > highest) {",
    ),
    "nodes-lost-list": (
        "a listing leaves out what lost groups hold",
        "engine/object/merge.c",
        "                rv = -EHOSTDOWN;\n                if (best_n == 0)\n",
        "                rv = 0;\n                if (best_n == 0)\n",
    ),
    "nodes-lost-pending": (
        "what is pending on the truth of a lost group is dropped",
        "engine/epoch/catch_up.c",
        "        return e->pending && eng_lost_counts(",
        "        return false && e->pending && eng_lost_counts(",
    ),
    "nodes-lost-load": (
        "a leader that is new does not know who left last",
        "engine/epoch/lost_groups.c",
        "        memcpy(c->view.left, chosen->epoch + at, FMT_EPOCH_LEFT(epoch->drives));\n",
        "",
    ),
}


def copy_tree(to):
    for name in ("Makefile", "include", "engine", "ec", "loop", "net", "remote", "cluster", "s3", "third_party", "tests/sim", "tests/lib"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name)
        else:
            shutil.copy(source, to / name)


def build(tree, program):
    done = subprocess.run(["make", "-s", "O=out", f"out/{program}"], cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}")


def first_failure(tree, program, options, seeds):
    for first in range(1, seeds + 1, CHUNK):
        last = min(first + CHUNK - 1, seeds)
        done = subprocess.run([tree / "out" / program, *options, "--seeds", f"{first}-{last}"], capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            lines = (done.stdout + done.stderr).splitlines()
            failed = [line for line in lines if line.startswith("FAILED")]
            return failed[0] if failed else f"seeds {first}-{last} ended with {done.returncode}: {lines[-1] if lines else ''}"
    return None


def out_of_date():
    """Names of those whose text is not in its file exactly once."""
    return [name for name, (_, file, old, _) in MUTATIONS.items() if not (ROOT / file).is_file() or (ROOT / file).read_text().count(old) != 1]


def try_one(tree, name, args):
    what, file, old, new = MUTATIONS[name]
    nodes, drive = name.startswith("nodes-"), file.startswith("engine/drive/")
    path = tree / file
    text = path.read_text()
    path.write_text(text.replace(old, new))
    program, seeds = ("simnodes", args.nodes_seeds) if nodes else ("simdrive", args.drive_seeds) if drive else ("sim", args.seeds)
    build(tree, program)
    options = next((options for kind, options in OPTIONS.items() if name.startswith(kind)), [])
    found = first_failure(tree, program, options, seeds)
    path.write_text(text)
    print(f"{name} ({what}): {'not noticed' if found is None else found}", flush=True)
    return found is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=7000)
    parser.add_argument("--drive-seeds", type=int, default=6000)
    parser.add_argument("--nodes-seeds", type=int, default=6000)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MUTATIONS])
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    wrong = out_of_date()
    if wrong:
        print("\n".join(f"mutate.py: the text of {name} is not in {MUTATIONS[name][1]} exactly once" for name in wrong), file=sys.stderr)
        return 2
    if args.list:
        print("\n".join(MUTATIONS))
        return 0
    with tempfile.TemporaryDirectory(prefix="millrace-mutate.") as tmp:
        tree = Path(tmp)
        copy_tree(tree)
        results = [try_one(tree, name, args) for name in args.names or MUTATIONS]
    print(f"{sum(results)} of {len(results)} noticed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
