package domain

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestIdentityOfOwner gives owners to VMIs without a UUID, and reads the UUID of the domain.
func TestIdentityOfOwner(t *testing.T) {
	const vm, own = "11111111-2222-4333-8444-555555555555", "5a1f0b5e-3c55-4b5e-9d06-0c1a5a3f7d11"
	for name, c := range map[string]struct {
		reason            string
		apiVersion, kind  string
		uid, vmiUID, want string
	}{
		"vm":            {"a guest keeps the UUID of its VM", "kubevirt.io/v1", "VirtualMachine", vm, own, vm},
		"older version": {"the version of the API does not matter", "kubevirt.io/v1alpha3", "VirtualMachine", vm, own, vm},
		"replica set":   {"replicas differ", "kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", vm, own, own},
		"other group":   {"a VirtualMachine of another API group is no VM", "example.org/v1", "VirtualMachine", vm, own, own},
		"core group":    {"nor is one of the core group", "v1", "VirtualMachine", vm, own, own},
		"no UID yet":    {"without a UID the UUID is derived from the name", "kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", vm, "", namedUUID(urlNamespace, "virtwright.dev/shop/web")},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := (&goldenCase{}).vmi()
			vmi.Spec.Domain.Firmware.UUID, vmi.UID = "", types.UID(c.vmiUID)
			vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.apiVersion, Kind: c.kind, Name: "web", UID: types.UID(c.uid), Controller: new(true)}}
			settings := builtinFrontend()
			guest, errs := Frontend(vmi, &settings)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := guest.Domain.UUID; got != c.want {
				t.Errorf("%s: got %s, want %s", c.reason, got, c.want)
			}
		})
	}
}

// TestFirmwareIdentity pins an identity: guests recognise their hardware by it, so that it must not
// change between versions.
func TestFirmwareIdentity(t *testing.T) {
	const want = "3a85b9ca-a75b-5f27-b5df-f306b921af33"
	if got := FirmwareIdentity("11111111-2222-4333-8444-555555555555"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
