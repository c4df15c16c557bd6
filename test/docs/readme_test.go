package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The README must stay short enough to be read.
const (
	maxLines   = 150
	maxColumns = 100
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(root + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

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

// TestReadmeExamples compares the output of each command in the README with the text below it. A
// last line "…" stands for the rest. It skips kubectl, which needs a cluster.
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
	margin  = regexp.MustCompile(`(?m) +$`) // trailing spaces
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// pages are the Markdown pages of the project.
func pages(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, folder := range []string{"docs", "examples", "charts"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Name() == "node_modules" {
				return fs.SkipDir
			}
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

// TestMakeTargets checks that make help lists each target that the documentation names.
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

// TestLinks checks that each link leads to a file and to an existing heading.
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

// TestIndex checks that the indexes link every page of docs and every decision record, and that
// each record has its three sections.
func TestIndex(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pages(t) {
		switch dir, name := filepath.Split(page); dir {
		case "docs/":
			if name != "README.md" && !strings.Contains(index, "]("+name+")") {
				t.Errorf("docs/README.md has no link to %s", page)
			}
		case "docs/decisions/":
			if name == "README.md" {
				continue
			}
			if !strings.Contains(read(t, dir+"README.md"), "]("+name+")") {
				t.Errorf("docs/decisions/README.md has no link to %s", page)
			}
			for _, section := range []string{"Context", "Decision", "Consequences"} {
				if !strings.Contains(read(t, page), "\n## "+section+"\n") {
					t.Errorf("%s has no section %s", page, section)
				}
			}
		}
	}
}

// TestCodeBlocks checks that the first line of a code block holds only the language. A tool that
// refills paragraphs can join that line with the code, and break the block.
func TestCodeBlocks(t *testing.T) {
	joined := regexp.MustCompile("(?m)^ *```[a-z]+ +[^ ].*$")
	for _, page := range pages(t) {
		for _, found := range joined.FindAllString(read(t, page), -1) {
			t.Errorf("%s: code begins in the line of the fence: %s", page, strings.TrimSpace(found))
		}
	}
}

// TestComments checks that a comment in wide code is above its line, because the site cuts wide
// code off at the right.
func TestComments(t *testing.T) {
	wide := regexp.MustCompile(`(?m)^.*\S +# .*$`)
	for _, page := range pages(t)[1:] { // the front page is wider
		for _, block := range fenced.FindAllString(read(t, page), -1) {
			if strings.HasPrefix(strings.TrimSpace(block), "```console") {
				continue
			}
			for _, line := range wide.FindAllString(block, -1) {
				if utf8.RuneCountInString(line) > 70 && !strings.HasPrefix(strings.TrimSpace(line), "#") {
					t.Errorf("%s: write the comment above the line: %s", page, line)
				}
			}
		}
	}
}

// TestNamedTests checks that each test that the documentation names exists.
func TestNamedTests(t *testing.T) {
	code, name := regexp.MustCompile("(?s)```.*?```|`[^`\n]+`"), regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	tests := texts(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") }, ".")
	for _, page := range pages(t) {
		for _, found := range name.FindAllString(strings.Join(code.FindAllString(read(t, page), -1), "\n"), -1) {
			if !strings.Contains(tests, "func "+found+"(") {
				t.Errorf("%s: no test %s", page, found)
			}
		}
	}
}

// TestMessages checks that each message in the pages on logs and troubleshooting is in the source:
// each of its parts between "…".
func TestMessages(t *testing.T) {
	product := source(t)
	for page, message := range map[string]*regexp.Regexp{
		"docs/troubleshooting.md": regexp.MustCompile("(?m)^### `(.+)`$"),
		"docs/logs.md":            regexp.MustCompile("(?m)^\\| `([A-Z].+?)`(?:, `(.+?)`)?(?:, `(.+?)`)? \\| "),
	} {
		for _, found := range message.FindAllStringSubmatch(read(t, page), -1) {
			for part := range strings.SplitSeq(strings.Join(found[1:], "…"), "…") {
				if part = strings.Trim(part, " ();:"); !strings.Contains(product, part) && !slices.Contains(foreign, part) {
					t.Errorf("%s: the source has no %q", page, part)
				}
			}
		}
	}
}

// foreign lists messages of Kubernetes and names of log levels.
var foreign = []string{"failed calling webhook", "spec: Required value", "the server could not find the requested resource", "Insufficient", "/kvm", "ERROR", "DEBUG"}

// source returns the text of the product: its Go files and its chart.
func source(t *testing.T) string {
	t.Helper()
	product := func(path string) bool {
		return !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata")
	}
	return strings.ReplaceAll(texts(t, product, "api", "certs", "charts", "cmd", "domain", "fleet", "launcher", "lifecycle", "presets", "subresources", "templates", "validation", "webhooks"), `\"`, `"`)
}

// texts joins the files of folders for which keep returns true.
func texts(t *testing.T, keep func(path string) bool, folders ...string) string {
	t.Helper()
	var out strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
				return fs.SkipDir
			}
			if err == nil && !entry.IsDir() && keep(path) {
				out.WriteString(read(t, strings.TrimPrefix(path, root+"/")))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(found[1]), "")
		out[strings.ReplaceAll(text, " ", "-")] = true
	}
	return out
}
