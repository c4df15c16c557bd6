package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/installation"
)

const argoPage = "../../docs/gitops-argocd.md"

// application is one without anything but sync options.
const application = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: vms, namespace: argocd}
spec: {destination: {namespace: default}, project: default, syncPolicy: {syncOptions: [%s]}}
`

// reordered is how often a client-side apply writes without a change: managedFields is sorted by
// time, and the API server does not ignore that an unchanged entry moves behind that of the status.
const reordered = 1

// The page's first Application is Synced in every story; its second one, with ignoreDifferences, is
// where Argo CD compares by itself.
func testArgoCD(t *testing.T, e engine) {
	pages := blocks(t, argoPage, "yaml")
	if len(pages) < 2 {
		t.Fatalf("%s has %d examples", argoPage, len(pages))
	}
	modes := []struct {
		id, column, application string
		synced                  bool
		writes                  int // of a hundred syncs without a change
	}{
		{"plain", "no options", fmt.Sprintf(application, ""), false, reordered},
		{"ssa", "`ServerSideApply=true` alone", fmt.Sprintf(application, "ServerSideApply=true"), false, 0},
		{"ignore", "with `ignoreDifferences`, as below", pages[1], true, reordered},
		{"page", "both options, as above", pages[0], true, 0},
	}
	cells, columns := make([][]string, len(modes)), make([]string, len(modes))
	for m, mode := range modes {
		cells[m], columns[m] = make([]string, len(stories)), mode.column
	}
	t.Run("Stories", func(t *testing.T) {
		for m, mode := range modes {
			e, row := e.with(t, mode.application), cells[m]
			for n, tc := range stories {
				t.Run(mode.id+"/"+tc.name, func(t *testing.T) {
					t.Parallel()
					says := e.follow(t, fmt.Sprint(mode.id, "-", n), tc)
					if row[n] = says.Status; mode.synced && says.Status != e.settled {
						t.Errorf("%s\nlive      %s\npredicted %s", says.Status, says.Live, says.Predicted)
					}
				})
			}
		}
	})
	t.Run("HundredSyncs", func(t *testing.T) {
		for _, mode := range modes {
			want := e.settled
			if !mode.synced {
				want = "OutOfSync"
			}
			e := e.with(t, mode.application)
			t.Run(mode.id, func(t *testing.T) {
				t.Parallel()
				e.repeat(t, mode.id+"-hundred", want, mode.writes)
			})
		}
	})
	t.Run("RespectIgnoreDifferences", func(t *testing.T) { e.with(t, respecting(pages[1])).respect(t) })
	t.Run("Chart", func(t *testing.T) { testArgoCDChart(t, e.with(t, pages[0])) })
	t.Run("Rejected", func(t *testing.T) { e.with(t, pages[0]).reject(t, "rejected") })
	table(t, argoPage, columns, func(n, m int) string { return cells[m][n] })
}

// with is the engine for an Application.
func (e engine) with(t *testing.T, application string) engine {
	t.Helper()
	file := filepath.Join(t.TempDir(), "application.yaml")
	if err := os.WriteFile(file, []byte(application), 0o600); err != nil {
		t.Fatal(err)
	}
	e.args = []string{"-application", file}
	return e
}

// respecting is an Application that also writes what it ignores.
func respecting(application string) string {
	return strings.Replace(application, "\n  ignoreDifferences:", "\n  syncPolicy: {syncOptions: [RespectIgnoreDifferences=true]}\n  ignoreDifferences:", 1)
}

// respect shows why the page advises against RespectIgnoreDifferences.
func (e engine) respect(t *testing.T) {
	added := story{steps: []step{
		{preset: element, git: sparse, stored: map[string]string{disks: "root data"}},
	}}
	if says := e.follow(t, "respect-added", added); says.Status == e.settled {
		t.Error("an added element is no difference any more")
	}
	removed := story{steps: []step{
		{preset: twoGi, git: sparse, stored: map[string]string{memory: "1Gi"}},
		{git: strings.Replace(sparse, "memory: {guest: 1Gi}, ", "", 1), stored: map[string]string{memory: "1Gi"}},
	}}
	e.follow(t, "respect-removed", removed)
}

// The chart's objects that the manager completes after a sync are Synced, with the page's options.
func testArgoCDChart(t *testing.T, e engine) {
	out, stderr, err := e.Helm("get", "manifest", installation.Release)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	completed := regexp.MustCompile(`(?m)^kind: (\w+WebhookConfiguration|APIService)$|^  name: virtualmachines\.kubevirt\.io$`)
	synced := 0
	for manifest := range strings.SplitSeq(out, "\n---\n") {
		if !completed.MatchString(manifest) {
			continue
		}
		synced++
		for n, r := range e.sync(t, manifest, 2) {
			if n > 0 && r.Status != e.settled { // the first comparison misses Argo CD's own annotation
				t.Errorf("%s (-live +predicted):\n%s", r.Status, cmp.Diff(string(r.Live), string(r.Predicted)))
			}
		}
	}
	if synced == 0 {
		t.Error("the chart has no such objects")
	}
}
