package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
	t.Run("Stories", func(t *testing.T) {
		for m, mode := range modes {
			e, row := e.with(t, mode.application), make([]string, len(stories))
			cells[m], columns[m] = row, mode.column
			for n, told := range stories {
				t.Run(mode.id+"/"+told.name, func(t *testing.T) {
					t.Parallel()
					says := e.follow(t, fmt.Sprint(mode.id, "-", n), told)
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
	t.Run("Refused", func(t *testing.T) { e.with(t, pages[0]).refuse(t, "refused") })
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
