# millrace: one non-recursive Makefile. `make help` lists what it does.
#
# BUILD chooses a configuration (release, perf, debug, asan, tsan, cov); everything it makes lies in build/$(BUILD)/. CC, CPPFLAGS, CFLAGS, LDFLAGS
# and LDLIBS are the caller's: what they name comes behind the project's own.

BUILD ?= release
BUILD_ROOT ?= build
O := $(BUILD_ROOT)/$(BUILD)
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.2.0
ifeq ($(origin CC),default)
CC := gcc
endif

# ---- what is built --------------------------------------------------------------------------------------------
# A folder may include include/*.h and its own headers, nothing else (tools/layers.py checks it).
FOLDERS := ec loop s3 access rdma net engine remote cluster gateway server client load cli
LIBS_IN_LINK_ORDER := server gateway cluster remote engine cli load client access s3 rdma net loop ec
SRC_ec := $(wildcard ec/*.c)
SRC_loop := $(wildcard loop/*.c)
SRC_s3 := $(wildcard s3/*.c)
SRC_access := $(wildcard access/*.c)
SRC_rdma := $(wildcard rdma/*.c)
SRC_net := $(wildcard net/*.c)
SRC_engine := $(wildcard engine/*/*.c) third_party/lmdb/mdb.c third_party/lmdb/midl.c
SRC_remote := $(wildcard remote/*.c)
SRC_cluster := $(wildcard cluster/*.c)
SRC_gateway := $(wildcard gateway/*/*.c)
SRC_server := $(filter-out server/millraced_main.c,$(wildcard server/*.c))
SRC_client := $(wildcard client/*/*.c)
SRC_load := $(wildcard load/*.c)
SRC_cli := $(filter-out cli/millrace_main.c,$(wildcard cli/*.c))
SRC_testlib := $(wildcard tests/lib/*.c)
SRC_fakerdma := $(wildcard tests/fakerdma/*.c)
UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_MAIN := tests/fuzz/random_main.c
FUZZ_SEEDS := tests/fuzz/make_seeds.c
SRC_bulk := bench/scale/bulk.c
BENCH_SRC := $(filter-out $(SRC_bulk),$(wildcard bench/*.c bench/limits/*.c bench/net/*.c bench/scale/*.c))
SRC_micro := $(wildcard bench/micro/*.c)
SRC_sim := $(wildcard tests/sim/*.c) loop/trace_ring.c
SRC_simnodes := $(wildcard tests/sim/nodes/*.c) $(filter-out tests/sim/sim_main.c tests/sim/sim_world.c tests/sim/sim_wrap.c,$(wildcard tests/sim/*.c)) \
	tests/lib/memory_etcd.c loop/trace_ring.c
SRC_simdrive := $(wildcard tests/sim/drive/*.c) tests/sim/batches.c tests/sim/sim_core.c tests/sim/sim_loop.c loop/trace_ring.c
POWER_SRC := $(wildcard tests/power/*.c)

CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2
# As fast as release, for perf: callers are found by frame pointers.
CFLAGS_perf := -O2 -g -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -D_FORTIFY_SOURCE=2
CFLAGS_debug := -O0 -g3
CFLAGS_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan := -O1 -g1 -fsanitize=thread -fno-omit-frame-pointer
CFLAGS_cov := -O0 -g --coverage
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_cov := --coverage

CPPFLAGS_PROJECT = -D_GNU_SOURCE -DMILLRACE_VERSION='"$(VERSION)"' -Iinclude -I. -isystem third_party/lmdb -I/usr/include/libxml2
CFLAGS_PROJECT = -std=gnu11 -march=x86-64-v2 -pthread -fstack-protector-strong -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wno-unused-parameter
LIBRARIES := -lmicrohttpd -luring -lisal -lxxhash -lxml2 -lssl -lcrypto -lIPSec_MB -ljansson -lcurl -lgnutls -linih -lm
COMPILE = $(CC) $(CPPFLAGS_PROJECT) $(CPPFLAGS) $(CFLAGS_PROJECT) $(CFLAGS_$(BUILD)) $(CFLAGS)
LINK = $(CC) -pthread $(LDFLAGS_$(BUILD)) $(LDFLAGS)
# What is linked two hundred times: gold, of the same package as ld, takes a third of its time.
LINK_TEST = $(LINK) $(if $(shell command -v ld.gold),-fuse-ld=gold)

# ---- rules ----------------------------------------------------------------------------------------------------
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
LIBS := $(foreach h,$(LIBS_IN_LINK_ORDER),$(if $(SRC_$(h)),$(O)/lib/lib$(h).a))
PROGRAMS := $(if $(wildcard server/millraced_main.c),$(O)/millraced) $(if $(wildcard cli/millrace_main.c),$(O)/millrace)
FUZZ_BIN := $(patsubst tests/%.c,$(O)/%,$(FUZZ_SRC))
FUZZ_SEEDS_BIN := $(O)/fuzz/make_seeds
UNIT_BIN := $(patsubst tests/unit/%.c,$(O)/unit/%,$(UNIT_SRC))
BENCH_BIN := $(patsubst bench/%.c,$(O)/bench/%,$(BENCH_SRC))
MICRO_BIN := $(O)/bench/micro
LIBMILLRACE := $(O)/lib/libmillrace.so $(O)/lib/libmillrace.a $(O)/lib/pkgconfig/millrace.pc
POLICY_DRIVER := $(O)/policy_driver
POWER_BIN := $(O)/power/cutfs $(O)/power/cutimg
TESTLIB := $(if $(SRC_testlib),$(O)/lib/libtestlib.a) $(if $(SRC_fakerdma),$(O)/lib/libfakerdma.a)
FAKE_RDMA := $(O)/libfakerdma.so $(O)/rdma_peer $(O)/rdma_target $(O)/rdma_stress
SET_CLOCK := $(O)/libsetclock.so
ALL_OBJ := $(foreach h,$(FOLDERS) testlib fakerdma,$(call obj,$(SRC_$(h)))) $(call obj,server/millraced_main.c cli/millrace_main.c) \
	$(call obj,$(UNIT_SRC) $(BENCH_SRC) $(SRC_bulk) $(SRC_micro) $(FUZZ_SRC) $(FUZZ_MAIN) $(FUZZ_SEEDS) $(SRC_sim) $(filter tests/sim/drive/% tests/sim/nodes/%,$(SRC_simdrive) $(SRC_simnodes)) $(POWER_SRC)) \
	$(call obj,tests/rdma/rdma_peer.c tests/rdma/rdma_target.c tests/rdma/rdma_stress.c tests/support/policy_driver.c)

# $(call remember,FILE,VARIABLE): FILE holds the value of VARIABLE and is written again when that has changed, so that what depends on FILE is
# made again: a changed flag, and a source file that came or went. (cat, since $(file <) of make 4.3 now and then adds to what it read.)
quote = '$(subst ','\'',$(1))'
define remember
ifneq ($$(shell cat $(1) 2>/dev/null),$$($(2)))
.PHONY: $(1)
endif
$(1):
	@mkdir -p $$(@D)
	@printf '%s\n' $$(call quote,$$($(2))) >$$@
endef
COMPILED_WITH := $(O)/compiled-with
LINKED_WITH := $(O)/linked-with
LINK_ALL = $(LINK_TEST) $(LIBRARIES) $(LDLIBS)
$(eval $(call remember,$(COMPILED_WITH),COMPILE))
$(eval $(call remember,$(LINKED_WITH),LINK_ALL))

.PHONY: all programs libmillrace perf debug asan tsan
all: $(PROGRAMS) $(LIBMILLRACE) $(BENCH_BIN) $(MICRO_BIN) ## optimised build in build/release/
programs: $(PROGRAMS) ## millraced and millrace alone
libmillrace: $(LIBMILLRACE) ## the client library alone, shared and static
perf debug asan tsan: ## the same in build/perf/ (release with frame pointers, for perf), build/debug/, build/asan/ (ASan+UBSan), build/tsan/
	+$(MAKE) BUILD=$@ O=$(BUILD_ROOT)/$@ all

$(O)/obj/%.o: %.c $(COMPILED_WITH)
	@mkdir -p $(@D)
	$(COMPILE) -MMD -MP -c -o $@ $<

# Others' code: in their style, so without our warnings. It reads a map that other threads write on purpose, and headers that are aligned by 2.
$(O)/obj/third_party/%.o: third_party/%.c $(COMPILED_WITH)
	@mkdir -p $(@D)
	$(COMPILE) -w -fno-sanitize=undefined,thread -MMD -MP -c -o $@ $<

define folder_lib
$(call remember,$(O)/lib/lib$(1).sources,SRC_$(1))
$(O)/lib/lib$(1).a: $(call obj,$(SRC_$(1))) $(O)/lib/lib$(1).sources
	@rm -f $$@
	ar rcs $$@ $$(filter %.o,$$^)
endef
$(foreach h,$(FOLDERS) testlib fakerdma,$(eval $(call folder_lib,$(h))))

# libmillrace: the client with what it stands on, position-independent. Only what millrace.h marks MR_API can be seen from outside, in the static
# library, too: it is one object whose other symbols are local.
LIBMILLRACE_FOLDERS := client s3 ec
RDMA_OF_CLIENT := $(wildcard rdma/client*.c rdma/verbs*.c) $(addprefix rdma/,message.c get_batch_frame.c text.c keys.c load_driver.c rights.c)
LIBMILLRACE_SO := libmillrace.so.$(firstword $(subst ., ,$(VERSION)))
LIBMILLRACE_LIBRARIES := -lcurl -lxml2 -lcrypto -ljansson -linih -lisal -lxxhash
pic = $(patsubst %.c,$(O)/pic/%.o,$(1))
LIBMILLRACE_OBJ := $(call pic,$(foreach h,$(LIBMILLRACE_FOLDERS),$(SRC_$(h))) $(RDMA_OF_CLIENT))
$(eval $(call remember,$(O)/libmillrace.sources,LIBMILLRACE_OBJ))
$(O)/pic/%.o: %.c $(COMPILED_WITH)
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<
$(O)/lib/$(LIBMILLRACE_SO): $(LIBMILLRACE_OBJ) $(O)/libmillrace.sources client/api/millrace.map $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK) -shared -Wl,-soname,$(@F) -Wl,--version-script=client/api/millrace.map -Wl,-z,defs -Wl,--as-needed -o $@ $(filter %.o,$^) \
		$(LIBMILLRACE_LIBRARIES) $(LDLIBS)
$(O)/lib/libmillrace.so: $(O)/lib/$(LIBMILLRACE_SO)
	ln -sf $(<F) $@
$(O)/lib/libmillrace.a: $(LIBMILLRACE_OBJ) $(O)/libmillrace.sources
	@mkdir -p $(@D)
	ld -r -o $(O)/pic/millrace.o $(filter %.o,$^)
	objcopy --localize-hidden $(O)/pic/millrace.o
	@rm -f $@
	ar rcs $@ $(O)/pic/millrace.o
$(O)/lib/pkgconfig/millrace.pc: client/api/millrace.pc.in Makefile
	@mkdir -p $(@D)
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@PRIVATE@|$(LIBMILLRACE_LIBRARIES) -pthread|' $< >$@

# $(call link,EXTRA): the object that the rule names first, with the folders' libraries and EXTRA before the system's
link = $(LINK) -o $@ $< -Wl,--start-group $(LIBS) -Wl,--end-group $(1) $(LIBRARIES) $(LDLIBS)
$(O)/millraced: $(call obj,server/millraced_main.c) $(LIBS) $(LINKED_WITH)
	$(call link)
$(O)/millrace: $(call obj,cli/millrace_main.c) $(LIBS) $(LINKED_WITH)
	$(call link)
$(UNIT_BIN): $(O)/unit/%: $(O)/obj/tests/unit/%.o $(TESTLIB) $(LIBS) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK_TEST) -o $@ $< -Wl,--start-group $(TESTLIB) $(LIBS) -Wl,--end-group -lcmocka $(LIBRARIES) $(LDLIBS)
$(FUZZ_BIN): $(O)/fuzz/%: $(O)/obj/tests/fuzz/%.o $(call obj,$(FUZZ_MAIN)) $(LIBS) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK_TEST) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(LIBRARIES) $(LDLIBS)
$(FUZZ_SEEDS_BIN): $(call obj,$(FUZZ_SEEDS)) $(LIBS) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK_TEST) -o $@ $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LIBRARIES) $(LDLIBS)
# Calls of the engine that tests/lib/call_faults.c may let fail.
CALL_FAULTS_WRAP := $(foreach f,open openat fdopendir fstat fstatat stat statx fstatfs fstatvfs pread readdir pwrite write writev ftruncate fallocate \
	posix_fallocate fsync fdatasync unlinkat renameat renameat2 mkdirat mmap pthread_create lp_read lp_write lp_fdatasync,-Wl,--wrap=$(f))
$(O)/unit/engine/test_every_call: LINK += $(CALL_FAULTS_WRAP)
$(O)/unit/engine/test_recover: LINK += -Wl,--wrap=malloc
$(O)/unit/remote/test_remote_faults $(O)/unit/remote/test_terms: LINK += -Wl,--wrap=malloc -Wl,--wrap=calloc
$(O)/unit/cluster/test_etcd_faults: LINK += -Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
$(O)/unit/server/test_node_folders: LINK += -Wl,--wrap=eng_folder_probe
$(O)/unit/server/test_node_leader: LINK += -Wl,--wrap=waitpid
$(O)/unit/server/test_admin_forward: LINK += -Wl,--wrap=rem_home_asked_answer
$(BENCH_BIN): $(O)/bench/%: $(O)/obj/bench/%.o $(LIBS) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(LIBRARIES) $(LDLIBS)
$(filter $(O)/bench/scale/%,$(BENCH_BIN)): $(call obj,$(SRC_bulk))
$(eval $(call remember,$(O)/micro.sources,SRC_micro))
$(MICRO_BIN): $(call obj,$(SRC_micro)) $(O)/micro.sources $(LIBS) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter %.o,$^) -Wl,--start-group $(LIBS) -Wl,--end-group $(LIBRARIES) $(LDLIBS)
# The simulator is loop.h and the drives itself: of the engine it takes what does not touch files, of loop/ the trace alone.
SIM_WRAP := -Wl,--wrap=pthread_create -Wl,--wrap=pthread_join -Wl,--wrap=pthread_clockjoin_np -Wl,--wrap=pthread_detach -Wl,--wrap=open -Wl,--wrap=close
$(eval $(call remember,$(O)/sim.sources,SRC_sim))
# Its store's memory (not its drives') fails at its word, and when the store ends the process for that, a simulated process ends.
$(O)/lib/libsimengine.a: $(call obj,$(filter-out engine/drive/%,$(wildcard engine/*/*.c)))
	@mkdir -p $(@D)
	rm -f $@
	ar rc $@ $^
	objcopy $(foreach f,malloc calloc realloc abort exit,--redefine-sym $(f)=sim_engine_$(f)) $@
