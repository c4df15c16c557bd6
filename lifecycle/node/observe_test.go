package node

import (
	"fmt"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtwright/virtwright/api/v1alpha1"
	"github.com/virtwright/virtwright/domain"
	"github.com/virtwright/virtwright/lifecycle/node/libvirtd"
)

func TestSortDomain(t *testing.T) {
	for name, row := range map[string]struct {
		uid, node string
		want      Owned
	}{
		"ours":                             {"1", "here", Own},
		"without a node":                   {"1", "", Own},
		"another agent's, of the instance": {"1", "there", Elsewhere},
		"of an older instance":             {"0", "here", Older},
		"another agent's, of an older one": {"0", "there", Foreign},
		"of nobody":                        {"", "here", Foreign},
	} {
		t.Run(name, func(t *testing.T) {
			guest := &libvirtd.Domain{}
			guest.XML.Metadata = &libvirtxml.DomainMetadata{XML: fmt.Sprintf("<instance xmlns=%q><namespace>lab</namespace><name>web</name><uid>%s</uid></instance>", domain.MetadataNamespace, row.uid)}
			if err := (&Record{Node: row.node}).attach(&guest.XML); err != nil {
				t.Fatal(err)
			}
			s := &sight{key: types.NamespacedName{Namespace: "lab", Name: "web"}, vmi: &kubevirtv1.VirtualMachineInstance{}, guest: guest}
			s.vmi.UID = "1"
			s.sortDomain("here")
			if s.Domain != row.want {
				t.Errorf("got %s, want %s", s.Domain, row.want)
			}
		})
	}
}

// What others have is spoken of once a minute.
func TestWarnings(t *testing.T) {
	var m memory
	key, now := types.NamespacedName{Name: "web"}, time.Unix(0, 0)
	for _, row := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Second, false}, {59 * time.Second, false}, {time.Minute, true}, {61 * time.Second, false}} {
		if got := m.warn(key, now.Add(row.after)); got != row.want {
			t.Errorf("after %s: got %t", row.after, got)
		}
	}
}

func TestLate(t *testing.T) {
	for at, want := range map[string]bool{
		``: false, `, "at": "2026-01-01T00:00:00Z"`: false, `, "at": "2025-12-31T23:55:00Z"`: false, `, "at": "2025-12-31T23:54:59Z"`: true, `, "at": "2027-01-01T00:00:00Z"`: false,
	} {
		s := &sight{vmi: &kubevirtv1.VirtualMachineInstance{}}
		s.vmi.Annotations = map[string]string{v1alpha1.AnnotationPowerRequest: `{"id": "one", "action": "reset"` + at + `}`}
		if s.readPower(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); s.Power != v1alpha1.PowerReset || s.Late != want {
			t.Errorf("%s: got %q, late %t", at, s.Power, s.Late)
		}
	}
}

func TestGrace(t *testing.T) {
	if got := grace(&kubevirtv1.VirtualMachineInstance{}); got != defaultGrace {
		t.Errorf("not said: got %s", got)
	}
	for given, want := range map[int64]time.Duration{
		0: 0, 1: time.Second, 3600: time.Hour, -1: 0, math.MinInt64: 0,
		math.MaxInt64: endless, math.MaxInt64 / int64(time.Second): endless, math.MaxInt64/int64(time.Second) + 1: endless,
	} {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		vmi.Spec.TerminationGracePeriodSeconds = &given
		if got := grace(vmi); got != want {
			t.Errorf("%d s: got %s, want %s", given, got, want)
		}
	}
	// What is left of it is a time that holds.
	if left := time.Unix(0, 0).Add(endless).Sub(time.Unix(0, 0).Add(-endless)); left <= 0 {
		t.Errorf("left: %s", left)
	}
}
