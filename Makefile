# millrace: one non-recursive Makefile. `make help` lists what it does.
#
# BUILD chooses a configuration (release, debug, asan, tsan, cov); everything it makes lies in build/$(BUILD)/.

BUILD ?= release
O := build/$(BUILD)
VENV := build/venv
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0
CC ?= gcc

# ---- what is built --------------------------------------------------------------------------------------------
# A folder is a house; a house may include include/*.h and its own headers, nothing else (tools/layers checks it).
HOUSES := ec loop s3 engine gateway server client cli
LIBS_IN_LINK_ORDER := server gateway engine cli client s3 loop ec
SRC_ec := $(wildcard ec/*.c)
SRC_loop := $(wildcard loop/*.c)
SRC_s3 := $(wildcard s3/*.c)
SRC_engine := $(wildcard engine/*.c engine/drive/*.c)
SRC_gateway := $(wildcard gateway/*.c)
SRC_server := $(filter-out server/main.c,$(wildcard server/*.c))
SRC_client := $(wildcard client/*.c)
SRC_cli := $(filter-out cli/main.c,$(wildcard cli/*.c))
SRC_testlib := $(wildcard tests/lib/*.c)
UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRC := $(wildcard bench/*.c)

PKGS := libmicrohttpd liburing libisal libxml-2.0 libcrypto jansson libcurl gnutls inih
CFLAGS_release := -O2 -g -D_FORTIFY_SOURCE=2
CFLAGS_debug := -O0 -g3
CFLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan := -O1 -g -fsanitize=thread -fno-omit-frame-pointer
CFLAGS_cov := -O0 -g --coverage
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread
LDFLAGS_cov := --coverage

CPPFLAGS += -D_GNU_SOURCE -DMILLRACE_VERSION='"$(VERSION)"' -Iinclude -I. $(PKG_CFLAGS)
CFLAGS += -std=gnu11 -march=x86-64-v2 -pthread -fstack-protector-strong -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wno-unused-parameter $(CFLAGS_$(BUILD))
LDFLAGS += -pthread $(LDFLAGS_$(BUILD))
LDLIBS += -lmicrohttpd -luring -lisal -llmdb -lxml2 -lcrypto -ljansson -lcurl -lgnutls -linih -lm
PKG_CFLAGS := -I/usr/include/libxml2

# ---- rules ----------------------------------------------------------------------------------------------------
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

obj = $(patsubst %.c,$(O)/obj/%.o,$(1))
LIBS := $(foreach h,$(LIBS_IN_LINK_ORDER),$(if $(SRC_$(h)),$(O)/lib/lib$(h).a))
PROGRAMS := $(if $(wildcard server/main.c),$(O)/millraced) $(if $(wildcard cli/main.c),$(O)/millrace)
UNIT_BIN := $(patsubst tests/unit/%.c,$(O)/unit/%,$(UNIT_SRC))
BENCH_BIN := $(patsubst bench/%.c,$(O)/bench/%,$(BENCH_SRC))
TESTLIB := $(if $(SRC_testlib),$(O)/lib/libtestlib.a)
ALL_OBJ := $(foreach h,$(HOUSES) testlib,$(call obj,$(SRC_$(h)))) $(call obj,server/main.c cli/main.c) \
	$(call obj,$(UNIT_SRC) $(BENCH_SRC))

.PHONY: all programs debug asan tsan
all: $(PROGRAMS) $(BENCH_BIN) ## optimised build in build/release/
programs: $(PROGRAMS)
debug asan tsan: ## the same in build/debug/, build/asan/ (ASan+UBSan), build/tsan/
	$(MAKE) BUILD=$@ all

$(O)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

define house_lib
$(O)/lib/lib$(1).a: $(call obj,$(SRC_$(1)))
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach h,$(HOUSES) testlib,$(eval $(call house_lib,$(h))))

$(O)/millraced: $(call obj,server/main.c) $(LIBS)
	$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS)
$(O)/millrace: $(call obj,cli/main.c) $(LIBS)
	$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS)
$(O)/unit/%: $(O)/obj/tests/unit/%.o $(TESTLIB) $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(TESTLIB) $(LIBS) -Wl,--end-group -lcmocka $(LDLIBS)
$(O)/bench/%: $(O)/obj/bench/%.o $(LIBS)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS)
-include $(ALL_OBJ:.o=.d)


.PHONY: unit-bin bench-bin clean deps unit integration crash check demo run check-fresh format tidy cov fuzz docs install help bench
unit-bin: $(UNIT_BIN)
bench-bin: $(BENCH_BIN)

deps: ## installs Debian packages and the Python environment (build/venv)
	tools/deps.sh
unit: ## unit tests, release build
	tools/check.sh unit
integration: ## boto3, awscli, rclone, s3cmd and raw sockets against the real daemon
	tools/check.sh integration
crash: ## SIGKILL histories
	tools/check.sh crash
check: ## installs what tests need and runs all tests, sanitizers and fuzz targets included
	tools/check.sh
check-fresh: ## builds and runs the demo in a minimal Debian 12 made by debootstrap
	tools/check_fresh.sh
demo: ## installs, builds, and runs the main job on real data end to end
	tools/demo.sh
run: ## the same set-up, then serves in the foreground
	tools/run.sh
bench: bench-bin programs ## side by side with MinIO (bench/compare.py)
	python3 bench/compare.py
format: ## clang-format over all sources
	find $(HOUSES) include tests bench -name '*.[ch]' | xargs clang-format -i
tidy: ## layer check, cppcheck, clang-tidy
	tools/tidy.sh
cov: ## line coverage of the tests
	tools/cov.sh
fuzz: ## each fuzz target for 60 s
	tools/fuzz.sh 60
docs: $(O)/millraced ## generated pages: conf/millrace.conf.sample, docs/configuration.md, option part of the manual
	$(O)/millraced --print-sample-config > conf/millrace.conf.sample
	$(O)/millraced --print-settings-markdown > docs/configuration.md

install: programs ## programs, manuals, unit file and sample configuration under $(DESTDIR)$(PREFIX)
	install -D -m 0755 $(O)/millraced $(DESTDIR)$(PREFIX)/bin/millraced
	install -D -m 0755 $(O)/millrace $(DESTDIR)$(PREFIX)/bin/millrace
	install -D -m 0644 docs/man/millraced.8 $(DESTDIR)$(PREFIX)/share/man/man8/millraced.8
	install -D -m 0644 docs/man/millrace.1 $(DESTDIR)$(PREFIX)/share/man/man1/millrace.1
	install -D -m 0644 conf/millrace.conf.sample $(DESTDIR)$(PREFIX)/share/millrace/millrace.conf.sample
	install -D -m 0644 conf/millrace.service $(DESTDIR)$(PREFIX)/share/millrace/millrace.service

help: ## this list
	@awk -F':.*## ' '/^[a-z -]+:.*## / {printf "  %-28s %s\n", $$1, $$2}' Makefile
clean: ## removes build/
	rm -rf build
