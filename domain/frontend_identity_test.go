package domain

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestIdentityOfOwner gives instances without a UUID owners, and reads the
// UUID that the guest finds.
func TestIdentityOfOwner(t *testing.T) {
	const vm, own = "11111111-2222-4333-8444-555555555555", "5a1f0b5e-3c55-4b5e-9d06-0c1a5a3f7d11"
	for name, c := range map[string]struct {
		reason              string
		apiVersion, kind    string
		uid, instance, want string
	}{
		"vm":            {"a guest keeps the UUID of its VM", "kubevirt.io/v1", "VirtualMachine", vm, own, vm},
		"older version": {"the version of the API does not matter", "kubevirt.io/v1alpha3", "VirtualMachine", vm, own, vm},
		"replica set":   {"replicas differ", "kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", vm, own, own},
		"other group":   {"a VM of somebody else is no VM", "example.org/v1", "VirtualMachine", vm, own, own},
		"core group":    {"and so is one of no group", "v1", "VirtualMachine", vm, own, own},
		"no UID yet":    {"what is not stored yet is known by its name", "kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", vm, "", namedUUID("shop/web")},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := (&goldenCase{}).instance()
			vmi.Spec.Domain.Firmware.UUID, vmi.UID = "", types.UID(c.instance)
			vmi.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.apiVersion, Kind: c.kind, Name: "web", UID: types.UID(c.uid), Controller: new(true)}}
			settings := builtinFrontend()
			partial, errs := Frontend(vmi, &settings)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := partial.Domain.UUID; got != c.want {
				t.Errorf("%s: got %s, want %s", c.reason, got, c.want)
			}
		})
	}
}