$(O)/sim: $(call obj,$(SRC_sim)) $(O)/sim.sources $(O)/lib/libsimengine.a $(O)/lib/libengine.a $(O)/lib/libec.a $(LINKED_WITH)
	$(LINK) $(SIM_WRAP) -o $@ $(filter %.o,$^) $(O)/lib/libsimengine.a $(O)/lib/libengine.a $(O)/lib/libec.a -lisal -lcrypto $(LDLIBS)
# The other one: a real local drive over simulated loops, workers and what a crash leaves of its files.
$(eval $(call remember,$(O)/simdrive.sources,SRC_simdrive))
$(O)/simdrive: $(call obj,$(SRC_simdrive)) $(O)/simdrive.sources $(O)/lib/libengine.a $(O)/lib/libec.a $(TESTLIB) $(LINKED_WITH)
	$(LINK) -o $@ $(filter %.o,$^) $(TESTLIB) $(O)/lib/libengine.a $(O)/lib/libec.a -lisal -lcrypto $(LDLIBS)
# Several nodes: net/, remote/ and the engine over simulated loops, drives, threads and a network.
NODES_WRAP := $(foreach f,pthread_create pthread_join pthread_detach eng_thread_ends sem_init sem_destroy sem_wait sem_post usleep nanosleep open close,-Wl,--wrap=$(f))
$(eval $(call remember,$(O)/simnodes.sources,SRC_simnodes))
NODES_LIBS := $(O)/lib/libcluster.a $(O)/lib/libs3.a $(O)/lib/libremote.a $(O)/lib/libnet.a $(O)/lib/libsimengine.a $(O)/lib/libengine.a $(O)/lib/libec.a
$(O)/simnodes: $(call obj,$(SRC_simnodes)) $(O)/simnodes.sources $(NODES_LIBS) $(LINKED_WITH)
	$(LINK) $(NODES_WRAP) -o $@ $(filter %.o,$^) -Wl,--start-group $(NODES_LIBS) -Wl,--end-group -lisal -lssl -lcrypto -lIPSec_MB -ljansson $(LDLIBS)
