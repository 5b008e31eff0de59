/*
 * commands.c - the table of commands: what --help, the dispatcher and the manual go by. Read by
 * every run, on the main thread.
 */
#include "cli.h"

const struct cli_command cli_commands[] = {
        {"put", "FILE... s3://BUCKET[/KEY]", "store files",
         "FILE may be - for standard input, which then needs a KEY.\n"
         "One file goes to KEY; if KEY is empty or ends in /, or there are several files,\n"
         "each goes below it under its own name. With -r everything below a folder goes\n"
         "below KEY. Large files go in parts, in parallel.\n",
         CLI_HAS_TRANSFER | CLI_HAS(CONTENT_TYPE) | CLI_HAS(META) | CLI_HAS(NO_CLOBBER) | CLI_HAS(CHECKSUM), 2, -1,
         cli_put},
        {"get", "s3://BUCKET/KEY... [FILE|DIR]", "fetch objects into files",
         "Into the current folder if no place is given; - is standard output.\n"
         "A file appears under its name when it is whole and its checksum was right.\n"
         "With -r everything below KEY/ (below the bucket, if KEY is empty) goes below DIR.\n",
         CLI_HAS_TRANSFER, 1, -1, cli_get},
        {"ls", "[s3://[BUCKET[/PREFIX]]]", "list buckets or objects",
         "Without -r names are cut at the next / and common prefixes are shown once.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(HUMAN), 0, 1, cli_ls},
        {"rm", "s3://BUCKET/KEY...", "delete objects",
         "With -r everything below KEY/ (everything in the bucket, if KEY is empty).\n",
         CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(QUIET), 1, -1, cli_rm},
        {"cat", "s3://BUCKET/KEY...", "write objects to standard output", "",
         CLI_HAS_ENDPOINT | CLI_HAS(PART_SIZE) | CLI_HAS(TRANSPORT), 1, -1, cli_cat},
        {"stat", "s3://BUCKET[/KEY]...", "show what is known of an object or bucket", "", CLI_HAS_ENDPOINT, 1, -1,
         cli_stat},
        {"mb", "s3://BUCKET...", "make buckets", "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, -1, cli_mb},
        {"rb", "s3://BUCKET...", "remove buckets",
         "A bucket must be empty, unless -f deletes its objects and unfinished uploads first.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(FORCE), 1, -1, cli_rb},
        {"admin info", "", "show drives, usage and health of a daemon",
         "Exit status 1 if the store is not ready, not writable, or a drive is not in use.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON), 0, 0, cli_admin_info},
        {"admin verify", "", "read everything a daemon stores and report damage",
         "Starts a verification, or joins the one that runs, and waits for its end.\n"
         "Interrupting the command does not stop the verification.\n"
         "Exit status 1 if anything was damaged, missing or unreadable.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(PROGRESS) | CLI_HAS(NO_PROGRESS) | CLI_HAS(JSON),
         0, 0, cli_admin_verify},
        {"admin drive status", "", "show the drives of a daemon by slot",
         "Exit status 1 if a drive is not in use, or is being filled or emptied.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON), 0, 0, cli_admin_drive_status},
        {"admin drive add", "FOLDER", "give a store one more drive",
         "FOLDER is an empty folder, a whole path on the daemon's machine. It is formatted and gets a slot\n"
         "of its own; its share of the names comes to it while the daemon serves, and of new objects. Data\n"
         "that is there already stays where it is.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 1, 1, cli_admin_drive_add},
        {"admin drive remove", "SLOT", "take a drive out of a store for good",
         "What it holds goes to the others while the daemon serves (see admin heal status), or is rebuilt there\n"
         "if the drive is lost. Its state is \"removed\" when nothing needs it any more.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 1, 1, cli_admin_drive_remove},
        {"admin drive replace", "SLOT FOLDER", "put an empty folder in the place of a lost drive",
         "FOLDER is a whole path on the daemon's machine. It is formatted, takes the slot for good,\n"
         "and is filled from the other drives while the daemon serves (see admin heal status).\n"
         "The drive that was there before is no drive of the store any more.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 2, 2, cli_admin_drive_replace},
        {"admin drive return", "SLOT [FOLDER]", "use a drive again that failed or was missing",
         "It is brought up to date while the daemon serves. FOLDER: where it is now, if not where it was.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 1, 2, cli_admin_drive_return},
        {"admin start", "--force-without SLOT[,SLOT]...", "open a store that waits for drives which are gone for good",
         "Names the drives, by slot or id, that the store waits for, or for want of which it only\n"
         "reads: exactly those. Says what would be lost without them, and does nothing (exit\n"
         "status 1), unless --yes is given too. There is no way back: a drive given up can be used\n"
         "again only by admin drive replace, when its folder was emptied.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON) | CLI_HAS(FORCE_WITHOUT) | CLI_HAS(YES), 0,
         0, cli_admin_start},
        {"admin heal status", "", "show how objects get the shards back that they lack",
         "Exit status 1 while objects lack shards.\n", CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON), 0, 0,
         cli_admin_heal_status},
        {"admin scrub status", "", "show how far the scrub is, and what the last one found",
         "Exit status 1 if the last one found damage that was not repaired.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON), 0, 0, cli_admin_scrub_status},
        {"admin scrub start", "", "begin a scrub now", "Where one was halted it goes on.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 0, 0, cli_admin_scrub_start},
        {"admin read-only on", "", "refuse every change of objects and buckets",
         "Changes are refused with 403 AccessDenied, which clients do not send again; reads, lists, repairs and\n"
         "scrubs go on. Changes that have begun end as they would have: \"under way\" counts them, see admin\n"
         "read-only status. It stays on over restarts.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0, cli_admin_switch},
        {"admin read-only off", "", "take changes again",
         "Refused while the setting read_only is yes.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0, cli_admin_switch},
        {"admin read-only status", "", "show whether changes are refused, and how many are under way",
         "Exit status 1 while it is on.\n", CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0,
         cli_admin_switch},
        {"admin maintenance on", "", "have load balancers send requests elsewhere",
         "/health/ready answers 503, each answer ends its connection, and idle connections are closed.\n"
         "Requests that come are served all the same; repairs and scrubs go on. It stays on over restarts.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0, cli_admin_switch},
        {"admin maintenance off", "", "have load balancers send requests again", "",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0, cli_admin_switch},
        {"admin maintenance status", "", "show whether maintenance is on, and how many requests are under way",
         "Exit status 1 while it is on.\n", CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0,
         cli_admin_switch},
        {"admin support-bundle", "[FILE]", "collect what helps to find out what ails a daemon",
         "Writes one .tar.gz: settings, the daemon's last messages, health, drives, heal, scrub and\n"
         "verification, metrics, versions. It has no secrets, no data and no names of objects; messages and\n"
         "settings may name folders, addresses and buckets: look at it before you give it away. FILE must not\n"
         "be there yet. Exit status 1 if a part could not be had; contents.json says which.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 0, 1, cli_admin_support_bundle},
        {"admin trace", "", "show what happened last on the daemon's loops, event by event",
         "With --request ID only the stages of one request. Each loop keeps its last 8,191 events, which have\n"
         "numbers alone, no names. Exit status 1 if nothing is kept of it any more.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON) | CLI_HAS(REQUEST), 0, 0, cli_admin_trace},
        {"admin uploads ls", "s3://BUCKET[/PREFIX]", "list unfinished multipart uploads", "",
         CLI_HAS_ENDPOINT | CLI_HAS(OLDER), 1, 1, cli_admin_uploads_ls},
        {"admin uploads abort", "s3://BUCKET/KEY UPLOAD-ID | -r s3://BUCKET[/PREFIX]",
         "abort unfinished multipart uploads", "With -r all uploads below PREFIX.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(QUIET) | CLI_HAS(OLDER), 1, 2, cli_admin_uploads_abort},
        {"doctor", "", "examine this machine and the endpoint, and say what to mend",
         "Looks at the kernel, io_uring, limits, RDMA devices, the clock, the endpoint, the\n"
         "admin listener, and each folder given with --drive, in which it makes and deletes\n"
         "one file. Exit status 1 if something must be mended.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(DRIVE), 0, 0, cli_doctor},
        {"bench", "[PHASE]...", "measure an S3 endpoint, any vendor's",
         "Stores, reads, lists and deletes objects of its own, phase after phase, and prints what each came\n"
         "to: operations and MiB a second, latencies, errors, and the CPU that it took itself. Status and\n"
         "length of every answer are checked, with --verify each byte. Afterwards, and when interrupted, it\n"
         "deletes what it has stored, and the bucket, if it has made that. Needs room for what a phase can\n"
         "store in its time.\n"
         "\n"
         "PHASE is put-SIZE, get-SIZE, range-SIZE (of --range-of), mixed-SIZE (70 of 100 operations are GETs),\n"
         "list-N (N entries a page), head, delete, multipart, or put, get, range, list, mixed: of all usual\n"
         "sizes, which are 4k, 64k, 1m, 16m; 64k of 64M; 1000, 40; 4k. Default: all of these.\n"
         "With --rate a latency counts from when its request was due.\n"
         "\n"
         "With --transport all goes through libmillrace, as in a program that reads into registered memory: what\n"
         "it would get, by auto, tcp or rdma, and which of these carried how many objects. A connection is then an\n"
         "operation in flight, 64 at most. The phases are put, get, range and mixed as above, and batch-N[-SIZE]:\n"
         "GETs in batches of N objects (usual: 64-4k, 64-64k), each batch being one operation. With rdma what\n"
         "there is no session for fails.\n"
         "Exit status 1 if anything failed or was wrong, or it was interrupted.\n",
         (CLI_HAS_ENDPOINT & ~CLI_HAS(PARALLEL)) | CLI_HAS(BUCKET) | CLI_HAS(PREFIX) | CLI_HAS(CONNECTIONS) |
                 CLI_HAS(SECONDS) | CLI_HAS(OBJECTS) | CLI_HAS(SIZE) | CLI_HAS(PART_SIZE) | CLI_HAS(RANGE_OF) |
                 CLI_HAS(RATE) | CLI_HAS(VERIFY) | CLI_HAS(TRANSPORT) | CLI_HAS(JSON) | CLI_HAS(PROGRESS) |
                 CLI_HAS(NO_PROGRESS),
         0, -1, cli_bench},
        {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};
