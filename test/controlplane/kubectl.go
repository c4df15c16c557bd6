package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubectl runs kubectl as the administrator with stdin as its standard input. A --kubeconfig among
// the arguments selects another user (see UserKubeconfig). The error of a command that exits with a
// code other than 0 is an *exec.ExitError with its standard error in the message.
func (cp *ControlPlane) Kubectl(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	path, err := KubectlPath(cp.assets)
	if err != nil {
		return "", "", err
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), KubectlEnv(cp.dir.path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), errs.String(),
			fmt.Errorf("cannot run kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), errs.String(), nil
}

// KubectlEnv is the environment with which kubectl talks to the control plane of a data folder: its
// kubeconfig, its own discovery cache (ports are used again, caches must not be) and no user's
// preferences.
func KubectlEnv(dir string) []string {
	return []string{
		"KUBECONFIG=" + filepath.Join(dir, "kubeconfig"),
		"KUBECACHEDIR=" + filepath.Join(dir, "kubectl-cache"),
		"KUBERC=off",
	}
}

// KubectlPath finds kubectl among the programs in assets, else on the PATH.
func KubectlPath(assets string) (string, error) {
	if path := filepath.Join(assets, "kubectl"); exists(path) {
		return path, nil
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("cannot find kubectl in %s: %w", assets, err)
	}
	return path, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
