# seqrun - `make help` lists the targets.

CC      ?= gcc
BUILD   ?= build
PREFIX  ?= /usr/local
SAN     ?= 0
OPT     ?= -O2
VERSION  = 0.1.0

CFLAGS  = -std=c11 -D_GNU_SOURCE -g $(OPT) -ffp-contract=off -fno-math-errno -fPIE -I. \
          -Wall -Wextra -Wformat=2 -Wvla -fstack-protector-strong $(shell pkg-config --cflags lua5.4)
LDFLAGS = -pie -rdynamic
LDLIBS  = $(shell pkg-config --libs lua5.4) -ldnnl -lyaml -lutf8proc -ljansson -lz -lpthread -ldl -lm

ifeq ($(SAN),1)
BUILD   := $(BUILD)-san
CFLAGS  += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

CORE    = $(wildcard core/*/*.c) $(wildcard kernels/ref/*.c) $(wildcard kernels/cpu/*.c)
BIND    = $(wildcard lua/bind/*.c)
CTESTS  = $(wildcard tests/c/*.c)

# kernels/cpu/simd/*.c hold vector code written once and compiled once for each instruction class.
SIMD    = $(wildcard kernels/cpu/simd/*.c)
ISA_plain  = -DSR_ISA=plain
ISA_avx2   = -DSR_ISA=avx2 -mavx2 -mfma -mf16c
ISA_avx512 = -DSR_ISA=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi -mfma -mf16c -mprefer-vector-width=512

obj     = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
SIMDOBJ = $(foreach i,plain avx2 avx512,$(patsubst %.c,$(BUILD)/obj/%.$(i).o,$(SIMD)))

all: $(BUILD)/seqrun

$(BUILD)/seqrun: $(call obj,$(BIND)) $(BUILD)/libseqrun.a
	$(CC) $(LDFLAGS) -o $@ $(call obj,$(BIND)) $(BUILD)/libseqrun.a $(LDLIBS)

$(BUILD)/libseqrun.a: $(call obj,$(CORE)) $(SIMDOBJ)
	@rm -f $@
	ar rcs $@ $^

# What the program says of itself; rewritten only when it changes.
$(BUILD)/version.h: FORCE
	@mkdir -p $(@D)
	@{ echo '#define SR_VERSION "$(VERSION)"'; \
	   echo "#define SR_GIT \"$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo none)\""; \
	   echo '#define SR_CFLAGS "$(OPT) $(filter -f%,$(CFLAGS))"'; } > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(BUILD)/obj/lua/bind/lsys.o: $(BUILD)/version.h
$(BUILD)/obj/lua/bind/lsys.o: CFLAGS += -I$(BUILD)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

define isa_rule
$(BUILD)/obj/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS) -O3 $(ISA_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach i,plain avx2 avx512,$(eval $(call isa_rule,$(i))))

# Each tests/c/NAME.c is a program; it exits 0 when all its checks hold.
$(BUILD)/tests/%: tests/c/%.c $(BUILD)/libseqrun.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(BUILD)/libseqrun.a $(LDLIBS)

ctests: $(patsubst tests/c/%.c,$(BUILD)/tests/%,$(CTESTS))

test: all ctests
	SAN=$(SAN) tests/run.sh $(BUILD)

clean:
	rm -rf $(BUILD)

FORCE:
.PHONY: FORCE all ctests test clean
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
