package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
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

// The examples of the help texts work from the root of the repository.
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
}

func TestVersion(t *testing.T) {
	says(t, call(t, "", "version").fine(t).out, "virtwright ", "go1.")
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got, want := versionLine(info), "virtwright v1.2.3 abc modified go1.26"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Built, and called as kubectl calls a plugin.
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
	refused := exec.Command(link, "expand", "-f", exampleRefused+"/misspelt.yaml")
	if out, err := refused.CombinedOutput(); refused.ProcessState.ExitCode() != exitRefused {
		t.Errorf("%v\n%s", err, out)
	}
}

// make render works for every example, with or without the folders that may be left out.
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

// What docs/cli.md shows of a terminal is what comes there.
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
