package controlplane

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// victimVariable makes the test binary a process that starts a control plane, prints its data
// folder and process ids, and waits to be killed.
const victimVariable = "VIRTWRIGHT_TEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		victim()
	}
	flag.Parse()
	code := m.Run()
	if cp, err := shared(); err == nil {
		cp.Stop()
	}
	os.Exit(code)
}

func victim() {
	cp, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cp.Dir())
	for _, pid := range cp.PIDs() {
		fmt.Println(pid)
	}
	fmt.Println("ready")
	select {}
}

// shared is one control plane for all tests that leave it as they found it.
var shared = sync.OnceValues(func() (*ControlPlane, error) {
	return Start(context.Background(), Options{Audit: true})
})

// skipShort skips a test that starts a control plane itself.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
}

func sharedControlPlane(t *testing.T) *ControlPlane {
	t.Helper()
	skipShort(t)
	cp, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// kubectl fails the test when the command does.
func kubectl(t *testing.T, cp *ControlPlane, stdin string, args ...string) string {
	t.Helper()
	out, _, err := cp.Kubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually fails the test unless what holds within 30 seconds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 30 seconds: %s", what)
}

// alive tells whether a process runs; one that is dead but not waited for does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	if err != nil {
		return true // no /proc here, or gone just now, as the next look will tell
	}
	var id int
	var name, state string
	_, _ = fmt.Sscanf(string(stat), "%d %s %s", &id, &name, &state)
	return state != "Z" && state != "X"
}
