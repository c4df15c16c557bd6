package gitops

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealth runs the pages' health checks of VMs and PresetRollouts.
func TestHealth(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Argo CD and Flux")
	}
	argocd, flux := build(t, "argocd"), build(t, "flux")
	file := func(page string, n int) string {
		out := filepath.Join(t.TempDir(), "check.yaml")
		if err := os.WriteFile(out, []byte(blocks(t, page, "yaml")[n]), 0o600); err != nil {
			t.Fatal(err)
		}
		return out
	}
	check := func(program, file, object, want string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), program, "-health", file)
		command.Stdin = strings.NewReader(object)
		out, err := command.CombinedOutput()
		var got report
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil || got.Status != want {
			t.Errorf("%s is %s, want %s; %v\n%s", object, got.Status, want, err, out)
		}
	}
	const rollout = "{apiVersion: virtwright.dev/v1alpha1, kind: PresetRollout, metadata: {name: size, generation: 2}, status: {observedGeneration: %d, " +
		"conditions: [{type: Progressing, reason: %s, message: because}]}}"
	ofRollouts, expressions := file(argoPage, 3), file(fluxPage, 0)
	for _, c := range []struct {
		state      string
		generation int
		argocd     string
		flux       string
	}{
		{"Updating", 2, "Progressing", "InProgress"},
		{"Baking", 2, "Progressing", "InProgress"},
		{"Aborting", 2, "Progressing", "InProgress"},
		{"Paused", 2, "Suspended", "InProgress"},
		{"WaitingForApproval", 2, "Suspended", "InProgress"},
		{"Failed", 2, "Degraded", "Failed"},
		{"Invalid", 2, "Degraded", "Failed"},
		{"Aborted", 2, "Degraded", "Failed"},
		{"Complete", 2, "Healthy", "Current"},
		{"Complete", 1, "Progressing", "InProgress"},
	} {
		object := fmt.Sprintf(rollout, c.generation, c.state)
		check(argocd(), ofRollouts, object, c.argocd)
		check(flux(), expressions, object, c.flux)
	}
	const vm = "{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, generation: 2}, status: {printableStatus: %s, observedGeneration: %d, conditions: [%s]}}"
	ofVMs := file(argoPage, 2)
	for _, c := range []struct {
		status, conditions string
		generation         int
		want               string
	}{
		{"Running", "{type: Ready, status: 'True'}", 2, "Healthy"},
		{"Starting", "{type: Ready, status: 'False'}", 2, "Progressing"},
		{"Stopped", "", 2, "Healthy"},
		{"Stopped", "", 1, "Progressing"},
	} {
		check(argocd(), ofVMs, fmt.Sprintf(vm, c.status, c.generation, c.conditions), c.want)
	}
}
