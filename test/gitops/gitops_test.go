package gitops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/installation"
)

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

// A report is what a tool says of a comparison or an apply.
type report struct {
	Status          string
	Live, Predicted json.RawMessage // what Argo CD compares
	Drift           json.RawMessage // what Flux's drift detection finds
	ResourceVersion string
}

// An engine is a program with a tool's libraries, as one configuration uses them.
type engine struct {
	*installation.Installation

	program string
	args    []string
	settled string // the status of a VM without drift
}

// TestGitOps needs one control plane for all tools.
func TestGitOps(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	argocd, flux := build(t, "argocd"), build(t, "flux") // while virtwright is built and installed
	i := installation.New(t)
	i.MustHelm("install", installation.Release, installation.Chart(), "--set", "certs.mode=self-signed")
	i.Eventually("the manager is ready", i.Start("virtwright-0").Serves)
	t.Run("ArgoCD", func(t *testing.T) { testArgoCD(t, engine{Installation: i, program: argocd(), settled: "Synced"}) })
	t.Run("Flux", func(t *testing.T) { testFlux(t, engine{Installation: i, program: flux(), settled: "unchanged"}) })
}

// build begins to build the program of a module in this folder. The function waits for its path.
func build(t *testing.T, module string) func() string {
	t.Helper()
	program := filepath.Join(t.TempDir(), module)
	command := exec.CommandContext(t.Context(), "go", "build", "-C", module, "-ldflags=-s -w", "-o", program, ".")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	wait := sync.OnceValue(command.Wait)
	t.Cleanup(func() { _ = wait() })
	return func() string {
		if err := wait(); err != nil {
			t.Fatalf("cannot build %s: %v\n%s", module, err, &out)
		}
		return program
	}
}

// sync syncs a manifest and returns all that the tool said.
func (e engine) sync(t *testing.T, git string, times int) []report {
	t.Helper()
	reports, err := e.try(git, times)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// try is sync where it may fail.
func (e engine) try(git string, times int) ([]report, error) {
	var out, problems bytes.Buffer
	args := append([]string{"-kubeconfig", e.Kubeconfig(), "-syncs", strconv.Itoa(times)}, e.args...)
	command := exec.CommandContext(e.Context(), e.program, args...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(git), &out, &problems
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, &problems)
	}
	var reports []report
	for decoder := json.NewDecoder(&out); ; {
		var r report
		err := decoder.Decode(&r)
		if errors.Is(err, io.EOF) {
			return reports, nil
		}
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
}

// reject shows that a VM in Git that virtwright rejects is an error of the comparison.
func (e engine) reject(t *testing.T, name string) {
	t.Helper()
	git := strings.ReplaceAll(sparse, "NAME", name)
	e.sync(t, git, 1)
	_, err := e.try(strings.Replace(git, "disks: [{name: root", "disks: [{name: rot", 1), 1)
	if err == nil || !strings.Contains(err.Error(), "(disk-volume-exists)") {
		t.Errorf("got %v", err)
	}
}

// follow syncs each step of a story twice, and returns what the tool says of it from then on.
func (e engine) follow(t *testing.T, name string, tc story) report {
	t.Helper()
	says := report{Status: e.settled}
	for n, s := range tc.steps {
		e.prepare(t, name, s)
		reports := e.sync(t, strings.ReplaceAll(s.git, "NAME", name), 2)
		if last := reports[len(reports)-1]; last.Status != e.settled || last.Drift != nil {
			says = last
		}
		for path, want := range s.stored {
			if err := e.Is("vm/"+name, path, want); err != nil {
				t.Errorf("after step %d: %v", n, err)
			}
		}
	}
	return says
}

// repeat syncs a VM a hundred times. The VM stays as it is; at most so many syncs write its
// metadata.
func (e engine) repeat(t *testing.T, name, want string, writes int) {
	t.Helper()
	tc := story{steps: []step{{preset: everything, git: sparse, stored: map[string]string{memory: "4Gi", disks: "root data", caches: "none"}}}}
	e.follow(t, name, tc)
	stored := func(path string) string { return e.Must("", "get", "vm", name, "-o", "jsonpath="+path) }
	e.Eventually("the controller has seen the VM", func() error {
		return e.Is("vm/"+name, "{.status.observedGeneration}", stored("{.metadata.generation}"))
	})
	const all = "{.metadata.generation}{.metadata.labels}{.metadata.annotations}{.spec}{.status}"
	before, version := stored(all), stored("{.metadata.resourceVersion}")
	for n, r := range e.sync(t, strings.ReplaceAll(sparse, "NAME", name), 100) {
		if r.ResourceVersion != version {
			version, writes = r.ResourceVersion, writes-1
		}
		if r.Status != want || writes < 0 {
			t.Fatalf("sync %d: %s, want %s; resource version is now %s", n, r.Status, want, version)
		}
	}
	if diff := cmp.Diff(before, stored(all)); diff != "" {
		t.Errorf("the VM has changed (-before +after):\n%s", diff)
	}
}

// table compares what the tools say with the table of a page, if every story ran.
func table(t *testing.T, page string, columns []string, cell func(story, column int) string) {
	t.Helper()
	var want strings.Builder
	fmt.Fprintf(&want, "| | %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for n, tc := range stories {
		fmt.Fprintf(&want, "| %s |", tc.name)
		for column := range columns {
			if cell(n, column) == "" {
				return
			}
			fmt.Fprintf(&want, " %s |", cell(n, column))
		}
		want.WriteString("\n")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("%s must have this table:\n%s", page, &want)
	}
}

// blocks are the code blocks of a language in a page.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```\n")
		found = append(found, block)
	}
	return found
}
