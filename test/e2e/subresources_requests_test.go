package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// requestStories are about requests while other requests are pending. They run where the
// subresource API is served and no controller runs.
func requestStories(present func() *story) {
	var s *story
	BeforeEach(func() { s = present() })

	It("starts a halted machine paused, or at once, and not both", func() {
		s.create(machineOf("held", "Halted"))
		for _, status := range []string{"", `{"printableStatus": "Stopped", "runStrategy": "Always"}`} {
			if status != "" {
				s.says("held", status)
			}
			Expect(s.put("start", "held", `{"paused": true}`)).To(accepted())
			Expect(s.requests("held")).To(Equal([]string{"Start map[paused:true]"}))
			Expect(s.get(virtualMachine, "held")).To(And(haveAt("spec.runStrategy", "Halted"), haveAt("status.runStrategy", "Halted")))
			Expect(s.put("start", "held")).To(conflicts("held", underway))
			Expect(s.put("start", "held", `{"paused": true}`)).To(conflicts("held", underway))
			Expect(s.get(virtualMachine, "held")).To(haveAt("spec.runStrategy", "Halted"))
			Expect(s.put("stop", "held")).To(accepted())
			Expect(s.put("start", "held")).To(conflicts("held", underway))
			s.says("held", `{"stateChangeRequests": null}`)
		}
		Expect(s.put("start", "held")).To(accepted())
		Expect(s.get(virtualMachine, "held")).To(haveAt("spec.runStrategy", "Always"))
	})

	It("stops what failed and would come again, and does not wait for it when it is started", func() {
		s.create(machineOf("web", "RerunOnFailure"))
		of := string(s.get(virtualMachine, "web").GetUID())
		uid := string(s.runs("web", "Failed").GetUID())
		Expect(s.put("stop", "web")).To(accepted())
		Expect(s.requests("web")).To(Equal([]string{"Stop " + uid}))

		const waits = `{"stateChangeRequests": [{"action": "Start"}], "startFailure": {"consecutiveFailCount": 3, "retryAfterTimestamp": "2030-01-01T00:00:00Z"}}`
		s.says("web", waits)
		Expect(s.put("stop", "web")).To(accepted())
		Expect(s.requests("web")).To(Equal([]string{"Stop " + of}))
		Expect(s.get(virtualMachine, "web")).To(lackAt("status.startFailure"))

		s.kubectl("", "delete", "vmi", "web", "--as="+trusted, "--as-group=system:masters")
		s.says("web", waits)
		Expect(s.put("start", "web", "dryRun: [All]")).To(accepted())
		Expect(s.get(virtualMachine, "web")).To(haveAt("status.startFailure.consecutiveFailCount", int64(3)))
		Expect(s.put("start", "web")).To(accepted())
		Expect(s.requests("web")).To(Equal([]string{"Start"}))
		Expect(s.get(virtualMachine, "web")).To(lackAt("status.startFailure"))
		Expect(s.put("start", "web")).To(conflicts("web", underway))
	})
}
