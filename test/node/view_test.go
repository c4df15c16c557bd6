package node

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtwright/virtwright/test/hypervisor"
)

// other is a backend that differs from the lab's in all it can.
const other = `
apiVersion: virtwright.dev/v1alpha1
kind: BackendProfile
metadata: {name: other-%[1]s}
spec:
  priority: 10
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
  disks: {cache: writeback, io: threads, discard: ignore, errorPolicy: report, ioThreads: 1}
  cpu: {vcpus: "0", emulator: "0", ioThreads: "0"}
  memory: {source: Memfd, preallocated: true, mergeable: false}
  balloonStatsSeconds: 0
  entropy: /dev/random
`

// One frontend, two backends: what the guest says of its hardware is the same to
// the letter.
func TestTwoBackendsOneGuest(t *testing.T) {
	s := newStage(t)
	s.create("web", "runStrategy: Manual", sparse)
	seen := func() (hypervisor.Facts, string) {
		s.start("web")
		vmi := s.phase("web", kubevirtv1.Running)
		facts := s.boots(vmi).Hardware()
		xml, err := s.daemon.Virsh("dumpxml", "--inactive", s.domainOf("web"))
		must(t, err)
		s.typeLine(vmi, "poweroff", "poweroff")
		s.phase("web", kubevirtv1.Succeeded)
		s.eventually("its domain is forgotten", func() error {
			if left := s.domains(); left != "" {
				return fmt.Errorf("domains %s are left", left)
			}
			return nil
		})
		if boots, err := s.console(vmi).Boots(); err != nil || len(boots) != 1 {
			t.Errorf("the console of who ended is not kept: %v, %v", boots, err)
		}
		s.kubectl("", "delete", "vmi", "web", "-n", s.ns)
		s.clean()
		return facts, xml
	}
	facts, xml := seen()
	s.kubectl(fmt.Sprintf(other, s.ns), "apply", "-f", "-")
	t.Cleanup(func() { _, _, _ = plane.Kubectl(t.Context(), "", "delete", "backendprofile", "other-"+s.ns) })
	elsewhere, otherXML := seen()
	if diff := cmp.Diff(facts, elsewhere); diff != "" {
		t.Errorf("the guest sees what provides its hardware:\n%s", diff)
	}
	if len(facts) < 25 {
		t.Errorf("the guest said only %d things", len(facts))
	}
	if xml == otherXML {
		t.Error("the backends do not differ")
	}
	t.Logf("%d facts are the same", len(facts))
}

// start asks for a start as the subresource API does.
func (s *stage) start(name string) {
	s.Helper()
	s.kubectl("", "patch", "vm", name, "-n", s.ns, "--subresource=status", "--type=merge", "-p", `{"status": {"stateChangeRequests": [{"action": "Start"}]}}`)
}
