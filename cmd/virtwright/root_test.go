package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/version"
)

func TestHelp(t *testing.T) {
	says(t, call(t, "").fine(t).out, "virtwright [command]", "Exit codes:", "expand", "explain", "validate", "completion", "version")
	for _, command := range []string{"expand", "explain", "validate"} {
		says(t, call(t, "", command, "--help").fine(t).out, "Usage:\n  virtwright "+command+" [-f FILE...] [TYPE/NAME...]", "Examples:\n  # ", "--namespace-labels")
	}
	for _, args := range [][]string{{"expnd"}, {"expnd", "-f", "vm.yaml"}} {
		unknown := call(t, "", args...)
		if unknown.code != exitUsage {
			t.Errorf("exit code %d of an unknown command", unknown.code)
		}
		says(t, unknown.err, `unknown command "expnd"`)
	}
}

func TestPluginName(t *testing.T) {
	for _, name := range []string{"/usr/local/bin/kubectl-virtwright", "kubectl-virtwright.exe"} {
		says(t, callAs(t, name, "").fine(t).out, "kubectl virtwright [command]")
		says(t, callAs(t, name, "", "expand", "--help").fine(t).out, "kubectl virtwright expand [-f FILE...]", "  kubectl virtwright expand -f examples/vms/tiny.yaml")
	}
}

// The examples of the help texts work in the root of the repository.
func TestHelpExamples(t *testing.T) {
	t.Chdir("../..")
	tried := 0
	for _, text := range []string{expandExamples, explainExamples, validateExamples} {
		for line := range strings.Lines(text) {
			before, command, found := strings.Cut(strings.TrimSpace(line), "{{program}} ")
			stdin := ""
			switch file, piped := strings.CutPrefix(strings.TrimSuffix(before, " | "), "cat "); {
			case !found, strings.Contains(command, " vm/"), strings.Contains(command, "--live"): // live_cluster_test.go reads a cluster
				continue
			case piped:
				stdin = read(t, file)
			case before != "": // kubectl's output
				stdin = call(t, "", "expand", "-f", "examples/vms/tiny.yaml", "-f", "examples/presets").fine(t).out
			}
			tried++
			if got := call(t, stdin, strings.Fields(command)...).fine(t); got.out == "" {
				t.Errorf("%s: no output", command)
			}
		}
	}
	if tried < 11 {
		t.Errorf("found only %d examples", tried)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		says(t, call(t, "", "completion", shell).fine(t).out, "virtwright")
	}
	says(t, call(t, "", "__complete", "expand", "--mode", "").fine(t).out, "standalone\naddon\n")
	for text, want := range map[string]string{
		"":                                "apiVersion\nkind\nmetadata\nspec\n:6\n",
		"sp":                              "spec\n:6\n",
		"spec.template.spec.domain.cpu.c": "spec.template.spec.domain.cpu.cores\n:6\n",
		"spec.template.spec.vol":          "spec.template.spec.volumes[*]\n:6\n",
		"spec.template.spec.volumes[a].containerDisk.imageP": "spec.template.spec.volumes[a].containerDisk.imagePullPolicy\n" +
			"spec.template.spec.volumes[a].containerDisk.imagePullSecret\n:6\n",
		"spec.no.such": ":6\n",
		"web":          ":4\n",
	} {
		if got := call(t, "", "__complete", "explain", "-f", "vm.yaml", text).fine(t).out; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	says(t, call(t, "", "version").fine(t).out, "virtwright ", "go1.")
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got, want := version.Of(info).String(), "virtwright v1.2.3 abc modified go1.26"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A release has the version and the commit that the linker sets.
func TestReleasedVersion(t *testing.T) {
	defer func() { version.Release, version.Revision, version.Committed = "", "", "" }()
	version.Release, version.Revision, version.Committed = "v1.2.3", "abc", "2026-01-02T03:04:05Z"
	if got := call(t, "", "version").fine(t).out; !strings.HasPrefix(got, "virtwright v1.2.3 abc go1.") {
		t.Errorf("got %q", got)
	}
	for _, output := range []string{"json", "yaml"} {
		var got map[string]any
		if err := yaml.Unmarshal([]byte(call(t, "", "version", "-o", output).fine(t).out), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"version": "v1.2.3", "commit": "abc", "date": "2026-01-02T03:04:05Z", "goVersion": runtime.Version()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	says(t, call(t, "", "version", "-o", "xml").err, `--output: Unsupported value: "xml": supported values: "text", "json", "yaml"`)
}

// The program works as a plugin of kubectl.
func TestPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	dir := t.TempDir()
	binary, link := filepath.Join(dir, program), filepath.Join(dir, plugin)
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("cannot build: %v\n%s", err, out)
	}
	if err := os.Symlink(program, link); err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(link, "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	says(t, string(out), "kubectl virtwright [command]")
	rejected := exec.Command(link, "expand", "-f", exampleRejected+"/misspelt.yaml")
	if out, err := rejected.CombinedOutput(); rejected.ProcessState.ExitCode() != exitRejected {
		t.Errorf("%v\n%s", err, out)
	}
}

// make render works for every example, with and without the optional folders.
func TestMakeRender(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Chdir("../..")
	for _, args := range [][]string{
		{"VM=examples/vms/tiny.yaml"},
		{"VM=examples/vms/web.yaml", "PRESETS=examples/presets", "PROFILES=examples/profiles"},
		{"VM=examples/vms/appliance.yaml", "PRESETS="},
	} {
		out, err := exec.Command("make", append([]string{"--no-print-directory", "render"}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		says(t, string(out), "kind: VirtualMachine\n", "FIELD ", "<domain ")
	}
}

// The terminal output in docs/cli.md is the actual output.
func TestDocs(t *testing.T) {
	t.Chdir("../..")
	tried := 0
	for _, block := range strings.Split(read(t, "docs/cli.md"), "```console\n")[1:] {
		shown, _, _ := strings.Cut(block, "```")
		command, want, _ := strings.Cut(shown, "\n")
		args, ok := strings.CutPrefix(strings.TrimSuffix(command, " 2>/dev/null"), "$ virtwright ")
		if !ok {
			t.Errorf("is no call of virtwright: %s", command)
			continue
		}
		tried++
		if got := call(t, "", strings.Fields(args)...).out; got != want {
			t.Errorf("%s printed:\n%s\nwant:\n%s", args, got, want)
		}
	}
	if tried < 3 {
		t.Errorf("found only %d calls", tried)
	}
}

// The table of docs/cli.md has each kind that an error lists as supported.
func TestDocsKinds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Pod, metadata: {name: a}}"), 0o644); err != nil {
		t.Fatal(err)
	}
	said := call(t, "", "expand", "-f", file).err
	_, supported, _ := strings.Cut(said, "supported kinds: ")
	kinds := regexp.MustCompile(`\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b`).FindAllString(strings.ReplaceAll(supported, "KubeVirt", ""), -1)
	if len(kinds) < 8 {
		t.Fatalf("the error lists %q:\n%s", kinds, said)
	}
	for _, kind := range kinds {
		if !regexp.MustCompile(`(?m)^\|.*` + "`" + kind + "`" + `.* \| .* \|$`).MatchString(read(t, "../../docs/cli.md")) {
			t.Errorf("docs/cli.md has no row for %s", kind)
		}
	}
}
