package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The README must stay short enough to be read.
const (
	maxLines   = 150
	maxColumns = 100
)

func TestReadmeIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(read(t, "README.md"), "\n"), "\n")
	if len(lines) > maxLines {
		t.Errorf("README.md has %d lines, at most %d are allowed", len(lines), maxLines)
	}
	for i, text := range lines {
		if n := utf8.RuneCountInString(text); n > maxColumns {
			t.Errorf("README.md:%d has %d columns, at most %d are allowed", i+1, n, maxColumns)
		}
	}
}

// What the README shows after a command is what the command prints, or its beginning if
// the last line is "…". The exception is kubectl, which needs a cluster.
func TestReadmeExamples(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-o", bin, "./cmd/virtwright").CombinedOutput(); err != nil {
		t.Fatalf("cannot build virtwright: %v\n%s", err, out)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1) {
		for _, step := range regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$].*\n|\n)*)`).FindAllStringSubmatch(block[1], -1) {
			if strings.HasPrefix(step[1], "kubectl") {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", step[1])
			cmd.Dir = root
			out, err := cmd.Output()
			got := strings.TrimSpace(margin.ReplaceAllString(string(out), ""))
			shown, more := strings.CutSuffix(strings.TrimSpace(step[2]), "\n…")
			if err != nil || got != shown && !(more && strings.HasPrefix(got, shown)) {
				t.Errorf("$ %s\n%s(%v)\nREADME.md shows\n%s", step[1], out, err, step[2])
			}
			ran++
		}
	}
	if ran < 2 {
		t.Errorf("only %d examples", ran)
	}
}

var (
	margin  = regexp.MustCompile(`(?m) +$`) // spaces at the end of a line
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// pages are the Markdown pages of the project.
func pages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, folder := range []string{"docs", "examples", "charts"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				pages = append(pages, strings.TrimPrefix(path, root+"/"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// Each target of make that the documentation names exists, and make prints what it does.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	inline, block := regexp.MustCompile("`make ([a-z0-9-]+)"), regexp.MustCompile(`(?m)^make ([a-z0-9-]+)`)
	for _, page := range pages(t) {
		text := read(t, page)
		named := append(inline.FindAllStringSubmatch(text, -1), block.FindAllStringSubmatch(strings.Join(fenced.FindAllString(text, -1), "\n"), -1)...)
		for _, found := range named {
			if !regexp.MustCompile(`(?m)^` + found[1] + `:.* ## `).MatchString(makefile) {
				t.Errorf("%s: make prints no target %s", page, found[1])
			}
		}
	}
	for _, target := range []string{"unit", "test", "test-all", "check"} {
		if !regexp.MustCompile(`(?m)^\| .make ` + target + `. +\|`).MatchString(read(t, "CONTRIBUTING.md")) {
			t.Errorf("CONTRIBUTING.md: the table of tests has no row for make %s", target)
		}
	}
}

// Each link of the documentation leads to a file, and to a heading where it names one.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, link := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(link[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads to no file", page, link[1])
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s leads to no heading", page, link[1])
			}
		}
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(found[1]), "")
		out[strings.ReplaceAll(text, " ", "-")] = true
	}
	return out
}
