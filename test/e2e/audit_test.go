package e2e

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

var _ = Describe("The audit log", func() {
	It("names the presets that acted, with their generation", func() {
		ownManager()
		s := newStory()
		sized := s.preset(aPreset("sized", defaultMemory))
		s.edit(sized, `{spec: {defaults: {spec: {template: {spec: {domain: {memory: {guest: 3Gi}}}}}}}}`)
		s.preset(aPreset("cluster/house", overrideClass))
		s.preset(aPreset("trial", `{mode: Audit, defaults: {spec: {template: {spec: {hostname: trial}}}}}`))
		_, warnings := s.createWarned(vm("web", "spec: {template: {spec: {priorityClassName: mine}}}"))
		Expect(warnings).NotTo(say("trial"))
		Eventually(func() map[string]string { return s.annotationsOf("create", "web") }).Should(And(
			HaveKeyWithValue("virtualmachines.admission.virtwright.dev/presets", contain(
				"sized@2:default set=1 overruled=0", "cluster/house@1:override set=0 overruled=1")),
			HaveKeyWithValue("virtualmachines.admission.virtwright.dev/would", contain("trial@1 would set", "hostname")),
		))
		s.patch("web", `{spec: {template: {spec: {hostname: web}}}}`)
		Eventually(func() map[string]string { return s.annotationsOf("patch", "web") }).ShouldNot(BeNil())
	})
})

// annotationsOf are the audit annotations of the last such request for a VM.
func (s *story) annotationsOf(verb, name string) map[string]string {
	GinkgoHelper()
	events, err := here.plane.AuditEvents(s.audited)
	Expect(err).NotTo(HaveOccurred())
	var out map[string]string
	for i := range events {
		e := &events[i]
		if e.Stage == auditv1.StageResponseComplete && e.Verb == verb && e.ObjectRef != nil && e.ObjectRef.Namespace == s.ns &&
			e.ObjectRef.Resource == "virtualmachines" && nameOf(e) == name {
			out = e.Annotations
		}
	}
	return out
}

// nameOf is the name that a request is about. That of a create is in the object only.
func nameOf(e *auditv1.Event) string {
	if e.ObjectRef.Name != "" || e.RequestObject == nil {
		return e.ObjectRef.Name
	}
	var sent struct{ Metadata struct{ Name string } }
	Expect(json.Unmarshal(e.RequestObject.Raw, &sent)).To(Succeed())
	return sent.Metadata.Name
}
