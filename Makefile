# seqrun - `make help` lists the targets.

# ---- settings: on the command line, `make CC=clang SAN=1` --------------------------------------------
ifeq ($(origin CC),default)
CC       = gcc
endif
ifeq ($(origin CXX),default)
CXX      = g++
endif
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
OPT     ?= -O2
SAN     ?= 0
CUDA    ?= 1
NVCC    ?= $(call once,NVCC,$(firstword $(wildcard $(CUDA_HOME:%=%/bin/nvcc)) $(shell command -v nvcc) \
            $(wildcard /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc)))
VERSION  = 0.1.0

# The dependencies, as named by Debian 12.
PACKAGES      = gcc g++ make pkg-config liblua5.4-dev lua-argparse lua-busted libyaml-dev libutf8proc-dev \
                libjansson-dev libpcre2-dev libxxhash-dev zlib1g-dev libzstd-dev libedit-dev
TEST_PACKAGES = strace e2fsprogs zstd libopenmpi-dev openmpi-bin
DEMO_PACKAGES = wordnet-base
DEB_PACKAGES  = dpkg-dev binutils
PAGE_PACKAGES = chromium fonts-dejavu-core
CHECK_PACKAGES = valgrind libc6-dbg
LINT_PACKAGES = clang-format clang-tidy lua-check

# ---- flags -------------------------------------------------------------------------------------------
# Expanded on first use and then cached: `make deps` may have to install pkg-config first.
once        = $(eval $(1) := $(2))$($(1))
LUA_CFLAGS  = $(call once,LUA_CFLAGS,$(shell pkg-config --cflags lua5.4 2>/dev/null))
LUA_LIBS    = $(call once,LUA_LIBS,$(shell pkg-config --libs lua5.4 2>/dev/null))
AUTO_INIT   = $(call once,AUTO_INIT,$(shell $(CC) -ftrivial-auto-var-init=zero -E -x c /dev/null \
                >/dev/null 2>&1 && echo -ftrivial-auto-var-init=zero))

# Optional: the prompt's line editor.
LIBEDIT     = $(call once,LIBEDIT,$(shell pkg-config --libs libedit 2>/dev/null))

HARDEN  = -fstack-protector-strong -fstack-clash-protection -fcf-protection=full \
          -fno-delete-null-pointer-checks -D_FORTIFY_SOURCE=3
WARN    = -Wall -Wextra -Wformat=2 -Wvla
ISA_OPT = -O3
PIE     = -fPIE
# Functions start on cache lines: else the tokenizer's loops may lose 15 % by where the linker puts them.
CFLAGS  = -std=c11 -D_GNU_SOURCE -g $(OPT) -ffp-contract=off -fno-math-errno -falign-functions=64 $(PIE) -I. \
          $(WARN) \
          $(HARDEN) $(LUA_CFLAGS) $(EXTRA)
LDFLAGS = -pie -rdynamic -Wl,-z,relro,-z,now,-z,noexecstack
LDLIBS  = $(LUA_LIBS) -lyaml -lutf8proc -ljansson -lpcre2-8 -lz -lzstd -lpthread -ldl -lm

ifeq ($(SAN),1)
BUILD   := $(BUILD)-san
ISA_OPT  = -O1
HARDEN   = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

