package presets

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSensitiveDocs keeps the table of docs/protection.md and sensitiveFields in step.
func TestSensitiveDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/protection.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Sensitive fields\n")
	_, table, _ := strings.Cut(section, "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("not a row with fields and a reason: %s", row)
			continue
		}
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			documented = append(documented, found[1])
		}
	}
	var sensitive []string
	for _, path := range sensitiveFields {
		sensitive = append(sensitive, strings.TrimPrefix(path.String(), "spec.template.spec."))
	}
	slices.Sort(documented)
	slices.Sort(sensitive)
	if !slices.Equal(documented, sensitive) {
		t.Errorf("docs/protection.md has\n%s\nwant\n%s", strings.Join(documented, "\n"), strings.Join(sensitive, "\n"))
	}
}
