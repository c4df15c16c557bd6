# Run make for help. All targets but site and editor need Go only. Other programs are built on first
# use and cached.

GO           ?= go
FUZZTIME     ?= 1m
CONTROLPLANE := $(GO) run ./test/controlplane/cmd/controlplane
GOLANGCI     := bin/golangci-lint
GOVULNCHECK  := bin/govulncheck
# The database of known vulnerabilities, or a mirror.
VULNDB       ?= https://vuln.go.dev
PLAYGROUND   := ./cmd/virtwright/internal/playground
# The number of processes that run the stories. Each has its own control plane and manager.
PROCS        ?= 4
STORIES      := $(GO) run github.com/onsi/ginkgo/v2/ginkgo run --procs=$(PROCS) --timeout=30m --output-interceptor-mode=none
# Packages of the product, and packages in test that only check the source.
UNITS         = $$($(GO) list ./... | grep -v /test/) ./test/arch ./test/cases ./test/golden

# The hash of the working tree, with untracked files.
TREE = index=$$(mktemp -u) && GIT_INDEX_FILE=$$index git add -A && GIT_INDEX_FILE=$$index git write-tree && rm -f $$index

.DEFAULT_GOAL := help
.PHONY: help build image generate golden lint vulncheck unit test test-all e2e e2e-kind dev-kind dev-kubevirt soak bench fuzz check demo dev render site release clean generated controlplane