# The RDMA transport of tests and measurements, as a driver that daemon and client load at a word; the product is not linked with it.
$(O)/libfakerdma.so: $(SRC_fakerdma) $(wildcard tests/fakerdma/*.h) include/rdma_transport.h include/rdma_wire.h $(COMPILED_WITH)
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -shared -o $@ $(SRC_fakerdma)
# The wall clock as tests set it, loaded in front of the C library: without sanitizers, which want to come first.
$(SET_CLOCK): tests/clock/set_clock.c $(COMPILED_WITH)
	@mkdir -p $(@D)
	$(filter-out -fsanitize=%,$(COMPILE)) -fPIC -shared -o $@ $<
$(O)/rdma_peer: $(call obj,tests/rdma/rdma_peer.c) $(LIBS) $(LINKED_WITH)
	$(call link)
$(O)/rdma_target: $(call obj,tests/rdma/rdma_target.c) $(LIBS) $(LINKED_WITH)
	$(call link)
# Decides what another evaluator of policies asks it, a line each.
$(POLICY_DRIVER): $(call obj,tests/support/policy_driver.c) $(LIBS) $(LINKED_WITH)
	$(call link)
# What the client that was written from the protocol's page takes of libibverbs; nothing of the project is in it.
$(O)/independent.so: tests/independent/independent_verbs.c $(COMPILED_WITH)
	@mkdir -p $(@D)
	$(COMPILE) -Wno-missing-prototypes -fPIC -shared -o $@ $< -libverbs -lrdmacm
$(O)/rdma_stress: $(call obj,tests/rdma/rdma_stress.c) $(LIBS) $(LINKED_WITH)
	$(call link)
$(O)/power/cutfs: $(call obj,tests/power/cutfs.c tests/power/cuttree.c) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter %.o,$^) -lfuse3 $(LDLIBS)
$(O)/power/cutimg: $(call obj,tests/power/cutimg.c tests/power/cutmodel.c) $(LINKED_WITH)
	@mkdir -p $(@D)
	$(LINK) -o $@ $(filter %.o,$^) $(LDLIBS)
-include $(ALL_OBJ:.o=.d) $(LIBMILLRACE_OBJ:.o=.d)

.PHONY: model rdma-bin fuzz-bin rdma-speed every-call sim simdrive simnodes sweep sim-bin fake-rdma unit-bin bench-bin power-bin power qemu mutate soak clean deps unit integration crash check check-rdma check-cluster check-upgrade check-long demo demo-cluster run check-fresh wheel python format format-check tidy cov fuzz rot docs docs-site install help bench bench-full bench-rdma bench-versions bench-users bench-cluster bench-pauses bench-growth micro pairs scale performance
unit-bin: $(UNIT_BIN) $(FAKE_RDMA) $(SET_CLOCK) $(POLICY_DRIVER) ## builds the unit tests
fuzz-bin: $(FUZZ_BIN) $(FUZZ_SEEDS_BIN) ## builds the fuzz targets with random inputs in libFuzzer's place, for any BUILD
bench-bin: $(BENCH_BIN) $(MICRO_BIN) ## builds the load generator and the programs of bench/limits/ and bench/micro/
fake-rdma: $(FAKE_RDMA) $(SET_CLOCK) $(POLICY_DRIVER) ## builds what integration tests stand on: the RDMA transport without hardware, a client for it, a clock to be set, a driver of policies
power-bin: $(POWER_BIN) ## builds the file system of the power-cut tests
# print-VARIABLE shows one, for the scripts of tools/
print-%:
	$(info $($*))@:

VENV_PYTHON := build/venv/bin/python
$(VENV_PYTHON):
	tools/deps.sh --test
# What else a target runs that `tools/deps.sh --build` does not install: where it is missing, one line says which group does.
# $(call need,PROGRAM,GROUP)
need = @command -v $(1) >/dev/null || { echo "$(1) is not installed: tools/deps.sh --$(2) installs it" >&2; exit 1; }
deps: ## installs Debian packages and the Python environment (build/venv)
	tools/deps.sh
SEEDS ?= 200
SWEEP_SEEDS := $(if $(filter file,$(origin SEEDS)),20,$(SEEDS))
RUNS ?= 100
FIRST ?= 1
sim-bin: $(O)/sim $(O)/simdrive $(O)/simnodes ## builds the simulators
sim: $(O)/sim ## SEEDS (200) simulated histories from seed FIRST (1) on; BUILD=asan works too
	$(O)/sim --seeds $(FIRST)-$$(($(FIRST) + $(SEEDS) - 1))
simdrive: $(O)/simdrive ## the same of one real local drive under crashes
	$(O)/simdrive --seeds $(FIRST)-$$(($(FIRST) + $(SEEDS) - 1))
simnodes: $(O)/simnodes ## the same of several nodes: a store over remote drives, a network, and what happens to them
	$(O)/simnodes --seeds $(FIRST)-$$(($(FIRST) + $(SEEDS) - 1))
sweep: sim-bin ## SEEDS (20) histories of both, each again and again with one allocation, or I/O, that fails: RUNS (100) places of each, 0 for all
	$(O)/sim --sweep $(FIRST)-$$(($(FIRST) + $(SWEEP_SEEDS) - 1)) --runs $(RUNS)
	$(O)/simdrive --sweep $(FIRST)-$$(($(FIRST) + $(SWEEP_SEEDS) - 1)) --runs $(RUNS)
every-call: $(O)/unit/engine/test_every_call ## each call of the engine in a store over real files fails once, and for a while; hours (MILLRACE_EVERY_CALL_SECONDS)
	MILLRACE_EVERY_CALL_SECONDS=$${MILLRACE_EVERY_CALL_SECONDS:-0} TMPDIR=$${TMPDIR:-/dev/shm} $<
unit: ## builds and runs the unit tests, release build
	tools/check.sh unit
integration: ## boto3, awscli, rclone, s3cmd and raw sockets against the real daemon
	tools/check.sh integration
crash: ## SIGKILL histories
	tools/check.sh crash
power: $(VENV_PYTHON) power-bin programs ## power cuts, POINTS of them (1,000): the daemon on a file system that forgets what was not flushed
	MILLRACE_BUILD=$(O) POWER_POINTS=$(or $(POINTS),1000) $(VENV_PYTHON) -m pytest -q -p no:cacheprovider tests/power
qemu: $(VENV_PYTHON) programs power-bin ## power cuts on ext4 and XFS in a QEMU guest (root; some minutes), POINTS of them (100)
	tools/deps.sh --qemu
	MILLRACE_BUILD=$(O) build/venv/bin/python tests/power/qemu/run.py --points $(or $(POINTS),100) --steps 40
model: ## the model of the cluster's protocol, each rule of docs/cluster.md taken out in turn; some minutes; MODEL_ARGS="--only rejoin/ --trace"
	tools/deps.sh --model
	cargo build -q --release --locked --manifest-path tests/model/Cargo.toml --target-dir build/model
	build/model/release/model --table build/model/table.md $(MODEL_ARGS)
soak: $(VENV_PYTHON) programs ## a day's work in SOAK_SECONDS (1,200): nothing may grow, and everything is right at the end
	MILLRACE_BUILD=$(O) build/venv/bin/python tests/soak/run.py --seconds $(or $(SOAK_SECONDS),1200)
conformance: programs ## versitygw's integration suite against the daemon, some 1,500 cases, ten minutes (CONFORMANCE_ARGS="--verbose --group iam"); goes on where it was stopped
	MILLRACE_BUILD=$(O) /usr/bin/python3 tests/conformance/run.py $(CONFORMANCE_ARGS)
mutate: $(VENV_PYTHON) ## takes out each flush and some other guards, one at a time, and says which test notices (an hour); docs/mutations.md
	tools/mutate.py --out docs/mutations.md
check: ## installs what tests need and runs all tests, sanitizers and fuzz targets included
	tools/check.sh
rdma-bin: $(O)/independent.so $(O)/unit/rdma/test_pair $(FAKE_RDMA)
check-rdma: $(VENV_PYTHON) programs wheel rdma-bin ## real verbs: a QEMU guest with Soft-RoCE runs the daemon and its clients (root; some minutes); fails where it can't boot
	tools/deps.sh --qemu
	MILLRACE_BUILD=$(O) /usr/bin/python3 tests/rdma/run.py
rdma-speed: $(VENV_PYTHON) programs wheel rdma-bin ## how fast the daemon is on Soft-RoCE, beside ib_write_bw in the same guest (root; SPEED_ARGS="--rounds 3 --ec 2+2")
	tools/deps.sh --qemu
	MILLRACE_BUILD=$(O) /usr/bin/python3 tests/rdma/run.py --command "build/venv/bin/python -m tests.rdma.speed $(SPEED_ARGS)"
check-cluster: $(VENV_PYTHON) programs python fake-rdma ## the S3 suites at each of three nodes; then such nodes in network namespaces are killed, paused and cut off, and what clients saw is judged (root; MILLRACE_CLUSTER_SECONDS, 600)
	tools/deps.sh --test --cluster
	MILLRACE_BUILD=$(O) $(VENV_PYTHON) -m tests.cluster.suites
	MILLRACE_BUILD=$(O) MILLRACE_CLUSTER_SECONDS=$${MILLRACE_CLUSTER_SECONDS:-600} $(VENV_PYTHON) -m pytest -q -p no:cacheprovider tests/cluster
check-upgrade: $(VENV_PYTHON) programs ## three nodes of an older build become nodes of this one, one after the other, while clients read and write (OLD=COMMIT)
	test -n "$(OLD)" # the older build's commit: make check-upgrade OLD=COMMIT
	tools/deps.sh --test --cluster
	rm -rf build/old && mkdir -p build/old && git archive $(OLD) | tar -x -C build/old
	$(MAKE) -C build/old programs
	MILLRACE_BUILD=$(O) MILLRACE_OLD=$(CURDIR)/build/old/$(O)/millraced $(VENV_PYTHON) -m pytest -q -s -p no:cacheprovider tests/upgrade
LONG_POINTS ?= 1000000
check-long: sim-bin unit-bin ## at most five hours: LONG_POINTS (1,000,000) simulated crashes and faults, then kills, power cuts and clang's static analyzer; goes on where it was stopped
	MILLRACE_VERSIONS=100000 tools/unit.py --timeout 1800 --name "the sweep beside 100,000 versions" $(O)/unit/engine/test_orphans
	tools/check_long.py --build $(O) --points $(LONG_POINTS) --hours 3
	CRASH_SECONDS=600 POWER_POINTS=3000 CHECK_SECONDS=6900 tools/check.sh --no-deps crash power
	INTEGRATION_TESTS= tools/check.sh --no-deps unit integration
	TSAN_WITHOUT= TSAN_FOLDERS_WITHOUT= ASAN_UNITS_WITHOUT= ASAN_TESTS='not client' RDMA_TESTS= tools/check.sh --no-deps asan tsan rdma
	tools/fuzz.sh 60
	tools/tidy.py
check-fresh: ## builds and runs the demo in a minimal Debian 12 made by debootstrap
	tools/check_fresh.sh
demo: ## installs, builds, and runs the main job on real data end to end
	@tools/demo.sh
demo-cluster: ## three nodes and etcd on machines that are network namespaces (root): killed, cut off, restarted, every byte compared; four minutes
	@tools/demo_cluster.sh
run: ## the same set-up, then serves in the foreground
	@tools/run.sh
BENCH_RUN = python3 bench/compare.py --build $(O)
bench: bench-bin programs fake-rdma ## side by side with other S3 servers and the machine's limits, half an hour; figures in build/bench/
	mkdir -p $(BUILD_ROOT)/bench
	$(BENCH_RUN) --scale bench --json $(BUILD_ROOT)/bench/bench.json --out $(BUILD_ROOT)/bench/bench.md $(BENCH_ARGS)
bench-full: bench-bin programs fake-rdma ## the same with all that it takes, some hours
	mkdir -p $(BUILD_ROOT)/bench
	$(BENCH_RUN) --scale full --json $(BUILD_ROOT)/bench/full.json --out $(BUILD_ROOT)/bench/full.md $(BENCH_ARGS)
bench-rdma: bench-bin programs fake-rdma ## RDMA on the fake transport beside TCP, two minutes; figures in build/bench/
	mkdir -p $(BUILD_ROOT)/bench
	$(BENCH_RUN) --scale bench --rounds 3 --only rdma --json $(BUILD_ROOT)/bench/rdma.json --out $(BUILD_ROOT)/bench/rdma.md $(BENCH_ARGS)
SCALE_NAMES ?= 1000000
scale: bench-bin programs ## one drive with SCALE_NAMES (1,000,000) names made in bulk: start, PUT, GET, LIST, memory, orphans; SCALE_ARGS="--files 10000"
	python3 bench/scale.py --build $(O) --names $(SCALE_NAMES) --json $(BUILD_ROOT)/bench/scale.json $(SCALE_ARGS)
bench-versions: bench-bin programs ## a million versions made in bulk, ten minutes: listings, lifecycle rules beside clients; VERSIONS_ARGS="--versions 100000"
	python3 bench/versions.py --build $(O) --json $(BUILD_ROOT)/bench/versions.json $(VERSIONS_ARGS)
bench-users: bench-bin programs ## GETs as root, as a user with policies, with temporary credentials, five minutes; USERS_ARGS="--rounds 3"
	python3 bench/users.py --build $(O) --json $(BUILD_ROOT)/bench/users.json $(USERS_ARGS)
bench-cluster: bench-bin programs ## CPU of three nodes against one, and beside three of MinIO, ten minutes; CLUSTER_ARGS="--rounds 1 --only one --only three"
	tools/deps.sh --cluster
	mkdir -p $(BUILD_ROOT)/bench
	python3 bench/cluster.py --program $(O)/millraced --load $(O)/bench/load --json $(BUILD_ROOT)/bench/cluster.json $(CLUSTER_ARGS)
bench-pauses: programs ## for how long failures of a cluster are felt, a quarter of an hour; PAUSES_ARGS="--times 1 --only node --only hand-over"
	tools/deps.sh --cluster
	mkdir -p $(BUILD_ROOT)/bench
	python3 bench/cluster_pauses.py --json $(BUILD_ROOT)/bench/pauses.json $(PAUSES_ARGS)
bench-growth: bench-bin programs ## what is moved when nodes come and go, and what GETs feel of it, some minutes; GROWTH_ARGS="--mib 256"
	tools/deps.sh --cluster
	mkdir -p $(BUILD_ROOT)/bench
	python3 bench/cluster_growth.py --json $(BUILD_ROOT)/bench/growth.json $(GROWTH_ARGS)
micro: bench-bin programs ## the engine by its own API, and ec/, without a network, two or three minutes; MICRO_ARGS="--names 100K list" for less of it
	$(O)/bench/limits/kernels
	$(O)/bench/micro $(MICRO_ARGS)
	$(BENCH_RUN) --rounds 1 --only engine
PAIRS ?= 7
pairs: bench-bin programs ## two builds in PAIRS (7) pairs, processor time and throughput: BASE=PATH of the other build's millraced
	python3 bench/pairs.py --base $(BASE) --program $(O)/millraced --load $(O)/bench/load --pairs $(PAIRS)
FIGURES ?= $(BUILD_ROOT)/bench/bench.json
performance: ## docs/performance.md and its plots from the figures of make bench; FIGURES=build/bench/full.json: of make bench-full
	python3 bench/compare.py --render $(FIGURES) --out docs/performance.md
C_FILES = find $(FOLDERS) include tests bench -name '*.[ch]' -print0
format: ## clang-format over all sources
	$(call need,clang-format-14,tools)
	$(C_FILES) | xargs -0 clang-format-14 -i
format-check: ## names what clang-format would change, and fails if there is something
	$(call need,clang-format-14,tools)
	$(C_FILES) | xargs -0 clang-format-14 --dry-run -Werror 2>&1 | sed -n 's/^\([^:]*\.[ch]\):.*/\1/p' | sort | uniq -c | awk '{print} END {exit NR > 0}'
tidy: ## layer check, repeated code, cppcheck, clang-tidy; what is known to be no bug is in tools/tidy.known and tools/duplicates.known
	tools/deps.sh --build --tools
	tools/tidy.py
cov: $(VENV_PYTHON) ## line coverage of unit and integration tests, by folder
	$(call need,gcovr,tools)
	tools/cov.sh
rot: build/release/unit/engine/test_index_rot ## 100,000 damaged images of an index under load, about 15 minutes (MILLRACE_ROT_ROUNDS)
	MILLRACE_ROT_ROUNDS=$${MILLRACE_ROT_ROUNDS:-100000} TMPDIR=$${TMPDIR:-/dev/shm} $<
fuzz: ## each fuzz target for 60 s
	$(call need,clang-14,tools)
	tools/fuzz.sh 60
docs: $(O)/millraced $(VENV_PYTHON) ## what is generated: conf/millrace.conf.sample, docs/configuration.md, docs/metrics.md, docs/s3-compatibility.md, options in millraced.8
	server/generate.sh $(O)/millraced
docs-site: ## the documents as a web site with search, build/site/index.html (after tools/deps.sh --tools); it needs no network to be read
	tools/site.py

# The Python package is built from a copy, so that the tree stays clean; the wheel holds the static library and what millrace.h declares.
PYTHON_SRC := $(wildcard python/*.py python/*.toml python/millrace/*.* python/millrace/torch/*.py)
WHEEL := $(O)/python/wheel.made
$(WHEEL): $(PYTHON_SRC) $(O)/lib/libmillrace.a include/millrace.h | $(VENV_PYTHON)
	@rm -rf $(@D) && mkdir -p $(@D)
	cp -r python $(@D)/src
	cd $(@D)/src && MILLRACE_INCLUDE=$(CURDIR)/include MILLRACE_LIB=$(abspath $(O))/lib \
		$(CURDIR)/$(VENV_PYTHON) -m pip wheel -q --no-deps --no-build-isolation --disable-pip-version-check -w .. .
	@touch $@
INSTALLED := $(O)/python/installed
$(INSTALLED): $(WHEEL) | $(VENV_PYTHON)
	$(VENV_PYTHON) -m pip install -q --no-deps --force-reinstall --disable-pip-version-check $(@D)/*.whl
	@touch $@
wheel: $(VENV_PYTHON) $(WHEEL) ## the Python package, in build/release/python/ (after tools/deps.sh --test)
python: $(VENV_PYTHON) $(INSTALLED) ## the same, installed into build/venv

install: programs libmillrace ## programs, client library, manuals, unit file, sample configuration and documents under $(DESTDIR)$(PREFIX)
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/bin $(PROGRAMS)
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/include include/millrace.h
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/lib $(O)/lib/$(LIBMILLRACE_SO)
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/lib $(O)/lib/libmillrace.a
	ln -sf $(LIBMILLRACE_SO) $(DESTDIR)$(PREFIX)/lib/libmillrace.so
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/lib/pkgconfig $(O)/lib/pkgconfig/millrace.pc
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man8 docs/man/millraced.8
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/man/man1 docs/man/millrace.1
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/millrace conf/millrace.conf.sample conf/prometheus-alerts.yml conf/grafana-dashboard.json
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/millrace LICENSE $(wildcard docs/*.md)
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/doc/millrace/tutorials $(wildcard docs/tutorials/*.md)
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/bin/|$(PREFIX)/bin/|' conf/millrace.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/millrace.service
	chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/millrace.service

help: ## this list
	@awk -F':.*## ' '/^[a-z -]+:.*## / {printf "  %-28s %s\n", $$1, $$2}' Makefile
clean: ## removes build/, the Python environment too
	rm -rf build
