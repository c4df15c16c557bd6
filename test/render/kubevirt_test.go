package render

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// differencesPage lists the differences that there may be, with the reason for
// each.
const differencesPage = "../../docs/domain.md"

// A row of the page's table allows a difference.
type row struct {
	path, kubevirt, ours *regexp.Regexp
	text                 string
	used                 bool
}

func TestDifferencesFromKubeVirtAreExplained(t *testing.T) {
	corpus := os.Getenv("VIRTWRIGHT_CORPUS")
	if corpus == "" {
		t.Skip("VIRTWRIGHT_CORPUS is unset: it names a folder of instances, each NAME.yaml beside KubeVirt's NAME.kubevirt.xml")
	}
	files, err := filepath.Glob(filepath.Join(corpus, "*.kubevirt.xml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no *.kubevirt.xml in %s: %v", corpus, err)
	}
	rows := differenceRows(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".kubevirt.xml"), func(t *testing.T) {
			theirs, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ours := rendered(t, strings.TrimSuffix(file, ".kubevirt.xml")+".yaml")
			for _, d := range compare(t, string(theirs), ours) {
				if !slices.ContainsFunc(rows, func(r *row) bool { return r.allows(d) }) {
					t.Errorf("%s: explain it in %s, or mend it", d, differencesPage)
				}
			}
		})
	}
	for _, r := range rows {
		if !r.used {
			t.Errorf("%s explains a difference that there is not: %s", differencesPage, r.text)
		}
	}
}

// rendered is what the command line makes of a manifest.
func rendered(t *testing.T, file string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.Command(program(t), append([]string{"render", "-f", file}, args...)...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return stdout.String()
}

// differenceRows are the rows of the table under the heading "Where it differs".
func differenceRows(t *testing.T) []*row {
	t.Helper()
	page, err := os.ReadFile(differencesPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n## Where it differs from KubeVirt\n")
	if !found {
		t.Fatalf("%s has no such section", differencesPage)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []*row
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`") {
			continue
		}
		if strings.TrimSpace(cells[3]) == "" {
			t.Errorf("no reason: %s", line)
		}
		rows = append(rows, &row{path: pattern(cells[0]), kubevirt: pattern(cells[1]), ours: pattern(cells[2]), text: strings.TrimSpace(cells[0])})
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", differencesPage)
	}
	return rows
}

// pattern matches what a cell says: text in backquotes, in which * is
// anything; alone it is anything but nothing, which an empty cell is.
func pattern(cell string) *regexp.Regexp {
	text := strings.Trim(strings.TrimSpace(cell), "`")
	if text == "*" {
		return regexp.MustCompile(".")
	}
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
}

func (r *row) allows(d difference) bool {
	if !r.path.MatchString(d.path) || !r.kubevirt.MatchString(d.kubevirt) || !r.ours.MatchString(d.ours) {
		return false
	}
	r.used = true
	return true
}