help: ## print this
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the programs into bin/, with the playground
	$(GO) run $(PLAYGROUND)/build $(PLAYGROUND)/site/files
	$(GO) build -tags playground -o bin/ ./cmd/*/
	@ln -sf virtwright bin/kubectl-virtwright

image: ## write the container images of manager and launcher to bin/virtwright-*.tar
	$(GO) run ./test/kind/cmd/image manager
	$(GO) run ./test/kind/cmd/image launcher

generate: ## regenerate CRDs, deepcopy and manifests from Go
	$(GO) generate ./api/...
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run "TestRulesPage|TestChart" ./validation ./webhooks >/dev/null
	UPDATE_GOLDEN=1 $(GO) test -count=1 -run "TestSchema|TestExamples" ./cmd/virtwright/internal/playground >/dev/null

.PHONY: editor
editor: ## bundle the playground's editor (needs Node)
	cd cmd/virtwright/internal/playground/web && npm ci --silent && npm run --silent build

golden: controlplane ## update golden files from the output of the tests (a quarter of an hour)
	UPDATE_GOLDEN=1 $(GO) test -count=1 -timeout 30m $$(git grep -l 'virtwright/test/golden"' -- '*_test.go' ':!test/kubevirt' | xargs -n1 dirname | sort -u | sed 's|^|./|')

.PHONY: pictures
pictures: ## draw docs/pictures from the output of virtwright
	UPDATE_GOLDEN=1 $(GO) test -count=1 ./test/docs

lint: $(GOLANGCI) ## conflict markers, gofmt, go vet and golangci-lint
	@if git grep -nE '^(<{7}|>{7}) ' -- .; then echo "resolve the conflicts above"; exit 1; fi
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted with gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags playground ./cmd/virtwright/...
	GOOS=js GOARCH=wasm $(GO) vet $(PLAYGROUND)/wasm
	$(GOLANGCI) run --allow-parallel-runners

vulncheck: $(GOVULNCHECK) ## known vulnerabilities of Go modules; skipped while their database does not answer (VULNDB=URL)
	@report=$$($(GOVULNCHECK) -db $(VULNDB) ./cmd/... 2>&1) && code=0 || code=$$?; \
	case "$$code $$report" in \
	"0 "*) ;; \
	"1 "*"fetching vulnerabilities: "*) echo "govulncheck is skipped, because $(VULNDB) does not answer" ;; \
	*) echo "$$report"; exit 1 ;; \
	esac

unit: ## tests that need no API server (a minute; ARGS="-run X -v")
	$(GO) test -short $(UNITS) $(ARGS)

test: controlplane ## unit tests, the stories against a real API server, the demo (ten minutes)
	$(GO) test -short ./...
	$(STORIES) ./test/e2e
	$(GO) test -timeout 30m ./test/demo

test-all: controlplane ## all tests: soak, image, chart, node, faults (VIRTWRIGHT_LAW_CASES=full: all cases; ARGS="-v")
	$(GO) test -vet=off -timeout 60m $$($(GO) list ./... | grep -v /test/e2e) $(ARGS)
	$(STORIES) ./test/e2e

e2e: controlplane ## only the stories of test/e2e (ARGS='--focus="client-side apply"', PROCS=4)
	$(STORIES) $(ARGS) ./test/e2e

e2e-kind: ## the stories on a new kind cluster (KEEP=1 keeps it)
	test/kind/e2e.sh

dev-kind: ## a kind cluster with a running VM; prints the next commands
	test/kind/dev.sh

dev-kubevirt: controlplane ## KubeVirt's virt-api and virt-controller with virtwright, to try by hand, until Ctrl-C
	$(GO) build -o bin/ ./cmd/virtwright
	VIRTWRIGHT_DEV=1 $(GO) test -count=1 -timeout 0 -v -run '^TestDev$$' ./test/kubevirt/stories

soak: ## 20,000 requests on a kind cluster during upgrades, drains and failures (KEEP=1)
	test/kind/e2e.sh soak

bench: controlplane ## benchmarks, each with a control
	$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./presets/... ./validation/... ./webhooks/... ./domain/... ./templates/... $(ARGS)
	$(GO) test -run '^$$' -bench Playground -benchtime 20x ./cmd/virtwright $(ARGS)
	$(GO) test -run '^$$' -bench Create -benchtime 300x -timeout 60m ./test/bench/... $(ARGS)
	$(GO) test -run '^$$' -bench Start -benchtime 5000x -timeout 60m ./test/bench/... $(ARGS)
	$(GO) test -run '^$$' -bench Watch -benchtime 10000x -timeout 60m ./test/bench/... $(ARGS)

fuzz: ## every fuzz target for FUZZTIME (1m)
	@git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' /dev/null | \
	while IFS=: read -r file target; do \
		echo "$${target#func } in $$(dirname "$$file")"; \
		$(GO) test -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "./$$(dirname "$$file")" || exit 1; \
	done

check: generated lint vulncheck site spelling test-all ## all checks of CI: generated files, linters, vulnerabilities, the site, spelling, all tests

demo: controlplane ## a tour of five minutes: expand, reject, start and stop VMs (DEMO_PAUSE=0: no pauses)
	test/demo/demo.sh

dev: controlplane ## a system to try by hand, until Ctrl-C
	test/demo/dev.sh

# Sparse VMs need presets. The default is those of the examples.
render: PRESETS ?= examples/presets examples/namespaces.yaml
render: ## effective spec, origins and XML of VM=file, offline (PRESETS=folder, default: the examples; PROFILES=folder)
	@test -n "$(VM)" || { echo "usage: make render VM=examples/vms/tiny.yaml [PRESETS=examples/presets] [PROFILES=examples/profiles]"; exit 2; }
	$(GO) run ./cmd/virtwright expand -f $(VM) $(PRESETS:%=-f %)
	$(GO) run ./cmd/virtwright explain -f $(VM) $(PRESETS:%=-f %)
	$(GO) run ./cmd/virtwright render -f $(VM) $(PRESETS:%=-f %) $(PROFILES:%=-f %)

site: ## documentation and playground as a site in dist/site; needs Node (SITE_BASE=/path/ if it is served below a path)
	cd docs && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build
	$(GO) run ./cmd/virtwright/internal/playground/build dist/site/playground

.PHONY: spelling
spelling: ## spell check of the documentation; needs Node (docs/words.txt has the words that no dictionary has)
	cd docs && { test -x node_modules/.bin/cspell || npm ci --no-audit --no-fund --loglevel=error; } && npm run --silent spelling

release: ## all files of a release in dist: CLI, images, chart, SBOMs, checksums (VERSION=1.2.3; KEY=key.pem signs)
	$(GO) run ./test/release -o dist $(VERSION:%=-version=%) $(KEY:%=-key=%)

clean: ## remove built files (the cache of control planes stays)
	rm -rf bin dist

# Fails when make generate changes a file, or make editor where Node is installed.
generated:
	@before=$$($(TREE)) && $(MAKE) --no-print-directory generate && \
	{ ! command -v npm >/dev/null || $(MAKE) --no-print-directory editor; } && after=$$($(TREE)) && \
	if [ "$$before" != "$$after" ]; then \
		echo "generated files were out of date (make generate has just updated them):"; \
		git diff --stat "$$before" "$$after"; exit 1; \
	fi

# Builds the control plane unless it is cached, so that tests need not build it without output.
controlplane:
	@$(CONTROLPLANE) build >/dev/null

$(GOLANGCI): .ci/lint/go.mod .ci/lint/go.sum
	@echo "building golangci-lint (once, about a minute)"
	$(GO) build -C .ci/lint -mod=readonly -ldflags '-s -w' -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(GOVULNCHECK): .ci/lint/go.mod .ci/lint/go.sum
	$(GO) build -C .ci/lint -mod=readonly -o ../../$@ golang.org/x/vuln/cmd/govulncheck
