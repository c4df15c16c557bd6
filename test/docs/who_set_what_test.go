package docs

import (
	"os/exec"
	"testing"

	"github.com/virtwright/virtwright/test/golden"
)

// TestWhoSetWhat compares docs/pictures/who-set-what.svg with the output of virtwright explain for
// an example.
func TestWhoSetWhat(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "run", "-C", root, "./cmd/virtwright",
		"explain", "-o", "svg", "-f", "examples/vms/appliance.yaml", "-f", "examples/presets", "-f", "examples/namespaces.yaml", "spec").Output()
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, root+"/docs/pictures/who-set-what.svg", string(out))
}
