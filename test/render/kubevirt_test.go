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

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/validation"
)

// differencesPage lists the differences that there may be, with the reason for each.
const differencesPage = "../../docs/domain.md"

// corpusVariable names a folder of more VMIs: each NAME.yaml with a NAME.kubevirt.xml.
const corpusVariable = "VIRTWRIGHT_CORPUS"

// A row of the page's table allows a difference.
type row struct {
	path, kubevirt, ours *regexp.Regexp
	text                 string
	used                 bool
}

// TestDifferencesFromKubeVirtAreExplained compares the domains that KubeVirt and virtwright make of
// the cases in testdata and, where VIRTWRIGHT_CORPUS names a folder, of the instances in it.
func TestDifferencesFromKubeVirtAreExplained(t *testing.T) {
	rows := differenceRows(t)
	for _, file := range comparedInstances(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			instance := stored(t, file)
			for _, d := range compare(t, converted(t, instance), rendered(t, instance)) {
				if !slices.ContainsFunc(rows, func(r *row) bool { return r.allows(d) }) {
					t.Errorf("%s: explain it in %s, or mend it", d, differencesPage)
				}
			}
		})
	}
	for _, r := range rows {
		if !r.used && os.Getenv(corpusVariable) != "" {
			t.Errorf("%s explains a difference that does not exist: %s", differencesPage, r.text)
		}
	}
}

// comparedInstances are the files of the VMIs that are compared.
func comparedInstances(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	corpus := os.Getenv(corpusVariable)
	if corpus == "" {
		return files
	}
	others, err := filepath.Glob(filepath.Join(corpus, "vmi-*.kubevirt.xml"))
	if err != nil || len(others) == 0 {
		t.Fatalf("no instances in %s: %v", corpus, err)
	}
	for _, file := range others {
		if file = strings.TrimSuffix(file, ".kubevirt.xml") + ".yaml"; runsInPod(t, file) {
			files = append(files, file)
		}
	}
	return files
}

// runsInPod reports whether a pod without privileges can run a VMI. Others cannot be rendered.
func runsInPod(t *testing.T, file string) bool {
	t.Helper()
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := yaml.Unmarshal(manifest, vmi); err != nil {
		t.Fatal(err)
	}
	return len(domain.CheckPod(vmi)) == 0
}

// stored writes the instance of a manifest with the namespace and UID that an API server gives it.
func stored(t *testing.T, file string) string {
	t.Helper()
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var instance map[string]any
	if err := yaml.Unmarshal(manifest, &instance); err != nil {
		t.Fatal(err)
	}
	meta, _ := instance["metadata"].(map[string]any)
	meta["namespace"], meta["uid"] = "default", "5d9bc1c4-7a4e-4f6e-9b0a-2f0c6c1d7a10"
	out, err := yaml.Marshal(instance)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// converted is the domain that KubeVirt's defaults and its converter make of an instance.
func converted(t *testing.T, file string) string {
	t.Helper()
	path, err := kubevirt()
	if err != nil {
		t.Fatal(err)
	}
	instance, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = instance.Close() }()
	var stdout, stderr bytes.Buffer
	command := exec.Command(path)
	command.Stdin, command.Stdout, command.Stderr = instance, &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return stdout.String()
}

// rendered is what the command line makes of a manifest, with every feature gate on.
func rendered(t *testing.T, file string, args ...string) string {
	t.Helper()
	var gates []string
	for gate := range validation.KnownGates() {
		gates = append(gates, string(gate)+"=true")
	}
	var stdout, stderr bytes.Buffer
	command := exec.Command(program(t), append([]string{"render", "-f", file, "--feature-gates=" + strings.Join(gates, ",")}, args...)...)
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

// pattern matches what a cell says: text in backquotes, in which * is anything; alone it is
// anything but nothing, which an empty cell is.
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
