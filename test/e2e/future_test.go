package e2e

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var _ = Describe("A field that virtwright does not know", func() {
	const (
		devices = "/schema/openAPIV3Schema/properties/spec/properties/template/properties/spec/properties/domain/properties/devices/properties"
		body    = `
spec:
  template:
    spec:
      domain:
        devices:
          futureDevice: {speed: 9007199254740993, ratio: 0.1, nothing: {}, names: [b, a, null], "a/b~c": false, empty: ""}
          disks: [{name: data, futureMode: {deep: [{x: 1}]}, disk: {bus: scsi}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`
		future = "spec.template.spec.domain.devices.futureDevice"
		mode   = "spec.template.spec.domain.devices.disks[data].futureMode"
	)

	It("survives untouched, and presets act", func() {
		ownManager() // the CRDs of other stories stay as they are
		s := newStory()
		s.preset(aPreset("beside", `{defaults: {spec: {template: {spec: {domain: {memory: {guest: 2Gi}, devices: {rng: {}, disks: [{name: root, disk: {bus: sata}}, {name: data, cache: none}]}},
volumes: [{name: root, containerDisk: {image: "example.com/os:1"}}]}}}}}`))
		anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		declare(map[string]any{devices + "/futureDevice": anything, devices + "/disks/items/properties/futureMode": anything})
		Eventually(func() any { return at(s.tryOut(vm("probe", body)), future) }).ShouldNot(BeNil())

		sent := s.parse(vm("web", body))
		_, stderr := s.kubectl(vm("web", body), "create", "-f", "-")
		Expect(stderr).NotTo(ContainSubstring("future"))
		got := s.get(virtualMachine, "web")
		untouched := And(haveAt(future, at(sent, future)), haveAt(mode, at(sent, mode)), haveDisks("data", "root"))
		Expect(got).To(And(untouched, haveAt(memory, "2Gi"), haveAt("spec.template.spec.domain.devices.disks[data].cache", "none")))
		after, _ := s.patch("web", `{metadata: {labels: {a: b}}, spec: {template: {spec: {hostname: web}}}}`)
		Expect(after).To(untouched)
		after, _ = s.patch("web", `{metadata: {annotations: {virtwright.dev/reapply: now}}}`)
		Expect(after).To(untouched)
		s.kubectl(vm("web", body), "apply", "--server-side", "--force-conflicts", "-f", "-")
		Expect(s.get(virtualMachine, "web")).To(untouched)
	})
})

// declare adds schemas to every version of the VM's CRD, until the story ends.
func declare(schemas map[string]any) {
	GinkgoHelper()
	const name = "virtualmachines.kubevirt.io"
	crds := here.client.Resource(resources["CustomResourceDefinition"])
	crd, err := crds.Get(here.ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	var add, remove []map[string]any
	for i := range at(crd, "spec.versions").([]any) {
		for path, schema := range schemas {
			path = fmt.Sprintf("/spec/versions/%d%s", i, path)
			add = append(add, map[string]any{"op": "add", "path": path, "value": schema})
			remove = append(remove, map[string]any{"op": "remove", "path": path})
		}
	}
	patch := func(operations []map[string]any) error {
		raw, err := json.Marshal(operations)
		if err != nil {
			return err
		}
		_, err = crds.Patch(here.ctx, name, types.JSONPatchType, raw, metav1.PatchOptions{})
		return err
	}
	Expect(patch(add)).To(Succeed())
	DeferCleanup(func() error { return patch(remove) })
}
