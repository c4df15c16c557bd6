package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/test/controlplane"
)

// TestLog: the log at level info says what happens, and a normal start has no line of level ERROR.
func TestLog(t *testing.T) {
	c := newCluster(t)
	if err := c.InstallCRDs(t.Context(), crds); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, c, "--leader-elect", "--log-format=text", "--subresources-bind-address="+controlplane.FreeAddress(t), "--trusted-user=admin")
	r.serves(t)
	c.create(t, elsewhere)
	says := func(parts ...string) {
		t.Helper()
		eventually(t, "the log says "+strings.Join(parts, ", "), func() error {
			for line := range strings.Lines(r.log.String()) {
				if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
					return nil
				}
			}
			return errors.New("no such line")
		})
	}
	says("INFO", "Acquired the lease", "lease=default/virtwright-controllers")
	says("INFO", "Using a certificate authority", "expires=")
	says("INFO", "Serving with a certificate", "issued=", "expires=", "rotated=false")
	says("INFO", "Loaded presets", "presets=0")

	c.create(t, small)
	awaitReady(t, c, &v1alpha1.ClusterVirtualMachinePreset{ObjectMeta: metav1.ObjectMeta{Name: "small"}}, metav1.ConditionTrue)
	says("INFO", "Compiled presets", "changed=", "small", "presets=1")

	bad := object(t, in("elsewhere", strings.Replace(fmt.Sprintf(vm, "bad"), "kind: VirtualMachine\n", "kind: VirtualMachine\nspec: {runStrategy: Sometimes, template: {spec: {domain: {devices: {}}}}}\n", 1)))
	if err := c.Create(t.Context(), bad); err == nil {
		t.Fatal("want a rejection")
	}
	says("INFO", "Rejected a request", "uid=", "user=admin", "kind=VirtualMachine", "namespace=elsewhere", "name=bad", "fields=", "spec.runStrategy", "rules=", "run-strategy-known")

	running := in("elsewhere", strings.Replace(fmt.Sprintf(vm, "web"), "kind: VirtualMachine\n", "kind: VirtualMachine\nspec: {runStrategy: Always, template: {spec: {domain: {devices: {}}}}}\n", 1))
	web := c.create(t, running)
	says("INFO", "Started a VM", "namespace=elsewhere", "name=web", "vmi=")
	patch(t, c, web, `{"spec":{"runStrategy":"Halted"}}`)
	says("INFO", "Stopped a VM", "namespace=elsewhere", "name=web", "vmi=")
	if strings.Contains(r.log.String(), "VirtualMachine.name=") {
		t.Error("lines of controllers name their object twice")
	}
	eventually(t, "the VM has its last status", func() error { // otherwise, SIGTERM interrupts the write
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err
		}
		if status := field(web, "status", "printableStatus"); status != "Stopped" {
			return fmt.Errorf("it is %v", status)
		}
		return nil
	})

	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	says("INFO", "Released the lease", "lease=default/virtwright-controllers")

	if found := regexp.MustCompile(`(?m)^.*level=ERROR.*$`).FindAllString(r.log.String(), -1); len(found) > 0 {
		t.Errorf("lines of level ERROR:\n%s", strings.Join(found, "\n"))
	}
}

// TestLogOfAnOrderlyEnd: what the end of the process cancels is no error, but other failures are.
func TestLogOfAnOrderlyEnd(t *testing.T) {
	canceled := fmt.Errorf("get the lease: %w", context.Canceled)
	for _, test := range []struct {
		level string
		err   error
		want  string
	}{
		{"info", canceled, "level=INFO"},
		{"error", canceled, ""},
		{"error", context.DeadlineExceeded, "level=ERROR"},
	} {
		var out strings.Builder
		o := &options{logLevel: test.level, logFormat: "text"}
		logr.FromSlogHandler(o.logHandler(&out)).WithName("leases").WithValues("lock", "a").Error(test.err, "Cannot renew")
		if got := out.String(); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("level %s, %v: want %q, got %q", test.level, test.err, test.want, got)
		}
	}
}
