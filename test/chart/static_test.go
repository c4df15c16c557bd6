package chart

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtwright/virtwright/test/controlplane"
	"github.com/virtwright/virtwright/test/installation"
)

const plain = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: default},
spec: {runStrategy: Halted, template: {spec: {domain: {devices: {}}}}}}`

// adopt is a change of guarded fields.
const adopt = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`

// adoptAsAda does it as a user whom the tests trust.
var adoptAsAda = []string{"patch", "vm", "web", "--as=ada", "--as-group=system:masters", "--type=merge", "--dry-run=server", "-p", adopt}

// TestStaticPolicies follows docs/operations.md: API servers read the policies from files, without
// webhooks and without policies in the API.
func TestStaticPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	script, config := staticPolicies(t)
	manifests := filepath.Join(dir, "manifests")
	charts, err := filepath.Abs(filepath.Dir(folder))
	if err := errors.Join(err, os.Mkdir(manifests, 0o700), os.Symlink(charts, filepath.Join(dir, "charts")),
		os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(`{certs: {mode: self-signed}, trustedUsers: [ada]}`), 0o600),
		os.WriteFile(filepath.Join(dir, "admission.yaml"), []byte(strings.ReplaceAll(config, "/etc/kubernetes/policies", manifests)), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(installation.Program(t, "helm"))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot write the policies: %v: %s", err, out)
	}
	static := filepath.Join(manifests, "virtwright-static.yaml")
	if err := os.Rename(filepath.Join(dir, "virtwright-static.yaml"), static); err != nil {
		t.Fatal(err)
	}

	i := &installation.Installation{T: t, ControlPlane: controlplane.ForTest(t, controlplane.Options{
		APIServerArgs: []string{"--admission-control-config-file=" + filepath.Join(dir, "admission.yaml")},
	})}
	if err := i.InstallCRDs(t.Context(), filepath.Join(folder, "files", "crds")); err != nil {
		t.Fatal(err)
	}
	i.Must(plain, "create", "-f", "-")
	rejectsOwners(i)
	i.Must("", adoptAsAda...)

	// The policies of the chart come and go.
	i.Must("", "create", "-f", filepath.Join(dir, "policies.yaml"))
	i.Must("", "delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--all")
	rejectsOwners(i)

	// Without the file, the fields are not protected.
	if err := errors.Join(os.Remove(static), i.RestartAPIServer(t.Context())); err != nil {
		t.Fatal(err)
	}
	i.Must("", "patch", "vm", "web", "--type=merge", "-p", adopt)
}

// staticPolicies returns the documented command that writes the policies, and the configuration of
// API servers.
func staticPolicies(t *testing.T) (script, config string) {
	t.Helper()
	_, section, _ := strings.Cut(read(t, "docs/operations.md"), "\n## Static policies\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s) *```(sh|yaml)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		switch {
		case block[1] == "yaml":
			config = block[2]
		case strings.Contains(block[2], "helm template"):
			script = block[2]
		}
	}
	if script == "" || config == "" {
		t.Fatalf("want a command and a configuration in the section:\n%s", section)
	}
	return script, config
}

// rejectsOwners: a static policy rejects a change of owner references, also by an administrator.
func rejectsOwners(i *installation.Installation) {
	i.Helper()
	err := i.Try("", "patch", "vm", "web", "--type=merge", "-p", adopt)
	if err == nil || !strings.Contains(err.Error(), "'virtualmachines.protection.virtwright.dev.static.k8s.io'") || !strings.Contains(err.Error(), "(owner-references)") {
		i.Errorf("want a static policy to reject the change: %v", err)
	}
}
