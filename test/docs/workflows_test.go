package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A workflow has the parts of a workflow that the test checks.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Needs       string
		Steps       []struct{ Uses, Run string }
	}
}

// actions are all actions that workflows may use.
var actions = []string{
	"actions/checkout@v4", "actions/setup-go@v5", "actions/upload-artifact@v4",
	"actions/upload-pages-artifact@v3", "actions/deploy-pages@v4", "actions/attest-build-provenance@v3",
}

// TestWorkflows checks that workflows run targets and scripts that exist, and that only jobs that
// run no code of the repository may write.
func TestWorkflows(t *testing.T) {
	paths, err := filepath.Glob(root + "/.github/workflows/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := read(t, strings.TrimPrefix(path, root+"/"))
			var w workflow
			if err := yaml.Unmarshal([]byte(text), &w); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(w.Permissions, map[string]string{"contents": "read"}) {
				t.Errorf("permissions are %v, want contents: read", w.Permissions)
			}
			if strings.Contains(text, "secrets.") || len(w.Jobs) == 0 {
				t.Error("it has no job, or uses a secret")
			}
			for name, job := range w.Jobs {
				if _, ok := w.Jobs[job.Needs]; job.Needs != "" && !ok {
					t.Errorf("%s needs the undefined job %s", name, job.Needs)
				}
				mayWrite := slices.Contains(slices.Collect(maps.Values(job.Permissions)), "write")
				for _, step := range job.Steps {
					if step.Uses != "" && !slices.Contains(actions, step.Uses) {
						t.Errorf("%s uses %s", name, step.Uses)
					}
					if mayWrite && strings.HasPrefix(step.Uses, "actions/checkout@") {
						t.Errorf("%s may write and has the code of the repository", name)
					}
					checkCommands(t, step.Run)
				}
			}
		})
	}
}

// checkCommands checks the make targets and the scripts of a step. A value that the forge inserts
// into a script could be code.
func checkCommands(t *testing.T, run string) {
	t.Helper()
	for _, target := range regexp.MustCompile(`\bmake ([a-z0-9-]+)`).FindAllStringSubmatch(run, -1) {
		if !regexp.MustCompile(`(?m)^` + target[1] + `:.* ## `).MatchString(read(t, "Makefile")) {
			t.Errorf("make prints no target %s", target[1])
		}
	}
	for _, script := range regexp.MustCompile(`(?m)^\.\S+`).FindAllString(run, -1) {
		if info, err := os.Stat(filepath.Join(root, script)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s is no program: %v", script, err)
		}
	}
	if strings.Contains(run, "${{") {
		t.Errorf("a script has an expression: pass it in env: %s", run)
	}
}
