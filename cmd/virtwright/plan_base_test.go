package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

type repository struct {
	*testing.T
	dir string
}

func newRepository(t *testing.T) *repository {
	r := &repository{t, t.TempDir()}
	r.git("init", "-q")
	return r
}

func (r *repository) git(args ...string) {
	r.Helper()
	args = append([]string{"-C", r.dir, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		r.Fatalf("git %q: %v: %s", args, err, out)
	}
}

func (r *repository) put(name, text string) {
	r.Helper()
	at := filepath.Join(r.dir, name)
	err := os.MkdirAll(filepath.Dir(at), 0o700)
	if err == nil {
		err = os.WriteFile(at, []byte(text), 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *repository) commit() {
	r.Helper()
	r.git("add", "-A")
	r.git("commit", "-qm", "x")
}

func (r *repository) plan(t *testing.T, want string, folders ...string) {
	t.Helper()
	args := []string{"plan", "--base-ref", "HEAD", "-f", filepath.Join(r.dir, "vm.yaml")}
	for _, folder := range folders {
		args = append(args, "-f", filepath.Join(r.dir, folder))
	}
	got := call(t, "", args...)
	if got.code == exitUsage {
		t.Errorf("exit code %d", got.code)
	}
	says(t, got.out+got.err, want)
}

// TestPlanRevisionPaths reads revisions with any path and any git configuration.
func TestPlanRevisionPaths(t *testing.T) {
	r := newRepository(t)
	for i, name := range []string{"odd/[a].yaml", "odd/:b.yaml", "odd/c d*?.yaml", "odd/ö.yaml", "odd/kept/d.yaml", "one/e.yaml", "target/f.yaml"} {
		r.put(name, planPreset(string(rune('a'+i)), "{hostname: h}"))
	}
	r.put("vm.yaml", planStored("shop", "a", "", ""))
	r.put(".gitattributes", "odd/kept export-ignore\n")
	for link, target := range map[string]string{"links/g.yaml": "../target/f.yaml", "folder": "target"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(r.dir, link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(r.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	r.commit()
	for name, folders := range map[string][]string{
		"names":          {"odd"},
		"one odd name":   {"odd/[a].yaml", "odd/:b.yaml"},
		"a link":         {"links"},
		"a linked dir":   {"folder"},
		"beneath a link": {"folder/f.yaml"},
		"all":            {"odd", "one", "target"},
	} {
		t.Run(name, func(t *testing.T) { r.plan(t, "Presets: no changes\n", folders...) })
	}
	t.Run("in a hook", func(t *testing.T) {
		t.Setenv("GIT_DIR", "/nowhere")
		t.Setenv("GIT_INDEX_FILE", "/nowhere")
		r.plan(t, "Presets: no changes\n", "odd")
	})
	if err := os.RemoveAll(filepath.Join(r.dir, "one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.dir, "target/f.yaml")); err != nil {
		t.Fatal(err)
	}
	t.Run("a folder that is gone", func(t *testing.T) { r.plan(t, "Presets: 1 deleted; 1 loosens\n", "one") })
	t.Run("a file that is gone", func(t *testing.T) { r.plan(t, "Presets: 1 deleted; 1 loosens\n", "one/e.yaml") })
	t.Run("a folder that is empty", func(t *testing.T) { r.plan(t, "Presets: 1 deleted; 1 loosens\n", "target") })
	t.Run("a typo", func(t *testing.T) {
		got := call(t, "", "plan", "--base-ref", "HEAD", "-f", filepath.Join(r.dir, "onne"))
		if got.code != exitUsage {
			t.Errorf("exit code %d: %s", got.code, got.out)
		}
		says(t, got.err, "not found in the revision or on disk")
	})
	r.put("out/x.yaml", "")
	if err := os.Symlink("../../elsewhere", filepath.Join(r.dir, "out/y.yaml")); err != nil {
		t.Fatal(err)
	}
	r.commit()
	got := call(t, "", "plan", "--base-ref", "HEAD", "-f", filepath.Join(r.dir, "out/y.yaml"))
	says(t, got.err, "the symbolic link out/y.yaml leads out of the repository")
}

// TestPlanBaseDir builds a kustomization as base, and treats an empty folder as no presets.
func TestPlanBaseDir(t *testing.T) {
	r := &repository{t, t.TempDir()}
	vm := write(t, "vm.yaml", planStored("shop", "a", "", ""))
	for folder, hostname := range map[string]string{"old": "a", "new": "b"} {
		r.put(folder+"/p.yaml", planPreset("p", "{hostname: "+hostname+"}"))
		r.put(folder+"/kustomization.yaml", "resources: [p.yaml]\nnamePrefix: big-\n")
	}
	got := call(t, "", "plan", "-k", filepath.Join(r.dir, "new"), "-f", vm, "--base-dir", filepath.Join(r.dir, "old"))
	says(t, got.out, "Presets: 1 changed\n", "  changed  cluster/big-p\n")
	got = call(t, "", "plan", "-k", filepath.Join(r.dir, "new"), "-f", vm, "--base-dir", t.TempDir())
	says(t, got.out, "Presets: 1 added\n")
	got = call(t, "", "plan", "-k", filepath.Join(r.dir, "new"), "-f", vm, "--base-dir", filepath.Join(r.dir, "absent"))
	if got.code != exitUsage {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
	says(t, got.err, "cannot read --base-dir: ")
}
