package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtwright/virtwright/test/installation"
	"github.com/virtwright/virtwright/test/kind/image"
	"github.com/virtwright/virtwright/test/worktree"
)

const (
	root    = "../.."
	version = "9.8.7"
	digest  = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
)

func TestMain(m *testing.M) { os.Exit(installation.Main(m)) }

var changed = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

// TestReproducible makes a release for one platform, without images, from two folders. Both are the
// same, and usable.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the CLI twice")
	}
	here, there, key := t.TempDir(), t.TempDir(), newKey(t)
	for source, dist := range map[string]string{root: here, worktree.Copy(t, root): there} {
		r := &release{
			source: source, dist: dist, version: version, revision: "abc-modified", time: changed, key: key,
			platforms: []platform{{runtime.GOOS, runtime.GOARCH}},
			digests:   map[string]string{"manager": digest, "launcher": strings.Replace(digest, "0", "f", 1)},
		}
		for _, step := range steps {
			if step.name == "images" {
				continue // another test builds them twice
			}
			if err := step.do(r, t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.sign(); err != nil {
			t.Fatal(err)
		}
	}
	checkSame(t, here, there)
	checkCLI(t, here)
	checkChart(t, here)
	if page := string(read(t, filepath.Join(here, "README.md"))); strings.Contains(page, "VERSION") || strings.Contains(page, "ARCH") || strings.Contains(page, "REPOSITORY") {
		t.Errorf("the instructions have a placeholder:\n%s", page)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", checksumsFile)
	check.Dir = here
	out, err := check.CombinedOutput()
	if want := len(names(t, here)) - 3; err != nil || strings.Count(string(out), ": OK\n") != want {
		t.Errorf("want %d correct checksums: %v\n%s", want, err, out)
	}
	if out, err := verify(t, key, here); err != nil {
		t.Errorf("verify.sh: %v\n%s", err, out)
	}
}

func checkSame(t *testing.T, here, there string) {
	t.Helper()
	if diff := cmp.Diff(names(t, here), names(t, there)); diff != "" {
		t.Fatal(diff)
	}
	for _, name := range names(t, here) {
		if !bytes.Equal(read(t, filepath.Join(here, name)), read(t, filepath.Join(there, name))) {
			t.Errorf("%s depends on the folder of the source", name)
		}
	}
}

// checkCLI: the archive has the CLI, its plugin and its licenses, and the CLI knows its version.
func checkCLI(t *testing.T, dist string) {
	t.Helper()
	name := platform{runtime.GOOS, runtime.GOARCH}.file(program, version)
	want := map[string]int64{name + "/LICENSE": 0o644, name + "/" + licensesFile: 0o644, name + "/" + program: 0o755, name + "/" + plugin: 0o777}
	got := map[string]int64{}
	binary := filepath.Join(t.TempDir(), program)
	for head, content := range unpack(t, read(t, filepath.Join(dist, name+".tar.gz"))) {
		if got[head.Name] = head.Mode; !head.ModTime.Equal(changed) || head.Uid != 0 || head.Uname != "" {
			t.Errorf("%s is of %s and belongs to %d %q", head.Name, head.ModTime, head.Uid, head.Uname)
		}
		if strings.HasSuffix(head.Name, "/"+program) {
			if err := os.WriteFile(binary, content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if want := "virtwright v9.8.7 abc-modified " + runtime.Version() + "\n"; err != nil || string(out) != want {
		t.Errorf("the CLI says %q, want %q (%v)", out, want, err)
	}
	if info, err := buildinfo.ReadFile(binary); err != nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-tags", Value: "playground"}) {
		t.Errorf("the CLI has no playground: %v %v", info, err)
	}
	licenses := string(read(t, filepath.Join(dist, licensesFile)))
	for _, file := range []string{"Go " + runtime.Version() + ":/LICENSE", "github.com/spf13/cobra v", "k8s.io/apimachinery v", "kubevirt.io/api v"} {
		if !strings.Contains(licenses, "\n"+file) {
			t.Errorf("%s has no license of %s", licensesFile, file)
		}
	}
	if bill := string(read(t, filepath.Join(dist, name+".spdx.json"))); !strings.Contains(bill, `"versionInfo": "9.8.7"`) || !strings.Contains(bill, "pkg:golang/github.com/spf13/cobra@") {
		t.Error("the bill of materials lacks the version or a module")
	}
}

// checkChart: helm takes the chart, which runs the images by their digests.
func checkChart(t *testing.T, dist string) {
	t.Helper()
	out, stderr, err := installation.Helm(t, "template", "any", filepath.Join(dist, "virtwright-9.8.7.tgz"), "--kube-version", "1.37.0", "--set", "imageRegistry=mirror.example")
	if err != nil {
		t.Fatal(err, stderr)
	}
	for _, want := range []string{
		"image: mirror.example/virtwright/virtwright-manager@" + digest + "\n",
		"--launcher-image=mirror.example/virtwright/virtwright-launcher@sha256:f123456789",
		"helm.sh/chart: virtwright-9.8.7\n", `app.kubernetes.io/version: "9.8.7"` + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the chart renders no %q", want)
		}
	}
}

func TestZip(t *testing.T) {
	r := &release{time: changed}
	content, err := zipped(r.below("a", []image.File{{Path: "run.exe", Mode: 0o755, Content: []byte("x")}, {Path: "LICENSE", Source: root + "/LICENSE"}}))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, file := range archive.File {
		got[file.Name] = file.Mode().String() + " " + file.Modified.UTC().Format(time.DateTime)
	}
	if diff := cmp.Diff(map[string]string{"a/run.exe": "-rwxr-xr-x 2026-01-02 03:04:06", "a/LICENSE": "-rw-r--r-- 2026-01-02 03:04:06"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestChangelogEntry(t *testing.T) {
	const released = "# Changelog\n\n## Unreleased\n\n* new\n\n## [0.2.0] - 2026-01-01\n\n* a [page](presets.md#x) and [elsewhere](https://example.org)\n\n## 0.1.0\n\n* first\n"
	for name, test := range map[string]struct{ changelog, version, want string }{
		"of the version":   {released, "0.1.0", "# virtwright 0.1.0\n\n* first\n"},
		"with a date":      {released, "0.2.0", "# virtwright 0.2.0\n\n* a page and [elsewhere](https://example.org)\n"},
		"not yet released": {released, "0.3.0", "# virtwright 0.3.0\n\n* new\n"},
		"missing":          {"# Changelog\n\n## 0.1.0\n", "0.3.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := entryOf(test.changelog, test.version)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// A module without a license ends the release. One text is there once; notices of folders above and
// of the package itself count.
func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{"LICENSE": "terms\n", "fork/LICENSE.md": "terms\r\n", "fork/NOTICE": "notice", "fork/license.go": "package fork"} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	found := texts{}
	for range 2 {
		if err := found.add(goModule{Path: "m", Version: "v1", Dir: dir}, filepath.Join(dir, "fork")); err != nil {
			t.Fatal(err)
		}
	}
	found.page()
	if diff := cmp.Diff(texts{"terms": {"m v1:/LICENSE", "m v1:/fork/LICENSE.md"}, "notice": {"m v1:/fork/NOTICE"}}, found); diff != "" {
		t.Error(diff)
	}
	if err := found.add(goModule{Path: "bare", Dir: t.TempDir()}, ""); err == nil {
		t.Error("a module without a license passes")
	}
}

// The values of the chart have places for digests, and a change of their form is noticed.
func TestDigests(t *testing.T) {
	r := &release{digests: map[string]string{"manager": digest, "launcher": digest}}
	values := read(t, filepath.Join(root, chartFolder, "values.yaml"))
	got, err := r.withDigests(values)
	if err != nil || strings.Count(string(got), digest) != 2 || strings.Count(string(got), "\n") != strings.Count(string(values), "\n") {
		t.Errorf("want two digests: %v\n%s", err, got)
	}
	if _, err := r.withDigests(bytes.ReplaceAll(values, []byte(`digest: ""`), []byte(`digest: `))); err == nil {
		t.Error("a digest that was not set passes")
	}
}

// unpack reads a compressed archive.
func unpack(t *testing.T, archive []byte) map[*tar.Header][]byte {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[*tar.Header][]byte{}
	for reader := tar.NewReader(compressed); ; {
		head, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[head], err = io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
}

// names are the files of a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestClean removes an earlier release, and nothing else.
func TestClean(t *testing.T) {
	r := &release{dist: t.TempDir()}
	for _, name := range []string{"virtwright-0.1.0.tgz", checksumsFile, "README.md"} {
		if err := r.write(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.clean(); err != nil {
		t.Fatal(err)
	}
	if err := r.write("key.pem", nil); err != nil {
		t.Fatal(err)
	}
	if err := r.clean(); err == nil || !strings.Contains(err.Error(), "key.pem is not of a release") {
		t.Errorf("got %v", err)
	}
}
