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
         CLI_HAS_TRANSFER | CLI_HAS(VERSION_ID), 1, -1, cli_get},
        {"ls", "[s3://[BUCKET[/PREFIX]]]", "list buckets or objects",
         "Without -r names are cut at the next / and common prefixes are shown once.\n"
         "With --versions each version and delete marker has a line, the newest first: time, size, id, and a *\n"
         "before the name where it is the newest.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(HUMAN) | CLI_HAS(VERSIONS), 0, 1, cli_ls},
        {"cp", "s3://BUCKET/KEY s3://BUCKET[/KEY]", "copy an object, at the endpoint",
         "If the second KEY is empty or ends in /, the copy goes below it under the first one's name.\n"
         "With --version-id an older version is copied: onto its own key that makes it the newest again.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(NO_CLOBBER) | CLI_HAS(VERSION_ID), 2, 2, cli_cp},
        {"rm", "s3://BUCKET/KEY...", "delete objects",
         "With -r everything below KEY/ (everything in the bucket, if KEY is empty).\n"
         "A bucket with versions keeps them, and gets a delete marker. With --version-id that version of the\n"
         "one KEY, or that delete marker, is deleted for good; with -r --versions all of them below KEY/ are.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(QUIET) | CLI_HAS(VERSIONS) | CLI_HAS(VERSION_ID) |
                 CLI_HAS(BYPASS_GOVERNANCE),
         1, -1, cli_rm},
        {"undo", "s3://BUCKET[/PREFIX]", "take back the last change of each key",
         "Of the key PREFIX and all keys below PREFIX/, in a bucket with versions. Where the newest is a\n"
         "delete marker, it is deleted: the object is back. Else the newest version is deleted for good, if\n"
         "there is an older one. A line for each key says undelete, revert or keep, the id, and the key.\n"
         "Look at what --dry-run says first.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(DRY_RUN) | CLI_HAS(BYPASS_GOVERNANCE), 1, 1, cli_undo},
        {"diff", "s3://BUCKET[/PREFIX]", "show which keys were not the same at two times",
         "Of the key PREFIX and all keys below PREFIX/, in a bucket with versions. A line for each says added,\n"
         "changed or deleted, the ids of the versions before and after (- for none), and the key. What was\n"
         "deleted for good meanwhile is not seen. -q leaves out the sum. Without Z a time is local; 3d, 12h,\n"
         "30m, 45s are ago.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(FROM) | CLI_HAS(TO), 1, 1, cli_diff},
        {"tag get", "s3://BUCKET[/KEY]", "show the tags of an object or bucket", "A line KEY=VALUE for each tag.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(VERSION_ID), 1, 1, cli_tag_get},
        {"tag set", "s3://BUCKET[/KEY] TAG=VALUE...", "tag an object or bucket",
         "It has exactly these tags afterwards: up to 10 of an object, 50 of a bucket.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(VERSION_ID), 2, -1, cli_tag_set},
        {"tag remove", "s3://BUCKET[/KEY] [TAG]...", "remove tags of an object or bucket",
         "Those named, which it must have, or all. Others' changes at the same moment may be lost.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(VERSION_ID), 1, -1, cli_tag_remove},
        {"lock status", "s3://BUCKET[/KEY]", "show what protects a version, or the default of a bucket", "",
         CLI_HAS_ENDPOINT | CLI_HAS(VERSION_ID), 1, 1, cli_lock_status},
        {"lock retain", "s3://BUCKET[/KEY] governance|compliance TIME | none",
         "protect a version from deletion for a time",
         "TIME of an object: 2026-01-31, 2026-01-31T12:00:00Z, or 90d, 12h, 30m, 45s from now. Of a bucket it is\n"
         "the period that new versions are protected for: 90d, or 2y. Without Z a time is local.\n"
         "The mode compliance cannot be shortened or removed by anybody, governance with --bypass-governance.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(VERSION_ID) | CLI_HAS(BYPASS_GOVERNANCE), 2, 3, cli_lock_retain},
        {"lock hold", "s3://BUCKET/KEY on|off", "protect a version from deletion until it is said otherwise", "",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(VERSION_ID), 2, 2, cli_lock_hold},
        {"lifecycle get", "s3://BUCKET", "show by which rules a bucket lets objects go",
         "As JSON, in the form that aws s3api has it. Exit status 1 if there are none.\n", CLI_HAS_ENDPOINT, 1, 1,
         cli_lifecycle_get},
        {"lifecycle set", "s3://BUCKET [FILE]", "give a bucket rules by which it lets objects go",
         "Instead of those it has. FILE is what lifecycle get, or aws s3api, writes; - or none: standard input.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 2, cli_lifecycle_set},
        {"lifecycle remove", "s3://BUCKET", "remove the rules of a bucket", "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1,
         cli_lifecycle_remove},
        {"cat", "s3://BUCKET/KEY...", "write objects to standard output", "",
         CLI_HAS_ENDPOINT | CLI_HAS(PART_SIZE) | CLI_HAS(TRANSPORT) | CLI_HAS(VERSION_ID), 1, -1, cli_cat},
        {"stat", "s3://BUCKET[/KEY]...", "show what is known of an object or bucket", "",
         CLI_HAS_ENDPOINT | CLI_HAS(VERSION_ID), 1, -1, cli_stat},
        {"mb", "s3://BUCKET...", "make buckets", "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, -1, cli_mb},
        {"rb", "s3://BUCKET...", "remove buckets",
         "A bucket must be empty, unless -f deletes its objects and unfinished uploads first. In a bucket with\n"
         "versions that leaves them, and markers; -f --versions deletes all of these for good.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(FORCE) | CLI_HAS(VERSIONS), 1, -1, cli_rb},
        {"admin info", "", "show drives, usage and health of a daemon",
         "Exit status 1 if the store is not ready, not writable, a drive is not in use, or the lock clock is frozen.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(JSON), 0, 0, cli_admin_info},
        {"admin verify", "", "read everything a daemon stores and report damage",
         "Starts a verification, or joins the one that runs, and waits for its end.\n"
         "Interrupting the command does not stop the verification.\n"
         "Exit status 1 if anything was damaged, missing or unreadable.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET) | CLI_HAS(PROGRESS) | CLI_HAS(NO_PROGRESS) | CLI_HAS(JSON),
         0, 0, cli_admin_verify},
        {"admin drive status", "", "show the drives of a daemon by slot",
         "Exit status 1 if a drive is not in use, or is being filled or emptied.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(JSON), 0, 0, cli_admin_drive_status},
        {"admin drive add", "FOLDER | NODE [ID]", "give a store one more drive",
         "FOLDER is an empty folder, a whole path on the daemon's machine. It is formatted and gets a slot\n"
         "of its own; its share of the names comes to it while the daemon serves, and of new objects. Data\n"
         "that is there already stays where it is. In a cluster the folder is in the settings of its node, which was\n"
         "restarted since: NODE is that node's number or name, ID the folder's (see admin cluster node status; all new\n"
         "folders of the node, if none is given).\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 2, cli_admin_drive_add},
        {"admin drive remove", "SLOT", "take a drive out of a store for good",
         "What it holds goes to the others while the daemon serves (see admin heal status), or is rebuilt there\n"
         "if the drive is lost. Its state is \"removed\" when nothing needs it any more.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 1, cli_admin_drive_remove},
        {"admin drive replace", "SLOT FOLDER | SLOT [ID]", "put an empty folder in the place of a lost drive",
         "FOLDER is a whole path on the daemon's machine. It is formatted, takes the slot for good,\n"
         "and is filled from the other drives while the daemon serves (see admin heal status).\n"
         "The drive that was there before is no drive of the store any more. In a cluster it is a folder in the settings\n"
         "of the lost drive's node, which was restarted since: ID, or the only new one of that node.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 2, cli_admin_drive_replace},
        {"admin drive return", "SLOT [FOLDER]", "use a drive again that failed or was missing",
         "It is brought up to date while the daemon serves. FOLDER: where it is now, if not where it was.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 2, cli_admin_drive_return},
        {"admin start", "--force-without SLOT[,SLOT]...", "open a store that waits for drives which are gone for good",
         "Names the drives, by slot or id, that the store waits for, or for want of which it only\n"
         "reads: exactly those. Says what would be lost without them, and does nothing (exit\n"
         "status 1), unless --yes is given too. There is no way back: a drive given up can be used\n"
         "again only by admin drive replace, when its folder was emptied.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET) | CLI_HAS(JSON) | CLI_HAS(FORCE_WITHOUT) | CLI_HAS(YES), 0,
         0, cli_admin_start},
        {"admin pool force", "SLOT[,SLOT]...", "give up drives that the lost groups of a cluster's pool wait for",
         "Of drives, by slot or id, that were the last to have some groups of names, and are gone for good: what\n"
         "only they knew is lost, and who had these groups before them is believed. A drive that is here and lost\n"
         "writes is believed as it is. Says what each of them is waited for, and does nothing (exit status 1),\n"
         "unless --yes is given too. There is no way back: a drive that was given up is never used again.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET) | CLI_HAS(JSON) | CLI_HAS(YES), 1, 1, cli_admin_pool_force},
        {"admin heal status", "", "show how objects get the shards back that they lack",
         "Exit status 1 while objects lack shards.\n", CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(JSON), 0, 0,
         cli_admin_heal_status},
        {"admin scrub status", "", "show how far the scrub is, and what the last one found",
         "Exit status 1 if the last one found damage that was not repaired.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(JSON), 0, 0, cli_admin_scrub_status},
        {"admin scrub start", "", "begin a scrub now", "Where one was halted it goes on.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 0, 0, cli_admin_scrub_start},
        {"admin read-only on", "", "refuse every change of objects and buckets",
         "Changes are refused with 403 AccessDenied, which clients do not send again; reads, lists, repairs and\n"
         "scrubs go on. Changes that have begun end as they would have: \"under way\" counts them, see admin\n"
         "read-only status. It stays on over restarts.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(JSON), 0, 0, cli_admin_switch},
        {"admin read-only off", "", "take changes again", "Refused while the setting read_only is yes.\n",
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
        {"admin lock-clock", "", "show the clock by which retention ends, or confirm the time",
         "The lock clock does not follow the machine's clock back, or ahead faster than time passes. It is frozen\n"
         "where the machine's clock was further ahead at the start than the budget allows: then locks end late.\n"
         "With --confirm it is set to the machine's clock, durably, and has its full budget, if that shows TIME,\n"
         "give or take a minute: take TIME from elsewhere, not from the machine. Exit status 1 while it is frozen.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET) | CLI_HAS(JSON) | CLI_HAS(CONFIRM), 0, 0,
         cli_admin_lock_clock},
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
        {"admin account list", "", "list the accounts beside the first one",
         "A line for each: id, name, canonical id. The first account is 000000000001, whose root is in the settings.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN), 0, 0, cli_admin_account_list},
        {"admin account create", "NAME", "make an account, and an access key of its root",
         "Prints the secret key, this once. The admin listener gives it out over TLS, or to its own machine.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON), 1, 1, cli_admin_account_create},
        {"admin account delete", "ID", "delete an account and the keys of its root",
         "Its users, groups, roles and policies must be gone.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 1, 1, cli_admin_account_delete},
        {"admin config export", "[FILE]", "write the people and buckets of a store to a file",
         "Accounts, users, groups, roles, policies and keys, with secrets as they are sealed, and buckets with\n"
         "the documents beside them; no objects. FILE must not be there yet; default: standard output. Exit\n"
         "status 1 if something could not be exported.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET), 0, 1, cli_admin_config_export},
        {"admin config import", "FILE", "make the people and buckets of a file that export wrote",
         "Looks at all of it first: where something of the same name is there and differs, nothing is changed,\n"
         "unless --merge is given. Can be repeated. Secrets open only with the key file that they were sealed\n"
         "with. With --merge, what names somebody who is somebody else here (by the id) is left out. Exit\n"
         "status 1 if something could not be imported, or was left out.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(QUIET) | CLI_HAS(MERGE), 1, 1, cli_admin_config_import},
        {"admin user list", "[PATH-PREFIX]", "list users",
         "A line for each: name, id, when it was made, ARN.\n", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 0, 1, cli_admin_people},
        {"admin user create", "NAME [PATH]", "make a user",
         "It may do nothing until a policy is attached to it, or to one of its groups.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(JSON), 1, 2, cli_admin_people},
        {"admin user delete", "NAME", "delete a user",
         "Its keys, groups and policies must be gone.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin user show", "NAME", "show a user with its policies and groups",
         "", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 1, 1, cli_admin_people},
        {"admin user attach", "NAME POLICY", "attach a policy to a user",
         "POLICY is an ARN or a name, as in admin policy list.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin user detach", "NAME POLICY", "detach a policy from a user",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin group list", "[PATH-PREFIX]", "list groups",
         "", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 0, 1, cli_admin_people},
        {"admin group create", "NAME [PATH]", "make a group",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(JSON), 1, 2, cli_admin_people},
        {"admin group delete", "NAME", "delete a group",
         "It must have no members and no policies.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin group show", "NAME", "show a group with its members and policies",
         "", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 1, 1, cli_admin_people},
        {"admin group attach", "NAME POLICY", "attach a policy to a group",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin group detach", "NAME POLICY", "detach a policy from a group",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin group add", "GROUP USER", "add a user to a group",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin group remove", "GROUP USER", "remove a user from a group",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin role list", "[PATH-PREFIX]", "list roles",
         "", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 0, 1, cli_admin_people},
        {"admin role create", "NAME FILE [PATH]", "make a role",
         "FILE has the policy that says who may assume it; - is standard input.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(JSON), 2, 3, cli_admin_people},
        {"admin role delete", "NAME", "delete a role",
         "Its policies must be gone.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin role show", "NAME", "show a role with its policies",
         "", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 1, 1, cli_admin_people},
        {"admin role attach", "NAME POLICY", "attach a policy to a role",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin role detach", "NAME POLICY", "detach a policy from a role",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 2, 2, cli_admin_people},
        {"admin policy list", "[PATH-PREFIX]", "list managed policies",
         "Those that are always there come first.\n", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 0, 1, cli_admin_people},
        {"admin policy create", "NAME FILE [PATH]", "make a managed policy",
         "FILE has its text, which is JSON; - is standard input.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET) | CLI_HAS(JSON), 2, 3, cli_admin_people},
        {"admin policy delete", "POLICY", "delete a managed policy",
         "It must be attached nowhere.\n", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin policy show", "POLICY", "show a managed policy with its text",
         "POLICY is an ARN or a name.\n", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 1, 1, cli_admin_people},
        {"admin key list", "USER", "list the access keys of a user",
         "", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 1, 1, cli_admin_people},
        {"admin key create", "USER", "make an access key for a user",
         "Prints the secret key, this once: nobody can ask for it later. The server gives it out over TLS, or to\n"
         "its own machine.\n", CLI_HAS_ENDPOINT | CLI_HAS(JSON), 1, 1, cli_admin_people},
        {"admin key enable", "KEY", "let an access key sign again",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin key disable", "KEY", "let an access key sign nothing, and keep it",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin key delete", "KEY", "delete an access key",
         "", CLI_HAS_ENDPOINT | CLI_HAS(QUIET), 1, 1, cli_admin_people},
        {"admin uploads ls", "s3://BUCKET[/PREFIX]", "list unfinished multipart uploads", "",
         CLI_HAS_ENDPOINT | CLI_HAS(OLDER), 1, 1, cli_admin_uploads_ls},
        {"admin uploads abort", "s3://BUCKET/KEY UPLOAD-ID | -r s3://BUCKET[/PREFIX]",
         "abort unfinished multipart uploads", "With -r all uploads below PREFIX.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(QUIET) | CLI_HAS(OLDER), 1, 2, cli_admin_uploads_abort},
        {"admin cluster init", "[CONFIG]", "make a cluster of nodes whose folders are empty",
         "CONFIG is millraced's settings on any node (default: the file that MILLRACE_SETTINGS names, else\n"
         "/etc/millrace/millrace.conf): etcd and the cluster's name are taken from it. Waits until the nodes that --nodes\n"
         "names have said that they are there, shows what would be made, and asks, where there is a terminal. With --yes it is\n"
         "made without asking. With --pools the folders of each node are dealt among so many pools, which are led by different\n"
         "nodes; a bucket lies in one of them.\n",
         CLI_HAS(HELP) | CLI_HAS(YES) | CLI_HAS(NODES) | CLI_HAS(EC) | CLI_HAS(POOLS), 0, 1, cli_admin_cluster_init},
        {"admin cluster adopt", "[CONFIG]", "make a store of one machine, stopped, the first pool of a new cluster",
         "On the machine of the store, with millraced stopped. CONFIG (default as in admin cluster init) is what millraced\n"
         "is to start with as a node: the folders of the store, and cluster, node, etcd and so on. Nothing is moved: it is a\n"
         "cluster of one node until others are added (admin cluster node add). Without --yes it is shown what would be done;\n"
         "with --yes it is done, and there is no way back. It can be given again after a kill.\n",
         CLI_HAS(HELP) | CLI_HAS(YES), 0, 1, cli_admin_cluster_adopt},
        {"admin cluster pool add", "[CONFIG]", "make further pools of a cluster",
         "Of the folders that the nodes given have announced and that are in no pool. CONFIG, and what is asked, are as in\n"
         "admin cluster init. All nodes serve buckets of a new pool some seconds later.\n",
         CLI_HAS(HELP) | CLI_HAS(YES) | CLI_HAS(NODES) | CLI_HAS(EC) | CLI_HAS(POOLS), 0, 1, cli_admin_cluster_pool_add},
        {"admin cluster status", "", "show the nodes of a cluster, who leads, and what its data lacks",
         "Asked at the admin address of any node. With --watch it is shown again every two seconds. Exit status 0: all is\n"
         "whole; 1: something is not, and the last lines say what; 2: there was no answer that could be shown.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(JSON) | CLI_HAS(WATCH), 0, 0, cli_admin_cluster_status},
        {"admin cluster reseed", "CONFIG [NODE|slot:[POOL/]N]...", "write a cluster's etcd anew, which was lost or restored from a backup",
         "CONFIG is millraced's settings on any node: etcd and the cluster's name are taken from it. The nodes report\n"
         "what their drives hold; without --yes it is shown what would be written. With --yes all nodes stop serving,\n"
         "and etcd is written from the newest that they hold. Nodes, or slots of the pool, that cannot report have to be\n"
         "named, nodes by their numbers, as shown: what only they know is lost, and their drives are never used again. It\n"
         "can be given again after a kill.\n",
         CLI_HAS(HELP) | CLI_HAS(YES), 1, -1, cli_admin_cluster_reseed},
        {"admin cluster node status", "", "show the nodes of a cluster, and their new folders",
         "New folders are those that a node has announced and that are no drives of the pool yet, by their ids.\n"
         "Exit status 1 if a node's drives are not all in use.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(JSON), 0, 0, cli_admin_node_status},
        {"admin cluster node add", "NODE", "make drives of the pool of all new folders of a node",
         "NODE is a name or a number. The node runs, with settings and a certificate of this cluster, and not format = no;\n"
         "its empty folders become drives, and their share of the names comes to them while all nodes serve. Data that is\n"
         "there already stays where it is, but for what would not survive the loss of a node otherwise. Waits until it is\n"
         "done; what was begun goes on if the command is interrupted.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 1, cli_admin_node_add},
        {"admin cluster node drain", "NODE", "empty a node for good, while all nodes serve",
         "All drives of the node leave their pool together: what they hold goes to drives of other nodes first, so nothing\n"
         "lacks redundancy meanwhile. Refused where the others have no room, or could not lose a node any more. Waits until the\n"
         "node may be switched off; what was begun goes on if the command is interrupted, and it can be given again.\n"
         "The node's number is never used again.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 1, cli_admin_node_drain},
        {"admin cluster node remove", "NODE", "remove a node from a cluster that is gone for good",
         "As drain, of a node that does not run any more: what its drives held is rebuilt on those of other nodes.\n"
         "Then, and of a node that was drained at once, its rights end: the others refuse it.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(POOL) | CLI_HAS(QUIET), 1, 1, cli_admin_node_remove},
        {"cluster cert ca", "DIR NAME", "make the certificate authority of a cluster",
         "Into DIR/ca.crt and DIR/ca.key, which only its owner can read; what is there is never replaced.\n"
         "NAME is shown to people. It is good for 20 years.\n",
         CLI_HAS(HELP) | CLI_HAS(QUIET), 2, 2, cli_cluster_cert_ca},
        {"cluster secrets", "DIR", "make the secrets that all nodes of a cluster share",
         "Into DIR/key (key_file) and DIR/root-credentials, which only their owner can read; what is there is never\n"
         "replaced. Both are random.\n",
         CLI_HAS(HELP) | CLI_HAS(QUIET), 1, 1, cli_cluster_secrets},
        {"cluster cert node", "DIR NODE...", "make certificates for nodes of a cluster",
         "Into DIR/NODE.crt and DIR/NODE.key, signed by DIR/ca.key. NODE is the name by which the other nodes\n"
         "know it, a host name or an address. It is good for 5 years.\n",
         CLI_HAS(HELP) | CLI_HAS(QUIET), 2, -1, cli_cluster_cert_node},
        {"doctor", "", "examine this machine and the endpoint, and say what to mend",
         "Looks at the kernel, io_uring, limits, RDMA devices, the clock, the endpoint, the\n"
         "admin listener, and each folder given with --drive, in which it makes and deletes\n"
         "one file. With --settings also at the files that a daemon's settings name and, of a node of a cluster, at its\n"
         "name, folders, certificate and secrets, etcd's health, clock and disk, and the way to each other node: round\n"
         "trip, TLS, MTU, clock. Exit status 1 if something must be mended.\n",
         CLI_HAS_ENDPOINT | CLI_HAS(ADMIN) | CLI_HAS(DRIVE) | CLI_HAS(SETTINGS), 0, 0, cli_doctor},
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
