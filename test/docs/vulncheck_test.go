package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulncheck checks that make vulncheck fails for all results of govulncheck but two: no
// vulnerability, and a database that does not answer.
func TestVulncheck(t *testing.T) {
	for name, test := range map[string]struct {
		code         int
		report, want string
		fails        bool
	}{
		"nothing found": {0, "No vulnerabilities found.", "", false},
		"no database":   {1, "govulncheck: fetching vulnerabilities: dial tcp: no such host", "govulncheck is skipped", false},
		"found":         {3, "Vulnerability #1: GO-2026-9999", "Vulnerability #1: GO-2026-9999", true},
		"broken code":   {1, "govulncheck: loading packages: undefined: x", "undefined: x", true},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "govulncheck")
			script := fmt.Sprintf("#!/bin/sh\necho '%s' >&2\nexit %d\n", test.report, test.code)
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "make", "-C", root, "--no-print-directory", "vulncheck", "GOVULNCHECK="+program).CombinedOutput()
			if (err != nil) != test.fails || !strings.Contains(string(out), test.want) || (test.want == "" && len(out) > 0) {
				t.Errorf("fails: %v, want %v; it prints %q, want %q", err, test.fails, out, test.want)
			}
		})
	}
}