# ---- sources, found by wildcards ----------------------------------------------------------------------
CORE    = $(wildcard core/*/*.c core/*/*/*.c) $(wildcard kernels/ref/*.c) $(wildcard kernels/cpu/*.c)
BIND    = $(wildcard lua/bind/*.c)
CTESTS  = $(wildcard tests/c/*.c)
FUZZ    = $(wildcard tests/fuzz/*.c)
HEADERS = $(wildcard core/*.h core/*/*.h core/*/*/*.h kernels/*/*.h kernels/*/*/*.h lua/bind/*.h tests/c/*.h tests/fuzz/*.h \
            tests/support/*.h)

# kernels/cpu/simd/*.c is vector code that is compiled once for each instruction set.
SIMD    = $(wildcard kernels/cpu/simd/*.c)
ISA     = plain avx2 avx512 avx512_bf16 amx
ISA_plain  = -DSR_ISA=plain
ISA_avx2   = -DSR_ISA=avx2 -mavx2 -mfma -mf16c
ISA_avx512 = -DSR_ISA=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512
ISA_avx512_bf16 = $(subst =avx512 ,=avx512_bf16 ,$(ISA_avx512)) -mavx512bf16
ISA_amx = $(subst =avx512 ,=amx ,$(ISA_avx512)) -mavx512bf16 -mamx-tile -mamx-bf16
# The plain set with bf16 instructions in C (kernels/cpu/simd/bf16.h): tests/isa.sh.
EMULATED   = dots tiles
ISA_dots   = $(ISA_plain) $(ISA_OPT:-O3=-O2) -DSR_EMULATE=1
ISA_tiles  = $(ISA_plain) $(ISA_OPT:-O3=-O2) -DSR_EMULATE=2

# Plug-ins of the program: seqrun_NAME.so.
CUDASRC = $(wildcard kernels/cuda/*.cu)
NO_CUDA = $(if $(filter 0,$(CUDA)),make CUDA=0,$(if $(NVCC),$(if $(CUDASRC),,no kernels),nvcc was not found))
SIMTSRC = $(filter-out %_cuda.cu,$(CUDASRC)) $(wildcard kernels/simt/*.cc)
NO_SIMT = $(if $(shell command -v $(lastword $(CXX))),,$(lastword $(CXX)) was not found; install g++)
PLUGINS = $(if $(NO_CUDA),,cuda) $(if $(NO_SIMT),,simt) $(if $(NO_MPI),,mpi)

# Ranks over MPI: flags by the mpicc in PATH (of Open MPI, else of MPICH), as a cluster's modules set it, or by pkg-config.
MPI       ?= 1
mpi_flags  = $(shell mpicc --showme:$(1) 2>/dev/null || mpicc -show 2>/dev/null | cut -s -d' ' -f2- | grep . || \
              pkg-config --$(2) ompi-c 2>/dev/null || pkg-config --$(2) mpich 2>/dev/null)
MPI_CFLAGS = $(call once,MPI_CFLAGS,$(call mpi_flags,compile,cflags))
MPI_LIBS   = $(call once,MPI_LIBS,$(call mpi_flags,link,libs))
NO_MPI     = $(if $(filter 0,$(MPI)),make MPI=0,$(if $(MPI_LIBS),,not found; apt-get install libopenmpi-dev openmpi-bin))

obj     = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
SIMDOBJ = $(foreach i,$(ISA),$(patsubst %.c,$(BUILD)/obj/%.$(i).o,$(SIMD)))
TESTS   = $(patsubst tests/c/%.c,$(BUILD)/tests/%,$(CTESTS)) \
          $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz-%,$(FUZZ))

# Prints a short line per command, or the command itself with V=1.
say     = $(if $(V),,@echo "  $(1)";)
# One job per processor, unless -j was given.
jobs    = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- build -------------------------------------------------------------------------------------------
all: $(BUILD)/seqrun $(PLUGINS:%=$(BUILD)/seqrun_%.so) $(BUILD)/meta ## build the program and report which optional parts were found

$(BUILD)/seqrun: $(call obj,$(BIND)) $(BUILD)/libseqrun.a
	$(call say,link $@)$(CC) $(LDFLAGS) -o $@ $(call obj,$(BIND)) -Wl,--whole-archive $(BUILD)/libseqrun.a \
	  -Wl,--no-whole-archive $(LDLIBS) $(LIBEDIT)
	@LIBEDIT="$(LIBEDIT)" NVCC="$(NVCC)" NO_CUDA="$(NO_CUDA)" NO_SIMT="$(NO_SIMT)" NO_MPI="$(NO_MPI)" sh .make/summary.sh $@

$(BUILD)/libseqrun.a: $(call obj,$(CORE)) $(SIMDOBJ)
	@rm -f $@
	@ar rcs $@ $^

# What the comments of lua/bind say of the C modules, for help and editors; the folder changes when a file is deleted.
$(BUILD)/meta: lua/bind $(BIND) .make/annotations.lua | $(BUILD)/seqrun
	@rm -rf $@ && mkdir -p $@
	$(call say,meta $@)$(BUILD)/seqrun .make/annotations.lua $@ || { rm -rf $@; exit 1; }

# The program's version and build flags; rewritten only when they change.
$(BUILD)/version.h: FORCE
	@mkdir -p $(@D)
	@{ echo '#define SR_VERSION "$(VERSION)"'; \
	   echo "#define SR_GIT \"$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo none)\""; \
	   echo '#define SR_CFLAGS "$(OPT) $(filter -f%,$(CFLAGS))"'; } > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(BUILD)/obj/lua/bind/lsys.o: $(BUILD)/version.h

# The optional parts of this build, and why CUDA or MPI is not among them; rewritten only when they change.  Those of
# another build are removed: the program would load them.
$(BUILD)/plugins.h: FORCE
	@mkdir -p $(@D)
	@{ echo '#define SR_PLUGINS " $(strip $(PLUGINS)) "'; echo '#define SR_WITHOUT_CUDA "$(NO_CUDA)"'; \
	   echo '#define SR_WITHOUT_MPI "$(NO_MPI)"'; echo '#define SR_LIBEDIT $(if $(LIBEDIT),1,0)'; } > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
	@rm -f $(patsubst %,$(BUILD)/seqrun_%.so,$(filter-out $(PLUGINS),cuda simt mpi))
$(addprefix $(BUILD)/obj/lua/bind/,ldevicefind.o lcomm.o lsys.o ledit.o): $(BUILD)/plugins.h

# Every object is rebuilt when the flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(CFLAGS) $(LDFLAGS)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(addprefix $(BUILD)/obj/lua/bind/,lsys.o ldevicefind.o lcomm.o ledit.o): CFLAGS += -I$(BUILD)

# Local variables are zero-initialised, except in kernels, whose large stack buffers are always filled.
$(BUILD)/obj/core/%.o $(BUILD)/obj/lua/%.o: CFLAGS += $(AUTO_INIT)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/obj/%.$(1).o: %.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,cc $$< $(1))$$(CC) $$(CFLAGS) $$(ISA_OPT) $$(ISA_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,$(ISA) $(EMULATED),$(eval $(call isa_rule,$(i))))

# ---- CUDA --------------------------------------------------------------------------------------------
# Code for A100 (sm_80) and H100 (sm_90a), and PTX for what comes later.  The runtime is linked in, and
# cuBLASLt is loaded on first use, so the plug-in loads on a machine without a driver.
ARCH      = -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
            -gencode arch=compute_80,code=compute_80
NVCCFLAGS = -std=c++17 -O3 -g -I. --cudart static $(ARCH) -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics,-Wall
CUDAOBJ   = $(patsubst %.cu,$(BUILD)/obj/%.cuda.o,$(CUDASRC))

$(BUILD)/obj/%.cuda.o: %.cu $(BUILD)/cuda_flags
	@mkdir -p $(@D)
	$(call say,nvcc $<)$(NVCC) $(NVCCFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/seqrun_cuda.so: $(CUDAOBJ)
	$(call say,link $@)$(NVCC) -shared --cudart static -Xlinker --exclude-libs,ALL,-z,relro,-z,now -o $@ $^ -ldl -lpthread

$(BUILD)/cuda_flags: FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC) $(NVCCFLAGS)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# The same kernels for the CPU, where every access is checked.
SIMTFLAGS = -std=c++17 -x c++ -DSR_SIMT -D_GNU_SOURCE -g1 $(OPT) -ffp-contract=off -fno-exceptions -fno-rtti \
            -fno-threadsafe-statics -fPIC -fvisibility=hidden -ftls-model=initial-exec -I. -Wall -Wextra -Wno-unused-function
SIMTOBJ   = $(patsubst %,$(BUILD)/obj/%.simt.o,$(SIMTSRC))

$(BUILD)/obj/%.simt.o: % $(BUILD)/simt_flags
	@mkdir -p $(@D)
	$(call say,simt $<)$(CXX) $(SIMTFLAGS) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/seqrun_simt.so: $(SIMTOBJ)
	$(call say,link $@)$(CXX) -shared -Wl,-z,relro,-z,now,-z,noexecstack -static-libgcc -nodefaultlibs -o $@ $^ -lm -lpthread -lgcc -lc

$(BUILD)/simt_flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CXX) $(SIMTFLAGS)' > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# ---- MPI ---------------------------------------------------------------------------------------------
MPIOBJ = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard kernels/comm/*.c))
$(MPIOBJ): PIE = -fPIC -fvisibility=hidden $(MPI_CFLAGS)

$(BUILD)/seqrun_mpi.so: $(MPIOBJ)
	$(call say,link $@)$(CC) -shared $(filter -fsanitize%,$(LDFLAGS)) -Wl,-z,relro,-z,now,-z,noexecstack -o $@ $^ $(MPI_LIBS) -lpthread

# ---- tests -------------------------------------------------------------------------------------------
# Each tests/c/NAME.c is a program that exits with 0 if all checks pass.  What computes little is compiled in half the
# time of $(OPT); the others have kernels in them.
TEST_OPT    = -O1
TEST_CFLAGS = $(patsubst $(OPT),$(TEST_OPT),$(CFLAGS))
$(patsubst %,$(BUILD)/tests/%,attention_dots attention_tiles): TEST_OPT = $(OPT)
$(BUILD)/tests/%: tests/c/%.c $(BUILD)/libseqrun.a
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(TEST_CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libseqrun.a $(LDLIBS)

# Plug-ins that tests load: each links nothing of the program, which gives it what it calls.
TEST_PLUGINS = $(patsubst %,$(BUILD)/tests/%.so,fault inject clock late odd nccl)
define test_plugin
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(filter-out -fPIE,$(CFLAGS)) -fPIC -shared -MMD -MP -o $@ $<
endef
$(BUILD)/tests/%.so: tests/support/%.c $(BUILD)/flags
	$(test_plugin)
$(BUILD)/tests/%.so: tests/faults/support/%.c $(BUILD)/flags
	$(test_plugin)
$(BUILD)/tests/fault.so: CFLAGS += -Wl,-z,nodelete # its hooks stay in use when Lua has closed it

# Types at the prompt for tests/spec/prompt_spec.lua.
$(BUILD)/tests/pty: tests/support/pty.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< -lutil

# The programs of tests/isa.sh.
define emulated_rule
$(BUILD)/seqrun-$(1): $(call obj,$(BIND) $(CORE)) $(subst .plain.o,.$(1).o,$(SIMDOBJ))
	$$(call say,link $$@)$$(CC) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS) $$(LIBEDIT)
endef
$(foreach i,$(EMULATED),$(eval $(call emulated_rule,$(i))))

# Each tests/simt/NAME.cu is a program of kernels on the simt host.
SIMTTESTS = $(if $(NO_SIMT),,$(patsubst tests/simt/%.cu,$(BUILD)/tests/simt-%,$(wildcard tests/simt/*.cu)))
$(BUILD)/tests/simt-%: $(BUILD)/obj/tests/simt/%.cu.simt.o $(SIMTOBJ) $(BUILD)/libseqrun.a
	@mkdir -p $(@D)
	$(call say,link $@)$(CC) $(LDFLAGS) -o $@ $(filter-out %/libseqrun.a,$^) $(BUILD)/libseqrun.a $(LDLIBS)

# The host code of cuda with stand-ins for CUDA and cuBLASLt (tests/cuda), if nvcc is found.
FAKE     = $(BUILD)/tests/fake
FAKES    = $(if $(NO_CUDA),,$(FAKE)/seqrun_cuda.so $(FAKE)/libcublasLt.so.13)
CUDAINC  = $(dir $(lastword $(NVCC)))../include
$(FAKE)/seqrun_cuda.so: $(CUDAOBJ) tests/cuda/runtime.c tests/cuda/queue.c tests/cuda/queue.h
	@mkdir -p $(@D)
	$(call say,link $@)for f in runtime queue; do \
	  $(CC) $(CFLAGS) -fPIC -isystem $(CUDAINC) -c -o $(@D)/$$f.o tests/cuda/$$f.c || exit 1; done && \
	  $(CC) -shared -o $@ $(CUDAOBJ) $(@D)/runtime.o $(@D)/queue.o
$(FAKE)/libcublasLt.so.13: tests/cuda/lt.c
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(filter-out -fPIE,$(CFLAGS)) -fPIC -shared -isystem $(CUDAINC) -o $@ $<

# Each tests/fuzz/NAME.c is a fuzz target; as fuzz-NAME it replays tests/fuzz/corpus/NAME.
REPLAY  = $(BUILD)/obj/tests/support/replay.o
.SECONDARY: $(REPLAY) $(patsubst %,$(BUILD)/obj/%.simt.o,$(wildcard tests/simt/*.cu))
$(BUILD)/tests/fuzz-%: tests/fuzz/%.c $(REPLAY) $(BUILD)/libseqrun.a
	@mkdir -p $(@D)
	$(call say,cc $<)$(CC) $(TEST_CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(REPLAY) $(BUILD)/libseqrun.a $(LDLIBS)

# What the primitives of kernels compute, bit by bit, on the simt host and on a GPU: tests/gpu/run.sh.  Of the plug-in
# it has the host code alone, not the kernels.
GPUHOST = $(addprefix $(BUILD)/obj/kernels/cuda/,$(addsuffix .$(1).o,gpu table))
$(BUILD)/simt-conform: $(BUILD)/obj/tests/gpu/conform.cu.simt.o $(call GPUHOST,cu.simt) \
    $(filter-out %/gemm.cc.simt.o,$(filter %.cc.simt.o,$(SIMTOBJ))) $(BUILD)/libseqrun.a
	$(call say,link $@)$(CC) $(LDFLAGS) -o $@ $(filter-out %/libseqrun.a,$^) $(BUILD)/libseqrun.a $(LDLIBS)
$(BUILD)/gpu-conform: $(BUILD)/obj/tests/gpu/conform.cuda.o $(call GPUHOST,cuda) \
    $(filter-out %/gemm_cuda.cuda.o,$(filter %_cuda.cuda.o,$(CUDAOBJ))) $(BUILD)/libseqrun.a
	$(call say,link $@)$(NVCC) --cudart static $(if $(filter 1,$(SAN)),-Xcompiler -fsanitize=address -Xcompiler -fsanitize=undefined) -o $@ $^ $(LDLIBS)

# The time of every op of a training step on a GPU: tests/gpu/run.sh.
$(BUILD)/gpu-bench: tests/gpu/bench.c $(BUILD)/libseqrun.a
	$(call say,cc $<)$(CC) $(CFLAGS) $(LDFLAGS) -MMD -MP -MF $(BUILD)/obj/gpu-bench.d -o $@ $< -Wl,--whole-archive \
	  $(BUILD)/libseqrun.a -Wl,--no-whole-archive $(LDLIBS)

ctests: $(TESTS) $(TEST_PLUGINS) $(BUILD)/tests/pty $(SIMTTESTS) $(FAKES) $(BUILD)/gpu-bench \
        $(if $(NO_SIMT),,$(BUILD)/simt-conform) $(if $(NO_CUDA),,$(BUILD)/gpu-conform) \
        $(EMULATED:%=$(BUILD)/seqrun-%)

test: deps test-deps ## install dependencies, build, run all tests (SAN=1: with sanitizers)
	@$(MAKE) --no-print-directory $(jobs) all ctests
	@SAN=$(SAN) $(if $(LONG),LONG=$(LONG)) TEST_LIMIT=$(TEST_LIMIT) tests/run.sh $(BUILD)

test-long: ## run all tests with the full matrices: large sizes on the simt device
	@$(MAKE) --no-print-directory test LONG=1 TEST_LIMIT=7200

test-valgrind: all ## run the short tests under valgrind's memcheck (TEST_ONLY=PATTERN, SHORT=seconds)
	@sh .make/deps.sh $(CHECK_PACKAGES)
	@$(MAKE) --no-print-directory $(jobs) ctests
	@bash .make/valgrind.sh $(BUILD)

test-report: all ## check the pages of seqrun report in headless Chromium; pictures in build/pages
	@sh .make/deps.sh $(PAGE_PACKAGES)
	@$(BUILD)/seqrun tests/browser.lua $(BUILD)/pages

# FUZZ_FLAGS=-fno-sanitize-coverage=trace-cmp: about three times the runs a second, for a corpus that has grown.
fuzz: ## build the fuzz targets as build-fuzz/NAME, with clang's libFuzzer
	@command -v clang >/dev/null || { echo "fuzz: clang not found; run: apt-get install clang" >&2; exit 1; }
	@$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz AUTO_INIT= \
	  HARDEN="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer $(FUZZ_FLAGS)" build-fuzz/libseqrun.a
	@for f in $(FUZZ); do n=$$(basename $$f .c); echo "build-fuzz/$$n"; \
	  clang -std=c11 -D_GNU_SOURCE -g -O1 -I. $$(pkg-config --cflags lua5.4) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(FUZZ_FLAGS) -o build-fuzz/$$n $$f \
	  build-fuzz/libseqrun.a $(LDLIBS) || exit 1; done

bench: all ## run all benchmarks in recipes/bench
	@failed=; for f in recipes/bench/*.lua; do \
	  echo "== $$f"; $(BUILD)/seqrun $$f || failed="$$failed $$f"; done; \
	[ -z "$$failed" ] || { echo "bench: failed, or need the arguments named above:$$failed" >&2; exit 1; }

bench-amx: all ## measure products, ops and steps in bf16, in one table (recipes/bench/amx.lua)
	@$(BUILD)/seqrun recipes/bench/amx.lua

demo: deps ## install dependencies, build, train a small BERT in two phases, fine-tune it
	@sh .make/deps.sh $(DEMO_PACKAGES)
	@$(MAKE) --no-print-directory $(jobs) all
	@sh recipes/demo.sh $(BUILD)/seqrun

# ---- packages ----------------------------------------------------------------------------------------
deps: ## install missing Debian packages (needs root or sudo)
	@sh .make/deps.sh $(PACKAGES)

test-deps: deps
	@sh .make/deps.sh $(TEST_PACKAGES)

lint-deps: deps
	@sh .make/deps.sh $(LINT_PACKAGES)

# ---- lint and format ---------------------------------------------------------------------------------
lint: lint-deps ## check warnings, formatting, clang-tidy, luacheck, headers and layers
	@MAKE="$(MAKE)" sh .make/lint.sh

size: ## count lines of code and words of docs by room, against .make/size.txt (SINCE=REVISION: and what changed)
	@sh .make/size.sh $(SINCE)

format: ## format the C sources
	clang-format -i $(wildcard core/*/*.c core/*/*/*.c kernels/*/*.c kernels/*/*/*.c lua/bind/*.c tests/*/*.c tests/faults/support/*.c \
	  kernels/cuda/*.cu kernels/cuda/*.cuh kernels/simt/*.cc tests/simt/*.cu tests/simt/*.h) $(HEADERS)

compdb: ## write compile_commands.json for editors and clang-tidy
	@{ printf '['; sep=; for f in $(CORE) $(BIND) $(CTESTS) $(SIMD) $(if $(NO_MPI),,$(wildcard kernels/comm/*.c)); do \
	  case $$f in kernels/cpu/simd/*) more="-O3 $(ISA_avx2)";; kernels/comm/*) more="$(MPI_CFLAGS)";; *) more=;; esac; \
	  printf '%s\n{"directory":"%s","file":"%s","command":"%s"}' "$$sep" "$(CURDIR)" "$$f" \
	    "$(CC) $(CFLAGS) -I$(BUILD) $$more -c $$f"; sep=,; done; printf '\n]\n'; } > compile_commands.json

# ---- install -----------------------------------------------------------------------------------------
install: all ## install the program, its Lua files, recipes, headers, documents, manual page and completions under PREFIX
	@DESTDIR="$(DESTDIR)" sh .make/install.sh $(BUILD) $(PREFIX)

deb: all ## build a Debian package, build/seqrun_*.deb
	@sh .make/deps.sh $(DEB_PACKAGES)
	@VERSION=$(VERSION) sh .make/deb.sh $(BUILD) $(BUILD)

uninstall: ## remove the installed files
	@DESTDIR="$(DESTDIR)" sh .make/install.sh $(BUILD) $(PREFIX) remove

clean: ## remove all build outputs
	rm -rf $(BUILD) $(BUILD)-san build-fuzz build-lint compile_commands.json

help: ## list the targets
	@echo "make [TARGET] [CC=gcc] [OPT=-O2] [SAN=1] [CUDA=0] [MPI=0] [V=1] [PREFIX=/usr/local] [DESTDIR=]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14

FORCE:
.PHONY: FORCE all ctests test test-long test-valgrind test-report fuzz bench bench-amx demo deps test-deps lint-deps lint size format compdb install deb uninstall clean help
-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
