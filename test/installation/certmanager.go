package installation

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// PrepareCertManager installs the kinds of cert-manager and its namespace.
func (i *Installation) PrepareCertManager() {
	i.Helper()
	out, err := exec.CommandContext(i.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		i.Fatal(err)
	}
	if err := i.InstallCRDs(i.Context(), filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds")); err != nil {
		i.Fatal(err)
	}
	i.Must("", "create", "namespace", "cert-manager")
}

// CertManager runs a part of cert-manager, "controller" or "cainjector"; the function ends it.
func (i *Installation) CertManager(part string) func() {
	i.Helper()
	ctx, stop := context.WithCancel(i.Context())
	cmd := exec.CommandContext(ctx, Program(i.T, certManager), part)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.Kubeconfig())
	log := &Log{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() {
		if i.Failed() {
			i.Logf("log of cert-manager's %s:\n%s", part, log)
		}
	})
	end := func() {
		stop()
		_ = cmd.Wait()
	}
	i.Cleanup(end)
	return end
}
