package demo

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtwright/virtwright/test/golden"
)

const marker = "=== step "

// tutorials are the pages whose commands run, in one system.
var tutorials = []struct {
	page string
	// inRoot is true if the reader is in the root of the repository.
	inRoot bool
}{{"first-steps.md", true}, {"writing-presets.md", false}, {"rolling-out.md", false}, {"existing-vms.md", false}, {"templates.md", false}}

var (
	shellBlock = regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$")
	command    = regexp.MustCompile(`(?m)^\$ `)
	alias      = regexp.MustCompile(`alias kubectl='(.*)' virtwright=(\S+)`)
	exported   = regexp.MustCompile(`export KUBECONFIG=(\S+)`)
	// age is a duration in a column of a table, or after a step.
	age = regexp.MustCompile(`(?m)\b([0-9]+m)?[0-9]+s( +|$)`)
)

// TestTutorial does what each page says, in one shell, and compares what the page shows with the
// output. It does not run blocks of other languages, such as shell.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	env := append(os.Environ(), environment(t)...)
	for _, tutorial := range tutorials {
		t.Run(tutorial.page, func(t *testing.T) {
			folder := "../.."
			if !tutorial.inRoot {
				folder = t.TempDir()
			}
			follow(t, "../../docs/"+tutorial.page, folder, env)
		})
	}
}

// follow runs the commands of a page in a folder.
func follow(t *testing.T, tutorial, folder string, env []string) {
	t.Helper()
	page, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "bash")
	script.Dir, script.Env = folder, env
	script.Stdin = strings.NewReader(scriptOf(string(page)))
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("the shell failed: %v\n%s", err, out)
	}
	steps := strings.Split("\n"+string(out), "\n"+marker)[1:]
	at := 0
	next := func() string {
		if at++; at > len(steps) {
			t.Fatalf("the shell ended after %d steps:\n%s", len(steps), out)
		}
		return strings.TrimSpace(strings.TrimPrefix(steps[at-1], fmt.Sprint(at)))
	}
	golden.Equal(t, tutorial, shellBlock.ReplaceAllStringFunc(string(page), func(block string) string {
		found := shellBlock.FindStringSubmatch(block)
		if found[1] == "sh" {
			if text := next(); strings.Contains(text, "rror") {
				t.Errorf("%s\n%s", found[2], text)
			}
			return block
		}
		var shown strings.Builder
		for _, c := range commandsOf(found[2]) {
			fmt.Fprintf(&shown, "$ %s", c)
			if text := age.ReplaceAllStringFunc(next(), fiveSeconds); text != "" {
				fmt.Fprintln(&shown, text)
			}
		}
		return "```console\n" + shown.String() + "```"
	}))
}

// scriptOf is the shell script of a page: each step follows a line that numbers it.
func scriptOf(page string) string {
	var out strings.Builder
	steps := 0
	for _, block := range shellBlock.FindAllStringSubmatch(page, -1) {
		commands := []string{block[2]}
		if block[1] == "console" {
			commands = commandsOf(block[2])
		}
		for _, c := range commands {
			steps++
			fmt.Fprintf(&out, "echo '%s%d'\n%s", marker, steps, c)
		}
	}
	return out.String()
}

// fiveSeconds replaces an age, and keeps the width of its column.
func fiveSeconds(age string) string {
	if !strings.HasSuffix(age, " ") {
		return "5s"
	}
	return fmt.Sprintf("%-*s", len(age), "5s")
}

// commandsOf returns the commands of a console block, without what they print.
func commandsOf(block string) []string {
	var out []string
	for _, step := range command.Split(block, -1)[1:] {
		end := strings.Index(step, "\n") + 1
		switch {
		case strings.Contains(step[:end], "<<'EOF'"):
			end = strings.Index(step, "\nEOF\n") + len("\nEOF\n")
		default:
			for strings.HasSuffix(step[:end], "\\\n") {
				end += strings.Index(step[end:], "\n") + 1
			}
		}
		out = append(out, step[:end])
	}
	return out
}

// environment starts the system of the tutorial, and returns what its reader pastes, as programs.
func environment(t *testing.T) []string {
	t.Helper()
	dev := exec.Command("./dev.sh")
	dev.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := dev.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	dev.Stderr = dev.Stdout
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(log); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-dev.Process.Pid, syscall.SIGTERM)
		for range lines {
		}
		_ = dev.Wait()
	})
	var seen strings.Builder
	for deadline := time.After(15 * time.Minute); ; {
		select {
		case line, more := <-lines:
			fmt.Fprintln(&seen, line)
			if found := alias.FindStringSubmatch(seen.String()); found != nil {
				go func() {
					for range lines {
					}
				}()
				return programs(t, found[1], found[2], exported.FindStringSubmatch(seen.String())[1])
			}
			if !more {
				t.Fatalf("make dev ended early:\n%s", seen.String())
			}
		case <-deadline:
			t.Fatalf("make dev did not get ready:\n%s", seen.String())
		}
	}
}

func programs(t *testing.T, kubectl, virtwright, kubeconfig string) []string {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	cache, err := os.UserCacheDir() // of the control plane
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\nexec "+kubectl+` "$@"`+"\n"), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	if err := os.Symlink(virtwright, filepath.Join(bin, "virtwright")); err != nil {
		t.Fatal(err)
	}
	return []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig, "HOME=" + home, "XDG_CACHE_HOME=" + cache, "NO_COLOR=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
}
