package controlplane

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSideBySide(t *testing.T) {
	skipShort(t)
	cps := make([]*ControlPlane, 2)
	errs := make([]error, 2)
	var starting sync.WaitGroup
	for i := range cps {
		starting.Go(func() { cps[i], errs[i] = Start(t.Context(), Options{}) })
	}
	starting.Wait()
	for i := range cps {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		t.Cleanup(cps[i].Stop)
	}
	a, b := cps[0], cps[1]
	if a.Config().Host == b.Config().Host || a.Dir() == b.Dir() {
		t.Errorf("both have address %s and folder %s", a.Config().Host, a.Dir())
	}
	kubectl(t, a, "", "create", "namespace", "only-here")
	if _, _, err := b.Kubectl(t.Context(), "", "get", "namespace", "only-here"); err == nil {
		t.Error("a namespace of one control plane is in the other")
	}
	if _, _, err := b.Kubectl(t.Context(), "", "--kubeconfig", a.Kubeconfig(), "get", "namespace", "only-here"); err != nil {
		t.Errorf("--kubeconfig does not lead to the other control plane: %v", err)
	}

	pids := a.PIDs()
	if len(pids) != 3 {
		t.Errorf("running: %v, want etcd, kube-apiserver and kube-controller-manager", pids)
	}
	a.Stop()
	a.Stop() // twice does no harm
	for name, pid := range pids {
		if alive(pid) {
			t.Errorf("%s outlived Stop", name)
		}
	}
	if exists(a.Dir()) {
		t.Errorf("%s outlived Stop", a.Dir())
	}
	kubectl(t, b, "", "get", "namespaces")
}

func TestKilled(t *testing.T) {
	skipShort(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for scanner := bufio.NewScanner(out); scanner.Scan() && scanner.Text() != "ready"; {
		lines = append(lines, scanner.Text())
	}
	if len(lines) != 4 {
		_ = cmd.Process.Kill()
		t.Fatalf("the victim said %q, want its folder and three process ids", lines)
	}
	dir, pids := lines[0], lines[1:]
	if !InUse(dir) {
		t.Errorf("%s is not in use while its control plane runs", dir)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range pids {
		id, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "process "+pid+" is gone after its parent was killed", func() bool { return !alive(id) })
	}
	if InUse(dir) {
		t.Errorf("%s is in use after its control plane was killed", dir)
	}
	sweep(filepath.Dir(dir))
	if exists(dir) {
		t.Errorf("%s, left by the killed process, was not swept", dir)
	}
}

func TestSweepLeavesRunningControlPlanesAlone(t *testing.T) {
	cp := sharedControlPlane(t)
	sweep(filepath.Dir(cp.Dir()))
	if !exists(cp.Kubeconfig()) {
		t.Fatal("the folder of a running control plane was swept")
	}
}

func TestFolderIsUsedOnce(t *testing.T) {
	dir, err := newDataDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newDataDir(dir.path); err == nil || !strings.Contains(err.Error(), "another control plane runs there") {
		t.Errorf("the folder was given twice: %v", err)
	}
	dir.close()
	again, err := newDataDir(dir.path)
	if err != nil {
		t.Fatalf("the folder was not given again: %v", err)
	}
	again.close()
}

func TestStartFailureCarriesTheLog(t *testing.T) {
	skipShort(t)
	_, err := Start(t.Context(), Options{APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("started with an unknown flag")
	}
	for _, want := range []string{"kube-apiserver ended before it was ready", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

func TestPortTaken(t *testing.T) {
	cp := sharedControlPlane(t)
	port := "--secure-port=" + strings.TrimPrefix(cp.Config().Host, "https://127.0.0.1:")
	_, err := start(t.Context(), cp.assets, Options{APIServerArgs: []string{port}})
	var failed *exitError
	if !errors.As(err, &failed) || !failed.portTaken() {
		t.Errorf("a port in use is not seen as such: %v", err)
	}
}

func TestRestartAPIServer(t *testing.T) {
	cp := ForTest(t, Options{})
	before := cp.PIDs()
	kubectl(t, cp, "", "create", "namespace", "kept")
	began := time.Now()
	if err := cp.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted in %s", time.Since(began))
	kubectl(t, cp, "", "get", "namespace", "kept")
	after := cp.PIDs()
	if after["kube-apiserver"] == before["kube-apiserver"] || after["etcd"] != before["etcd"] {
		t.Errorf("process ids were %v, are %v; want only kube-apiserver's changed", before, after)
	}
	// The controllers survive it.
	kubectl(t, cp, "", "delete", "namespace", "kept", "--timeout=60s")
}
