package stories

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtwright/virtwright/validation"
)

var _ = Describe("A feature gate", func() {
	It("has KubeVirt's default", func() {
		ours := map[string]bool{}
		for gate, enabled := range validation.KnownGates() {
			ours[string(gate)] = enabled
		}
		// KubeVirt ignores this gate: a field of its configuration is off by default.
		delete(ours, string(validation.GatePersistentReservation))
		names := slices.Sorted(maps.Keys(ours))
		kubevirts, err := here.FeatureGates(names)
		Expect(err).NotTo(HaveOccurred())
		Expect(ours).To(Equal(kubevirts))
		AddReportEntry(subject, fmt.Sprintf("%d gates", len(names)))
	})
})
